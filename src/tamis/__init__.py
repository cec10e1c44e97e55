"""Models that are their sufficient statistics: data → observe → statistic → (+) → infer → posterior.

A name is looked up when it is first used (PEP 562), so that `import tamis` alone loads no SciPy, scikit-learn
or Numba; tests/architecture/test_imports_are_lazy.py keeps it so.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tamis import conjugate, decide, expectations, families, stats, testing
    from tamis.conjugate import Beta, Dirichlet, Gamma, NormalInverseGamma, NormalInverseWishart

    __version__: str

__all__ = [
    "Beta",
    "Dirichlet",
    "Gamma",
    "NormalInverseGamma",
    "NormalInverseWishart",
    "__version__",
    "conjugate",
    "decide",
    "expectations",
    "families",
    "stats",
    "testing",
]

_HOMES = {
    "Beta": "conjugate",
    "Dirichlet": "conjugate",
    "Gamma": "conjugate",
    "NormalInverseGamma": "conjugate",
    "NormalInverseWishart": "conjugate",
}
_SUBMODULES = frozenset({"conjugate", "decide", "expectations", "families", "stats", "testing"})


# Hidden from type checkers, which would otherwise take any misspelt name for an object.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in _SUBMODULES:
            return import_module(f"tamis.{name}")
        if name in _HOMES:
            value = getattr(import_module(f"tamis.{_HOMES[name]}"), name)
        elif name == "__version__":
            value = import_module("importlib.metadata").version("tamis")
        else:
            raise AttributeError(f"module 'tamis' has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
