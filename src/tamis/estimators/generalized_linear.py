"""Generalised linear models."""

from tamis.estimators.curved_face import CurvedFace


class GeneralizedLinear(CurvedFace):
    """To be."""
