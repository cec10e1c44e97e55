"""Texts to count: 20 Newsgroups, if it is at hand, and as many made-up ones as one likes."""

import os
import tarfile
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

NEWSGROUPS = "newsgroups-train.tar.xz"
LETTERS = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
VOCABULARY = 200_000
LENGTH = 250  # words of a text, about
STEEP = 1.05  # the k-th word is as likely as 1 / k to this power
CLASSES = 20


class Texts(NamedTuple):
    """Texts and what they are about."""

    texts: list[str]
    labels: list[str]


@lru_cache(maxsize=1)
def newsgroups() -> Texts:
    """The training part of 20 Newsgroups, from the folder TAMIS_DATA, or from beside the checkout."""
    folder = Path(os.environ.get("TAMIS_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not (folder / NEWSGROUPS).is_file():
        raise FileNotFoundError(
            f"{folder / NEWSGROUPS} is not there: set TAMIS_DATA to the folder that has it"
        )
    found = {}
    with tarfile.open(folder / NEWSGROUPS, "r|xz") as archive:
        for member in archive:
            if member.isfile() and (file := archive.extractfile(member)) is not None:
                found[member.name] = file.read().decode("latin-1")
    paths = sorted(found)
    return Texts([found[path] for path in paths], [path.split("/")[-2] for path in paths])


@lru_cache(maxsize=1)
def _words() -> np.ndarray[tuple[int], np.dtype[np.object_]]:
    """A vocabulary, frequent words short."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.poisson(1.0 + np.log10(np.arange(1, VOCABULARY + 1)) * 1.3) + 2, 2, 20)
    weights = 1.0 / np.arange(1, len(LETTERS) + 1)
    letters = rng.choice(LETTERS, size=int(lengths.sum()), p=weights / weights.sum())
    cuts = np.cumsum(lengths)[:-1]
    return np.array(["".join(part) for part in np.split(letters, cuts)], dtype=object)


def zipf(megabytes: float, seed: int = 1) -> Texts:
    """Made-up texts of so many million bytes: words by Zipf's law, with a stop and a new line."""
    rng = np.random.default_rng(seed)
    words = _words()
    shares = np.arange(1, VOCABULARY + 1) ** -STEEP
    steps = np.cumsum(shares / shares.sum())
    texts: list[str] = []
    size = 0.0
    while size < megabytes * 1e6:
        ranks = np.searchsorted(steps, rng.random(200 * LENGTH)).clip(max=VOCABULARY - 1)
        chosen = words[ranks]
        for k in range(200):
            part = chosen[k * LENGTH : (k + 1) * LENGTH].tolist()
            part[0] = part[0].capitalize()
            texts.append(
                " ".join(part[:100]) + ". " + " ".join(part[100:200]) + ",\n" + " ".join(part[200:]) + "!"
            )
            size += len(texts[-1])
    return Texts(texts, [f"class {k}" for k in rng.integers(CLASSES, size=len(texts))])
