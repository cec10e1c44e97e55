"""Coefficients and their standard errors → one table for all linear models: as text, and as a frame."""

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from tamis.arrays import Array
from tamis.conjugate.distribution import tail_of
from tamis.estimators import answers
from tamis.schema import Schema

INTERCEPT = "(intercept)"
_NAME = 14  # least width of names in the text
_WIDE = 1e4  # from here on z has three digits and a power
_LIBRARIES = ("pandas", "polars", "pyarrow", "modin", "cudf")


@dataclass(frozen=True, slots=True)
class CoefficientSummary:
    """A row for each coefficient; it prints as a table, and `to_frame` makes a frame of it.

    The columns are `name`; `class` or `target`, where there are several; `coef`, `std_err`, and `z` or `t`,
    which is the former over the latter; `p_value`; and `lower` and `upper`, the ends of the interval that
    holds the coefficient with probability `coverage`. Without a prior, p values are the usual ones; with one
    they are twice the posterior probability that the coefficient has the other sign.

    Examples
    --------
    >>> import tamis
    >>> model = tamis.GeneralizedLinear("poisson").fit([[0.0], [1.0], [2.0], [3.0]], [2, 3, 6, 7])
    >>> model.summary().to_frame().round(2)
              name  coef  std_err     z  p_value  lower  upper
    0  (intercept)  0.77     0.51  1.50     0.13  -0.23   1.77
    1            0  0.42     0.23  1.85     0.06  -0.02   0.86
    """

    headline: str
    columns: Mapping[str, tuple[Any, ...]]
    coverage: float
    library: str | None = None  # of the frame that the model was fitted to

    def to_frame(self, library: str | None = None) -> Any:
        """A frame of that library: by default of the one whose frame was fitted, and else pandas.

        "pandas", "polars", "pyarrow", "modin" and "cudf" are known, where they are installed.
        """
        wanted = library if library is not None else self.library
        wanted = wanted if library is not None or wanted in _LIBRARIES else "pandas"
        if wanted not in _LIBRARIES:
            raise ValueError(f"got library={library!r}, expected one of {', '.join(map(repr, _LIBRARIES))}")
        if importlib.util.find_spec(wanted) is None:
            raise ImportError(
                f"a frame of {wanted} needs {wanted}, which is not installed: install it, name another "
                "library, or use the attribute columns"
            )
        return answers.frame({name: list(column) for name, column in self.columns.items()}, wanted)

    def __str__(self) -> str:
        named = self.columns
        share = f"{100 * self.coverage:g} %"
        statistic = "t" if "t" in named else "z"
        shown: list[tuple[str, int, list[str]]] = [
            ("coef", 10, [f"{x:.4g}" for x in named["coef"]]),
            ("std err", 9, [f"{x:.3g}" for x in named["std_err"]]),
            (statistic, 10, [f"{x:.2f}" if abs(x) < _WIDE else f"{x:.3g}" for x in named[statistic]]),
            ("p", 6, [f"{x:.3f}" for x in named["p_value"]]),
            (f"{share} from", 12, [f"{x:.4g}" for x in named["lower"]]),
            ("to", 11, [f"{x:.4g}" for x in named["upper"]]),
        ]
        lines = _aligned("", _NAME, [str(name) for name in named["name"]], str.ljust)
        for kind in ("class", "target"):
            if kind in named:
                cells = _aligned(kind, 0, [str(label) for label in named[kind]], str.ljust)
                lines = [line + cell for line, cell in zip(lines, cells, strict=True)]
        for title, width, column in shown:
            cells = _aligned(title, width, column, str.rjust)
            lines = [line + cell for line, cell in zip(lines, cells, strict=True)]
        return "\n".join([self.headline, "", *lines])

    __repr__ = __str__


def _aligned(title: str, least: int, cells: list[str], justify: Any) -> list[str]:
    """The cells under their title, all of one width, a space between them and the next or the last."""
    width = max(least, 1 + max(map(len, [title, *cells])))
    return [justify(cell, width) for cell in [title, *cells]]


def summarize(
    headline: str,
    schema: Schema,
    coefficients: Array,
    errors: Array,
    intercepts: tuple[Array, Array] | None,
    coverage: float,
    outputs: tuple[str, Sequence[Any]] | None = None,
    degrees: Array | None = None,
) -> CoefficientSummary:
    """A table of coefficients (k, d) of k outputs and their standard errors, by the normal distribution.

    Intercepts (k,) and their standard errors are its first rows. `outputs` is what the outputs are, "class"
    or "target", and their labels; `degrees` (k,) are degrees of freedom, by which it is Student's t.
    """
    tail = tail_of(coverage)
    names = [str(schema.name(j)) for j in range(schema.width)]
    if intercepts is not None:
        names.insert(0, INTERCEPT)
        coefficients = np.column_stack([intercepts[0], coefficients])
        errors = np.column_stack([intercepts[1], errors])
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = coefficients / errors
    if degrees is None:
        reach = np.full((len(coefficients), 1), -float(special.ndtri(tail)))
        p_values = 2.0 * special.ndtr(-np.abs(statistic))
    else:
        reach = np.asarray(special.stdtrit(degrees, 1.0 - tail))[:, None]
        p_values = 2.0 * special.stdtr(degrees[:, None], -np.abs(statistic))
    columns: dict[str, tuple[Any, ...]] = {"name": tuple(names * len(coefficients))}
    if outputs is not None:
        columns[outputs[0]] = tuple(label for label in outputs[1] for _ in names)
    numbers = {
        "coef": coefficients,
        "std_err": errors,
        "z" if degrees is None else "t": statistic,
        "p_value": p_values,
        "lower": coefficients - reach * errors,
        "upper": coefficients + reach * errors,
    }
    columns |= {name: tuple(np.ravel(values).tolist()) for name, values in numbers.items()}
    return CoefficientSummary(headline, columns, float(coverage), schema.library)
