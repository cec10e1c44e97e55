"""`python -m benchmarks.engines_spark`: tamis on Spark against Spark's MLlib, the same rows and session.

    python -m benchmarks.engines_spark [--rows 1000000] [--repeats 3] [--cases naive-bayes …] [--output FILE]

Each case is timed from the data frame of a Parquet file, which is not cached, to the fitted model. MLlib
joins the columns by VectorAssembler and caches them, as its guide advises for models that iterate; tamis
takes the columns as they are. The two alternate, and the median of the repeats is printed, after one run of
each that is not counted (in the first, Java compiles and Python's workers start). Beside it is the processor
time of all processes, which others on the machine change less. How well both fit is printed, too, so that
neither is fast by stopping early.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tamis
from benchmarks.raw_results import Table, compare, write_run

WANTED = 2.0  # times MLlib's speed, end to end
_PARTITIONS = 4
_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@dataclass(frozen=True)
class Case:
    """One model of both."""

    name: str
    theirs: str  # what of MLlib runs
    ours: str
    write: Callable[[Path, int], None]  # the rows, as files of Parquet
    fit_theirs: Callable[[Any], Any]
    fit_ours: Callable[[Any], Any]
    score: Callable[[Any, Any, Path], tuple[str, str]]  # how well each fits


def _write(folder: Path, columns: dict[str, Any]) -> None:
    table = pa.table(columns)
    size = -(-table.num_rows // _PARTITIONS)
    for number in range(_PARTITIONS):
        pq.write_table(table.slice(number * size, size), folder / f"part-{number}.parquet")


def _list_inputs(frame: Any) -> list[str]:
    return [name for name in frame.columns if name != "label"]


def _assemble(frame: Any, is_cached: bool) -> Any:
    from pyspark.ml.feature import VectorAssembler  # noqa: PLC0415 (Spark is optional)

    chosen = [name for name in frame.columns if name in ("features", "label")] + ["features"]
    joined = VectorAssembler(inputCols=_list_inputs(frame), outputCol="features").transform(frame)
    joined = joined.select(*dict.fromkeys(chosen))
    return joined.cache() if is_cached else joined


def _read(folder: Path, rows: int = 20_000) -> tuple[Any, Any]:
    """The first rows, and their labels if they have some."""
    table = pq.read_table(folder).slice(0, rows)
    names = [name for name in table.column_names if name != "label"]
    labels = table["label"].to_numpy() if "label" in table.column_names else None
    return np.column_stack([table[name].to_numpy() for name in names]), labels


# ── naive Bayes of counts ──


def _write_counts(folder: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, rows)
    rates = rng.gamma(2.0, 1.0, (4, 20))
    counts = rng.poisson(rates[labels]).astype(np.float64)
    _write(folder, {f"x{j}": counts[:, j] for j in range(20)} | {"label": labels.astype(np.float64)})


def _fit_their_naive_bayes(frame: Any) -> Any:
    from pyspark.ml.classification import NaiveBayes  # noqa: PLC0415

    return NaiveBayes(smoothing=1.0).fit(_assemble(frame, is_cached=False))


def _score_naive_bayes(theirs: Any, ours: Any, folder: Path) -> tuple[str, str]:
    X, y = _read(folder)
    log_joint = X @ theirs.theta.toArray().T + theirs.pi.toArray()
    accuracies = (np.mean(log_joint.argmax(axis=1) == y), np.mean(ours.predict(X) == y))
    return f"accuracy {accuracies[0]:.4f}", f"accuracy {accuracies[1]:.4f}"


# ── Gaussian mixtures ──


def _write_clusters(folder: Path, rows: int) -> None:
    rng = np.random.default_rng(1)
    centres = rng.normal(0.0, 3.0, (5, 10))
    mixing = rng.normal(0.0, 0.5, (5, 10, 10)) + np.eye(10)
    which = rng.integers(0, 5, rows)
    noise = rng.normal(size=(rows, 10))
    values = centres[which] + np.einsum("nij,nj->ni", mixing[which], noise)
    _write(folder, {f"x{j}": values[:, j] for j in range(10)})


def _fit_their_mixture(frame: Any) -> Any:
    from pyspark.ml.clustering import GaussianMixture  # noqa: PLC0415

    joined = _assemble(frame, is_cached=True)
    try:
        return GaussianMixture(k=5, maxIter=100, tol=0.01, seed=1).fit(joined)
    finally:
        joined.unpersist()


def _score_mixture(theirs: Any, ours: Any, folder: Path) -> tuple[str, str]:
    from scipy.special import logsumexp  # noqa: PLC0415
    from scipy.stats import multivariate_normal  # noqa: PLC0415

    X, _ = _read(folder)
    parts = [
        np.log(weight) + multivariate_normal(gaussian.mean.toArray(), gaussian.cov.toArray()).logpdf(X)
        for weight, gaussian in zip(theirs.weights, theirs.gaussians, strict=True)
    ]
    likelihoods = float(np.mean(logsumexp(parts, axis=0))), ours.score(X)
    steps = theirs.summary.numIter, ours.n_iter_
    first, second = (
        f"log p(x) {value:.4f} in {n} steps" for value, n in zip(likelihoods, steps, strict=True)
    )
    return first, second


# ── logistic regression ──


def _write_classes(folder: Path, rows: int) -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(size=(rows, 20)) * np.geomspace(0.1, 10.0, 20)
    scores = values @ (rng.normal(size=20) / np.geomspace(0.1, 10.0, 20)) + 0.5
    labels = (rng.random(rows) < 1.0 / (1.0 + np.exp(-scores))).astype(np.float64)
    _write(folder, {f"x{j}": values[:, j] for j in range(20)} | {"label": labels})


def _fit_their_logistic(frame: Any) -> Any:
    from pyspark.ml.classification import LogisticRegression  # noqa: PLC0415

    joined = _assemble(frame, is_cached=True)
    try:
        # α/n on the mean loss is α on the sum; MLlib's own scaling of columns would change the prior
        return LogisticRegression(
            regParam=1.0 / joined.count(), standardization=False, maxIter=100, tol=1e-8
        ).fit(joined)
    finally:
        joined.unpersist()


def _score_logistic(theirs: Any, ours: Any, folder: Path) -> tuple[str, str]:
    X, y = _read(folder)
    answers = []
    pairs = ((theirs.coefficients.toArray(), theirs.intercept), (ours.coef_[0], ours.intercept_[0]))
    for coefficients, intercept in pairs:
        scores = X @ coefficients + intercept
        answers.append(f"log loss {np.mean(np.logaddexp(0.0, scores) - y * scores):.6f}")
    return answers[0], f"{answers[1]}, coefficients differ by {np.abs(pairs[0][0] - pairs[1][0]).max():.1e}"


# ── ratings ──


def _write_ratings(folder: Path, rows: int) -> None:
    rng = np.random.default_rng(3)
    pairs = np.unique(rng.integers(0, max(rows // 50, 10), rows) * 4000 + rng.zipf(1.3, rows) % 4000)
    users, items = np.divmod(rng.permutation(pairs), 4000)
    count = len(pairs)
    taste, trait = rng.normal(size=(users.max() + 1, 8)), rng.normal(size=(4000, 8))
    ratings = 3.5 + 0.4 * np.sum(taste[users] * trait[items], axis=1) + rng.normal(0.0, 0.5, count)
    is_test = (rng.random(count) < 0.1).astype(np.int32)
    columns = {"user": users.astype(np.int32), "item": items.astype(np.int32), "rating": ratings}
    _write(folder, columns | {"held_out": is_test})


def _fit_their_ratings(frame: Any) -> Any:
    from pyspark.ml.recommendation import ALS  # noqa: PLC0415

    learned = frame.where("held_out = 0")
    return ALS(
        userCol="user", itemCol="item", ratingCol="rating", rank=8, maxIter=10, regParam=0.1, seed=1
    ).fit(learned)


def _fit_our_ratings(frame: Any) -> Any:
    learned = frame.where("held_out = 0").select("user", "item", "rating")
    return tamis.MatrixFactorization(8, random_state=1).fit(learned)  # it chooses its ridge by validation


def _score_ratings(theirs: Any, ours: Any, folder: Path) -> tuple[str, str]:
    table = pq.read_table(folder)
    held = table["held_out"].to_numpy() == 1
    users, items, ratings = (table[name].to_numpy()[held][:20_000] for name in ("user", "item", "rating"))
    factors = [
        {row["id"]: np.array(row["features"]) for row in frame.collect()}
        for frame in (theirs.userFactors, theirs.itemFactors)
    ]
    known = np.array(
        [user in factors[0] and item in factors[1] for user, item in zip(users, items, strict=True)]
    )
    users, items, ratings = users[known], items[known], ratings[known]
    guesses = np.array([factors[0][u] @ factors[1][i] for u, i in zip(users, items, strict=True)])
    own = ours.predict(np.column_stack([users, items]))
    errors = (np.sqrt(np.mean(np.square(each - ratings))) for each in (guesses, own))
    first, second = (f"held-out error {error:.4f}" for error in errors)
    return first, second


CASES = {
    case.name: case
    for case in (
        Case(
            "naive-bayes",
            "NaiveBayes",
            "MultinomialNB",
            _write_counts,
            _fit_their_naive_bayes,
            lambda frame: tamis.MultinomialNB().fit(frame, "label"),
            _score_naive_bayes,
        ),
        Case(
            "mixture",
            "GaussianMixture",
            "Mixture",
            _write_clusters,
            _fit_their_mixture,
            lambda frame: tamis.Mixture(5, random_state=1, max_iter=100).fit(frame),
            _score_mixture,
        ),
        Case(
            "logistic",
            "LogisticRegression",
            "LogisticRegression",
            _write_classes,
            _fit_their_logistic,
            lambda frame: tamis.LogisticRegression().fit(frame, "label"),
            _score_logistic,
        ),
        Case(
            "ratings",
            "ALS",
            "MatrixFactorization",
            _write_ratings,
            _fit_their_ratings,
            _fit_our_ratings,
            _score_ratings,
        ),
    )
}


def _start_session() -> Any:
    from pyspark.sql import SparkSession  # noqa: PLC0415

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.master("local[2]")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


@dataclass(frozen=True)
class Cost:
    """Seconds of one fit."""

    elapsed: float
    processor: float  # of this process, Java and Python's workers


def _measure(fit: Callable[[Any], Any], frame: Any) -> tuple[Cost, Any]:
    start, before = time.perf_counter(), _count_processor_seconds()
    model = fit(frame)
    return Cost(time.perf_counter() - start, _count_processor_seconds() - before), model


def _count_processor_seconds() -> float:
    """The processor time of this process and of all that descend from it, living or ended (Linux)."""
    parents, ticks = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            parents[int(folder.name)], ticks[int(folder.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    total = 0
    for process in ticks:
        ancestor = process
        while ancestor in parents and ancestor != os.getpid():
            ancestor = parents[ancestor]
        total += ticks[process] if ancestor == os.getpid() else 0
    return total / os.sysconf("SC_CLK_TCK")


def _median(costs: list[Cost]) -> Cost:
    elapsed, processor = ([cost.elapsed for cost in costs], [cost.processor for cost in costs])
    return Cost(statistics.median(elapsed), statistics.median(processor))


def _write_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Run the cases that are named, by default all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cases", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--output", type=Path, help="write the raw results to this file, for the scoreboard")
    options = parser.parse_args()
    warnings.simplefilter("ignore", FutureWarning)  # pyspark of pandas 3
    session = _start_session()
    folder = Path(tempfile.mkdtemp(prefix="tamis-spark-"))
    load = f"{options.rows} rows, local[2]; load {os.getloadavg()[0]:.1f} before"
    _write_line(f"median of {options.repeats}, {load}")
    comparisons, scored = [], []
    try:
        for name in options.cases:
            case = CASES[name]
            rows = folder / name
            rows.mkdir()
            case.write(rows, options.rows)
            frame = session.read.parquet(str(rows))
            costs: dict[str, list[Cost]] = {"theirs": [], "ours": []}
            models = {}
            for repeat in range(options.repeats + 1):
                for who, fit in (("theirs", case.fit_theirs), ("ours", case.fit_ours)):
                    cost, models[who] = _measure(fit, frame)
                    if repeat:
                        costs[who].append(cost)
            theirs, ours = _median(costs["theirs"]), _median(costs["ours"])
            scores = case.score(models["theirs"], models["ours"], rows)
            for who, cost, score in (
                (f"MLlib's {case.theirs}", theirs, scores[0]),
                (f"tamis {case.ours}", ours, scores[1]),
            ):
                seconds = f"{cost.elapsed:.2f} s, {cost.processor:.2f} s of processors"
                _write_line(f"{name}: {who}: {seconds}, {score}")
            for case_name, of in (
                (f"engines-spark-{name}", "elapsed"),
                (f"engines-spark-{name}-cpu", "processor"),
            ):
                about = f"{case.ours} against MLlib's {case.theirs}, from Parquet to the model" + (
                    "" if of == "elapsed" else ", processor time of all processes"
                )
                samples = [[getattr(cost, of) for cost in costs[who]] for who in ("ours", "theirs")]
                comparisons.append(compare(case_name, about, *samples, wanted=WANTED, group="engines"))
            scored.append((case.ours, scores[1], scores[0]))
            ratios = theirs.elapsed / ours.elapsed, theirs.processor / ours.processor
            _write_line(
                f"{name}: {ratios[0]:.2f} × by the clock, {ratios[1]:.2f} × by processor time; load "
                f"{os.getloadavg()[0]:.1f}"
            )
    finally:
        session.stop()
        shutil.rmtree(folder)
    if options.output:
        table = Table("How well both fit", ("model", "tamis", "MLlib"), tuple(scored))
        title = "Models on Spark, against MLlib on the same rows and session"
        write_run(options.output, title, text=load, comparisons=comparisons, tables=[table])


if __name__ == "__main__":
    main()
