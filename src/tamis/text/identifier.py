"""text → the language that it is in: naive Bayes over runs of letters.

`languages.npz` has the counts; `tools/languages` makes it from `tools/language_texts` and the stop words. All
is NumPy, and does not go by the kernels of tokens: a mail filter asks in a process that has just started, and
tries many encodings of one text, and nothing here may wait for SciPy or Numba to load.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Final, NamedTuple
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from tamis._kernels.text import UNSPACED
from tamis.text.alphabet import alphabet
from tamis.text.charset import decode

LANGUAGES: Final = {
    "af": "Afrikaans",
    "ar": "Arabic",
    "bg": "Bulgarian",
    "bn": "Bengali",
    "ca": "Catalan",
    "cs": "Czech",
    "cy": "Welsh",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "eo": "Esperanto",
    "es": "Spanish",
    "et": "Estonian",
    "eu": "Basque",
    "fa": "Persian",
    "fi": "Finnish",
    "fr": "French",
    "ga": "Irish",
    "gl": "Galician",
    "he": "Hebrew",
    "hi": "Hindi",
    "hr": "Croatian",
    "hu": "Hungarian",
    "hy": "Armenian",
    "id": "Indonesian",
    "is": "Icelandic",
    "it": "Italian",
    "ja": "Japanese",
    "ka": "Georgian",
    "ko": "Korean",
    "lt": "Lithuanian",
    "lv": "Latvian",
    "mk": "Macedonian",
    "nb": "Norwegian",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sk": "Slovak",
    "sl": "Slovenian",
    "sq": "Albanian",
    "sr": "Serbian",
    "sv": "Swedish",
    "ta": "Tamil",
    "th": "Thai",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "ur": "Urdu",
    "vi": "Vietnamese",
    "zh": "Chinese",
}

# These by leaving sentences of the project's own texts out: experiments/0003-language-identifier.
ORDER = 4  # the longest run of characters
WIDTH = 1 << 15  # columns of runs
ALPHA = 0.1  # what each column has before any text
# Runs of a text overlap, and words follow from each other: n runs are worth SHARPNESS · n^(1 - DAMPING) of
# independent ones. That gave sentences left out, and pieces of one to eight words, the least log-loss.
SHARPNESS, DAMPING = 1.0, 0.5

SCRIPTS = 512  # columns of scripts, before those of runs: 128 characters each
_HAN, _HANGUL, _BEYOND = 0x4E00 >> 7, 0xAC00 >> 7, SCRIPTS - 1
# Names and terms in Latin letters are in texts of any script, seldom the other way round: if one letter in
# so many is of another script, the Latin ones tell nothing. Before, a third of Chinese was right.
_LATIN, _ENOUGH = 0x370, 4
# Any text may hold foreign names: a Latin letter never costs more than one of some 40 signs. Where words are
# not spaced, or endings are put to foreign words, Latin letters run into others, which is as likely as a
# rare letter.
_FOREIGN, _MIXED, _SWITCH = 1 / 40, ("ja", "ko", "zh"), 0.01
_DOUBT = 20.0  # letters that a pair, a letter or a script that was not seen is believed to follow from
_SAMPLE = 1 << 14  # characters that are read: no text of that length is in doubt
_ADDRESSES = re.compile(r"(?:://|www\.|@)\S*")  # they are in no language
_DIGITS = np.frombuffer(b"0123456789_", dtype=np.uint8)  # digits of other scripts tell the script


class Model(NamedTuple):
    """The counts of runs of letters per language."""

    codes: tuple[str, ...]
    counts: NDArray[np.uint16]  # (SCRIPTS + WIDTH, languages)
    logs: NDArray[np.float32]  # the same: log-probabilities


@lru_cache(maxsize=1)
def model() -> Model:
    """The languages that ship."""
    with (
        (files("tamis.text") / "languages.npz").open("rb") as file,
        np.load(file, allow_pickle=False) as table,
    ):
        return fit_model(tuple(table["codes"].tolist()), np.ascontiguousarray(table["counts"].T))


def fit_model(codes: tuple[str, ...], counts: NDArray[np.uint16], alpha: float = ALPHA) -> Model:
    """Log-probabilities of counts (columns, languages), as if there were as much text of each language."""
    totals = counts.sum(axis=0, dtype=np.float64)
    common = float(np.median(totals))
    logs = np.log(counts * (common / totals).astype(np.float32) + np.float32(alpha))
    return Model(codes, counts, logs - np.float32(np.log(common + alpha * len(counts))))


def language(text: str | bytes) -> str | None:
    """The code of the language of a text; None if it has no letters, or none of a script that is known.

    >>> language("Where have all the flowers gone?"), language("Sag mir, wo die Blumen sind")
    ('en', 'de')
    >>> language("1789 + 12") is None
    True
    """
    return next(iter(languages(text, top=1)), None)


def languages(text: str | bytes, top: int = 3) -> dict[str, float]:
    """The languages that a text is most likely in, the likeliest first, and their probabilities among all.

    >>> likely = languages("Hvor er blomsterne henne?", top=2)
    >>> list(likely)
    ['da', 'nb']
    """
    if top < 1:
        raise ValueError(f"got top={top}, expected at least 1")
    known = model()
    cells = columns(text if isinstance(text, str) else decode(text))
    probabilities = np.exp(log_probabilities(cells, known))
    if not len(probabilities):
        return {}
    best = np.argsort(-probabilities, kind="stable")[:top]
    return {known.codes[k]: float(probabilities[k]) for k in best}


def log_probabilities(cells: NDArray[np.int64], known: Model) -> NDArray[np.float64]:
    """The log-probability of each language, given the columns of a text; empty if no script is known."""
    if not known.counts[cells[cells < SCRIPTS]].any():
        return np.zeros(0)
    distinct, times = np.unique(cells, return_counts=True)
    scores: NDArray[np.float64] = times.astype(np.float64) @ known.logs[distinct].astype(np.float64)
    scores *= SHARPNESS / len(cells) ** DAMPING
    scores -= scores.max()
    scores -= np.log(np.exp(scores).sum())
    return scores


def columns(text: str, order: int = ORDER, width: int = WIDTH) -> NDArray[np.int64]:
    """The columns of a text: the script of each letter, then runs of 1 to `order` characters within words.

    Runs of two and more may begin and end with the space about a word. Columns of runs go by hash.
    """
    codes = letters(text)
    other = codes >= _LATIN
    if _ENOUGH * other.sum() >= (codes != 0).sum():
        codes = _collapse_zeros(np.where(other, codes, 0))
    return np.concatenate(
        [scripts(codes[codes != 0]), *(run[whole] for run, whole in runs(codes, order, width))]
    )


def runs(
    codes: NDArray[np.uint32], order: int, width: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.bool_]]]:
    """Columns of the runs of 1, 2, … characters from each place on, and whether within a word."""
    inside = whole = codes != 0
    hashed = np.zeros(len(codes), dtype=np.uint32)
    for n in range(1, order + 1):
        last = codes[n - 1 :]
        hashed = (hashed[: len(last)] * np.uint32(0x9E3779B1)) ^ (last + np.uint32(n))
        hashed ^= hashed >> np.uint32(15)
        if n == 2:
            whole = np.ones(len(last), dtype=bool)  # spaces come one at a time
        elif n > 2:
            whole = whole[: len(last)] & inside[n - 2 : len(codes) - 1]
        mixed = hashed * np.uint32(0x85EBCA6B)
        yield SCRIPTS + ((mixed ^ (mixed >> np.uint32(13))) & np.uint32(width - 1)).astype(np.int64), whole


def letters(text: str) -> NDArray[np.uint32]:
    """Code points in lower case, a zero for all that is between words, and at both ends."""
    plain = normalize("NFC", _ADDRESSES.sub(" ", text[:_SAMPLE])).lower()
    codes = np.frombuffer(plain.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    table = alphabet("none")
    kinds = table.cells[256 * table.blocks[codes >> 8] + (codes & 255)] & 7
    codes = np.where((kinds == 0) | np.isin(codes, _DIGITS), 0, codes)
    codes = codes[kinds <= UNSPACED]  # beyond is what is skipped: soft hyphens, joiners
    return _collapse_zeros(np.concatenate([[0], codes, [0]]).astype(np.uint32))


def _collapse_zeros(codes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """One zero for each run of them."""
    spaced: NDArray[np.uint32] = codes[np.append(True, (codes[1:] != 0) | (codes[:-1] != 0))]
    return spaced


def scripts(codes: NDArray[np.uint32]) -> NDArray[np.int64]:
    """The column of the script of each letter: by blocks of 128, all of Han as one, and all of Hangul."""
    blocks: NDArray[np.int64] = np.minimum(codes >> 7, _BEYOND).astype(np.int64)
    han = ((codes >= 0x3400) & (codes < 0xA000)) | ((codes >= 0x20000) & (codes < 0x40000))
    blocks[han] = _HAN
    blocks[(codes >= 0xAC00) & (codes < 0xD7B0)] = _HANGUL
    return blocks


def nats(text: str, among: Sequence[str]) -> float:
    """The least -log P(text | language) of the letters of a text among some languages.

    Each letter given the one before; pairs that were not seen go by letters, and letters by scripts, whose
    letters are as likely as each other. Unlike the runs of `languages`, which overlap, this is one
    probability, so that texts of unequal length compare.
    """
    known = model()
    codes = letters(text)
    if len(codes) < 3:  # no letters
        return 0.0
    rows = np.array([known.codes.index(code) for code in among])
    (single, _), (double, _) = runs(codes, 2, WIDTH)
    at = np.flatnonzero(codes)
    script = scripts(codes[at])
    many = np.where(script == _HAN, 27_000, np.where(script == _HANGUL, 11_172, 128))[:, None]
    written = known.counts[:SCRIPTS, rows].sum(axis=0, dtype=np.float64)  # letters
    p = (known.counts[script][:, rows] + _DOUBT / SCRIPTS) / (written + _DOUBT) / many
    p = (known.counts[single[at]][:, rows] + _DOUBT * p) / (written + _DOUBT)
    # How many words there were is not known: they have five letters or so.
    before = np.where((codes[at - 1] == 0)[:, None], written / 5, known.counts[single[at - 1]][:, rows])
    pairs = np.minimum(
        known.counts[double[at - 1]][:, rows], before
    )  # some are of other pairs of the same hash
    p = (pairs + _DOUBT * p) / (before + _DOUBT)
    mixed = np.array([code in _MIXED for code in among])
    latin = codes[at] < 128
    p = np.where(latin[:, None] & (mixed | (known.counts[0, rows] > 0)), np.maximum(p, _FOREIGN), p)
    switched = (latin != (codes[at - 1] < 128)) & (codes[at - 1] != 0)
    p = np.where(switched[:, None] & mixed, _SWITCH * p, p)
    return float(-np.log(p).sum(axis=0).max())
