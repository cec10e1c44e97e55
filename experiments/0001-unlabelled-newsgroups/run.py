"""posts, a few of them labelled → naive Bayes of the labelled, or of all by EM → accuracy on posts held out.

20 Newsgroups, training part: a fifth of each group is held out and looked at once, at the end. Of the rest,
another fifth chooses the smoothing of every method, for labels alone as for EM; then so many posts of each
group keep their label, the others are given without one, and the whole is done again for each seed.

    python experiments/0001-unlabelled-newsgroups/run.py [folder of newsgroups-train.tar.xz]
"""

import argparse
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer

import tamis

LABELLED = (5, 15, 30, 100)  # posts of each group that keep their label
WEIGHTS = (1.0, 0.3, 0.1)  # of a post without one
ALPHAS = (0.01, 0.03, 0.1, 0.3)
SEEDS = range(5)
HELD = 2  # draws the fifth that is held out
CHOOSING = 15  # labels per group with which the smoothing is chosen, once for each method
DATA = Path(__file__).parents[3] / "shared" / "data"

Indices = NDArray[np.int64]
Method = float | None  # the weight of a post without a label; None: those are left out


class Posts(NamedTuple):
    """Counts of words, and the groups."""

    counts: Any  # (n, words), sparse
    group: Indices  # (n,)

    def take(self, rows: Indices) -> "Posts":
        return Posts(self.counts[rows], self.group[rows])


def read(folder: Path) -> tuple[list[str], Indices]:
    """Posts, headers and all, in the order of their paths; and their groups by number."""
    found = {}
    with tarfile.open(folder / "newsgroups-train.tar.xz", "r|xz") as archive:
        for member in archive:
            if member.isfile() and (file := archive.extractfile(member)) is not None:
                found[member.name] = file.read().decode("latin-1")
    paths = sorted(found)
    names = [path.split("/")[-2] for path in paths]
    return [found[path] for path in paths], np.unique(names, return_inverse=True)[1].astype(np.int64)


def fifth(group: Indices, seed: int) -> tuple[Indices, Indices]:
    """Four fifths of each group, and the fifth."""
    fold = tamis.validate.split(len(group), 5, np.random.default_rng(seed), group=group)
    return np.flatnonzero(fold > 0), np.flatnonzero(fold == 0)


def labelled(group: Indices, each: int, seed: int) -> Indices:
    """So many rows of each group."""
    order = np.random.default_rng(seed).permutation(len(group))
    return np.concatenate([order[group[order] == g][:each] for g in range(group.max() + 1)])


def right(learn: Posts, known: Indices, test: Posts, method: Method, alpha: float) -> NDArray[np.bool_]:
    """Which test posts are put into their group by a model that knows these labels."""
    if method is None:
        model = tamis.MultinomialNB(alpha=alpha).fit(*learn.take(known))
    else:
        y = np.full(len(learn.group), None, dtype=object)
        y[known] = learn.group[known]
        model = tamis.MultinomialNB(alpha=alpha, unlabelled_weight=method).fit(learn.counts, y)
    return np.asarray(model.predict(test.counts) == test.group)


def chosen(rest: Posts) -> dict[Method, float]:
    """The smoothing of each method, by accuracy on a fifth of the rest with `CHOOSING` labels per group."""
    learn, check = (rest.take(rows) for rows in fifth(rest.group, seed=1))
    known = labelled(learn.group, CHOOSING, seed=1000)
    best: dict[Method, float] = {}
    for method in (None, *WEIGHTS):
        scores = {alpha: float(right(learn, known, check, method, alpha).mean()) for alpha in ALPHAS}
        best[method] = max(scores, key=lambda alpha: scores[alpha])
        name = "labels alone" if method is None else f"EM, unlabelled weigh {method}"
        print(f"validation: {name}: alpha={best[method]}, accuracy {scores[best[method]]:.3f}", flush=True)
    print()
    return best


def outcome(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> str:
    """Of two methods on the same posts: won or lost if they differ by two standard errors, else tied."""
    gained, spoilt = int((one & ~other).sum()), int((~one & other).sum())
    if abs(gained - spoilt) <= 2.0 * np.sqrt(gained + spoilt):
        return "tied"
    return "won" if gained > spoilt else "lost"


def table(rest: Posts, held: Posts, best: dict[Method, float]) -> Iterator[str]:
    """Lines of the result, as Markdown."""
    yield "| labels per group | unlabelled weigh | alpha | labels alone | EM | gain | won / tied / lost |"
    yield "|---|---|---|---|---|---|---|"
    for each in LABELLED:
        draws = [labelled(rest.group, each, seed) for seed in SEEDS]
        alone = [right(rest, known, held, None, best[None]) for known in draws]
        for weight in WEIGHTS:
            found = [right(rest, known, held, weight, best[weight]) for known in draws]
            gains = np.array([one.mean() - other.mean() for one, other in zip(found, alone, strict=True)])
            outcomes = [outcome(one, other) for one, other in zip(found, alone, strict=True)]
            yield (
                f"| {each} | {weight} | {best[None]} and {best[weight]} | {np.mean(alone):.3f} "
                f"| {np.mean(found):.3f} | {gains.mean():+.3f} ({gains.min():+.3f} to {gains.max():+.3f}) "
                f"| {' / '.join(str(outcomes.count(name)) for name in ('won', 'tied', 'lost'))} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=DATA, help=f"default: {DATA}")
    begun = time.monotonic()
    texts, group = read(parser.parse_args().folder)
    learn, held = fifth(group, seed=HELD)
    words = CountVectorizer(stop_words="english", min_df=2).fit([texts[i] for i in learn])
    posts = Posts(words.transform(texts).tocsr().astype(np.float64), group)
    rest, last = posts.take(learn), posts.take(held)
    print(f"{len(learn)} posts to learn from, {len(held)} held out, {posts.counts.shape[1]} words", flush=True)
    for line in table(rest, last, chosen(rest)):
        print(line, flush=True)
    print(f"\n{time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
