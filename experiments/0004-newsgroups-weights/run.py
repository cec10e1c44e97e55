"""texts → counts → weights → classifier → accuracy on texts held out: what do the weights bring?

20 Newsgroups (training part, headers kept) and the SMS Spam Collection. A fifth of each class is held out and looked at
once, at the end. A fifth of the rest chooses the smoothing (naive Bayes) or the penalty (logistic regression) of each
method, from the same grid for scikit-learn as for tamis.

    python experiments/0004-newsgroups-weights/run.py [folder of newsgroups-train.tar.xz and short-text.tar.xz]
"""

import argparse
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import naive_bayes
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer

import tamis
from tamis.text import TokenCounts
from tamis.text.weights import LogCounts, NaiveBayesWeights, TfIdf

ALPHAS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
PENALTIES = (0.1, 1.0, 10.0)  # C of logistic regression
HELD = 4  # draws the fifth that is held out
DATA = Path(__file__).parents[3] / "shared" / "data"

Indices = NDArray[np.int64]
Right = NDArray[np.bool_]  # which texts a method put into their class
Words = Literal["scikit-learn", "tamis"]  # who made the counts


class Method(NamedTuple):
    """A classifier of counts, its one number open."""

    words: Words
    make: Callable[[float], Any]
    grid: tuple[float, ...]


class Split(NamedTuple):
    """Counts of texts to learn from and of texts to judge by, as either of two made them."""

    learn: dict[Words, Any]
    test: dict[Words, Any]
    given: Indices  # (texts to learn from,)
    wanted: Indices  # (texts to judge by,)

    @classmethod
    def of(cls, texts: list[str], group: Indices, learn: Indices, test: Indices) -> "Split":
        known, asked = [texts[i] for i in learn], [texts[i] for i in test]
        makers: dict[Words, Any] = {"scikit-learn": CountVectorizer(), "tamis": TokenCounts()}
        return cls(
            {name: maker.fit_transform(known).astype(np.float64) for name, maker in makers.items()},
            {name: maker.transform(asked).astype(np.float64) for name, maker in makers.items()},
            group[learn],
            group[test],
        )

    def right(self, method: Method, number: float) -> Right:
        model = method.make(number).fit(self.learn[method.words], self.given)
        return np.asarray(model.predict(self.test[method.words]) == self.wanted)


def one_against_rest(*steps: Any) -> Any:
    return OneVsRestClassifier(make_pipeline(*steps), n_jobs=2)


def logistic(c: float) -> Any:
    return LogisticRegression(solver="liblinear", C=c, max_iter=100, random_state=0)


METHODS = {
    "scikit-learn MultinomialNB": Method("scikit-learn", lambda a: naive_bayes.MultinomialNB(alpha=a), ALPHAS),
    "MultinomialNB": Method("tamis", lambda a: tamis.MultinomialNB(alpha=a), ALPHAS),
    "scikit-learn ComplementNB": Method("scikit-learn", lambda a: naive_bayes.ComplementNB(alpha=a), ALPHAS),
    "ComplementNB": Method("tamis", lambda a: tamis.ComplementNB(alpha=a), ALPHAS),
    "scikit-learn BernoulliNB": Method("scikit-learn", lambda a: naive_bayes.BernoulliNB(alpha=a), ALPHAS),
    "BernoulliNB": Method("tamis", lambda a: tamis.BernoulliNB(alpha=a), ALPHAS),
    "scikit-learn TfidfTransformer(sublinear) → ComplementNB": Method(
        "scikit-learn",
        lambda a: make_pipeline(TfidfTransformer(sublinear_tf=True), naive_bayes.ComplementNB(alpha=a)),
        ALPHAS,
    ),
    "Rennie: LogCounts → TfIdf(plain) → ComplementNB": Method(
        "tamis",
        lambda a: make_pipeline(LogCounts(), TfIdf(idf="plain", norm="l2"), tamis.ComplementNB(alpha=a)),
        ALPHAS,
    ),
    "logistic regression of binary counts": Method(
        "tamis", lambda c: one_against_rest(Binarizer(), logistic(c)), PENALTIES
    ),
    "Wang, Manning: NaiveBayesWeights → logistic regression": Method(
        "tamis", lambda c: one_against_rest(NaiveBayesWeights(), logistic(c)), PENALTIES
    ),
}
RENNIE, WANG = (name for name in METHODS if name.startswith(("Rennie", "Wang")))
LOGISTIC = "logistic regression of binary counts"
BOTH = (False, True)
COMPARED = [  # of two methods, both as they come (1.0) or both as validation chose
    *((n, f"scikit-learn {n}", best) for n in ("MultinomialNB", "ComplementNB", "BernoulliNB") for best in BOTH),
    *((RENNIE, other, best) for other in ("MultinomialNB", "ComplementNB") for best in BOTH),
    (RENNIE, "scikit-learn TfidfTransformer(sublinear) → ComplementNB", True),
    *((WANG, other, best) for other in ("MultinomialNB", LOGISTIC) for best in BOTH),
    (WANG, RENNIE, True),
]


def newsgroups(folder: Path) -> tuple[list[str], Indices]:
    """Posts, headers and all, in the order of their paths; and their groups by number."""
    found = {}
    with tarfile.open(folder / "newsgroups-train.tar.xz", "r|xz") as archive:
        for member in archive:
            if member.isfile() and (file := archive.extractfile(member)) is not None:
                found[member.name] = file.read().decode("latin-1")
    paths = sorted(found)
    names = [path.split("/")[-2] for path in paths]
    return [found[path] for path in paths], np.unique(names, return_inverse=True)[1].astype(np.int64)


def messages(folder: Path) -> tuple[list[str], Indices]:
    """Short messages; 1 for spam, 0 for ham."""
    with tarfile.open(folder / "short-text.tar.xz", "r:xz") as archive:
        file = archive.extractfile("sms-spam-collection/SMSSpamCollection")
        if file is None:
            raise FileNotFoundError("short-text.tar.xz has no SMSSpamCollection")
        lines = file.read().decode("utf-8").splitlines()
    labels, texts = zip(*(line.split("\t", 1) for line in lines), strict=True)
    return list(texts), (np.array(labels) == "spam").astype(np.int64)


def fifth(group: Indices, seed: int) -> tuple[Indices, Indices]:
    """Four fifths of each class, and the fifth."""
    fold = tamis.validate.split(len(group), 5, np.random.default_rng(seed), group=group)
    return np.flatnonzero(fold > 0), np.flatnonzero(fold == 0)


def chosen(split: Split) -> dict[str, float]:
    """The number of each method that is right most often."""
    best = {}
    for name, method in METHODS.items():
        begun = time.monotonic()
        scores = {number: float(split.right(method, number).mean()) for number in method.grid}
        best[name] = max(scores, key=lambda number: scores[number])
        told = ", ".join(f"{number}: {score:.3f}" for number, score in scores.items())
        print(f"validation: {name}: {told} ({time.monotonic() - begun:.1f} s)", flush=True)
    return best


def compared(one: Right, other: Right) -> str:
    """The gain of one method over another on the same texts, its 95 % interval, and who won if 0 is outside of it."""
    gains = one.astype(np.float64) - other
    gain, width = 100 * gains.mean(), 196 * gains.std() / np.sqrt(len(gains))
    said = "tied" if abs(gain) <= width else "won" if gain > 0 else "lost"
    return f"{gain:+.1f} ({gain - width:+.1f} to {gain + width:+.1f}) | {said}"


def table(split: Split, best: dict[str, float]) -> Iterator[str]:
    """Lines of the result, as Markdown."""
    found = {(name, number): split.right(METHODS[name], number) for name in METHODS for number in {1.0, best[name]}}
    yield "| method | default (1.0) | as chosen | chosen |"
    yield "|---|---|---|---|"
    for name in METHODS:
        scores = [100 * found[name, number].mean() for number in (1.0, best[name])]
        yield f"| {name} | {scores[0]:.1f} | {scores[1]:.1f} | {best[name]} |"
    yield ""
    yield "| method | against | both | gain in points | |"
    yield "|---|---|---|---|---|"
    for one, other, choosing in COMPARED:
        pair = [found[name, best[name] if choosing else 1.0] for name in (one, other)]
        yield f"| {one} | {other} | {'as chosen' if choosing else 'at 1.0'} | {compared(*pair)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=DATA, help=f"default: {DATA}")
    parser.add_argument("--validate", action="store_true", help="stop before the texts that are held out")
    arguments = parser.parse_args()
    begun = time.monotonic()
    for name, read in (("SMS Spam Collection", messages), ("20 Newsgroups", newsgroups)):
        texts, group = read(arguments.folder)
        rest, held = fifth(group, seed=HELD)
        learn, check = (rest[rows] for rows in fifth(group[rest], seed=1))
        print(f"\n{name}: {len(rest)} texts to learn from, {len(held)} held out", flush=True)
        best = chosen(Split.of(texts, group, learn, check))
        if not arguments.validate:
            print("\n" + "\n".join(table(Split.of(texts, group, rest, held), best)), flush=True)
    print(f"\n{time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
