"""One pass over a stream by one precision λ: the layer at each fit, with and without each message.

The views, centres and caution are those of experiment 0013 (*shipped*). The layer does not depend on how its
worth is then learned, so it is fitted once, kept in a cache, and each rule is a matter of seconds.
"""

import hashlib
import pickle
import runpy
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
from scipy import linalg, sparse

for name in ("0010-learned-weights", "0013-centred-views"):
    sys.path.append(str(Path(__file__).parents[1] / name))

before = runpy.run_path(str(Path(__file__).parents[1] / "0013-centred-views/run.py"), run_name="before")
SCALES, SHIPPED, build_layer, shrink, split = (
    before[name] for name in ("SCALES", "SHIPPED", "build_layer", "shrink", "split")
)

from streams import Stream
import tape
from tape import VIEWS

from tamis_mail.verdict import fitting
from tamis_mail.verdict.rule import LAYER_VIEWS

Floats = np.ndarray


@dataclass(frozen=True)
class Fitted:
    """One fit: what it knows of the messages that it was fitted to, and of those that it judges."""

    is_spam: np.ndarray
    weights: Floats
    spams: float
    hams: float
    designs: Floats  # (messages, views + 1): each by the counts of all others
    first: Floats  # (views + 1,): scales and intercept of the first fit
    layer: Floats  # (messages,): by coefficients that were fitted to the message, too
    left_out: Floats  # (messages,): by coefficients that were fitted to all others (approximately)
    variance: Floats  # (messages,): of the latter
    begin: int  # the first message that is judged by this fit
    seen: Floats  # (judged, views + 1)
    seen_layer: Floats  # (judged,)
    seen_variance: Floats  # (judged,)

    @property
    def smaller(self) -> float:
        return min(self.spams, self.hams)


@dataclass(frozen=True)
class Layers:
    """The log-odds before the first fit, and the fits."""

    log_odds: Floats
    plain: Floats  # (judged, views + 1): scores without centres
    fits: list[Fitted]


def leave_out(
    rows: sparse.csr_matrix, new: sparse.csr_matrix, p: Floats, y: Floats, weights: Floats, precision: float
) -> tuple[Floats, Floats, Floats]:
    """What leaving a message out adds to its score, and the variances of its score and of new messages'.

    With K = X Xᵀ / λ, W the curvatures and B = 1 + √W K √W, 1 / diag(B⁻¹) - 1 is W times the variance of a
    score without its message.
    """
    kernel = (rows @ rows.T).toarray() / precision
    curvature = np.maximum(weights * p * (1 - p), 1e-7)
    root = np.sqrt(curvature)
    inner = np.eye(len(root)) + root[:, None] * kernel * root
    factor = linalg.cholesky(inner, lower=True)
    inverse = linalg.solve_triangular(factor, np.eye(len(root)), lower=True)
    diagonal = np.einsum("ij,ij->j", inverse, inverse)
    variance = np.maximum(1 / diagonal - 1, 0) / curvature
    cross = root[:, None] * (rows @ new.T).toarray() / precision
    of_new = np.asarray(new.multiply(new).sum(axis=1)).ravel() / precision
    of_new = of_new - np.square(linalg.solve_triangular(factor, cross, lower=True)).sum(axis=0)
    return weights * (p - y) * variance, variance, np.maximum(of_new, 0)


def read_early_tape(
    stream: Stream, cache: Path, least: int, first: int, step: int = 10, most: int = 1200
) -> tape.Tape:
    """The tape of a stream with a first fit at `first` messages, if there are `least` of each class.

    Weights are fitted each time that there is one part of `step` more messages, to `most` of each class.
    """
    if (least, first, step, most) == (5, 12, 10, 1200):
        return tape.read_tape(stream, cache)

    def find_scheduled_size(messages: int, step: int) -> int:
        size, following = 0, first
        while following <= messages:
            size, following = following, following + max(following // step, 1)
        return size

    with (
        patch.object(fitting, "MIN_FITTED_MESSAGES", least),
        patch.object(tape, "scheduled_size", find_scheduled_size),
        patch.object(tape, "STEPS", {"a tenth": step}),
        patch.object(fitting, "MAX_MESSAGES", most),
    ):
        return tape.read_tape(stream, cache / f"early-{least}-{first}-{step}-{most}")


def record(
    stream: Stream,
    cache: Path,
    precision: float,
    width: float,
    start: tuple[int, ...],
    leaves_out: bool,
    layer: sparse.csr_matrix,
) -> Layers:
    played = read_early_tape(stream, cache, *start)
    labels, judged = stream.corpus.labels, stream.order[stream.known :]
    scores, presences = split(played.sums, SHIPPED)
    factor = shrink(played.totals, SHIPPED)
    fits = [fit for fit in played.fits if fit.is_due[SHIPPED.schedule]]
    bounds = [*(fit.judged for fit in fits), len(judged)]
    found = []
    for fit, begin, end in zip(fits, bounds[:-1], bounds[1:], strict=True):
        is_spam = labels[fit.messages] == 1
        weights = np.where(is_spam, fit.spams / is_spam.sum(), fit.hams / (~is_spam).sum())
        fitted, present = split(fit.sums, SHIPPED)
        own_factor = shrink(fit.totals, SHIPPED)
        middle, presence = (
            part[is_spam].mean(axis=0) + part[~is_spam].mean(axis=0)
            for part in (fitted * own_factor, present * own_factor)
        )
        centres = np.divide(middle, presence, out=np.zeros(VIEWS), where=presence > 0)
        designs = np.column_stack([fitted - centres * present, np.ones(len(is_spam))]) * own_factor
        first_fit = fitting.fit_scales(designs, is_spam, weights, SCALES, 0.0, width * SCALES)
        first = np.append(first_fit.scales, first_fit.intercept)
        part = slice(begin, end)
        seen = (
            np.column_stack([scores[part] - centres * presences[part], np.ones(end - begin)]) * factor[part]
        )
        rows, new = layer[fit.messages], layer[judged[part]]
        used = np.flatnonzero(np.bincount(rows.indices, minlength=rows.shape[1]) >= 2)
        rows, new = rows[:, used].tocsr(), new[:, used].tocsr()
        rows.sort_indices()
        owners = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        design = fitting.SparseRows.of(owners, rows.indices.astype(np.intp), rows.data, *rows.shape)
        with patch.object(fitting, "PRECISION", precision):
            b = fitting._minimise(design, is_spam.astype(float), weights, designs @ first)
        own = rows @ b
        p = 1 / (1 + np.exp(-(designs @ first + own)))
        change, variance, of_new = np.zeros(len(own)), np.zeros(len(own)), np.zeros(end - begin)
        if leaves_out:
            change, variance, of_new = leave_out(rows, new, p, is_spam, weights, precision)
        found.append(
            Fitted(
                is_spam,
                weights,
                fit.spams,
                fit.hams,
                designs,
                first,
                own,
                own + change,
                variance,
                begin,
                seen,
                new @ b,
                of_new,
            )
        )
    plain = np.column_stack([scores, np.ones(len(scores))]) * factor
    return Layers(plain[:, :-1] @ SCALES, plain, found)


def read_layers(
    stream: Stream,
    cache: Path,
    precision: float,
    width: float,
    start: tuple[int, ...],
    leaves_out: bool,
    kept: dict,
) -> Layers:
    """Fit the layers of a stream, or take them from the cache; `kept` has the matrices of corpora."""
    mark = hashlib.sha256(
        f"{stream.group}|{stream.name}|{precision}|{width}|{start}|{leaves_out}".encode()
    ).hexdigest()[:20]
    path = cache / "layers" / f"{mark}.pickle"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        if id(stream.corpus) not in kept:
            kept[id(stream.corpus)] = build_layer(stream.corpus, LAYER_VIEWS)
        path.write_bytes(
            pickle.dumps(record(stream, cache, precision, width, start, leaves_out, kept[id(stream.corpus)]))
        )
    return pickle.loads(path.read_bytes())
