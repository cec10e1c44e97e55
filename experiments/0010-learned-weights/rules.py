"""Rules that turn counts into log-odds, each judged before it learns: fixed weights, learned weights, and more."""

from dataclasses import dataclass, field

import numpy as np
import scipy.optimize
import scipy.sparse
from scipy.stats import rankdata

from streams import VIEWS, Stream
from tamis_mail.verdict import RULES

RULE = RULES[1]

PRIOR, POOLED, RELUCTANCE = (
    np.array([*(getattr(view, name) for view in RULE.views), last], dtype=float)
    for name, last in (("prior", 0.3), ("pooled", 1), ("reluctance", 3))
)
FIRST = RULE.views[0]
# Scales of the four views, then the two parts of "length of the headers": a constant, and how full the first view is.
BUILT = np.array([*(view.scale for view in RULE.views), 0.0, FIRST.scale * FIRST.doubt, FIRST.scale * (FIRST.tilt - FIRST.doubt)])
YEAR = 365.25 * 86400


@dataclass(frozen=True)
class Variant:
    """One rule."""

    name: str
    learned: bool = False  # scales and intercept fitted to leave-one-out scores
    width: float = 1.0  # standard deviation of a scale before the data, in units of today's scale
    offset_width: float = 3.0  # the same of the intercept
    plain_intercept: bool = False  # without "length of the headers": a plain intercept at 0
    relations: float = 0.0  # scale of the view of relations before the data; 0: without
    layer: float = 0.0  # precision of the coefficients of single features; 0: no layer
    cut: float = 0.0  # features with a smaller weight are left out of the mean
    unseen: float = 1.0  # how much a feature that nobody saw counts in the mean's number
    half_life: float = 0.0  # years by which older mail weighs half; 0: all alike
    oldest: float = 0.05  # … and at least so much
    first: int = 60  # messages at which the first fit is made
    growth: float = 1.5
    balance: bool = False  # classes weigh the same in the fit


def sizes_of_fits(variant: Variant, count: int) -> set[int]:
    sizes, size = set(), float(variant.first)
    while size <= count:
        sizes.add(int(size))
        size *= variant.growth
    return sizes


@dataclass
class Store:
    """Counts, and the messages they are of."""

    stream: Stream
    variant: Variant
    counts: np.ndarray = field(init=False)
    totals: np.ndarray = field(default_factory=lambda: np.zeros(2))
    messages: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    coefficients: np.ndarray = field(default_factory=lambda: BUILT.copy())
    layer: np.ndarray | None = None

    def __post_init__(self) -> None:
        self.counts = np.zeros((2, len(self.stream.corpus.kinds)))
        if self.variant.plain_intercept:
            self.coefficients[5:] = 0
        self.coefficients[4] = self.variant.relations

    def columns(self, messages: np.ndarray, own: np.ndarray | None = None) -> np.ndarray:
        """(n, 7): the five views' means, each times the trust, and the two intercepts; less the own counts if given."""
        corpus, variant = self.stream.corpus, self.variant
        lengths = corpus.starts[messages + 1] - corpus.starts[messages]
        places = np.concatenate([corpus.features(m) for m in messages])
        row = np.repeat(np.arange(len(messages)), lengths)
        kind = corpus.kinds[places].astype(np.int64)
        h, s = self.counts[0, places], self.counts[1, places]
        hams, spams = np.full(len(messages), self.totals[0]), np.full(len(messages), self.totals[1])
        if own is not None:
            labels = corpus.labels[messages]
            s, h = s - (own * labels)[row], h - (own * (1 - labels))[row]
            hams, spams = hams - own * (1 - labels), spams - own * labels
        pooled, worth = POOLED[kind] > 0, np.where(POOLED[kind] > 0, PRIOR[kind], 2 * PRIOR[kind])
        seen = s + h > 1e-9
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = np.where(pooled, (s + h) / (spams + hams)[row], 0.5)
            w = np.log((s + worth * rate) / (spams[row] + worth)) - np.log((h + worth * rate) / (hams[row] + worth))
        w = np.where(seen & np.isfinite(w), w, 0.0)
        counted = np.where(seen, 1.0, variant.unseen)
        if variant.cut:
            counted = np.where(seen & (np.abs(w) < variant.cut), 0.0, counted)
            w = np.where(np.abs(w) < variant.cut, 0.0, w)
        cell = row * VIEWS + kind
        n = len(messages)
        sums = np.bincount(cell, w, n * VIEWS).reshape(n, VIEWS)
        numbers = np.bincount(cell, counted, n * VIEWS).reshape(n, VIEWS)
        scores = sums / (numbers + RELUCTANCE)
        first = np.bincount(row[kind == 0], minlength=n)
        full = first / (first + RELUCTANCE[0])
        familiar = np.bincount(row, seen & (kind < 2), n)
        acquainted = familiar / (familiar + RULE.acquaintance)
        least = np.minimum(spams, hams)
        trust = np.where(least > 0, least / (least + RULE.patience), 0.0)
        if variant.plain_intercept:
            lean = np.column_stack([np.ones(n), np.zeros(n)])
        else:
            lean = np.column_stack([np.ones(n), full]) * acquainted[:, None]
        return np.column_stack([scores, lean]) * trust[:, None]

    def single_features(self, messages: np.ndarray) -> scipy.sparse.csr_matrix:
        """(n, features): 1 / √(number of the view's features) where a message has one."""
        corpus = self.stream.corpus
        lengths = corpus.starts[messages + 1] - corpus.starts[messages]
        places = np.concatenate([corpus.features(m) for m in messages])
        row = np.repeat(np.arange(len(messages)), lengths)
        kind = corpus.kinds[places].astype(np.int64)
        numbers = np.bincount(row * VIEWS + kind, minlength=len(messages) * VIEWS)
        values = 1 / np.sqrt(numbers[row * VIEWS + kind])
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        return scipy.sparse.csr_matrix((values, places, indptr), shape=(len(messages), len(corpus.kinds)))

    def learn(self, message: int, weight: float) -> None:
        corpus = self.stream.corpus
        label = corpus.labels[message]
        self.counts[label, corpus.features(message)] += weight
        self.totals[label] += weight
        self.messages.append(message)
        self.weights.append(weight)

    def fit(self) -> None:
        """Fit scales and intercept, and then the layer, to the messages that were learned."""
        messages, weights = np.array(self.messages), np.array(self.weights)
        y = self.stream.corpus.labels[messages].astype(float)
        if min(y.sum(), len(y) - y.sum()) < 5:
            return
        x = self.columns(messages, weights)
        w = np.ones(len(y))
        if self.variant.balance:
            w = np.where(y > 0, 0.5 * len(y) / y.sum(), 0.5 * len(y) / (len(y) - y.sum()))
        if self.variant.half_life:
            w = w * weights
        mean = BUILT.copy()
        mean[4] = self.variant.relations
        width = np.array([*(self.variant.width * mean[:5] + 1e-6), self.variant.offset_width, self.variant.offset_width])
        if self.variant.plain_intercept:
            mean[5:] = 0
        self.coefficients = fit_logistic(x, y, w, mean, 1 / width**2)
        if self.variant.layer:
            self.layer = fit_layer(self.single_features(messages), y, w, x @ self.coefficients, self.variant.layer)

    def judge(self, message: int) -> float:
        one = np.array([message])
        log_odds = float((self.columns(one) @ self.coefficients)[0])
        if self.layer is not None:
            log_odds += float((self.single_features(one) @ self.layer)[0])
        return log_odds


def fit_logistic(x: np.ndarray, y: np.ndarray, w: np.ndarray, mean: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """The posterior mode of a logistic regression with a Gaussian prior, by Newton's steps with halving."""

    def value(b: np.ndarray) -> float:
        return float(w @ np.logaddexp(0, (1 - 2 * y) * (x @ b)) + 0.5 * precision @ (b - mean) ** 2)

    b = mean.copy()
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(x @ b, -500, 500)))
        gradient = x.T @ (w * (p - y)) + precision * (b - mean)
        hessian = (x * (w * p * (1 - p))[:, None]).T @ x + np.diag(precision)
        step = np.linalg.solve(hessian, gradient)
        before, size = value(b), 1.0
        while value(b - size * step) > before and size > 1e-6:
            size /= 2
        b = b - size * step
        if gradient @ step < 1e-10:
            break
    return b


def fit_layer(x: scipy.sparse.csr_matrix, y: np.ndarray, w: np.ndarray, offset: np.ndarray, precision: float) -> np.ndarray:
    """Coefficients of single features, by L-BFGS: one convex optimum."""
    used, places = np.unique(x.indices, return_inverse=True)
    small = scipy.sparse.csr_matrix((x.data, places, x.indptr), shape=(x.shape[0], len(used)))

    def value(b: np.ndarray) -> tuple[float, np.ndarray]:
        score = offset + small @ b
        p = 1 / (1 + np.exp(-np.clip(score, -500, 500)))
        loss = w @ np.logaddexp(0, (1 - 2 * y) * score) + 0.5 * precision * b @ b
        return float(loss), small.T @ (w * (p - y)) + precision * b

    result = scipy.optimize.minimize(value, np.zeros(len(used)), jac=True, method="L-BFGS-B", options={"maxiter": 100})
    coefficients = np.zeros(x.shape[1])
    coefficients[used] = result.x
    return coefficients


def run(stream: Stream, variant: Variant) -> tuple[np.ndarray, np.ndarray]:
    """Log-odds of each message before it was learned, and the labels."""
    store = Store(stream, variant)
    corpus, order = stream.corpus, stream.order
    fits = sizes_of_fits(variant, len(order))
    if stream.scored:
        fits.add(stream.scored)
    now = np.nanmax(corpus.dates) if np.isfinite(corpus.dates).any() else 0.0
    log_odds = np.zeros(len(order))
    for row, message in enumerate(order):
        if variant.learned and row in fits:
            store.fit()
        if row >= stream.scored:
            log_odds[row] = store.judge(int(message))
        weight = 1.0
        if variant.half_life and np.isfinite(corpus.dates[message]):
            weight = max(variant.oldest, 0.5 ** max(0.0, (now - corpus.dates[message]) / YEAR / variant.half_life))
        store.learn(int(message), weight)
    return log_odds[stream.scored :], corpus.labels[order][stream.scored :]


FIGURES = ("1-ROCA %", "missed at 0.1 %", "ham called spam %", "spam not called %", "unsure %", "ECE", "log-loss")


def measure(log_odds: np.ndarray, y: np.ndarray) -> tuple[float, ...]:
    """The figures of one stream."""
    spam, ham = log_odds[y == 1], np.sort(log_odds[y == 0])[::-1]
    area = (rankdata(log_odds)[y == 1].sum() - len(spam) * (len(spam) + 1) / 2) / (len(spam) * len(ham))
    missed = np.mean(spam <= ham[int(0.001 * len(ham))])
    p = 1 / (1 + np.exp(-np.clip(log_odds, -500, 500)))
    bins = np.minimum((10 * p).astype(int), 9)
    error = sum(abs(p[bins == b].mean() - y[bins == b].mean()) * np.mean(bins == b) for b in set(bins.tolist()))
    called = p >= RULE.spam
    loss = np.logaddexp(0, np.clip((1 - 2 * y) * log_odds, -50, 50)).mean()
    return (
        100 * (1 - area), 100 * missed, 100 * called[y == 0].mean(), 100 * (~called[y == 1]).mean(),
        100 * ((p > RULE.ham) & ~called).mean(), error, loss,
    )
