"""The list of models that can be saved, with the rules that the state of each must satisfy in a file.

A file may come from an untrusted source, so `load` accepts nothing that is not declared here.

The types of rules are those of `tamis.persistence.rules`. The keys of a rule's dict are names in files. If a
field of a model is renamed, its name in files remains, for the sake of older files; then a comment says what
it means.

Strings inside `Numbers`, `KeysOf`, `Integer` and similar rules are names of sizes. The first value with a
name defines the size, and all later ones must have the same size; only the members of a `SequenceOf` may
differ from each other. The sizes of axes include `columns` of the data; `width`, the number of columns with
the intercept, or of factors with the offset; `pairs`, the d(d+1)/2 products of columns; `labels`, the first
axis of a statistic that is grouped by label; and `parameters` of a linear model. Besides, there are `bytes`,
the length of the file, and flags such as `intercept`, whose size is 1 or 0. A model may have as many array
elements as its file has bytes, and `SPARE_ELEMENTS` more.

A function `_find_…_fault` describes what is wrong with a value, or returns None. The keys of `conditions` are
the texts of errors; in a condition, `s` maps the names of sizes to the sizes.
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
    SPARE_ELEMENTS,
    Also,
    Anything,
    DictOf,
    Either,
    Flag,
    Integer,
    KeysOf,
    Nullable,
    Numbers,
    Real,
    Rule,
    SequenceOf,
    Statistic,
    Text,
    TupleOf,
    check,
)
from tamis.stats import Gram, Joint, Keys, Moments, Tally

_MAX_HARMONICS = 1 << 18  # for all columns together; their sines and cosines take 4 MB per row
_MAX_KNOTS = 4096  # largest sum of a column's knots and the degree; memory grows with its square
_MAX_CLASSES = 4096  # classes of softmax in a file of up to 4 MB; memory grows with the square
_KINDS = ("number", "integer", "bool", "category", "unknown")
_ANY = Real(nan=True, infinite=True)
_POSITIVE = Real(least=5e-324)  # the smallest float above 0


def _find_name_fault(value: Any, _: Mapping[str, int]) -> str | None:
    try:
        hash(value)
    except TypeError:
        return "cannot be hashed, expected a name"
    return None


_NAME = Also(Anything(), _find_name_fault)
_SCHEMA = TupleOf(
    {
        "width": Integer(1, name="columns"),
        "kinds": Either(Text(_KINDS), SequenceOf(tuple, Text(_KINDS), "columns")),
        "names": Nullable(SequenceOf(tuple, _NAME, "columns")),
        "library": Nullable(Text()),  # of the data frame with these names, such as pandas
    }
)

_COUNTS = Statistic(
    Tally, {"weight": ("labels",), "total": ("labels", "columns")}, labelled=True, traits={"terms": None}
)

# ── linear models ──

_PARAMETERS = Numbers("f8", "parameters")
_PRECISION = Either(Numbers("f8", "parameters", least=0.0), Numbers("f8", "parameters", "parameters"))
_NEWTON: dict[str, Rule] = {
    "schema": _SCHEMA,
    "intercept": Flag("intercept"),
    "extent": Numbers("f8", "width", finite=False, least=0.0),  # the largest magnitude in each column
    "centre": Numbers("f8", "columns"),
    "mean": Numbers("f8", "columns"),
    "prior": TupleOf({"mean": _PARAMETERS, "precision": _PRECISION}),
    "posterior": TupleOf({"mean": _PARAMETERS, "precision": Nullable(_PRECISION)}),
    # The posterior before rows were removed, and the sums of the removed rows at its mean.
    "before": TupleOf({"mean": _PARAMETERS, "precision": Nullable(_PRECISION)}),
    "gone": TupleOf({"weight": Real(), "loss": Real(), "gradient": _PARAMETERS, "information": _PRECISION}),
    "evidence": _ANY,
    "weight": _POSITIVE,
    "iterations": Integer(),
    "converged": Flag(),
    "reach": Real(least=0.0, infinite=True),  # the largest Euclidean norm of a row
    "slack": _ANY,  # upper bound on the distance of the mean from the mode, in standard deviations
    "drift": _ANY,  # largest change of a score since the precision was computed
    # Of the step that removes rows: a bound on its error, and its length, both in standard deviations.
    "bound": _ANY,
    "shift": _ANY,
}
_REMOVED = ("before", "gone")
_WIDTH_CONDITION = {
    "one column more than the data if there is an intercept": lambda s: (
        s["width"] == s["columns"] + s["intercept"]
    )
}


def _find_removal_fault(value: Any, _: Mapping[str, int]) -> str | None:
    return None if ("before" in value) == ("gone" in value) else "has one of before and gone, expected both"


_LOGISTIC = Also(
    DictOf(
        {**_NEWTON, "keys": KeysOf("classes")},
        optional=_REMOVED,
        conditions={
            **_WIDTH_CONDITION,
            "two classes or more": lambda s: 2 <= s["classes"] <= max(_MAX_CLASSES, s["bytes"] // 1000),
            "a parameter per column for each of the outputs, one fewer than classes": lambda s: (
                s["parameters"] == (s["classes"] - 1) * s["width"]
            ),
        },
    ),
    _find_removal_fault,
)
_GENERALIZED = Also(
    DictOf(
        {
            **_NEWTON,
            "answer": TupleOf({"family": Text(), "link": Text()}),  # the response
            # "freedom": degrees of freedom; "told": log-likelihood
            **dict.fromkeys(
                ("dispersion", "deviance", "pearson", "freedom", "effective", "null_deviance", "told"), _ANY
            ),
        },
        optional=_REMOVED,
        conditions={
            **_WIDTH_CONDITION,
            "a parameter per column": lambda s: s["parameters"] == s["width"],
        },
    ),
    _find_removal_fault,
)


def _find_gram_fault(gram: Any, sizes: Mapping[str, int]) -> str | None:
    if gram.width != sizes["columns"] or gram.targets < 1:
        expected = f"expected {sizes['columns']} columns and at least one target"
        return f"is of {gram.width} columns and {gram.targets} targets, {expected}"
    return None


_REGRESSION = DictOf(
    {
        "schema": _SCHEMA,
        "statistic": Also(
            Statistic(
                Gram,
                {"weight": (), "first": ("features and targets",), "products": ("pairs",)},
                labelled=False,
            ),
            _find_gram_fault,
        ),
        "flat": Flag(),  # whether targets had the shape (n,), not (n, q)
        "inferred_with": DictOf(
            {
                "alpha": Anything(),
                "beta": Anything(),
                "prior": Anything(),
                "noise_shape": _ANY,  # a parameter of the prior of the variance of the noise, as the next one
                "noise_scale": _ANY,
                "intercept": Flag(),
                "exact": Flag(),  # whether sums of products are exact
            }
        ),
    },
    optional=("inferred_with",),
)

# ── components ──

_SOLVERS = ("auto", "moments", "rows", "randomized")
_ALL_ROWS = {"weight": (), "first": ("columns",), "second": ("pairs",)}
_BY_FOLD = {"weight": ("folds",), "first": ("folds", "columns"), "second": ("folds", "pairs")}
_PCA = DictOf(
    {
        "schema": _SCHEMA,
        "statistic": Nullable(
            Either(
                Statistic(Moments, _ALL_ROWS, labelled=False, traits={"form": "full"}),
                Statistic(Moments, _BY_FOLD, labelled=True, traits={"form": "full"}),
            )
        ),
        "solver": Text(_SOLVERS),
        "likelihoods": Numbers("f8", "steps", finite=False),
        "components": Nullable(
            DictOf(
                {
                    "mean": Numbers("f8", "columns"),
                    "directions": Numbers("f8", "components", "columns"),
                    "variances": Numbers("f8", "components", least=0.0),
                    # "noise" and "total": the variance of the noise and that of all columns together;
                    # "freedom": degrees of freedom; "error": a bound on the largest singular value of the
                    # residuals of the rows
                    "numbers": TupleOf(dict.fromkeys(("noise", "total", "weight", "freedom", "error"), _ANY)),
                    # of each number of components: log-evidence, or mean log-density of held-out rows
                    "scores": Nullable(Numbers("f8", "numbers of components", finite=False)),
                },
                optional=("scores",),
            )
        ),
        "rounded": Either(Real(least=0.0), Numbers("f8", "columns", least=0.0)),
    },
    optional=("rounded",),  # only in files of older versions; now it is a field of the statistic
)

# ── latent factors ──

_NORMALS = {"mean": Numbers("f8", "draws", "width"), "precision": Numbers("f8", "draws", "width", "width")}
_FACTORS = DictOf(
    {
        "users": KeysOf("users"),
        "items": KeysOf("items"),
        "entries": TupleOf(
            {
                "user": Numbers("i8", "entries", least=0, below="users"),
                "item": Numbers("i8", "entries", least=0, below="items"),
                "value": Numbers("f8", "entries"),
                "weight": Nullable(Numbers("f8", "entries", least=0.0)),
                "time": Nullable(Numbers("f8", "entries")),
            }
        ),
        "solver": TupleOf(
            {
                "rank": Integer(0, "bytes", "rank"),  # the number of factors
                "ridge": Real(least=0.0),
                # the ridge of offsets; for implicit ratings, the confidence
                "more": Real(least=0.0, infinite=True),
                "implicit": Flag(),
            }
        ),
        "learned": TupleOf(
            {
                "level": Real(),  # the weighted mean of all ratings; 0 for implicit ones
                "users": Numbers("f8 f4", "draws", "users", "width"),
                "items": Numbers("f8 f4", "draws", "items", "width"),
                "bins": Numbers("f8", "bins"),  # the offsets of bins of time, shared by all items
                "item_bins": Numbers("f8", "items", "bins"),  # the further offsets of each item
            }
        ),
        "chain": Nullable(  # for each draw: the precision of the noise, and the priors of users and items
            TupleOf(
                {
                    "precision": Numbers("f8", "draws", least=5e-324),
                    **{f"user_{name}": rule for name, rule in _NORMALS.items()},
                    **{f"item_{name}": rule for name, rule in _NORMALS.items()},
                }
            )
        ),
        "clock": Nullable(  # parameters by which times become bins and weights
            TupleOf(
                {
                    "oldest": Real(),
                    "newest": Real(),
                    "half_life": Nullable(_POSITIVE),
                    "bins": Integer(name="bins"),
                    "period": Nullable(_POSITIVE),
                    "end": Nullable(Real()),  # the latest time in a bin; None if that is "newest"
                    "dates": Nullable(Flag()),  # whether times were given as dates
                },
                optional=2,  # files of older versions lack the last two
            )
        ),
        "range": TupleOf({"low": Real(), "high": Real()}),  # of the ratings: predictions are limited to it
        "course": TupleOf(  # the history of the fit
            {
                "sweeps": Integer(),
                "train": Numbers("f8", "sweeps", finite=False),
                "validation": Nullable(Numbers("f8", "checks", finite=False)),
                "converged": Nullable(Flag()),
            },
            optional=1,  # files of older versions lack the last one
        ),
    },
    conditions={
        "one column more than the rank, for the offset": lambda s: s["width"] == s["rank"] + 1,
        "at least one draw": lambda s: s["draws"] > 0,
        "no more bins than bytes": lambda s: s["bins"] <= s["bytes"],
    },
)

# ── transformers ──

_COLUMN_RULES: dict[str, Rule] = {
    "width": Nullable(Integer(1, 2**31, name="columns")),
    "names": Nullable(SequenceOf(list, _NAME, "named")),
}
_COLUMN_CONDITIONS = {
    "a name per column": lambda s: s.get("named", s.get("columns", 0)) == s.get("columns", 0)
}


def _make_weights_rule(statistic: Rule) -> Rule:
    return DictOf(
        {**_COLUMN_RULES, "statistic": statistic, "declared": KeysOf("declared"), "binary": Flag()},
        conditions={
            **_COLUMN_CONDITIONS,
            "a number of columns": lambda s: "columns" in s,
            "no more classes than fit": lambda s: (
                (s["declared"] + 1) * s["columns"] <= SPARE_ELEMENTS + s["bytes"]
            ),
        },
    )


def _find_vocabulary_fault(state: Any, _: Mapping[str, int]) -> str | None:
    total = float(state["lengths"].sum(dtype=np.float64))
    given = len(state["text"])
    return (
        None if total == given else f"has {given} bytes of text, expected {total:g}, the sum of the lengths"
    )


_VOCABULARY = Also(
    DictOf({"text": Numbers("u1", "letters"), "lengths": Numbers("i8", "tokens", least=0, below=2**31)}),
    _find_vocabulary_fault,
)


def _find_frequency_fault(frequencies: Any, _: Mapping[str, int]) -> str | None:
    is_valid = type(frequencies) is dict and all(
        type(name) is str and type(count) is int and 0 <= count < 2**62 for name, count in frequencies.items()
    )
    return None if is_valid else "holds something else than counts of tokens"


_HASHED = DictOf(
    {
        "width": Integer(1, 2**31),  # the number of buckets
        "signed": Flag(),
        "limit": Integer(0, 2**40),  # the number of columns that get names
        "often": Also(Anything(), _find_frequency_fault),  # frequencies of tokens, for these names
    }
)


def _find_order_fault(knots: Any, _: Mapping[str, int]) -> str | None:
    return None if (np.diff(knots) > 0).all() else "does not ascend, expected knots in ascending order"


def _make_basis_rule(**plan: Rule) -> DictOf:
    return DictOf(
        {
            "low": Numbers("f8", "columns"),
            "high": Numbers("f8", "columns"),
            "names": Nullable(SequenceOf(list, _NAME, "columns")),
            "plan": DictOf({**plan, "bias": Flag()}),  # the parameters of the basis functions
        },
        conditions={"at least one column": lambda s: s["columns"] > 0},
    )


def _find_width_fault(state: Any, _: Mapping[str, int]) -> str | None:
    plan = state["plan"]
    pairs = zip(plan["centres"], plan["widths"], strict=True)
    return None if all(len(c) == len(w) for c, w in pairs) else "has a centre without a width"


_PER_COLUMN_FUNCTIONS = Also(
    _make_basis_rule(
        centres=SequenceOf(list, Numbers("f8", "functions"), "columns"),
        widths=SequenceOf(list, Numbers("f8", "functions", least=5e-324), "columns"),
    ),
    _find_width_fault,
)
_RADIAL_FUNCTIONS = _make_basis_rule(
    centres=Numbers("f8", "functions", "columns"), widths=Numbers("f8", "functions", "columns", least=5e-324)
)


def _find_degree_fault(state: Any, sizes: Mapping[str, int]) -> str | None:
    plan, columns = state["plan"], sizes["columns"]
    count = (
        comb(columns + plan["degree"], plan["degree"]) if plan["interactions"] else columns * plan["degree"]
    )
    return None if count <= 1_000_001 else f"makes {count} functions, expected at most 1000000"


def _find_knot_fault(state: Any, _: Mapping[str, int]) -> str | None:
    plan = state["plan"]
    for knots in plan["knots"]:
        if len(knots) + plan["degree"] > _MAX_KNOTS:
            most = _MAX_KNOTS - plan["degree"]
            return f"has {len(knots)} knots, expected at most {most} for the degree {plan['degree']}"
        if plan["extrapolation"] == "periodic" and len(knots) <= plan["degree"]:
            return f"has {len(knots)} knots for periodic splines of degree {plan['degree']}"
        if len(knots) < 2:
            return "has a single knot, expected two or more"
    return None


# ── classifiers and mixtures ──

# The largest number of columns without any value, which the counts of a statistic do not show.
_MAX_EMPTY_COLUMNS = 1 << 16

_PER_LABEL = ("labels", "columns")
_PER_COLUMN = {"weight": _PER_LABEL, "first": _PER_LABEL}
_DIAGONAL = Statistic(
    Moments, {**_PER_COLUMN, "second": _PER_LABEL}, labelled=True, traits={"form": "diagonal"}
)
_CLASSES = Statistic(Tally, {"weight": (), "total": ("classes",)}, labelled=False)
_BLOCKS: tuple[tuple[type[Block[Any, Any]], Rule], ...] = (
    (GaussianColumns, _DIAGONAL),
    (
        GaussianVectors,
        Either(
            _DIAGONAL,
            Statistic(
                Moments,
                {"weight": ("labels",), "first": ("labels", "columns"), "second": ("labels", "pairs")},
                labelled=True,
                traits={"form": "full"},
            ),
        ),
    ),
    (RateColumns, Statistic(Moments, _PER_COLUMN, labelled=True, traits={"form": "none"})),
    (MultinomialCounts, _COUNTS),
    (FamilyColumns, Statistic(Tally, {"weight": _PER_LABEL, "total": (*_PER_LABEL, "terms")}, labelled=True)),
    (CategoryColumns, Statistic(Tally, {"weight": ("labels",), "total": ("labels", "terms")}, labelled=True)),
)


def _find_statistic_fault(state: Any, sizes: Mapping[str, int]) -> str | None:
    statistic = state["statistic"]
    if type(statistic) is not Joint or CLASSES not in statistic.parts:
        return "has no statistic of classes"
    check(_CLASSES, statistic[CLASSES], CLASSES, sizes["bytes"])
    counts: Any = statistic[CLASSES]
    if counts.terms is None:
        return "has classes without names"
    sums_per_class, can_have_empty_columns = 0, False
    for name, part in statistic.parts.items():
        if name == CLASSES:
            continue
        if part.keys is None or not set(part.keys) <= set(counts.terms):
            return f"has labels of {name} that are not classes, expected those of {CLASSES}"
        can_have_empty_columns |= getattr(part, "terms", None) is not None
        # The last field of a statistic, which is its largest one, has the squares, totals or first moments.
        sums_per_class += prod(next(reversed(part.parts().values())).shape[1:])
    columns, classes = sizes["columns"], len(counts.terms) + sizes["declared"]
    most_columns = sums_per_class + can_have_empty_columns * _MAX_EMPTY_COLUMNS
    elements = classes * max(columns, sums_per_class)
    if columns > most_columns or elements > SPARE_ELEMENTS + sizes["bytes"]:
        return f"has {columns} columns and {classes} classes, which is more than its statistic has"
    return None


_GENERATIVE = Also(
    DictOf(
        {
            "schema": _SCHEMA,
            "statistic": Anything(),  # the face calls `check_statistic` once it knows its blocks of columns
            "declared": KeysOf("declared"),
            "history": Nullable(
                DictOf(
                    {
                        "log_likelihoods": Numbers("f8", "steps", finite=False),
                        "weight": Real(least=0.0),
                        "converged": Flag(),
                    },
                    conditions={"at least one step": lambda s: s["steps"] > 0},
                )
            ),
            "temperature": _POSITIVE,  # by which calibration divides log-probabilities
            "choice": Nullable(  # the coefficients that `shrinkage="auto"` chose
                DictOf(
                    {
                        "classes": KeysOf("chosen"),
                        "by_class": Numbers("f8", "chosen", least=0.0),
                        # those of classes that are learned later, and of all classes together
                        "others": Numbers("f8", 2, least=0.0),
                    }
                )
            ),
        },
        optional=("choice",),
    ),
    _find_statistic_fault,
)


def check_statistic(model: Generative, statistic: Joint, columns: int) -> None:
    """Raise a ValueError if the statistic does not have the parts and sizes that this model sums."""
    if statistic.parts.keys() != {CLASSES, *model.blocks}:
        raise ValueError("the columns of its statistic are not those of its parameters")
    for name, block in model.blocks.items():
        part: Any = statistic[name]
        width = columns if block.columns is None else len(block.columns)
        rule = next(rule for kind, rule in _BLOCKS if isinstance(block, kind))
        rule.check(part, name, {"columns": width})
        if isinstance(block, CategoryColumns):
            _check_terms(part.terms, name, width)
        if isinstance(block, FamilyColumns) and part.total.shape[-1] != block.n_sufficient:
            raise ValueError(
                f"{name} has {part.total.shape[-1]} sums per column, expected {block.n_sufficient}"
            )
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

# `is_state_inline`: the parts of the state stand in a file beside the parameters, not in a dict of their own.
GENERATIVE = (
    Entry("BernoulliNB", "tamis.estimators.naive_bayes", _GENERATIVE, is_state_inline=True),
    Entry("CategoricalNB", "tamis.estimators.naive_bayes", _GENERATIVE, is_state_inline=True),
    Entry("ComplementNB", "tamis.estimators.naive_bayes", _GENERATIVE, is_state_inline=True),
    Entry("FisherDiscriminant", "tamis.estimators.discriminant", _GENERATIVE, is_state_inline=True),
    Entry("GaussianDiscriminant", "tamis.estimators.discriminant", _GENERATIVE, is_state_inline=True),
    Entry("GaussianNB", "tamis.estimators.naive_bayes", _GENERATIVE, is_state_inline=True),
    Entry("Mixture", "tamis.estimators.mixture", _GENERATIVE, is_state_inline=True),
    Entry("MultinomialNB", "tamis.estimators.naive_bayes", _GENERATIVE, is_state_inline=True),
    Entry("NaiveBayes", "tamis.estimators.naive_bayes", _GENERATIVE, is_state_inline=True),
    Entry("PoissonNB", "tamis.estimators.naive_bayes", _GENERATIVE, is_state_inline=True),
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
            lambda _, s: None if s["order"] * s["columns"] <= _MAX_HARMONICS else "makes too many functions",
        ),
    ),
    Entry("GaussianBasis", "tamis.basis", Either(_PER_COLUMN_FUNCTIONS, _RADIAL_FUNCTIONS)),
    Entry("LogCounts", "tamis.text.weights", DictOf(_COLUMN_RULES, conditions=_COLUMN_CONDITIONS)),
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
            _find_degree_fault,
        ),
    ),
    Entry("SigmoidBasis", "tamis.basis", _PER_COLUMN_FUNCTIONS),
    Entry(
        "SplineBasis",
        "tamis.basis",
        Also(
            _make_basis_rule(
                knots=SequenceOf(list, Also(Numbers("f8", "knots"), _find_order_fault), "columns"),
                degree=Integer(0, 1000),
                extrapolation=Text(("constant", "linear", "periodic")),
                all=Flag(),  # whether the last function of each column is kept
            ),
            _find_knot_fault,
        ),
    ),
    Entry(
        "TfIdf",
        "tamis.text.weights",
        _make_weights_rule(
            Statistic(Tally, {"weight": (), "total": ("columns",)}, labelled=False, traits={"terms": None})
        ),
    ),
    Entry("TokenCounts", "tamis.text.counts", Either(_HASHED, _VOCABULARY)),
    Entry("UnitLength", "tamis.text.weights", DictOf(_COLUMN_RULES, conditions=_COLUMN_CONDITIONS)),
)
REGISTRY = Registry(
    entries=(*GENERATIVE, *MODELS, *TRANSFORMERS),
    pipeline=Pipeline,
    parameters={"n_draws": Integer(1, 10**6)},  # predictions take memory in proportion to this parameter
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

    A file that holds anything else is refused with a ValueError that names the file. Sizes, types and ranges
    are checked before a model is made, and the arrays of a loaded model have at most as many elements as the
    file has bytes, and 4 million more. A prediction may need more memory, for tables of all classes and
    columns. The model also has the parameters of the saved one (`get_params`), with which it learns more
    rows.
    """
    return REGISTRY.load(path)
