"""Exponential families, one per file: base measure h, sufficient statistic T, log-normalizer A, ∇A, prior."""

from tamis.extras import explain_missing

try:
    from tamis.families.registry import *  # noqa: F403  (the registry is the only list of families)
    from tamis.families.registry import __all__ as __all__
except ModuleNotFoundError as error:
    raise explain_missing(error, __name__) from None
