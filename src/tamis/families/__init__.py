"""Exponential families, one per file: h, T, A, ∇A and the conjugate prior, and what follows from them."""

from tamis.extras import explain_missing

try:
    from tamis.families.registry import *  # noqa: F403  (the registry is the only list of families)
    from tamis.families.registry import __all__ as __all__
except ModuleNotFoundError as error:
    raise explain_missing(error, __name__) from None
