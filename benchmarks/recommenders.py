"""MatrixFactorization against LensKit's BiasedMF, and its recommendations against implicit's, side by side.

The peers are too large for our own environment; they have one of theirs, where ours is found by PYTHONPATH:

    python -m venv PEERS
    PEERS/bin/pip install lenskit implicit scikit-learn narwhals array-api-compat numba pandas
    PYTHONPATH=src:. PEERS/bin/python -m benchmarks.recommenders --repeats 3

Both sides take turns in one process, each with all cores; the ratio is taken pair by pair, as in `harness`.
"""

import argparse
import importlib
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import tamis
from benchmarks.raw_results import Comparison, compare, write_run
from tamis.arrays import Array

USERS, ITEMS, RATINGS = 6_000, 3_700, 600_000
SWEEPS = 10
RIDGE = 0.1
RECOMMENDED, BEST = 10_000, 10
ALS_WANTED = 1.5  # times LensKit's speed


def ratings() -> tuple[Any, Any]:
    """Ratings of rank 10 with offsets and noise, some users and items far busier; a tenth held out."""
    pandas = importlib.import_module("pandas")
    rng = np.random.default_rng(0)
    busy, popular = rng.gamma(0.7, size=USERS), rng.gamma(0.5, size=ITEMS)
    user = rng.choice(USERS, 2 * RATINGS, p=busy / busy.sum())
    item = rng.choice(ITEMS, 2 * RATINGS, p=popular / popular.sum())
    _, first = np.unique(user.astype(np.int64) * ITEMS + item, return_index=True)
    chosen = rng.permutation(first)[:RATINGS]
    user, item = user[chosen], item[chosen]
    factors = [rng.normal(scale=0.45, size=(n, 10)) for n in (USERS, ITEMS)]
    offsets = [rng.normal(scale=0.4, size=n) for n in (USERS, ITEMS)]
    value = 3.5 + offsets[0][user] + offsets[1][item] + (factors[0][user] * factors[1][item]).sum(axis=1)
    value = np.clip(np.round(value + rng.normal(scale=0.8, size=RATINGS)), 1, 5)
    frame = pandas.DataFrame({"user_id": user, "item_id": item, "rating": value.astype(np.float64)})
    held = rng.random(RATINGS) < 0.1
    return frame[~held].reset_index(drop=True), frame[held].reset_index(drop=True)


def lenskit(train: Any, k: int) -> Any:
    """Its dataset and its training, ten epochs."""
    data = importlib.import_module("lenskit.data").from_interactions_df(train)
    kind = importlib.import_module("lenskit.als").BiasedMFScorer
    model = kind(embedding_size=k, epochs=SWEEPS, regularization=RIDGE)
    model.train(data)
    return model


def ours(train: Any, k: int) -> Any:
    """The same frame, ten sweeps."""
    columns = {"user": "user_id", "item": "item_id", "rating": "rating"}
    model = tamis.MatrixFactorization(
        k, ridge=RIDGE, offset_ridge=5.0, max_iter=SWEEPS, tol=0.0, columns=columns, random_state=0
    )
    return model.fit(train)


def error_of_lenskit(model: Any, test: Any) -> float:
    """Root mean square, over pairs that it knows."""
    items = importlib.import_module("lenskit.data").ItemList
    found = np.full(len(test), np.nan)
    for user, rows in test.groupby("user_id"):
        found[rows.index] = model(user, items(item_ids=rows.item_id.to_numpy())).scores("numpy")
    return _error(found, test)


def _error(found: Array, test: Any) -> float:
    known = np.isfinite(found)
    return float(np.sqrt(np.mean(np.square(found[known] - test.rating.to_numpy()[known]))))


def in_turn(
    one: Callable[[], Any], other: Callable[[], Any], repeats: int
) -> tuple[list[float], list[float]]:
    """Seconds of each, taken in turn."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for run, seconds in zip((one, other), taken, strict=True):
            begun = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - begun)
    return taken


def line(name: str, mine: list[float], theirs: list[float], more: str) -> str:
    """One line of the table."""
    ratios = sorted(b / a for a, b in zip(mine, theirs, strict=True))
    return (
        f"{name:28s} {median(mine):7.3f} s {median(theirs):7.3f} s  ratio {median(ratios):5.2f} "
        f"({ratios[0]:.2f}–{ratios[-1]:.2f})  {more}"
    )


def recommending(train: Any, repeats: int) -> Comparison:
    """The ten best of 10,000 users, by the same factors on both sides: implicit's own."""
    sparse = importlib.import_module("scipy.sparse")
    peer = importlib.import_module("implicit.cpu.als").AlternatingLeastSquares(factors=64, iterations=3)
    rows = train.sample(RATINGS, replace=True, random_state=0)  # users beyond 6,000 are copies
    user = rows.user_id.to_numpy() + USERS * np.random.default_rng(0).integers(0, 2, len(rows))
    shape = 2 * USERS, ITEMS
    table = sparse.csr_matrix((np.ones(len(rows), np.float32), (user, rows.item_id)), shape=shape)
    table.sum_duplicates()
    peer.fit(table, show_progress=False)
    model = tamis.MatrixFactorization(64, feedback="implicit", max_iter=1, ridge=0.01, random_state=0)
    model.fit(table)
    _with_factors(model, np.asarray(peer.user_factors), np.asarray(peer.item_factors))
    # who did nothing gets popular things from ours, and something at random from implicit
    people = np.flatnonzero(np.diff(table.indptr))[:RECOMMENDED]
    assert len(people) == RECOMMENDED
    found, _ = model.recommend(people, BEST)
    wanted, _ = peer.recommend(people, table[people], N=BEST, filter_already_liked_items=True)
    recall = np.mean(
        [len(set(a) & set(b)) / BEST for a, b in zip(found.tolist(), wanted.tolist(), strict=True)]
    )
    mine, theirs = in_turn(
        lambda: model.recommend(people, BEST),
        lambda: peer.recommend(people, table[people], N=BEST, filter_already_liked_items=True),
        max(repeats, 5),
    )
    more = f"the same items: {recall:.4f}"
    sys.stdout.write(line("recommend 10,000 users", mine, theirs, more) + "\n")
    what = f"the ten best of {RECOMMENDED:,} users, by the same factors, against implicit; {more}"
    return compare("recommend", what, mine, theirs, wanted=1.0)


def _with_factors(model: Any, users: Array, items: Array) -> None:
    """Give our model the peer's factors, so that both rank the same scores."""
    posterior = model.state_.posterior
    posterior.users[0, :, :-1], posterior.items[0, :, :-1] = users, items


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--factors", type=int, nargs="+", default=[50, 128])
    parser.add_argument("--output", type=Path, help="write the raw results to this file, for the scoreboard")
    given = parser.parse_args()
    comparisons = []
    train, test = ratings()
    sys.stdout.write(f"{len(train):,} ratings, {USERS:,} users, {ITEMS:,} items, {os.cpu_count()} cores\n")
    for k in given.factors:
        model, peer = ours(train, k), lenskit(train, k)
        errors = _error(model.predict(test[["user_id", "item_id"]]), test), error_of_lenskit(peer, test)
        mine, theirs = in_turn(partial(ours, train, k), partial(lenskit, train, k), given.repeats)
        more = f"RMSE {errors[0]:.4f} against {errors[1]:.4f}"
        sys.stdout.write(line(f"ALS, {SWEEPS} sweeps, k = {k}", mine, theirs, more) + "\n")
        sys.stdout.flush()
        what = (
            f"MatrixFactorization({k}), {len(train):,} ratings, {SWEEPS} sweeps, against LensKit's BiasedMF"
        )
        comparisons.append(compare(f"als-{k}", f"{what}; {more}", mine, theirs, wanted=ALS_WANTED))
    comparisons.append(recommending(train, given.repeats))
    if given.output:
        versions = {name: version(name) for name in ("lenskit", "implicit")}
        write_run(given.output, "Recommenders", comparisons=comparisons, versions=versions)


if __name__ == "__main__":
    main()
