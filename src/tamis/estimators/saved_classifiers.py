"""The rules that a saved classifier or mixture must keep: columns, classes and the sums of its blocks."""

from typing import Any

from tamis.estimators.saved import COUNTS, POSITIVE, SCHEMA
from tamis.estimators.schema import (
    ROOM,
    Anything,
    Either,
    Flag,
    Ids,
    Numbers,
    Real,
    Record,
    Rule,
    Statistic,
    check,
    maybe,
)
from tamis.models.generative import Generative
from tamis.models.generative.block import Block
from tamis.models.generative.category_columns import CategoryColumns
from tamis.models.generative.gaussian_columns import GaussianColumns
from tamis.models.generative.gaussian_vectors import GaussianVectors
from tamis.models.generative.model import CLASSES
from tamis.models.generative.multinomial_counts import MultinomialCounts
from tamis.models.generative.rate_columns import RateColumns
from tamis.stats import Joint, Keys, Moments, Tally

_GAPS = 1 << 16  # columns of categories of which no value was ever seen

_FILED = ("labels", "columns")
_PER_COLUMN = {"weight": _FILED, "first": _FILED}
_DIAGONAL = Statistic(Moments, {**_PER_COLUMN, "second": _FILED}, True, {"form": "diagonal"})
_CLASSES = Statistic(Tally, {"weight": (), "total": ("classes",)}, False)
_BLOCKS: tuple[tuple[type[Block[Any, Any]], Rule], ...] = (
    (GaussianColumns, _DIAGONAL),
    (
        GaussianVectors,
        Either(
            _DIAGONAL,
            Statistic(
                Moments,
                {"weight": ("labels",), "first": ("labels", "columns"), "second": ("labels", "pairs")},
                True,
                {"form": "full"},
            ),
        ),
    ),
    (RateColumns, Statistic(Moments, _PER_COLUMN, True, {"form": "none"})),
    (MultinomialCounts, COUNTS),
    (CategoryColumns, Statistic(Tally, {"weight": ("labels",), "total": ("labels", "terms")}, True)),
)
_FACE = Record(
    {
        "params": Anything(),
        "schema": SCHEMA,
        "statistic": Anything(),  # by `check_statistic`, when its blocks are known
        "declared": Ids("declared"),
        "history": maybe(
            Record(
                {
                    "log_likelihoods": Numbers("f8", "steps", finite=False),
                    "weight": Real(least=0.0),
                    "converged": Flag(),
                },
                holds={"at least one step": lambda s: s["steps"] > 0},
            )
        ),
        "temperature": POSITIVE,
        "choice": maybe(  # of shrinkage
            Record(
                {
                    "classes": Ids("chosen"),
                    "by_class": Numbers("f8", "chosen", least=0.0),
                    "others": Numbers("f8", 2, least=0.0),
                }
            )
        ),
    },
    ("choice",),
)


def check_face(content: Any, length: int) -> None:
    """Raise a ValueError for a saved classifier or mixture whose parts do not fit, before a model is made."""
    sizes = check(_FACE, content, "the model", length)
    statistic = content["statistic"]
    if type(statistic) is not Joint or CLASSES not in statistic.parts:
        raise ValueError("the model has no statistic of classes")
    check(_CLASSES, statistic[CLASSES], CLASSES, length)
    counted: Any = statistic[CLASSES]
    if counted.terms is None:
        raise ValueError(f"{CLASSES} have no names")
    held, gaps = 0, False  # columns that the sums have; whether some may have none
    for name, part in statistic.parts.items():
        if name == CLASSES:
            continue
        if part.keys is None or not set(part.keys) <= set(counted.terms):
            raise ValueError(f"{name} has labels that are no classes, expected those of {CLASSES}")
        gaps |= getattr(part, "terms", None) is not None
        held += next(reversed(part.parts().values())).shape[-1]  # squares, totals: the largest
    columns, classes = sizes["columns"], len(counted.terms) + sizes["declared"]
    if columns > held + gaps * _GAPS or classes * max(columns, held) > ROOM + length:
        raise ValueError(
            f"the model has {columns} columns and {classes} classes, expected no more than its sums have"
        )


def check_statistic(model: Generative, statistic: Joint, columns: int, length: int) -> None:
    """Raise a ValueError for a statistic that is not one of this model."""
    if statistic.parts.keys() != {CLASSES, *model.blocks}:
        raise ValueError("its statistic is of other columns")
    for name, block in model.blocks.items():
        part: Any = statistic[name]
        width = columns if block.columns is None else len(block.columns)
        rule = next(rule for kind, rule in _BLOCKS if isinstance(block, kind))
        sizes = {"bytes": length, "columns": width}
        rule.check(part, name, sizes)
        if isinstance(block, CategoryColumns):
            _check_terms(part.terms, name, width)
        if isinstance(block, GaussianVectors):
            form = "full" if block.covariance in ("full", "tied") else "diagonal"
            if part.form != form:
                raise ValueError(f"{name} is of the form {part.form}, expected {form}")


def _check_terms(terms: Keys | None, name: str, columns: int) -> None:
    """Terms of categories are pairs of a column's place and a value."""
    for term in () if terms is None else terms:
        if type(term) is not tuple or len(term) != 2 or type(term[0]) is not int:
            raise ValueError(f"{name} counts {str(term)[:40]}, expected pairs of a column and a value")
        if not 0 <= term[0] < columns:
            raise ValueError(f"{name} counts values of column {term[0]}, expected below {columns}")
    if terms is None:
        raise ValueError(f"{name} has no names of its terms")
