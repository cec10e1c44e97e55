"""Rows with or without labels → one statistic → p(class) · p(row | class).

A classifier, whose labels are known, and a mixture, whose labels are not, are one model. A row with a label
belongs to its class; a row without one is divided among the classes by its responsibilities under the last
posterior. If all labels are known, this is a classifier, fitted in one pass; if none is, a mixture, fitted by
EM; if some are, semi-supervised learning.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis import _kernels
from tamis.arrays import Array
from tamis.models.generative.block import Block, Contrast, Density, Preparation, Responsibilities, take_rows
from tamis.protocols import Classifier, Iterative, total
from tamis.stats import Joint, Keys, Labels, Sums, Tally, refuse_excess_subtraction
from tamis.tables import RowIndex, Table, runs

CLASSES = "classes"  # the name of the part of the statistic that counts classes

_CELLS = 1 << 22  # array elements of responsibilities that are in memory at a time


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """Rows as the blocks of a model store them: one encoded array, or sparse matrix, per block."""

    blocks: Mapping[str, Any]
    rows: int  # the number of rows

    def take(self, rows: RowIndex) -> "Encoded":
        """Select these rows, in this order."""
        count = len(np.arange(self.rows)[rows])
        return Encoded({name: take_rows(block, rows) for name, block in self.blocks.items()}, count)

    def __len__(self) -> int:
        return self.rows


@dataclass(frozen=True, slots=True, eq=False)
class LabelledRows:
    """Rows, their labels as far as these are known, and their weights."""

    rows: Encoded
    labels: Labels  # -1 where the label is missing
    weights: Array | None = None  # (n,)

    def take(self, rows: RowIndex) -> "LabelledRows":
        """Select these rows, in this order."""
        index = np.arange(len(self.rows))[rows]
        weights = None if self.weights is None else self.weights[index]
        return LabelledRows(self.rows.take(rows), self.labels.take(index), weights)

    def select_labelled(self) -> "LabelledRows":
        """Select the rows whose label is known."""
        labelled = self.labels.group >= 0
        return self if labelled.all() else self.take(labelled)

    def select_unlabelled(self) -> "LabelledRows | None":
        """Select the rows whose label is missing; return None if there are none."""
        missing = self.labels.group < 0
        if missing.all():
            return self if len(self.rows) else None
        return self.take(missing) if missing.any() else None

    def weight(self) -> Array:
        """The weight of each row (n,)."""
        return np.ones(len(self.rows)) if self.weights is None else self.weights


@dataclass(frozen=True, slots=True, eq=False)
class PreparedRows:
    """Rows prepared by `Generative.prepare` to be observed given one posterior after the other."""

    known: LabelledRows  # the rows whose label is known
    statistic: Joint | None  # of the rows whose label is known; None if all labels are missing
    unknown: LabelledRows | None  # the rows whose label is missing; None if there are none
    # The rows of `unknown` once more, prepared for a fast expectation step; None if the model has several
    # blocks, or if its block has no such step.
    fast: Preparation | None
    pool_squares: bool  # whether statistics hold squares of all classes together: see `Generative.prepare`


@dataclass(frozen=True)
class Generative:
    """Blocks of columns, independent of each other given the class, and the distribution of classes.

    `prior` gives the classes' probabilities by label; without it they are estimated from counts, with `alpha`
    pseudo-counts each, or all equal if `is_uniform`. `classes` are in the model even without rows. If
    `hard`, each row without a label belongs only to its most probable class, and its likelihood is
    p(row, class): with equal spherical covariances and equal class probabilities this is k-means.
    """

    blocks: Mapping[str, Block[Any, Any]]
    prior: Mapping[Any, float] | None = None
    is_uniform: bool = False
    alpha: float = 0.0
    classes: Keys = field(default_factory=lambda: Keys(()))
    unlabelled_weight: float = 1.0  # multiplies the weights of rows whose label is missing
    hard: bool = False

    def encode(self, table: Table, learn: bool = True) -> Encoded:
        """Check the columns and encode them for the blocks; rows to learn are checked more strictly."""
        return Encoded({name: block.encode(table, learn) for name, block in self.blocks.items()}, table.rows)

    def sums_like(self, other: "Generative") -> bool:
        """Whether both models sum the same statistic, so that one can infer from the other's."""
        return self.blocks.keys() == other.blocks.keys() and all(
            block.sums_like(other.blocks[name]) for name, block in self.blocks.items()
        )

    def admits(self, values: Array) -> bool:
        """Whether it is certain that rows of numbers (n, d) can be learned without an error."""
        return all(
            (block.columns is None or len(block.columns) == values.shape[1]) and block.admits(values)
            for block in self.blocks.values()
        )

    def prepare(self, data: LabelledRows, pool_squares: bool = False) -> PreparedRows:
        """Prepare rows to be observed many times: those with labels are summed once.

        With `pool_squares`, observing rows for a tied covariance is several times as fast, and the statistic
        has the sum of squares of all classes together, not of each: enough for `infer`, but not to be stored.
        """
        known, unknown = data.select_labelled(), data.select_unlabelled()
        statistic = None
        if len(known.rows) or unknown is None:
            statistic = observe_blocks(self.blocks, known.rows, known.labels, known.weights)
        fast, pools = None, False
        if unknown is not None and len(self.blocks) == 1:
            ((name, block),) = self.blocks.items()
            unweighted = unknown.weights is None and self.unlabelled_weight == 1.0
            weights = None if unweighted else unknown.weight() * self.unlabelled_weight
            fast = block.prepare(unknown.rows.blocks[name], weights)
            pools = pool_squares and fast is not None and block.can_pool_squares
        return PreparedRows(known, statistic, unknown, fast, pools)

    def observe(self, data: LabelledRows | PreparedRows, given: "Posterior | None" = None, /) -> Joint:
        """Sum the rows by class; rows without a label by their responsibilities under the posterior `given`.

        Given a posterior, the statistic carries the log-likelihood of the rows: Σ w log p(x, y) of rows that
        have a label and Σ w log p(x) of the others.
        """
        rows = self.prepare(data) if isinstance(data, LabelledRows) else data
        parts = []
        if rows.statistic is not None:
            likelihood = 0.0 if given is None else log_likelihood_of_labels(rows.known, given)
            parts.append(Joint(rows.statistic.parts, likelihood))
        if rows.unknown is not None:
            if given is None:
                raise ValueError(
                    "some labels are missing, expected all of them, or a posterior to infer them by"
                )
            parts.append(self._observe_unlabelled(rows, rows.unknown, given))
        return total(parts)

    def observe_table(self, table: Table, labels: Labels, weights: Array | None = None) -> Joint:
        """Sum the rows of a table by class; all labels must be known.

        The statistic is that of `observe`. Rows are not copied where a block can sum columns as they are.
        """
        parts: dict[str, Sums] = {CLASSES: Tally.count(labels, weights)}
        parts.update(
            {name: block.observe_table(table, labels, weights) for name, block in self.blocks.items()}
        )
        return Joint(parts)

    def add_rows(self, statistic: Joint, data: LabelledRows) -> Joint:
        """Add labelled rows to the statistic; for one row, this is faster than adding `observe` of it."""
        if len(data.rows) == 1:
            label = data.labels.keys[int(data.labels.group[0])]
            weight = 1.0 if data.weights is None else float(data.weights[0])
            return self.add_row(statistic, data.rows, label, weight)
        return statistic + self.observe(data)

    def add_row(self, statistic: Joint, row: Encoded, label: Hashable, weight: float = 1.0) -> Joint:
        """Add one row with its label to the statistic."""
        classes: Any = statistic[CLASSES]
        parts: dict[str, Sums | None] = {CLASSES: classes.add_term(label, weight)}
        if parts[CLASSES] is not None:
            for name, block in self.blocks.items():
                parts[name] = block.add_row(statistic[name], row.blocks[name], label, weight)
                if parts[name] is None:
                    break
            else:
                return Joint(parts, statistic.log_likelihood)  # type: ignore[arg-type]  # no part is None
        labels = Labels(Keys((label,)), np.zeros(1, dtype=np.int64))
        weights = None if weight == 1.0 else np.array([weight])
        return statistic + self.observe(LabelledRows(row, labels, weights))

    def _observe_unlabelled(self, rows: PreparedRows, unknown: LabelledRows, given: "Posterior") -> Joint:
        if rows.fast is not None:
            ((name, density),) = given.densities.items()
            expectation = rows.fast.expect(density, given.log_prior, self.hard, rows.pool_squares)
            if expectation is not None:
                weight = expectation.weight
                counts = Tally.of(weight.sum(), weight, terms=given.keys)
                return Joint({CLASSES: counts, name: expectation.statistic}, expectation.log_likelihood)
        return total(
            self._observe_by_responsibilities(unknown.take(run), given)
            for run in runs(len(unknown.rows), len(given.keys), _CELLS)
        )

    def _observe_by_responsibilities(self, data: LabelledRows, given: "Posterior") -> Joint:
        """Sum rows by their responsibilities; those of a row that is impossible in all classes are equal."""
        joint = given.log_joint(data.rows)
        log_density = _kernels.log_sum_rows(joint)
        with np.errstate(invalid="ignore"):
            probabilities = np.exp(joint - log_density[:, None])
        probabilities[~np.isfinite(log_density)] = 1.0 / len(given.keys)
        if self.hard:
            log_density = joint.max(axis=1)
            probabilities = np.eye(len(given.keys))[probabilities.argmax(axis=1)]
        weights = data.weight() * self.unlabelled_weight
        values = _round_to_multiples(probabilities * weights[:, None], weights.max(initial=0.0))
        responsibilities = Responsibilities(given.keys, values)
        sums = observe_blocks(self.blocks, data.rows, responsibilities, given=given)
        # −1e300 is in place of log 0 = −∞, because a weight of 0 times −∞ is NaN.
        return Joint(sums.parts, float(weights @ np.maximum(log_density, -1e300)))

    def objective(self, statistic: Joint, /) -> float:
        """The log-likelihood of the rows under the posterior that was given to `observe`."""
        return statistic.log_likelihood

    def choose(self, data: LabelledRows, statistic: Joint) -> "Generative":
        """Return the model with the settings that its blocks choose from labelled rows, such as shrinkage."""
        blocks = {
            name: block.choose(data.rows.blocks[name], data.labels, data.weights, statistic[name])
            for name, block in self.blocks.items()
        }
        return replace(self, blocks=blocks)

    def convert_sums(self, sums: Tally) -> Joint:
        """Make the statistic from the number of rows and their sums by class (K, d), without the rows."""
        if len(self.blocks) != 1 or sums.keys is None:
            raise TypeError("got sums, expected a model of counts in all columns, and sums by class")
        ((name, block),) = self.blocks.items()
        counts = Tally(weight=sums.weight.sum(axis=0), total=sums.weight, terms=sums.keys)
        return Joint({CLASSES: counts, name: block.convert_sums(sums)})

    def infer(self, statistic: Joint, /) -> "Posterior":
        """Infer the densities of all blocks and the class probabilities."""
        keys = self.keys(statistic)
        densities = {name: block.infer(statistic[name], keys) for name, block in self.blocks.items()}
        return Posterior(keys, self.log_prior(statistic, keys), densities)

    def count_parameters(self, posterior: "Posterior") -> int:
        """Count the free parameters, including the classes' probabilities: the penalty of AIC and BIC."""
        blocks = (block.count_parameters(posterior.densities[name]) for name, block in self.blocks.items())
        return len(posterior.keys) - 1 + sum(blocks)

    def keys(self, statistic: Joint) -> Keys:
        """All classes: those with rows, and those declared in advance."""
        return all_classes(statistic, self.classes)

    def log_prior(self, statistic: Joint, keys: Keys) -> Array:
        """log p(class) of the classes in `keys`."""
        if self.prior is not None:
            weights = np.array([self.prior[key] for key in keys], dtype=np.float64)
        elif self.is_uniform:
            weights = np.ones(len(keys))
        else:
            counts: Any = statistic[CLASSES]
            weights = np.full(len(keys), float(self.alpha))
            if keys is counts.terms:
                weights += counts.total.value
            else:
                weights[keys.find(counts.terms)] += counts.total.value
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(weights) - np.log(weights.sum()))

    def refuse_impossible(self, statistic: Joint) -> None:
        """Raise ValueError if no rows could have this statistic: more was subtracted than was learned."""
        counts: Any = statistic[CLASSES]
        refuse_excess_subtraction(bool((counts.total.value < 0).any()))
        weights = dict(zip(counts.terms, counts.total.value.tolist(), strict=True))
        for name, block in self.blocks.items():
            part: Any = statistic[name]
            has_known_keys = weights.keys() >= set(part.keys)
            weight = part.weight.value  # one per class, or one per class and column
            columns = weight if weight.ndim == 1 else weight.max(axis=1, initial=0.0)
            # There is a tolerance because each block rounds its sums of responsibilities differently.
            refuse_excess_subtraction(
                not has_known_keys
                or any(
                    weights[key] * (1 + 1e-9) < largest
                    for key, largest in zip(part.keys, columns, strict=True)
                )
            )
            block.refuse_impossible(part)


def observe_blocks(
    blocks: Mapping[str, Block[Any, Any]],
    rows: Encoded,
    by: Labels | Responsibilities,
    weights: Array | None = None,
    given: "Posterior | None" = None,
) -> Joint:
    """Sum the rows by class, in each block; responsibilities contain the weights, and come from `given`."""
    if isinstance(by, Labels):
        counts = Tally.count(by, weights)
    else:
        weight = by.values.sum(axis=0)
        counts = Tally.of(weight.sum(), weight, terms=by.keys)
    parts: dict[str, Sums] = {CLASSES: counts}
    for name, block in blocks.items():
        density = None if given is None else given.densities[name]
        parts[name] = block.observe(rows.blocks[name], by, weights, density)
    return Joint(parts)


def _round_to_multiples(values: Array, largest: float) -> Array:
    """Round responsibilities to multiples of a power of two, which is at most 2**-52 of the largest weight.

    Exact sums of values as small as 1e-200 are slow: without the rounding, a step of EM over 8,000 texts of
    50,000 words takes 1.4 s, and with it 0.2 s.
    """
    unit = np.ldexp(1.0, int(np.frexp(largest)[1]) - 53)
    return np.asarray(np.rint(values / unit) * unit)


def log_likelihood_of_labels(known: LabelledRows, posterior: "Posterior") -> float:
    """Σ w log p(x, y) of rows that all have a label."""
    if not len(known.rows):
        return 0.0
    group = posterior.keys.find(known.labels.keys)[known.labels.group]
    joint = posterior.log_joint(known.rows)[np.arange(len(group)), group]
    return float(known.weight() @ joint)


def classes_of(statistic: Joint) -> Keys:
    """The classes that have rows."""
    counts: Any = statistic[CLASSES]
    classes: Keys = counts.terms
    return classes


def all_classes(statistic: Joint, declared: Keys) -> Keys:
    """The classes that have rows, and those declared in advance."""
    classes = classes_of(statistic)
    if not len(declared):
        return classes
    union, _, _ = classes.union(declared)
    return union


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """p(class) and p(columns | class)."""

    keys: Keys
    log_prior: Array  # (K,)
    densities: Mapping[str, Density[Any]]

    def log_joint(self, rows: Encoded, /) -> Array:
        """log p(row, class) of each row (n, K)."""
        joint: Array = self.log_prior
        for name, density in self.densities.items():
            joint = joint + density.scores(rows.blocks[name])
        return joint

    def contrasts(self, rows: Encoded, for_: int, against: int) -> dict[str, Contrast]:
        """The log-odds of one class against another, split into the terms of each block."""
        return {
            name: density.contrasts(rows.blocks[name], for_, against)
            for name, density in self.densities.items()
        }

    def draw(
        self, rng: np.random.Generator, n: int
    ) -> tuple[NDArray[np.int64], dict[str, list[NDArray[Any]]]]:
        """Draw n rows: class indices (n,), and the columns of each block."""
        prior = np.exp(self.log_prior)
        group = rng.choice(len(self.keys), size=n, p=prior / prior.sum()).astype(np.int64)
        return group, {name: list(density.draw(rng, group)) for name, density in self.densities.items()}

    def log_evidence(self) -> float:
        """log p(columns | classes), with the parameters integrated out."""
        return sum(density.log_evidence() for density in self.densities.values())


# The type checker verifies by this assignment that Generative has the methods of Iterative.
_: type[Iterative[LabelledRows | PreparedRows, Joint, Posterior]] = Generative
__: type[Classifier[Encoded]] = Posterior
