"""A fitted model and rows → whether it can forget them: what the laws of all faces share."""

from typing import Any

__all__ = ["unlearns"]


def unlearns(model: Any, *rows: Any, sample_weight: Any) -> bool:
    """Unlearn rows; False if the model refuses, because rounding would hide what is left."""
    try:
        model.unlearn(*rows, sample_weight=sample_weight)
    except ValueError as refusal:
        if "exact=True" not in str(refusal):
            raise
        return False
    return True
