"""Linear models with their posteriors against scikit-learn's and statsmodels' without, to the same objective.

Peers stop where their objective is within a millionth of the least: their `tol` is the loosest of 1, 2 and 5
times a power of ten that gets there. Ours stop where their defaults let them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import statsmodels.api as sm  # type: ignore[import-untyped]  # it has no types
from numpy.typing import NDArray
from scipy import sparse, special
from sklearn.linear_model import BayesianRidge, LogisticRegression, PoissonRegressor

import tamis
from benchmarks.harness import AnyCase, Case
from tamis.arrays import Array

NEAR = 1e-6  # of the objective: how far one side may be above the other
ILL = 1e4  # largest singular value of the columns, over the least
EVIDENCE_ROWS, EVIDENCE_COLUMNS = 200_000, 100
BINARY_ROWS, BINARY_COLUMNS = 200_000, 100
SOFTMAX_ROWS, SOFTMAX_COLUMNS, CLASSES = 100_000, 60, 10
COUNT_ROWS, COUNT_COLUMNS = 200_000, 50
TEXTS, VOCABULARY, WORDS = 100_000, 100_000, 60
STEEP = 1.05  # the k-th word is as likely as 1 / k to this power


@dataclass(frozen=True)
class Rows:
    """Rows, sparse or not, and what is to be told from them."""

    X: Any
    y: NDArray[Any]


@dataclass(frozen=True)
class Found:
    """Where a side ended."""

    rows: Rows
    coefficients: Array
    intercept: Array
    precisions: tuple[float, float] = (0.0, 0.0)  # of the coefficients' prior and of the noise

    @classmethod
    def of(cls, rows: Rows, model: Any) -> "Found":
        return cls(rows, np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_))


Objective = Callable[[Found], float]
Side = Callable[[Rows], Found]


def _same(objective: Objective) -> Callable[[Found, Found], bool]:
    """Both came as low, but for a millionth."""

    def agree(ours: Found, peer: Found) -> bool:
        mine, theirs = objective(ours), objective(peer)
        return abs(mine - theirs) <= NEAR * abs(theirs)

    return agree


# ── what is made least ──


def _minus_log_evidence(found: Found) -> float:
    """−log p(y | α, β), the intercept integrated out under a flat prior; but for constants."""
    alpha, beta = found.precisions
    X = found.rows.X - found.rows.X.mean(axis=0)
    y = found.rows.y - found.rows.y.mean()
    A = beta * (X.T @ X) + alpha * np.eye(X.shape[1])
    w = np.linalg.solve(A, beta * (X.T @ y))
    misfit = 0.5 * beta * np.square(y - X @ w).sum() + 0.5 * alpha * (w @ w)
    volume = 0.5 * np.linalg.slogdet(A)[1] - 0.5 * len(w) * np.log(alpha)
    return float(misfit + volume - 0.5 * (len(y) - 1) * np.log(beta))


def _minus_log_posterior(found: Found) -> float:
    """Σ −log p(class | x) + ½ |w|²: α = C = 1, and no prior on intercepts."""
    scores = np.asarray(found.rows.X @ found.coefficients.T) + found.intercept
    if scores.shape[1] == 1:
        scores = np.hstack([np.zeros_like(scores), scores])
    own = np.take_along_axis(scores, found.rows.y[:, None], axis=1)[:, 0]
    return float((special.logsumexp(scores, axis=1) - own).sum() + 0.5 * np.square(found.coefficients).sum())


def _minus_log_likelihood(found: Found) -> float:
    """Of counts, but for Σ log y!"""
    scores = found.rows.X @ found.coefficients[0] + found.intercept
    return float((np.exp(scores) - found.rows.y * scores).sum())


# ── rows ──


def _columns(rng: np.random.Generator, rows: int, columns: int, condition: float) -> Array:
    """Normal rows, whose covariance has eigenvalues from 1 down to 1 / condition², along no axis."""
    left, right = (np.linalg.qr(rng.normal(size=(columns, columns)))[0] for _ in range(2))
    spread = np.logspace(0.0, -np.log10(condition), columns)
    return np.asarray(rng.normal(size=(rows, columns)) @ (left * spread @ right))


def _numbers() -> Rows:
    rng = np.random.default_rng(0)
    X = _columns(rng, EVIDENCE_ROWS, EVIDENCE_COLUMNS, 10.0) + rng.normal(size=EVIDENCE_COLUMNS)
    y = 3.0 + X @ rng.normal(size=EVIDENCE_COLUMNS) + 2.0 * rng.normal(size=EVIDENCE_ROWS)
    return Rows(X, y)


def _labelled(rows: int, columns: int, classes: int, condition: float) -> Callable[[], Rows]:
    def made() -> Rows:
        rng = np.random.default_rng(0)
        X = _columns(rng, rows, columns, condition)
        scores = X @ rng.normal(size=(columns, classes))
        noisy = 2.0 / scores.std() * scores + rng.gumbel(size=scores.shape)
        return Rows(X, noisy.argmax(axis=1))

    return made


def _counts() -> Rows:
    rng = np.random.default_rng(0)
    X = _columns(rng, COUNT_ROWS, COUNT_COLUMNS, 10.0)
    scores = X @ rng.normal(size=COUNT_COLUMNS)
    return Rows(X, rng.poisson(np.exp(0.5 + 0.5 / scores.std() * scores)).astype(np.float64))


def _texts() -> Rows:
    """Words by Zipf's law, weighed by tf-idf to rows of length one; indices as vectorizers give them."""
    rng = np.random.default_rng(0)
    shares = np.arange(1, VOCABULARY + 1) ** -STEEP
    steps = np.cumsum(shares / shares.sum())
    lengths = 1 + rng.poisson(WORDS - 1, size=TEXTS)
    words = np.searchsorted(steps, rng.random(int(lengths.sum()))).clip(max=VOCABULARY - 1)
    places = (np.repeat(np.arange(TEXTS, dtype=np.int32), lengths), words.astype(np.int32))
    counts = sparse.csr_matrix((np.ones(len(words)), places), shape=(TEXTS, VOCABULARY))
    found_in = np.bincount(counts.indices, minlength=VOCABULARY)
    weights = counts.data * (1.0 + np.log((1.0 + TEXTS) / (1.0 + found_in)))[counts.indices]
    squares = np.add.reduceat(np.square(weights), counts.indptr[:-1])
    weights /= np.sqrt(np.repeat(squares, np.diff(counts.indptr)))
    X = sparse.csr_matrix((weights, counts.indices, counts.indptr), shape=counts.shape)
    scores = X @ rng.normal(size=VOCABULARY)
    return Rows(X, (2.0 / scores.std() * scores + rng.logistic(size=TEXTS) > 0.0).astype(np.int64))


# ── the two sides ──


def _evidence(rows: Rows) -> Found:
    model = tamis.BayesianLinearRegression().fit(rows.X, rows.y)
    return Found(rows, model.coef_, np.asarray(model.intercept_), (model.alpha_, model.beta_))


def _evidence_peer(rows: Rows) -> Found:
    model = BayesianRidge().fit(rows.X, rows.y)
    # What is alpha here is lambda there, and what is beta here is alpha there.
    return Found(rows, model.coef_, np.asarray(model.intercept_), (model.lambda_, model.alpha_))


def _ours(**params: Any) -> Side:
    return lambda rows: Found.of(rows, tamis.LogisticRegression(alpha=1.0, **params).fit(rows.X, rows.y))


def _peer(solver: str, **params: Any) -> Side:
    return lambda rows: Found.of(
        rows, LogisticRegression(C=1.0, solver=solver, max_iter=10_000, **params).fit(rows.X, rows.y)
    )


def _poisson(rows: Rows) -> Found:
    return Found.of(rows, tamis.GeneralizedLinear("poisson", alpha=0.0).fit(rows.X, rows.y))


def _poisson_statsmodels(rows: Rows) -> Found:
    found = sm.GLM(rows.y, sm.add_constant(rows.X), family=sm.families.Poisson()).fit().params
    return Found(rows, found[None, 1:], found[:1])


def _poisson_sklearn(rows: Rows) -> Found:
    return Found.of(rows, PoissonRegressor(alpha=0.0, solver="newton-cholesky").fit(rows.X, rows.y))


_BINARY = f"{BINARY_ROWS:,} × {BINARY_COLUMNS} of condition {ILL:.0e}"
_SOFTMAX = f"{SOFTMAX_ROWS:,} × {SOFTMAX_COLUMNS}, {CLASSES} classes"
_COUNTS = f"{COUNT_ROWS:,} × {COUNT_COLUMNS}"
_TEXT = f"{TEXTS:,} × {VOCABULARY:,} tf-idf of {WORDS} words per row"


def _binary(name: str, peer: Side, versus: str, repeats: int) -> AnyCase:
    return Case(
        name=f"logistic-{name}",
        what=f"LogisticRegression().fit with its whole posterior, 2 classes, {_BINARY}, against {versus}",
        setup=_labelled(BINARY_ROWS, BINARY_COLUMNS, 2, ILL),
        ours=_ours(),
        peer=peer,
        agree=_same(_minus_log_posterior),
        repeats=repeats,
    )


# Seconds of scikit-learn's solvers on one busy core to within a millionth of the objective (not tried: sag):
#
#              lbfgs           newton-cg       newton-cholesky
#     well     0.5 (tol 2e-4)  1.0 (tol 1e-4)  12 (tol 1e-3)
#     ill      12  (tol 5e-6)  8.7 (tol 2e-5)  13 (tol 1e-3)


def _softmax(name: str, condition: float, solver: str, tol: float) -> list[AnyCase]:
    def case(suffix: str, kept: str, ours: Side) -> AnyCase:
        return Case(
            name=f"softmax-{name}{suffix}",
            what=f"LogisticRegression.fit with {kept}, {_SOFTMAX}, condition {condition:.0e}, against the "
            f"fastest of scikit-learn's solvers: {solver}, tol={tol:.0e}",
            setup=_labelled(SOFTMAX_ROWS, SOFTMAX_COLUMNS, CLASSES, condition),
            ours=ours,
            peer=_peer(solver, tol=tol),
            agree=_same(_minus_log_posterior),
            repeats=3,
        )

    return [
        case("", "no posterior", _ours(posterior="none")),
        case("-posterior", "its whole posterior", _ours()),
    ]


def _text(solver: str, tol: float) -> AnyCase:
    """Without an intercept on both sides: liblinear would penalise it."""
    return Case(
        name=f"logistic-text-{solver}",
        what=f"LogisticRegression(fit_intercept=False).fit with a diagonal posterior, {_TEXT}, 2 classes, "
        f"against {solver}, tol={tol:.0e}",
        setup=_texts,
        ours=_ours(fit_intercept=False),
        peer=_peer(solver, tol=tol, fit_intercept=False),
        agree=_same(_minus_log_posterior),
        repeats=3,
    )


def _poisson_case(name: str, peer: Side, versus: str) -> AnyCase:
    return Case(
        name=f"poisson-{name}",
        what=f"GeneralizedLinear('poisson', alpha=0).fit of {_COUNTS}, against {versus}",
        setup=_counts,
        ours=_poisson,
        peer=peer,
        agree=_same(_minus_log_likelihood),
        repeats=3,
    )


CASES: tuple[AnyCase, ...] = (
    Case(
        name="linear-evidence",
        what=f"BayesianLinearRegression().fit of {EVIDENCE_ROWS:,} × {EVIDENCE_COLUMNS}, alpha and beta by "
        "evidence, against BayesianRidge().fit",
        setup=_numbers,
        ours=_evidence,
        peer=_evidence_peer,
        agree=_same(_minus_log_evidence),
        repeats=5,
    ),
    _binary("lbfgs", _peer("lbfgs", tol=2e-6), "lbfgs, tol=2e-06", repeats=2),
    _binary("newton", _peer("newton-cholesky", tol=2e-4), "newton-cholesky, tol=2e-04", repeats=5),
    *_softmax("well", 1.0, "lbfgs", 2e-4),
    *_softmax("ill", ILL, "newton-cg", 2e-5),
    _poisson_case("statsmodels", _poisson_statsmodels, "statsmodels' GLM().fit"),
    _poisson_case("sklearn", _poisson_sklearn, "PoissonRegressor(alpha=0, solver='newton-cholesky').fit"),
    _text("liblinear", 1e-3),
    _text("lbfgs", 2e-6),
)

WANTED = {
    "linear-evidence": 12.0,
    "logistic-lbfgs": 10.0,
    "logistic-newton": 1.8,
    "softmax-well": 1.0,
    "softmax-ill": 1.0,
    "poisson-statsmodels": 15.0,
    "logistic-text-liblinear": 1.0,
    "logistic-text-lbfgs": 1.0,
}
