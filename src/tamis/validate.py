"""statistic − part → infer → score: cross-validation by subtraction, choice of models, predictive checks.

Every row is observed once. The posterior without a fold, or without a row, is inferred from the statistic of
all rows minus the statistic of the fold or row. Sums are subtracted exactly (`tamis.stats`), so no row is
observed a second time.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis import _kernels
from tamis.arrays import Array, refuse_unless_one_per_row
from tamis.models.generative import leave_one_out as leaving_one_out
from tamis.models.generative.model import CLASSES, Generative, LabelledRows
from tamis.protocols import total
from tamis.stats import Joint, Keys, Labels

Name = TypeVar("Name", bound=Hashable)  # the name of a candidate

Indices = NDArray[np.int64]
# Computes a number from the class index of each row (n,), and the list of columns (n,) of each block by name.
Measure = Callable[[Indices, Mapping[str, list[NDArray[Any]]]], float]


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """Predictions for rows by models that were fitted without these rows."""

    keys: Keys  # the K classes
    log_joint: Array  # (n, K): log p(row, class); −∞ for a class that the model was not fitted to
    group: Indices  # (n,): the index of the true class
    fold: Indices  # (n,): the fold of each row
    weights: Array | None = None  # (n,)

    @property
    def predictions(self) -> Indices:
        """The most probable class of each row; ties go to the first."""
        return np.asarray(self.log_joint.argmax(axis=1), dtype=np.int64)

    @property
    def accuracy(self) -> float:
        """The fraction of rows, by weight, whose class is that of `predictions`."""
        return float(np.average(self.predictions == self.group, weights=self.weights))

    @property
    def log_losses(self) -> Array:
        """−log p(true class | row), (n,); log K for a row with probability zero in every class."""
        log_density = _kernels.log_sum_rows(np.ascontiguousarray(self.log_joint))
        log_joint = self.log_joint[np.arange(len(self.group)), self.group]
        impossible = np.isneginf(log_density)
        log_losses = np.where(impossible, 0.0, log_density) - log_joint
        return np.where(impossible, np.log(len(self.keys)), log_losses)

    @property
    def log_loss(self) -> float:
        """The mean of `log_losses`; ∞ if a row with weight has a class that the model was not fitted to."""
        losses = self.log_losses if self.weights is None else np.where(self.weights > 0, self.log_losses, 0.0)
        return float(np.average(losses, weights=self.weights))

    def by_fold(self) -> "list[HeldOut]":
        """Return the predictions of each fold, in the order of the folds."""
        return [self._select_rows(self.fold == number) for number in np.unique(self.fold).tolist()]

    def _select_rows(self, rows: NDArray[np.bool_]) -> "HeldOut":
        weights = None if self.weights is None else self.weights[rows]
        return HeldOut(self.keys, self.log_joint[rows], self.group[rows], self.fold[rows], weights)


def split(
    n: int,
    folds: int,
    rng: np.random.Generator | None = None,
    group: ArrayLike | None = None,
    groups: object = None,
) -> Indices:
    """Assign each of n rows to a fold, (n,).

    With class indices (n,) as `group`, the rows of every class are distributed evenly over the folds. With
    `groups` (n,), all rows of one group (a patient, a sender) are in the same fold: groups are assigned in
    descending order of size, each to the fold with the fewest rows. `rng` shuffles the rows, or the groups,
    first. Without `rng`, `group` and `groups`, row i is in fold i modulo `folds`.

    >>> split(7, 3).tolist(), split(6, 3, group=[0, 0, 0, 1, 1, 1]).tolist()
    ([0, 1, 2, 0, 1, 2, 0], [0, 1, 2, 0, 1, 2])
    >>> split(5, 2, groups=["ann", "ben", "ann", "cid", "ann"]).tolist()
    [0, 1, 0, 1, 0]
    """
    if not 2 <= folds <= n:
        raise ValueError(f"got {folds} folds for {n} rows, expected at least 2, and no more than rows")
    if group is not None and groups is not None:
        raise ValueError("got both group= and groups=, expected one of them: folds by class, or by group")
    if groups is not None:
        return _split_groups(n, folds, rng, groups)
    order = np.arange(n) if rng is None else rng.permutation(n)
    if group is not None:
        classes = np.asarray(group)
        refuse_unless_one_per_row(len(classes), n, "classes")
        order = order[np.argsort(classes[order], kind="stable")]
    fold = np.empty(n, dtype=np.int64)
    fold[order] = np.arange(n) % folds
    return fold


def _split_groups(n: int, folds: int, rng: np.random.Generator | None, groups: object) -> Indices:
    """Assign whole groups to folds, as `split` describes."""
    keys, index = Keys.of(groups)
    refuse_unless_one_per_row(len(index), n, "groups")
    if len(keys) < folds:
        raise ValueError(f"got {len(keys)} groups for {folds} folds, expected at least one for each")
    sizes = np.bincount(index, minlength=len(keys))
    order = np.arange(len(keys)) if rng is None else rng.permutation(len(keys))
    order = order[np.argsort(-sizes[order], kind="stable")]
    fold_sizes, fold = np.zeros(folds, dtype=np.int64), np.empty(len(keys), dtype=np.int64)
    for group in order.tolist():
        fold[group] = fold_sizes.argmin()
        fold_sizes[fold[group]] += sizes[group]
    return fold[index]


def cross_validate(model: Generative, data: LabelledRows, fold: ArrayLike) -> HeldOut:
    """Score the rows of each fold by the model of all other folds, from one pass over the rows.

    `fold` is the fold of each row (n,).
    """
    _refuse_unless_labelled(data)
    fold_of_row = np.asarray(fold, dtype=np.int64)
    refuse_unless_one_per_row(len(fold_of_row), len(data.rows), "folds")
    rows = [np.flatnonzero(fold_of_row == number) for number in np.unique(fold_of_row).tolist()]
    if len(rows) < 2:
        raise ValueError(f"got {len(rows)} folds, expected at least 2: the model learns from the others")
    folds = [_drop_empty_keys(data.take(index)) for index in rows]
    statistics = [model.observe(rows_of_fold) for rows_of_fold in folds]
    statistic_of_all = total(statistics)
    keys = model.keys(statistic_of_all)
    joint = np.full((len(fold_of_row), len(keys)), -np.inf)
    for index, held_out, statistic in zip(rows, folds, statistics, strict=True):
        posterior = model.infer(statistic_of_all - statistic)
        joint[np.ix_(index, keys.find(posterior.keys))] = posterior.log_joint(held_out.rows)
    return HeldOut(keys, joint, _find_classes(keys, data), fold_of_row, data.weights)


def _drop_empty_keys(data: LabelledRows) -> LabelledRows:
    """Drop the keys of labels that have no rows."""
    group = data.labels.group
    present = np.zeros(len(data.labels.keys), dtype=np.bool_)
    present[group] = True
    new_index = np.cumsum(present) - 1
    return LabelledRows(data.rows, Labels(data.labels.keys.keep(present), new_index[group]), data.weights)


def leave_one_out(model: Generative, data: LabelledRows, statistic: Joint | None = None) -> HeldOut:
    """Score each row by the model of all other rows.

    `statistic` is the statistic of the rows, or of these and further rows; it is observed if it is None.
    """
    _refuse_unless_labelled(data)
    statistic_of_all = model.observe(data) if statistic is None else statistic
    keys = model.keys(statistic_of_all)
    labels = Labels(keys, _find_classes(keys, data))
    counts: Any = statistic_of_all[CLASSES]  # the weight of each class
    joint = leaving_one_out.log_priors_without_row(model, counts, labels, data.weight())
    for name, block in model.blocks.items():
        joint += leaving_one_out.score_without_row(
            block, statistic_of_all[name], keys, data.rows.blocks[name], labels, data.weights
        )
    return HeldOut(keys, joint, labels.group, np.arange(len(labels)), data.weights)


@dataclass(frozen=True, slots=True)
class Choice(Generic[Name]):
    """The candidate with the largest score, and all scores."""

    best: Name
    scores: Mapping[Name, float]  # log-evidence, or minus the log-loss of rows left out


def choose(
    candidates: Mapping[Name, Generative],
    data: LabelledRows | Joint,
    by: Literal["evidence", "leave-one-out"] = "evidence",
) -> Choice[Name]:
    """Choose between models that differ only in `infer`: in priors, smoothing or estimates.

    All candidates share one statistic, because `observe` knows no prior. The evidence needs nothing else;
    leave-one-out also reads the rows, once per candidate. If several models are best, the first is chosen.
    """
    if by not in ("evidence", "leave-one-out"):
        raise ValueError(f"got by={by!r}, expected 'evidence' or 'leave-one-out'")
    models = list(candidates.values())
    if not models:
        raise ValueError("got no candidates, expected at least one model")
    blocks = [
        {name: (type(block), block.columns) for name, block in model.blocks.items()} for model in models
    ]
    if any(other != blocks[0] for other in blocks):
        raise ValueError(
            "the candidates differ in their blocks, expected the same columns of the same families"
        )
    statistic = data if isinstance(data, Joint) else models[0].observe(data)
    if by == "evidence":
        scores = {key: model.infer(statistic).log_evidence() for key, model in candidates.items()}
    elif isinstance(data, LabelledRows):
        scores = {key: -leave_one_out(model, data, statistic).log_loss for key, model in candidates.items()}
    else:
        raise TypeError(
            "got only a statistic, expected rows to leave out: give labelled rows, or by='evidence'"
        )
    return Choice(max(scores, key=scores.__getitem__), scores)


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """A posterior predictive check: a measure of the data, and of datasets drawn from the model."""

    observed: float  # of the data
    replicated: Array  # (draws,): of each drawn dataset

    @property
    def p_value(self) -> float:
        """Two-sided p-value: twice the smaller tail, at most 1; the data count as one draw of each tail."""
        extreme = min((self.replicated >= self.observed).sum(), (self.replicated <= self.observed).sum())
        return min(1.0, 2.0 * float(1 + extreme) / (1 + len(self.replicated)))


def check(
    model: Generative,
    statistic: Joint,
    measure: Measure,
    observed: float,
    rng: np.random.Generator,
    draws: int = 200,
    n: int | None = None,
) -> Check:
    """Compare a measure of the data, `observed`, with that of `draws` datasets drawn from the model.

    The number of a dataset's rows in each class is the weight of the class in the statistic, rounded; or a
    dataset has n rows of random classes. Rows are drawn from the densities that `infer` returns. Their
    parameters are the same in all draws unless the estimate is "predictive" (Gelman et al., Bayesian Data
    Analysis, section 6.3).
    """
    if draws < 1:
        raise ValueError(f"got draws={draws}, expected at least 1")
    posterior = model.infer(statistic)
    counts: Any = statistic[CLASSES]  # the weight of each class
    sizes = np.rint(counts.total.value).astype(np.int64)
    group = np.repeat(posterior.keys.find(counts.terms), sizes)
    replicated = np.empty(draws)
    for i in range(draws):
        if n is None:
            drawn = {name: list(density.draw(rng, group)) for name, density in posterior.densities.items()}
            replicated[i] = measure(group, drawn)
        else:
            replicated[i] = measure(*posterior.draw(rng, n))
    return Check(float(observed), replicated)


def _find_classes(keys: Keys, data: LabelledRows) -> Indices:
    """Return the index of each row's class among the keys."""
    index = keys.find(data.labels.keys)[data.labels.group]
    if (index < 0).any():
        label = data.labels.keys[int(data.labels.group[index.argmin()])]
        raise ValueError(
            f"class {label!r} has no weight in the statistic, expected a statistic that contains these rows"
        )
    return np.asarray(index)


def _refuse_unless_labelled(data: LabelledRows) -> None:
    if (data.labels.group < 0).any():
        raise ValueError("some labels are missing, expected all of them: use `data.select_labelled()`")
