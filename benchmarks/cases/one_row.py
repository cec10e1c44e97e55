"""Streaming, one row at a time: learn a row, then ask about it, against river and scikit-learn.

Statistics here add and subtract exactly, so that a row can be unlearned; river updates floats in place.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn.naive_bayes
from numpy.typing import NDArray
from river import naive_bayes, stats

import tamis
from benchmarks.harness import AnyCase, Case
from tamis.arrays import Array
from tamis.stats import Moments

ROWS, COLUMNS = 200, 20
FIRST = 50  # rows that are learned before the time is taken
Summary = tuple[Array, Array]  # means and variances


@dataclass(frozen=True)
class Stream:
    """The same rows as each side likes them best."""

    arrays: list[Array]  # of (1, 20)
    mappings: list[dict[str, Any]]
    labels: list[str]


def _stream(values: Callable[[np.random.Generator], NDArray[Any]]) -> Stream:
    rng = np.random.default_rng(0)
    rows = values(rng)
    return Stream(
        arrays=[row[None] for row in rows],
        mappings=[{f"x{j}": value for j, value in enumerate(row)} for row in rows.tolist()],
        labels=rng.choice(["a", "b"], size=len(rows)).tolist(),
    )


def _numbers(rng: np.random.Generator) -> NDArray[Any]:
    return rng.normal(5.0, 1.0, size=(FIRST + ROWS, COLUMNS))


def _counts(rng: np.random.Generator) -> NDArray[Any]:
    return rng.integers(0, 4, size=(FIRST + ROWS, COLUMNS))


def _flags(rng: np.random.Generator) -> NDArray[Any]:
    return rng.random((FIRST + ROWS, COLUMNS)) < 0.5


def _mixed_stream() -> Stream:
    """12 numbers, 4 words and 4 flags."""
    stream = _stream(_numbers)
    words = ("low", "middle", "high")
    for row in stream.mappings:
        for j, (name, value) in enumerate(row.items()):
            if j % 5 == 3:
                row[name] = words[int(value) % 3]
            elif j % 5 == 4:
                row[name] = value > 5.0
    return stream


def _select_numbers(stream: Stream) -> Stream:
    rows = [{name: value for name, value in row.items() if type(value) is float} for row in stream.mappings]
    return Stream(stream.arrays, rows, stream.labels)


# ── statistics ──


def _observe_rows(stream: Stream) -> Summary:
    total = Moments.observe(stream.arrays[0])
    for row in stream.arrays[1:]:
        total = total.add_row(row[0])
    return total.mean, total.variance


def _update_river_stats(stream: Stream) -> Summary:
    means = {name: stats.Mean() for name in stream.mappings[0]}
    variances = {name: stats.Var(ddof=0) for name in stream.mappings[0]}
    for row in stream.mappings:
        for name, value in row.items():
            means[name].update(value)
            variances[name].update(value)
    return (
        np.array([mean.get() for mean in means.values()]),
        np.array([variance.get() for variance in variances.values()]),
    )


def _agree(ours: Summary, peer: Summary) -> bool:
    return all(bool(np.allclose(left, right, rtol=1e-10)) for left, right in zip(ours, peer, strict=True))


# ── classifiers ──


def _learn_and_ask(model: Any, stream: Stream) -> list[float]:
    """Learn each row and ask about it, by the methods that tamis and river share: p(b) of each row."""
    for row, label in zip(stream.mappings[:FIRST], stream.labels, strict=False):
        model.learn_one(row, label)
    answers = []
    for row, label in zip(stream.mappings[FIRST:], stream.labels[FIRST:], strict=True):
        model.learn_one(row, label)
        answers.append(model.predict_proba_one(row)["b"])
    return answers


def _learn_and_ask_arrays(model: Any, stream: Stream) -> list[float]:
    """The same by `partial_fit` and `predict_proba`."""
    model.partial_fit(np.concatenate(stream.arrays[:FIRST]), stream.labels[:FIRST], classes=["a", "b"])
    answers = []
    for row, label in zip(stream.arrays[FIRST:], stream.labels[FIRST:], strict=True):
        model.partial_fit(row, [label])
        answers.append(float(model.predict_proba(row)[0, 1]))
    return answers


def _are_close(tolerance: float) -> Callable[[list[float], list[float]], bool]:
    return lambda ours, peer: bool(np.allclose(ours, peer, atol=tolerance))


def _make_river() -> Any:
    return getattr(naive_bayes, "GaussianNB")()  # noqa: B009  (river's own has no types)


_OURS = {
    "GaussianNB": _numbers,
    "BernoulliNB": _flags,
    "MultinomialNB": _counts,
    "ComplementNB": _counts,
    "CategoricalNB": _counts,
}
_RIVER = ("GaussianNB", "BernoulliNB", "MultinomialNB", "ComplementNB")


def _face_cases(name: str) -> tuple[AnyCase, ...]:
    values, ours, peer = _OURS[name], getattr(tamis, name), getattr(sklearn.naive_bayes, name)
    cases: list[AnyCase] = [
        Case(
            name=f"one-row-{name.removesuffix('NB').lower()}-nb-sklearn",
            what=f"{name}: {ROWS} rows of {COLUMNS} columns, each learned and asked, against scikit-learn",
            setup=lambda: _stream(values),
            ours=lambda stream: _learn_and_ask_arrays(ours(), stream),
            peer=lambda stream: _learn_and_ask_arrays(peer(), stream),
            agree=_are_close(1e-6),
        )
    ]
    if name in _RIVER:
        theirs = getattr(naive_bayes, name)
        cases.append(
            Case(
                name=f"one-row-{name.removesuffix('NB').lower()}-nb-river",
                what=f"{name}: {ROWS} dicts of {COLUMNS} columns, each learned and asked, against river",
                setup=lambda: _stream(values),
                ours=lambda stream: _learn_and_ask(ours(), stream),
                peer=lambda stream: _learn_and_ask(theirs(), stream),
                # river's variances divide by one row less, and its complement has no logarithm of the prior
                agree=_are_close(1.0 if name == "ComplementNB" else 0.2 if name == "GaussianNB" else 1e-6),
            )
        )
    return tuple(cases)


CASES: tuple[AnyCase, ...] = (
    Case(
        name="one-row",
        what=f"{ROWS} updates by one row of {COLUMNS} columns, reversible, against river's Mean and Var",
        setup=lambda: _stream(_numbers),
        ours=_observe_rows,
        peer=_update_river_stats,
        agree=_agree,
    ),
    *(case for name in _OURS for case in _face_cases(name)),
    Case(
        name="one-row-mixed-columns",
        what=f"NaiveBayes: {ROWS} rows of numbers, words and flags, against river on the numbers",
        setup=_mixed_stream,
        ours=lambda stream: _learn_and_ask(tamis.NaiveBayes(), stream),
        peer=lambda stream: _learn_and_ask(_make_river(), _select_numbers(stream)),
        agree=lambda ours, peer: len(ours) == len(peer),
    ),
)

WANTED = {
    "one-row-gaussian-nb-river": 0.5,
    "one-row-bernoulli-nb-river": 0.5,
    "one-row-multinomial-nb-river": 0.5,
    "one-row-complement-nb-river": 0.5,
    "one-row-gaussian-nb-sklearn": 2.5,
    "one-row-bernoulli-nb-sklearn": 2.5,
    "one-row-multinomial-nb-sklearn": 2.5,
    "one-row-complement-nb-sklearn": 2.5,
    "one-row-categorical-nb-sklearn": 2.5,
}
