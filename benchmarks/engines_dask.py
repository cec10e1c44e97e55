"""`python -m benchmarks.engines_dask`: tamis on Dask against dask-ml, the same arrays and cluster.

    python -m benchmarks.engines_dask [--rows 1000000] [--repeats 3] [--cases naive-bayes …] [--output FILE]

The peer needs `pip install dask-ml`, which is no requirement of tamis. Each case is timed from arrays of
Dask, kept on the workers of a cluster of two processes with one thread each, to the fitted model. The two
alternate, after one run of each that is not counted; the medians are printed, with how well both fit. These
models of dask-ml have a counterpart: GaussianNB, LogisticRegression (by Newton's method and by L-BFGS) and
PCA. A case ends after 100 seconds, whatever the repeats; a peer that fails is reported in the table.
"""

import argparse
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import tamis
from benchmarks.raw_results import Table, compare, write_run

_COLUMNS, _CHUNKS = 20, 8
_SECONDS = 100.0  # of a case, after which it is not repeated further


@dataclass(frozen=True)
class Case:
    """One model of both."""

    name: str
    theirs: str
    ours: str
    fit_theirs: Callable[[Any, Any], Any]
    fit_ours: Callable[[Any, Any], Any]
    score: Callable[[Any, Any, Any], str]  # how well a model fits some rows


def _make_arrays(rows: int) -> tuple[Any, Any]:
    """Rows of two classes that overlap, in chunks, and their classes."""
    array: Any = import_module("dask.array")
    generator = array.random.default_rng(0)
    size = -(-rows // _CHUNKS)
    X = generator.normal(size=(rows, _COLUMNS), chunks=(size, _COLUMNS))
    scores = X @ np.linspace(-1.0, 1.0, _COLUMNS) + 0.5
    noise = generator.random(rows, chunks=size)
    return X, (noise < 1.0 / (1.0 + array.exp(-scores))).astype(np.int64)


def _make_peer(module: str, name: str, **options: Any) -> Any:
    return getattr(import_module(f"dask_ml.{module}"), name)(**options)


def _fit_their_naive_bayes(X: Any, y: Any) -> Any:
    model = _make_peer("naive_bayes", "GaussianNB").fit(X, y)
    compute: Any = import_module("dask").compute
    model.theta_, model.sigma_, model.class_prior_ = compute(model.theta_, model.sigma_, model.class_prior_)
    return model


def _score_classes(model: Any, X: Any, y: Any) -> str:
    return f"accuracy {np.mean(np.asarray(model.predict(X)) == y):.4f}"


def _score_their_naive_bayes(model: Any, X: Any, y: Any) -> str:
    if isinstance(model, tamis.GaussianNB):
        return _score_classes(model, X, y)
    squares = np.square(X[:, None] - model.theta_) / model.sigma_
    joint = np.log(model.class_prior_) - 0.5 * (squares + np.log(model.sigma_)).sum(axis=2)
    return f"accuracy {np.mean(joint.argmax(axis=1) == y):.4f}"


def _score_log_loss(model: Any, X: Any, y: Any) -> str:
    scores = X @ np.ravel(model.coef_) + float(np.ravel(model.intercept_)[0])
    return f"log loss {np.mean(np.logaddexp(0.0, scores) - y * scores):.6f}"


def _score_components(model: Any, X: Any, y: Any) -> str:
    return f"explains {float(np.sum(model.explained_variance_ratio_)):.6f}"


CASES = {
    case.name: case
    for case in (
        Case(
            "naive-bayes",
            "GaussianNB",
            "GaussianNB",
            _fit_their_naive_bayes,
            lambda X, y: tamis.GaussianNB().fit(X, y),
            _score_their_naive_bayes,
        ),
        Case(
            "logistic-newton",
            "LogisticRegression(solver='newton')",
            "LogisticRegression",
            lambda X, y: _make_peer(
                "linear_model", "LogisticRegression", solver="newton", C=1.0, max_iter=100
            ).fit(X, y),
            lambda X, y: tamis.LogisticRegression().fit(X, y),
            _score_log_loss,
        ),
        Case(
            "logistic-lbfgs",
            "LogisticRegression(solver='lbfgs')",
            "LogisticRegression",
            lambda X, y: _make_peer(
                "linear_model", "LogisticRegression", solver="lbfgs", C=1.0, max_iter=100
            ).fit(X, y),
            lambda X, y: tamis.LogisticRegression().fit(X, y),
            _score_log_loss,
        ),
        Case(
            "components",
            "PCA",
            "PCA",
            lambda X, y: _make_peer("decomposition", "PCA", n_components=4).fit(X),
            lambda X, y: tamis.PCA(4).fit(X),
            _score_components,
        ),
    )
}


def _measure(fit: Callable[[Any, Any], Any], X: Any, y: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    model = fit(X, y)
    return time.perf_counter() - start, model


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
    try:
        version = str(import_module("dask_ml").__version__)
    except ImportError as problem:
        raise SystemExit(f"dask-ml cannot be imported ({problem}): pip install dask-ml") from None
    warnings.simplefilter("ignore")  # of dask-ml and Dask
    distributed: Any = import_module("distributed")
    load = f"{options.rows} rows of {_COLUMNS} in {_CHUNKS} chunks; load {os.getloadavg()[0]:.1f} before"
    _write_line(f"dask-ml {version}, {load}")
    comparisons, fits = [], []
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        X, y = client.persist(list(_make_arrays(options.rows)))
        distributed.wait([X, y])
        sample = tuple(each[:20_000].compute() for each in (X, y))
        for name in options.cases:
            case = CASES[name]
            begin = time.perf_counter()
            seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
            scores = {}
            try:
                for repeat in range(options.repeats + 1):
                    for who, fit in (("theirs", case.fit_theirs), ("ours", case.fit_ours)):
                        elapsed, model = _measure(fit, X, y)
                        scores[who] = case.score(model, *sample)
                        if repeat:
                            seconds[who].append(elapsed)
                    if repeat and time.perf_counter() - begin > _SECONDS:
                        break
            except Exception as problem:  # noqa: BLE001 (a peer that fails is a row of the table, not the end)
                reason = " ".join(str(problem).split())[:120]
                _write_line(f"{name}: {who} failed: {type(problem).__name__}: {reason}")
                fits.append((case.ours, f"{who} failed", reason))
                continue
            about = f"{case.ours} against dask-ml's {case.theirs}, on the same arrays and workers"
            row = compare(
                f"engines-dask-{name}", about, seconds["ours"], seconds["theirs"], wanted=1.0, group="engines"
            )
            comparisons.append(row)
            fits.append((case.ours, scores["ours"], scores["theirs"]))
            for who, label in (("theirs", f"dask-ml's {case.theirs}"), ("ours", f"tamis {case.ours}")):
                _write_line(f"{name}: {label}: {statistics.median(seconds[who]):.2f} s, {scores[who]}")
            _write_line(f"{name}: {row.ratio:.2f} × by the clock; load {os.getloadavg()[0]:.1f}")
    if options.output:
        table = Table("How well both fit", ("model", "tamis", "dask-ml"), tuple(fits))
        title = "Models on Dask, against dask-ml on the same arrays and workers"
        versions = {"dask-ml": version}
        write_run(
            options.output, title, text=load, comparisons=comparisons, tables=[table], versions=versions
        )


if __name__ == "__main__":
    main()
