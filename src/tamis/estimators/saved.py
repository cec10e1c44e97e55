"""The rules that the saved state of each model must keep: what `load` believes of a file is declared here.

The names of sizes: `columns` of the data, `classes`, `labels` that a statistic is filed under, `parameters`
of a linear model, `users`, `items`, and what else an axis counts.
"""

from collections.abc import Mapping
from math import comb
from typing import Any

import numpy as np

from tamis.estimators.schema import (
    ROOM,
    Also,
    Anything,
    Either,
    Flag,
    Group,
    Ids,
    Numbers,
    Real,
    Record,
    Rule,
    Series,
    Statistic,
    Text,
    Whole,
    maybe,
)
from tamis.stats import Gram, Moments, Tally

_FUNCTIONS = 1 << 18  # that a basis makes of a row, at most: 2 MB
_KNOTS = 4096  # of a column: splines take their square
_OUTPUTS = 4096  # classes of softmax, whose contrasts take their square
_KINDS = ("number", "integer", "bool", "category", "unknown")
_ANY = Real(nan=True, infinite=True)
POSITIVE = Real(least=5e-324)


def _is_unhashable(value: Any, _: Mapping[str, int]) -> str | None:
    try:
        hash(value)
    except TypeError:
        return "cannot be hashed, expected a name"
    return None


_NAME = Also(Anything(), _is_unhashable)
SCHEMA = Group(
    {
        "width": Whole(1, named="columns"),
        "kinds": Either(Text(_KINDS), Series(tuple, Text(_KINDS), "columns")),
        "names": maybe(Series(tuple, _NAME, "columns")),
        "library": maybe(Text()),
    }
)

COUNTS = Statistic(Tally, {"weight": ("labels",), "total": ("labels", "columns")}, True, {"terms": None})

# ── linear models ──

_PARAMETERS = Numbers("f8", "parameters")
_PRECISION = Either(Numbers("f8", "parameters", least=0.0), Numbers("f8", "parameters", "parameters"))
_CURVED: dict[str, Rule] = {
    "schema": SCHEMA,
    "intercept": Flag("intercept"),
    "extent": Numbers("f8", "width", finite=False, least=0.0),
    "centre": Numbers("f8", "columns"),
    "mean": Numbers("f8", "columns"),
    "prior": Group({"mean": _PARAMETERS, "precision": _PRECISION}),
    "posterior": Group({"mean": _PARAMETERS, "precision": maybe(_PRECISION)}),
    "before": Group({"mean": _PARAMETERS, "precision": maybe(_PRECISION)}),
    "gone": Group(
        {"weight": Real(), "loss": Real(), "gradient": _PARAMETERS, "information": _PRECISION},
    ),
    "evidence": _ANY,
    "weight": POSITIVE,
    "iterations": Whole(),
    "converged": Flag(),
    "reach": Real(least=0.0, infinite=True),
    "slack": _ANY,
    "drift": _ANY,
    "bound": _ANY,
    "shift": _ANY,
}
_REMOVED = ("before", "gone")


def _has_removed_both(value: Any, _: Mapping[str, int]) -> str | None:
    return None if ("before" in value) == ("gone" in value) else "has one of before and gone, expected both"


def _outputs(sizes: Mapping[str, int]) -> int:
    classes = sizes["classes"]
    return 1 if classes == 2 else classes - 1


_LOGISTIC = Also(
    Record(
        {**_CURVED, "keys": Ids("classes")},
        _REMOVED,
        {
            "a column more with an intercept": lambda s: s["width"] == s["columns"] + s["intercept"],
            "two classes or more": lambda s: 2 <= s["classes"] <= max(_OUTPUTS, s["bytes"] // 1000),
            "parameters of each class": lambda s: s["parameters"] == _outputs(s) * s["width"],
        },
    ),
    _has_removed_both,
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
    _has_removed_both,
)


def _is_of_other_columns(gram: Any, sizes: Mapping[str, int]) -> str | None:
    if gram.width != sizes["columns"] or gram.targets < 1:
        return f"is of {gram.width} columns and {gram.targets} targets, expected {sizes['columns']} and some"
    return None


_REGRESSION = Record(
    {
        "schema": SCHEMA,
        "statistic": Also(
            Statistic(Gram, {"weight": (), "first": ("side",), "products": ("pairs",)}, False),
            _is_of_other_columns,
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
        "schema": SCHEMA,
        "statistic": maybe(
            Either(
                Statistic(Moments, _ALL_ROWS, False, {"form": "full"}),
                Statistic(Moments, _BY_FOLD, True, {"form": "full"}),
            )
        ),
        "solver": Text(_SOLVERS),
        "likelihoods": Numbers("f8", "steps", finite=False),
        "components": maybe(
            Record(
                {
                    "mean": Numbers("f8", "columns"),
                    "directions": Numbers("f8", "components", "columns"),
                    "variances": Numbers("f8", "components", least=0.0),
                    "numbers": Group(dict.fromkeys(("noise", "total", "weight", "freedom", "error"), _ANY)),
                    "scores": maybe(Numbers("f8", "choices", finite=False)),
                },
                ("scores",),
            )
        ),
        "rounded": Either(Real(least=0.0), Numbers("f8", "columns", least=0.0)),
    },
    ("rounded",),  # of files of older versions: now the statistic has it
)

# ── latent factors ──

_BELIEF = {"mean": Numbers("f8", "draws", "width"), "precision": Numbers("f8", "draws", "width", "width")}
_FACTORS = Record(
    {
        "users": Ids("users"),
        "items": Ids("items"),
        "entries": Group(
            {
                "user": Numbers("i8", "entries", least=0, below="users"),
                "item": Numbers("i8", "entries", least=0, below="items"),
                "value": Numbers("f8", "entries"),
                "weight": maybe(Numbers("f8", "entries", least=0.0)),
                "time": maybe(Numbers("f8", "entries")),
            }
        ),
        "solver": Group(
            {
                "rank": Whole(0, "bytes", "rank"),
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
        "chain": maybe(
            Group(
                {
                    "precision": Numbers("f8", "draws", least=5e-324),
                    **{f"user_{name}": rule for name, rule in _BELIEF.items()},
                    **{f"item_{name}": rule for name, rule in _BELIEF.items()},
                }
            )
        ),
        "clock": maybe(
            Group(
                {
                    "oldest": Real(),
                    "newest": Real(),
                    "half_life": maybe(POSITIVE),
                    "bins": Whole(named="bins"),
                    "period": maybe(POSITIVE),
                    "end": maybe(Real()),
                    "dates": maybe(Flag()),
                },
                optional=2,
            )
        ),
        "range": Group({"low": Real(), "high": Real()}),
        "course": Group(
            {
                "sweeps": Whole(),
                "train": Numbers("f8", "sweeps", finite=False),
                "validation": maybe(Numbers("f8", "checks", finite=False)),
                "converged": maybe(Flag()),
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
    "width": maybe(Whole(1, 2**31, named="columns")),
    "names": maybe(Series(list, _NAME, "named")),
}
_WIDTHS = {"a name per column": lambda s: s.get("named", s.get("columns", 0)) == s.get("columns", 0)}


def _weights_of(statistic: Rule) -> Rule:
    return Record(
        {**_WEIGHTS, "statistic": statistic, "declared": Ids("declared"), "binary": Flag()},
        holds={
            **_WIDTHS,
            "columns": lambda s: "columns" in s,
            "no more classes than fit": lambda s: (s["declared"] + 1) * s["columns"] <= ROOM + s["bytes"],
        },
    )


def _ends_elsewhere(state: Any, _: Mapping[str, int]) -> str | None:
    longest = float(state["lengths"].sum(dtype=np.float64))
    return None if longest == len(state["text"]) else f"has {len(state['text'])} bytes for {longest:g}"


_VOCABULARY = Also(
    Record({"text": Numbers("u1", "letters"), "lengths": Numbers("i8", "tokens", least=0, below=2**31)}),
    _ends_elsewhere,
)


def _are_no_counts(often: Any, _: Mapping[str, int]) -> str | None:
    sound = type(often) is dict and all(
        type(name) is str and type(count) is int and 0 <= count < 2**62 for name, count in often.items()
    )
    return None if sound else "holds something else than counts of tokens"


_HASHED = Record(
    {
        "width": Whole(1, 2**31),
        "signed": Flag(),
        "limit": Whole(0, 2**40),
        "often": Also(Anything(), _are_no_counts),
    }
)


def _descends(knots: Any, _: Mapping[str, int]) -> str | None:
    return None if (np.diff(knots) > 0).all() else "does not ascend, expected knots from low to high"


def _basis(**plan: Rule) -> Record:
    return Record(
        {
            "low": Numbers("f8", "columns"),
            "high": Numbers("f8", "columns"),
            "names": maybe(Series(list, _NAME, "columns")),
            "plan": Record({**plan, "bias": Flag()}),
        },
        holds={"at least one column": lambda s: s["columns"] > 0},
    )


def _differ(state: Any, _: Mapping[str, int]) -> str | None:
    plan = state["plan"]
    pairs = zip(plan["centres"], plan["widths"], strict=True)
    return None if all(len(c) == len(w) for c, w in pairs) else "has a centre without a width"


_PLACES = Series(list, Numbers("f8", "places"), "columns")
_SIZES = Series(list, Numbers("f8", "places", least=5e-324), "columns")
_RADIAL = _basis(
    centres=Numbers("f8", "places", "columns"), widths=Numbers("f8", "places", "columns", least=5e-324)
)


def _is_too_much(state: Any, sizes: Mapping[str, int]) -> str | None:
    plan, columns = state["plan"], sizes["columns"]
    count = (
        comb(columns + plan["degree"], plan["degree"]) if plan["interactions"] else columns * plan["degree"]
    )
    return None if count <= 1_000_001 else f"makes {count} functions of a row"


def _curve_too_much(state: Any, _: Mapping[str, int]) -> str | None:
    plan = state["plan"]
    for knots in plan["knots"]:
        if len(knots) + plan["degree"] > _KNOTS:
            return f"has {len(knots)} knots, expected at most {_KNOTS}"
        if plan["extrapolation"] == "periodic" and len(knots) <= plan["degree"]:
            return f"has {len(knots)} knots for periodic splines of degree {plan['degree']}"
        if len(knots) < 2:
            return "has a knot alone"
    return None


STATES: dict[str, Rule] = {
    "BayesianLinearRegression": _REGRESSION,
    "FourierBasis": Also(
        _basis(period=Numbers("f8", "columns", least=5e-324), order=Whole(1, named="order")),
        lambda _, s: None if s["order"] * s["columns"] <= _FUNCTIONS else "makes too many functions",
    ),
    "GaussianBasis": Either(Also(_basis(centres=_PLACES, widths=_SIZES), _differ), _RADIAL),
    "GeneralizedLinear": _GENERALIZED,
    "LogCounts": Record(_WEIGHTS, holds=_WIDTHS),
    "LogisticRegression": _LOGISTIC,
    "MatrixFactorization": _FACTORS,
    "NaiveBayesWeights": _weights_of(COUNTS),
    "PCA": _PCA,
    "PolynomialBasis": Also(
        _basis(
            centre=Numbers("f8", "columns"),
            width=Numbers("f8", "columns"),
            degree=Whole(1, 1_000_000),
            interactions=Flag(),
        ),
        _is_too_much,
    ),
    "SigmoidBasis": Also(_basis(centres=_PLACES, widths=_SIZES), _differ),
    "SplineBasis": Also(
        _basis(
            knots=Series(list, Also(Numbers("f8", "knots"), _descends), "columns"),
            degree=Whole(0, 1000),
            extrapolation=Text(("constant", "linear", "periodic")),
            all=Flag(),
        ),
        _curve_too_much,
    ),
    "TfIdf": _weights_of(Statistic(Tally, {"weight": (), "total": ("columns",)}, False, {"terms": None})),
    "TokenCounts": Either(_HASHED, _VOCABULARY),
    "UnitLength": Record(_WEIGHTS, holds=_WIDTHS),
}
# Parameters by which answers, and not only learning, allocate.
PARAMETERS: dict[str, Rule] = {"n_draws": Whole(1, 10**6)}
