"""The list of models that can be saved, with the rules that the state of each must satisfy in a file.

A file may come from an untrusted source, so `load` accepts nothing that is not declared here. Rules name the
sizes of axes: `columns` of the data, `classes`, `labels` (the first axis of a statistic), `parameters` of a
linear model, `users`, `items`, and others.
"""

from collections.abc import Mapping
from math import comb, prod
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from tamis.models.generative import Generative
from tamis.models.generative.block import Block
from tamis.models.generative.category_columns import CategoryColumns
from tamis.models.generative.family_columns import FamilyColumns
from tamis.models.generative.gaussian_columns import GaussianColumns
from tamis.models.generative.gaussian_vectors import GaussianVectors
from tamis.models.generative.model import CLASSES
from tamis.models.generative.multinomial_counts import MultinomialCounts
from tamis.models.generative.rate_columns import RateColumns
from tamis.persistence import Entry, Registry
from tamis.persistence.rules import (
    ROOM,
    Also,
    Anything,
    Either,
    Flag,
    Group,
    Ids,
    Integer,
    Nullable,
    Numbers,
    Real,
    Record,
    Rule,
    Series,
    Statistic,
    Text,
    check,
)
from tamis.stats import Gram, Joint, Keys, Moments, Tally

_FUNCTIONS = 1 << 18  # largest number of basis functions per row: 2 MB
_KNOTS = 4096  # largest number of knots per column: memory grows with the square
_OUTPUTS = 4096  # largest number of classes of softmax: memory grows with the square
_KINDS = ("number", "integer", "bool", "category", "unknown")
_ANY = Real(nan=True, infinite=True)
_POSITIVE = Real(least=5e-324)


def _find_unhashable(value: Any, _: Mapping[str, int]) -> str | None:
    try:
        hash(value)
    except TypeError:
        return "cannot be hashed, expected a name"
    return None


_NAME = Also(Anything(), _find_unhashable)
_SCHEMA = Group(
    {
        "width": Integer(1, name="columns"),
        "kinds": Either(Text(_KINDS), Series(tuple, Text(_KINDS), "columns")),
        "names": Nullable(Series(tuple, _NAME, "columns")),
        "library": Nullable(Text()),
    }
)

_COUNTS = Statistic(Tally, {"weight": ("labels",), "total": ("labels", "columns")}, True, {"terms": None})

# ── linear models ──

_PARAMETERS = Numbers("f8", "parameters")
_PRECISION = Either(Numbers("f8", "parameters", least=0.0), Numbers("f8", "parameters", "parameters"))
_CURVED: dict[str, Rule] = {
    "schema": _SCHEMA,
    "intercept": Flag("intercept"),
    "extent": Numbers("f8", "width", finite=False, least=0.0),
    "centre": Numbers("f8", "columns"),
    "mean": Numbers("f8", "columns"),
    "prior": Group({"mean": _PARAMETERS, "precision": _PRECISION}),
    "posterior": Group({"mean": _PARAMETERS, "precision": Nullable(_PRECISION)}),
    "before": Group({"mean": _PARAMETERS, "precision": Nullable(_PRECISION)}),
    "gone": Group(
        {"weight": Real(), "loss": Real(), "gradient": _PARAMETERS, "information": _PRECISION},
    ),
    "evidence": _ANY,
    "weight": _POSITIVE,
    "iterations": Integer(),
    "converged": Flag(),
    "reach": Real(least=0.0, infinite=True),
    "slack": _ANY,
    "drift": _ANY,
    "bound": _ANY,
    "shift": _ANY,
}
_REMOVED = ("before", "gone")


def _find_half_removal(value: Any, _: Mapping[str, int]) -> str | None:
    return None if ("before" in value) == ("gone" in value) else "has one of before and gone, expected both"


def _count_outputs(sizes: Mapping[str, int]) -> int:
    classes = sizes["classes"]
    return 1 if classes == 2 else classes - 1


_LOGISTIC = Also(
    Record(
        {**_CURVED, "keys": Ids("classes")},
        _REMOVED,
        {
            "a column more with an intercept": lambda s: s["width"] == s["columns"] + s["intercept"],
            "two classes or more": lambda s: 2 <= s["classes"] <= max(_OUTPUTS, s["bytes"] // 1000),
            "parameters of each class": lambda s: s["parameters"] == _count_outputs(s) * s["width"],
        },
    ),
    _find_half_removal,
)
_GENERALIZED = Also(
    Record(
        {
            **_CURVED,
            "answer": Group({"family": Text(), "link": Text()}),
            **dict.fromkeys(
                ("dispersion", "deviance", "pearson", "freedom", "effective", "null_deviance", "told"), _ANY
            ),
        },
        _REMOVED,
        {
            "a column more with an intercept": lambda s: s["width"] == s["columns"] + s["intercept"],
            "a parameter per column": lambda s: s["parameters"] == s["width"],
        },
    ),
    _find_half_removal,
)


def _find_other_columns(gram: Any, sizes: Mapping[str, int]) -> str | None:
    if gram.width != sizes["columns"] or gram.targets < 1:
        return f"is of {gram.width} columns and {gram.targets} targets, expected {sizes['columns']} and some"
    return None


_REGRESSION = Record(
    {
        "schema": _SCHEMA,
        "statistic": Also(
            Statistic(Gram, {"weight": (), "first": ("side",), "products": ("pairs",)}, False),
            _find_other_columns,
        ),
        "flat": Flag(),
        "inferred_with": Record(
            {
                "alpha": Anything(),
                "beta": Anything(),
                "prior": Anything(),
                "noise_shape": _ANY,
                "noise_scale": _ANY,
                "intercept": Flag(),
                "exact": Flag(),
            }
        ),
    },
    ("inferred_with",),
)

# ── components ──

_SOLVERS = ("auto", "moments", "rows", "randomized")
_ALL_ROWS = {"weight": (), "first": ("columns",), "second": ("pairs",)}
_BY_FOLD = {"weight": ("folds",), "first": ("folds", "columns"), "second": ("folds", "pairs")}
_PCA = Record(
    {
        "schema": _SCHEMA,
        "statistic": Nullable(
            Either(
                Statistic(Moments, _ALL_ROWS, False, {"form": "full"}),
                Statistic(Moments, _BY_FOLD, True, {"form": "full"}),
            )
        ),
        "solver": Text(_SOLVERS),
        "likelihoods": Numbers("f8", "steps", finite=False),
        "components": Nullable(
            Record(
                {
                    "mean": Numbers("f8", "columns"),
                    "directions": Numbers("f8", "components", "columns"),
                    "variances": Numbers("f8", "components", least=0.0),
                    "numbers": Group(dict.fromkeys(("noise", "total", "weight", "freedom", "error"), _ANY)),
                    "scores": Nullable(Numbers("f8", "choices", finite=False)),
                },
                ("scores",),
            )
        ),
        "rounded": Either(Real(least=0.0), Numbers("f8", "columns", least=0.0)),
    },
    ("rounded",),  # only in files of older versions; now it is a field of the statistic
)

# ── latent factors ──

_NORMALS = {"mean": Numbers("f8", "draws", "width"), "precision": Numbers("f8", "draws", "width", "width")}
_FACTORS = Record(
    {
        "users": Ids("users"),
        "items": Ids("items"),
        "entries": Group(
            {
                "user": Numbers("i8", "entries", least=0, below="users"),
                "item": Numbers("i8", "entries", least=0, below="items"),
                "value": Numbers("f8", "entries"),
                "weight": Nullable(Numbers("f8", "entries", least=0.0)),
                "time": Nullable(Numbers("f8", "entries")),
            }
        ),
        "solver": Group(
            {
                "rank": Integer(0, "bytes", "rank"),
                "ridge": Real(least=0.0),
                "more": Real(least=0.0, infinite=True),
                "implicit": Flag(),
            }
        ),
        "learned": Group(
            {
                "level": Real(),
                "users": Numbers("f8 f4", "draws", "users", "width"),
                "items": Numbers("f8 f4", "draws", "items", "width"),
                "bins": Numbers("f8", "bins"),
                "item_bins": Numbers("f8", "items", "bins"),
            }
        ),
        "chain": Nullable(
            Group(
                {
                    "precision": Numbers("f8", "draws", least=5e-324),
                    **{f"user_{name}": rule for name, rule in _NORMALS.items()},
                    **{f"item_{name}": rule for name, rule in _NORMALS.items()},
                }
            )
        ),
        "clock": Nullable(
            Group(
                {
                    "oldest": Real(),
                    "newest": Real(),
                    "half_life": Nullable(_POSITIVE),
                    "bins": Integer(name="bins"),
                    "period": Nullable(_POSITIVE),
                    "end": Nullable(Real()),
                    "dates": Nullable(Flag()),
                },
                optional=2,
            )
        ),
        "range": Group({"low": Real(), "high": Real()}),
        "course": Group(
            {
                "sweeps": Integer(),
                "train": Numbers("f8", "sweeps", finite=False),
                "validation": Nullable(Numbers("f8", "checks", finite=False)),
                "converged": Nullable(Flag()),
            },
            optional=1,
        ),
    },
    holds={
        "an offset beside the factors": lambda s: s["width"] == s["rank"] + 1,
        "at least one draw": lambda s: s["draws"] > 0,
        "no more bins than bytes": lambda s: s["bins"] <= s["bytes"],
    },
)

# ── transformers ──

_WEIGHTS: dict[str, Rule] = {
    "width": Nullable(Integer(1, 2**31, name="columns")),
    "names": Nullable(Series(list, _NAME, "named")),
}
_WIDTHS = {"a name per column": lambda s: s.get("named", s.get("columns", 0)) == s.get("columns", 0)}


def _make_weights_rule(statistic: Rule) -> Rule:
    return Record(
        {**_WEIGHTS, "statistic": statistic, "declared": Ids("declared"), "binary": Flag()},
        holds={
            **_WIDTHS,
            "columns": lambda s: "columns" in s,
            "no more classes than fit": lambda s: (s["declared"] + 1) * s["columns"] <= ROOM + s["bytes"],
        },
    )


def _find_wrong_length(state: Any, _: Mapping[str, int]) -> str | None:
    longest = float(state["lengths"].sum(dtype=np.float64))
    return None if longest == len(state["text"]) else f"has {len(state['text'])} bytes for {longest:g}"


_VOCABULARY = Also(
    Record({"text": Numbers("u1", "letters"), "lengths": Numbers("i8", "tokens", least=0, below=2**31)}),
    _find_wrong_length,
)


def _find_wrong_counts(often: Any, _: Mapping[str, int]) -> str | None:
    sound = type(often) is dict and all(
        type(name) is str and type(count) is int and 0 <= count < 2**62 for name, count in often.items()
    )
    return None if sound else "holds something else than counts of tokens"


_HASHED = Record(
    {
        "width": Integer(1, 2**31),
        "signed": Flag(),
        "limit": Integer(0, 2**40),
        "often": Also(Anything(), _find_wrong_counts),
    }
)


def _find_descent(knots: Any, _: Mapping[str, int]) -> str | None:
    return None if (np.diff(knots) > 0).all() else "does not ascend, expected knots from low to high"


def _make_basis_rule(**plan: Rule) -> Record:
    return Record(
        {
            "low": Numbers("f8", "columns"),
            "high": Numbers("f8", "columns"),
            "names": Nullable(Series(list, _NAME, "columns")),
            "plan": Record({**plan, "bias": Flag()}),
        },
        holds={"at least one column": lambda s: s["columns"] > 0},
    )


def _find_single_centre(state: Any, _: Mapping[str, int]) -> str | None:
    plan = state["plan"]
    pairs = zip(plan["centres"], plan["widths"], strict=True)
    return None if all(len(c) == len(w) for c, w in pairs) else "has a centre without a width"


_PLACES = Series(list, Numbers("f8", "places"), "columns")
_SIZES = Series(list, Numbers("f8", "places", least=5e-324), "columns")
_RADIAL = _make_basis_rule(
    centres=Numbers("f8", "places", "columns"), widths=Numbers("f8", "places", "columns", least=5e-324)
)


def _find_too_many_functions(state: Any, sizes: Mapping[str, int]) -> str | None:
    plan, columns = state["plan"], sizes["columns"]
    count = (
        comb(columns + plan["degree"], plan["degree"]) if plan["interactions"] else columns * plan["degree"]
    )
    return None if count <= 1_000_001 else f"makes {count} functions of a row"


def _find_wrong_knots(state: Any, _: Mapping[str, int]) -> str | None:
    plan = state["plan"]
    for knots in plan["knots"]:
        if len(knots) + plan["degree"] > _KNOTS:
            return f"has {len(knots)} knots, expected at most {_KNOTS}"
        if plan["extrapolation"] == "periodic" and len(knots) <= plan["degree"]:
            return f"has {len(knots)} knots for periodic splines of degree {plan['degree']}"
        if len(knots) < 2:
            return "has a knot alone"
    return None


# ── classifiers and mixtures ──

_GAPS = 1 << 16  # columns of categories of which no value was ever seen

_PER_LABEL = ("labels", "columns")
_PER_COLUMN = {"weight": _PER_LABEL, "first": _PER_LABEL}
_DIAGONAL = Statistic(Moments, {**_PER_COLUMN, "second": _PER_LABEL}, True, {"form": "diagonal"})
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
    (MultinomialCounts, _COUNTS),
    (FamilyColumns, Statistic(Tally, {"weight": _PER_LABEL, "total": (*_PER_LABEL, "terms")}, True)),
    (CategoryColumns, Statistic(Tally, {"weight": ("labels",), "total": ("labels", "terms")}, True)),
)


def _find_unfit_sums(state: Any, sizes: Mapping[str, int]) -> str | None:
    statistic = state["statistic"]
    if type(statistic) is not Joint or CLASSES not in statistic.parts:
        return "has no statistic of classes"
    check(_CLASSES, statistic[CLASSES], CLASSES, sizes["bytes"])
    counts: Any = statistic[CLASSES]
    if counts.terms is None:
        return "has classes without names"
    held, gaps = 0, False  # columns that the sums have; whether some may have none
    for name, part in statistic.parts.items():
        if name == CLASSES:
            continue
        if part.keys is None or not set(part.keys) <= set(counts.terms):
            return f"has labels of {name} that are not classes, expected those of {CLASSES}"
        gaps |= getattr(part, "terms", None) is not None
        held += prod(next(reversed(part.parts().values())).shape[1:])  # squares, totals: the largest
    columns, classes = sizes["columns"], len(counts.terms) + sizes["declared"]
    if columns > held + gaps * _GAPS or classes * max(columns, held) > ROOM + sizes["bytes"]:
        return f"has {columns} columns and {classes} classes, expected no more than its sums have"
    return None


_GENERATIVE = Also(
    Record(
        {
            "schema": _SCHEMA,
            "statistic": Anything(),  # see `check_statistic`, when the blocks are known
            "declared": Ids("declared"),
            "history": Nullable(
                Record(
                    {
                        "log_likelihoods": Numbers("f8", "steps", finite=False),
                        "weight": Real(least=0.0),
                        "converged": Flag(),
                    },
                    holds={"at least one step": lambda s: s["steps"] > 0},
                )
            ),
            "temperature": _POSITIVE,
            "choice": Nullable(  # of shrinkage
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
    ),
    _find_unfit_sums,
)


def check_statistic(model: Generative, statistic: Joint, columns: int) -> None:
    """Raise a ValueError for a statistic that is not one of this model."""
    if statistic.parts.keys() != {CLASSES, *model.blocks}:
        raise ValueError("its statistic is of other columns")
    for name, block in model.blocks.items():
        part: Any = statistic[name]
        width = columns if block.columns is None else len(block.columns)
        rule = next(rule for kind, rule in _BLOCKS if isinstance(block, kind))
        rule.check(part, name, {"columns": width})
        if isinstance(block, CategoryColumns):
            _check_terms(part.terms, name, width)
        if isinstance(block, FamilyColumns) and part.total.shape[-1] != block.terms:
            raise ValueError(f"{name} has {part.total.shape[-1]} terms per column, expected {block.terms}")
        if isinstance(block, GaussianVectors):
            form = "full" if block.covariance in ("full", "tied") else "diagonal"
            if part.form != form:
                raise ValueError(f"{name} is of the form {part.form}, expected {form}")


def _check_terms(terms: Keys | None, name: str, columns: int) -> None:
    """Raise unless the terms of categories are pairs (index of a column, value)."""
    for term in () if terms is None else terms:
        if type(term) is not tuple or len(term) != 2 or type(term[0]) is not int:
            raise ValueError(f"{name} counts {str(term)[:40]}, expected pairs of a column and a value")
        if not 0 <= term[0] < columns:
            raise ValueError(f"{name} counts values of column {term[0]}, expected below {columns}")
    if terms is None:
        raise ValueError(f"{name} has no names of its terms")


# ── the list ──

GENERATIVE = (
    Entry("BernoulliNB", "tamis.estimators.naive_bayes", _GENERATIVE, flat=True),
    Entry("CategoricalNB", "tamis.estimators.naive_bayes", _GENERATIVE, flat=True),
    Entry("ComplementNB", "tamis.estimators.naive_bayes", _GENERATIVE, flat=True),
    Entry("FisherDiscriminant", "tamis.estimators.discriminant", _GENERATIVE, flat=True),
    Entry("GaussianDiscriminant", "tamis.estimators.discriminant", _GENERATIVE, flat=True),
    Entry("GaussianNB", "tamis.estimators.naive_bayes", _GENERATIVE, flat=True),
    Entry("Mixture", "tamis.estimators.mixture", _GENERATIVE, flat=True),
    Entry("MultinomialNB", "tamis.estimators.naive_bayes", _GENERATIVE, flat=True),
    Entry("NaiveBayes", "tamis.estimators.naive_bayes", _GENERATIVE, flat=True),
    Entry("PoissonNB", "tamis.estimators.naive_bayes", _GENERATIVE, flat=True),
)
MODELS = (
    Entry("BayesianLinearRegression", "tamis.estimators.linear", _REGRESSION),
    Entry("GeneralizedLinear", "tamis.estimators.generalized_linear", _GENERALIZED),
    Entry("LogisticRegression", "tamis.estimators.logistic", _LOGISTIC),
    Entry("MatrixFactorization", "tamis.estimators.factors", _FACTORS),
    Entry("PCA", "tamis.estimators.components", _PCA),
)
TRANSFORMERS = (
    Entry(
        "FourierBasis",
        "tamis.basis",
        Also(
            _make_basis_rule(period=Numbers("f8", "columns", least=5e-324), order=Integer(1, name="order")),
            lambda _, s: None if s["order"] * s["columns"] <= _FUNCTIONS else "makes too many functions",
        ),
    ),
    Entry(
        "GaussianBasis",
        "tamis.basis",
        Either(Also(_make_basis_rule(centres=_PLACES, widths=_SIZES), _find_single_centre), _RADIAL),
    ),
    Entry("LogCounts", "tamis.text.weights", Record(_WEIGHTS, holds=_WIDTHS)),
    Entry("NaiveBayesWeights", "tamis.text.weights", _make_weights_rule(_COUNTS)),
    Entry(
        "PolynomialBasis",
        "tamis.basis",
        Also(
            _make_basis_rule(
                centre=Numbers("f8", "columns"),
                width=Numbers("f8", "columns"),
                degree=Integer(1, 1_000_000),
                interactions=Flag(),
            ),
            _find_too_many_functions,
        ),
    ),
    Entry(
        "SigmoidBasis",
        "tamis.basis",
        Also(_make_basis_rule(centres=_PLACES, widths=_SIZES), _find_single_centre),
    ),
    Entry(
        "SplineBasis",
        "tamis.basis",
        Also(
            _make_basis_rule(
                knots=Series(list, Also(Numbers("f8", "knots"), _find_descent), "columns"),
                degree=Integer(0, 1000),
                extrapolation=Text(("constant", "linear", "periodic")),
                all=Flag(),
            ),
            _find_wrong_knots,
        ),
    ),
    Entry(
        "TfIdf",
        "tamis.text.weights",
        _make_weights_rule(Statistic(Tally, {"weight": (), "total": ("columns",)}, False, {"terms": None})),
    ),
    Entry("TokenCounts", "tamis.text.counts", Either(_HASHED, _VOCABULARY)),
    Entry("UnitLength", "tamis.text.weights", Record(_WEIGHTS, holds=_WIDTHS)),
)
REGISTRY = Registry(
    (*GENERATIVE, *MODELS, *TRANSFORMERS),
    Pipeline,
    {"n_draws": Integer(1, 10**6)},  # a parameter that decides how much memory predictions take
)


def save(model: Any, path: str | Path) -> None:
    """Write a fitted model, a transformer of text or of columns, or a pipeline of them to a file.

    >>> import tamis, tempfile
    >>> model = tamis.GaussianNB().fit([[1.0], [1.5], [4.0], [4.5]], ["low", "low", "high", "high"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.tamis")
    ...     tamis.load(f"{folder}/model.tamis").predict([[3.5]]).tolist()
    ['high']
    """
    REGISTRY.save(model, path)


def load(path: str | Path) -> Any:
    """Read a model that `save` wrote. The file may be untrusted: no code in it is run.

    A file that holds anything else is refused with a ValueError that names it. Sizes, types and ranges are
    checked before a model is made, and no number in a file makes a model larger than the file and some 32 MB.
    The parameters in the file are used in later learning: see `get_params`.
    """
    return REGISTRY.load(path)
