"""Where should the default prior of a Gaussian column be centred: on the variance of all rows, or within classes?

Naive Bayes of Gaussian columns, parameters by posterior mean and integrated out, learned from few rows of each class
of scikit-learn's own tables and of simulated classes further and further apart; log-loss on the rows left over.

    python experiments/0002-prior-of-gaussian-columns/run.py
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from tamis import decide
from tamis.arrays import Array
from tamis.conjugate import NormalInverseGamma
from tamis.models.generative import Density, LabelledRows, GaussianColumns, Generative
from tamis.stats import Labels, Keys, Moments
from tamis.tables import Table

EACH = (3, 5, 10, 30)  # rows of each class that are learned
SEEDS = range(20)


@dataclass(frozen=True, kw_only=True)
class WithinClasses(GaussianColumns):
    """The variance within classes, and the mean of all rows, believed as much less as classes lie apart."""

    def infer(self, statistic: Moments, keys: Keys) -> Density[Array]:
        pooled = statistic.pooled()
        spread = np.where(pooled.variance > 0, pooled.variance, 1.0)
        within = statistic.scatter.sum(axis=0) / np.maximum(pooled.weight.value - len(keys), 1.0)
        within = np.where(within > 1e-12 * spread, np.minimum(within, spread), spread)
        prior = NormalInverseGamma.from_mean(pooled.mean, within / spread, within, variance_strength=1.0)
        return GaussianColumns(estimate=self.estimate, prior=prior).infer(statistic, keys)


def tables() -> Iterator[tuple[str, Array, Array]]:
    for load in (load_iris, load_wine, load_breast_cancer, load_digits):
        rows, labels = load(return_X_y=True)
        yield load.__name__.removeprefix("load_"), rows, labels
    rng = np.random.default_rng(0)
    labels = np.arange(600) % 3
    for gap in (1, 3, 10):
        means = gap * rng.normal(size=(3, 6))
        yield f"simulated, gap {gap}", means[labels] + rng.normal(size=(600, 6)), labels


def log_loss(block: GaussianColumns, rows: Array, labels: Array, known: Array) -> float:
    model = Generative({"x": block})
    learn = LabelledRows(model.encode(Table.of(rows[known])), Labels.of(labels[known]))
    rest = np.setdiff1d(np.arange(len(rows)), known)
    joint = model.infer(model.observe(learn)).log_joint(model.encode(Table.of(rows[rest])))
    logs = decide.log_probabilities(joint)
    return float(-np.maximum(logs[np.arange(len(rest)), labels[rest]], -50.0).mean())


def main() -> None:
    print("| table | estimate | rows per class | all rows | within classes | won / tied / lost |")
    print("|---|---|---|---|---|---|")
    for name, rows, labels in tables():
        for estimate in ("mean", "predictive"):
            for each in EACH:
                losses = []
                for seed in SEEDS:
                    order = np.random.default_rng(seed).permutation(len(rows))
                    known = np.concatenate([order[labels[order] == k][:each] for k in np.unique(labels)])
                    blocks = GaussianColumns(estimate=estimate), WithinClasses(estimate=estimate)
                    losses.append([log_loss(block, rows, labels, known) for block in blocks])
                found = np.array(losses)
                gain = found[:, 0] - found[:, 1]
                won, lost = int((gain > 0.005).sum()), int((gain < -0.005).sum())
                before, after = found.mean(axis=0)
                print(
                    f"| {name} | {estimate} | {each} | {before:.3f} | {after:.3f} "
                    f"| {won} / {len(gain) - won - lost} / {lost} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
