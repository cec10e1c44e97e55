"""Naive Bayes against scikit-learn's: the face, and observe and infer by themselves on rows already read."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn import naive_bayes as theirs

from benchmarks.harness import AnyCase, Case
from tamis import estimators as ours
from tamis.arrays import Array
from tamis.models.generative import (
    Block,
    CategoryColumns,
    GaussianColumns,
    Generative,
    LabelledRows,
    MultinomialCounts,
    Posterior,
)
from tamis.stats import Labels, Moments
from tamis.tables import Table

BLOCK = "columns"
LEFT_OUT, REFITS = 30_000, 500  # rows that are left out in turn; those of them that the peer refits for
ONE_BY_ONE = 200  # rows that come one by one, after as many at once


@dataclass(frozen=True)
class Rows:
    """Rows and their labels, for the faces; and the same as a model keeps them."""

    X: Any
    y: NDArray[np.int64]
    model: Generative
    evidence: LabelledRows

    @classmethod
    def of(cls, X: Any, y: NDArray[np.int64], block: Block[Any, Any]) -> "Rows":
        _warm()
        model = Generative({BLOCK: block})
        return cls(X, y, model, LabelledRows(model.encode(Table.of(X)), Labels.of(y)))

    def inferred(self) -> Posterior:
        return self.model.infer(self.model.observe(self.evidence))


def _warm() -> None:
    """Enough work that compiled kernels are in use from here on."""
    Moments.observe(np.zeros((500_000, 20)))


def _density(rows: Rows) -> Any:
    return rows.inferred().densities[BLOCK]


def _near(ours: Any, peer: Any, tolerance: float = 1e-9) -> bool:
    """Arrays, or sequences of them, that are the same to rounding."""
    return len(ours) == len(peer) and all(
        bool(np.allclose(left, right, rtol=tolerance, atol=tolerance))
        for left, right in zip(ours, peer, strict=True)
    )


# ── counts of words ──


def _texts(classes: int) -> Rows:
    rng = np.random.default_rng(0)
    n, columns, each = 100_000, 50_000, 50
    csr: Any = (
        rng.integers(1, 5, size=n * each).astype(np.float64),
        rng.integers(0, columns, size=n * each).astype(np.int32),
        np.arange(n + 1, dtype=np.int32) * each,
    )
    X = sparse.csr_array(csr, shape=(n, columns))
    X.sum_duplicates()
    return Rows.of(X, rng.integers(0, classes, size=n), MultinomialCounts(alpha=1.0))


def _multinomial(classes: int) -> tuple[AnyCase, ...]:
    def peer(rows: Rows) -> Any:
        return theirs.MultinomialNB().fit(rows.X, rows.y).feature_log_prob_

    size = f"100,000 × 50,000 with 5e6 entries, {classes} classes"
    return (
        Case(
            name=f"multinomial-nb-fit-{classes}",
            what=f"MultinomialNB().fit of {size}, against scikit-learn's",
            setup=lambda: _texts(classes),
            ours=lambda rows: ours.MultinomialNB().fit(rows.X, rows.y).feature_log_prob_,
            peer=peer,
            agree=_near,
        ),
        Case(
            name=f"multinomial-nb-infer-{classes}",
            what=f"observe and infer only: counts, {size}, against scikit-learn's MultinomialNB().fit",
            setup=lambda: _texts(classes),
            ours=lambda rows: _density(rows).log_probabilities,
            peer=peer,
            agree=_near,
        ),
    )


# ── numbers ──


def _numbers(n: int, classes: int) -> Rows:
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, size=n)
    X = rng.normal(size=(n, 20))
    X *= rng.uniform(0.5, 2.0, size=(classes, 20))[y]
    X += rng.normal(size=(classes, 20))[y]
    return Rows.of(X, y, GaussianColumns(estimate="mle", smoothing=1e-9))


def _fitted_peer(rows: Rows) -> Any:
    model = theirs.GaussianNB().fit(rows.X, rows.y)
    return model.theta_, model.var_


def _fitted_face(rows: Rows) -> Any:
    model = ours.GaussianNB().fit(rows.X, rows.y)
    return model.theta_, model.var_


def _fitted_density(rows: Rows) -> Any:
    density = _density(rows)
    return density.mean, density.variance


@dataclass(frozen=True)
class Asked:
    """Rows, and what has learned them."""

    rows: Rows
    face: Any
    peer: Any
    posterior: Posterior

    @classmethod
    def of(cls, rows: Rows) -> "Asked":
        face, peer = ours.GaussianNB(), theirs.GaussianNB()
        return cls(rows, face.fit(rows.X, rows.y), peer.fit(rows.X, rows.y), rows.inferred())


def _same_classes(ours: NDArray[np.int64], peer: NDArray[np.int64]) -> bool:
    """All but those that rounding decides."""
    return len(ours) == len(peer) and float(np.mean(ours != peer)) < 1e-5


def _predict(classes: int, repeats: int | None) -> AnyCase:
    return Case(
        name=f"gaussian-nb-predict-{classes}",
        what=f"GaussianNB.predict of 1,000,000 × 20, {classes} classes, against scikit-learn's",
        setup=lambda: Asked.of(_numbers(1_000_000, classes)),
        ours=lambda asked: asked.face.predict(asked.rows.X),
        peer=lambda asked: asked.peer.predict(asked.rows.X),
        agree=_same_classes,
        repeats=repeats,
    )


def _left_out(rows: Rows) -> Array:
    """log p(row, class) without the row."""
    return ours.GaussianNB().cross_validate(rows.X, rows.y, "leave-one-out").log_joint


def _refitted(rows: Rows) -> Array:
    """The same of the first few rows, by fitting the others."""
    found = []
    for i in range(REFITS):
        others = np.arange(len(rows.y)) != i
        model = theirs.GaussianNB().fit(rows.X[others], rows.y[others])
        found.append(model.predict_joint_log_proba(rows.X[i : i + 1]))
    return np.concatenate(found)


# ── categories ──


def _table() -> Rows:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 20, size=(200_000, 30))
    return Rows.of(X, rng.integers(0, 20, size=200_000), CategoryColumns(alpha=1.0, numbered=True))


def _categorical_peer(rows: Rows) -> Any:
    return theirs.CategoricalNB().fit(rows.X, rows.y).feature_log_prob_


# ── one row at a time ──


@dataclass(frozen=True)
class Stream:
    """Rows to begin with, rows to come one by one, and models that have learned the first."""

    first: tuple[Array, NDArray[np.int64]]
    one_by_one: list[tuple[Array, NDArray[np.int64]]]
    face: Callable[[], Any]
    peer: Callable[[], Any]
    warm: tuple[Any, Any]  # face and peer, for questions only

    @classmethod
    def of(cls, name: str, columns: int, classes: int) -> "Stream":
        _warm()
        rng = np.random.default_rng(0)
        y = np.concatenate([np.arange(classes), rng.integers(0, classes, size=2 * ONE_BY_ONE - classes)])
        if name == "GaussianNB":
            X = rng.normal(size=(len(y), columns)) + rng.normal(size=(classes, columns))[y]
        else:
            X = rng.poisson(rng.gamma(1.0, size=(classes, columns))[y]).astype(np.float64)
        first = X[:ONE_BY_ONE], y[:ONE_BY_ONE]
        face, peer = getattr(ours, name), getattr(theirs, name)
        one_by_one = [(X[i : i + 1], y[i : i + 1]) for i in range(ONE_BY_ONE, len(y))]
        return cls(first, one_by_one, face, peer, (face().fit(*first), peer().fit(*first)))

    def learned(self, make: Callable[[], Any]) -> Array:
        model = make()
        model.partial_fit(*self.first, classes=np.unique(self.first[1]))
        for X, y in self.one_by_one:
            model.partial_fit(X, y)
        return np.asarray(model.predict_proba(self.first[0]))

    def answered(self, model: Any) -> Array:
        return np.concatenate([model.predict_proba(X) for X, _ in self.one_by_one])

    def both(self, make: Callable[[], Any]) -> Array:
        model = make()
        model.partial_fit(*self.first, classes=np.unique(self.first[1]))
        answers = []
        for X, y in self.one_by_one:
            answers.append(model.predict_proba(X))
            model.partial_fit(X, y)
        return np.concatenate(answers)


def _one_row(name: str, columns: int) -> tuple[AnyCase, ...]:
    size = f"{name}, {ONE_BY_ONE} rows one by one, {columns} columns, 10 classes, against scikit-learn's"
    slug = name.lower().replace("nb", "-nb")

    def stream() -> Stream:
        return Stream.of(name, columns, 10)

    def agree(ours: Array, peer: Array) -> bool:
        # The peer's smoothing is of the largest variance in the last batch; 1e-9 of a variance tells.
        return _near(ours, peer, 1e-5)

    return (
        Case(
            name=f"one-row-learn-{slug}",
            what=f"partial_fit of {size}; one question at the end",
            setup=stream,
            ours=lambda stream: stream.learned(stream.face),
            peer=lambda stream: stream.learned(stream.peer),
            agree=agree,
        ),
        Case(
            name=f"one-row-ask-{slug}",
            what=f"predict_proba of {size}",
            setup=stream,
            ours=lambda stream: stream.answered(stream.warm[0]),
            peer=lambda stream: stream.answered(stream.warm[1]),
            agree=agree,
        ),
        Case(
            name=f"one-row-ask-and-learn-{slug}",
            what=f"predict_proba, then partial_fit, of {size}",
            setup=stream,
            ours=lambda stream: stream.both(stream.face),
            peer=lambda stream: stream.both(stream.peer),
            agree=agree,
        ),
    )


CASES: tuple[AnyCase, ...] = (
    *_multinomial(2),
    *_multinomial(200),
    Case(
        name="gaussian-nb-fit",
        what="GaussianNB().fit of 1,000,000 × 20, 10 classes, against scikit-learn's",
        setup=lambda: _numbers(1_000_000, 10),
        ours=_fitted_face,
        peer=_fitted_peer,
        agree=_near,
    ),
    Case(
        name="gaussian-nb-infer",
        what="observe and infer only: variances, 1,000,000 × 20, 10 classes, against GaussianNB().fit",
        setup=lambda: _numbers(1_000_000, 10),
        ours=_fitted_density,
        peer=_fitted_peer,
        agree=_near,
    ),
    _predict(10, repeats=5),
    _predict(100, repeats=1),
    Case(
        name="gaussian-nb-scores-10",
        what="log_joint only, of 1,000,000 × 20, 10 classes, against GaussianNB.predict_joint_log_proba",
        setup=lambda: Asked.of(_numbers(1_000_000, 10)),
        ours=lambda asked: asked.posterior.log_joint(asked.rows.evidence.rows),
        peer=lambda asked: asked.peer.predict_joint_log_proba(asked.rows.X),
        agree=_near,
        repeats=5,
    ),
    Case(
        name="gaussian-nb-leave-one-out",
        what=f"each of {LEFT_OUT:,} × 20 rows by a GaussianNB of the others, 10 classes, against "
        f"scikit-learn's refitted for {REFITS} of them, and that times {LEFT_OUT // REFITS}",
        setup=lambda: _numbers(LEFT_OUT, 10),
        ours=_left_out,
        peer=_refitted,
        agree=lambda ours, peer: _near(ours[:REFITS], peer, 1e-7),
        repeats=3,
        peer_share=REFITS / LEFT_OUT,
    ),
    Case(
        name="categorical-nb-fit",
        what="CategoricalNB().fit of 200,000 × 30, 20 categories, 20 classes, against scikit-learn's",
        setup=_table,
        ours=lambda rows: ours.CategoricalNB().fit(rows.X, rows.y).feature_log_prob_,
        peer=_categorical_peer,
        agree=_near,
        repeats=5,
    ),
    Case(
        name="categorical-nb-infer",
        what="observe and infer only: categories, 200,000 × 30, 20 classes, against CategoricalNB().fit",
        setup=_table,
        ours=lambda rows: _density(rows).tables,
        peer=_categorical_peer,
        agree=_near,
        repeats=5,
    ),
    *_one_row("GaussianNB", 20),
    *_one_row("MultinomialNB", 200),
    *_one_row("BernoulliNB", 200),
)

WANTED = {
    "multinomial-nb-fit-2": 1.5,
    "multinomial-nb-fit-200": 8.0,
    "gaussian-nb-fit": 3.0,
    "gaussian-nb-predict-10": 4.0,
    "gaussian-nb-predict-100": 12.0,
    "categorical-nb-fit": 10.0,
    "gaussian-nb-leave-one-out": 1000.0,
    "one-row-learn-gaussian-nb": 10.0,
    "one-row-learn-multinomial-nb": 10.0,
    "one-row-learn-bernoulli-nb": 10.0,
    "one-row-ask-gaussian-nb": 10.0,
    "one-row-ask-multinomial-nb": 10.0,
    "one-row-ask-bernoulli-nb": 10.0,
}
