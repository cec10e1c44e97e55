"""Identify the language of a text, by naive Bayes over n-grams of letters.

`languages.npz` has the counts; `tools/languages` makes it from `tools/language_texts` and the stop words. The
code uses only NumPy, because a mail filter calls it in a process that has just started, for many encodings of
one text, and must not wait for SciPy to load.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Final, NamedTuple
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from tamis._kernels.text import BREAK, SKIP
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

# These were chosen by cross-validation on the project's own texts: experiments/0003-language-identifier.
ORDER = 4  # the length of the longest n-grams
WIDTH = 1 << 15  # columns of n-grams
ALPHA = 0.1  # pseudo-count of each column
# N-grams overlap, and words depend on each other: m n-grams count as SHARPNESS · m^(1 − DAMPING) independent
# ones. These values had the least log-loss in cross-validation, for sentences and for one to eight words.
SHARPNESS, DAMPING = 1.0, 0.5

SCRIPTS = 512  # columns of scripts, before those of n-grams: one per block of 128 characters
# The columns of all Han characters, of all Hangul syllables, and of all blocks beyond the other columns.
_HAN, _HANGUL, _BEYOND = 0x4E00 >> 7, 0xAC00 >> 7, SCRIPTS - 1
# Names and terms in Latin letters occur in texts of any script, but other letters seldom occur in Latin
# texts: if at least one letter in _LETTERS_PER_OTHER is of another script (its code point is _END_OF_LATIN or
# more), the Latin letters are ignored.
_END_OF_LATIN, _LETTERS_PER_OTHER = 0x370, 4
# Any text may have foreign names: the probability of a Latin letter is at least _FOREIGN. In the languages
# _MIXED, words are not separated, or foreign words get endings, so that within a word a Latin letter follows
# a letter of another script, or the reverse, with the probability _SWITCH.
_FOREIGN, _MIXED, _SWITCH = 1 / 40, ("ja", "ko", "zh"), 0.01
_BACK_OFF = 20.0  # pseudo-count, in letters, of the distribution that unseen pairs, letters or scripts follow
_MULTIPLIERS = np.uint32(0x9E3779B1), np.uint32(0x85EBCA6B)  # of the hash functions xxHash and MurmurHash3
_SAMPLE = 1 << 14  # the first characters of a text that are read: they suffice for any language
_ADDRESSES = re.compile(r"(?:://|www\.|@)\S*")  # addresses are in no language
_DIGITS = np.frombuffer(b"0123456789_", dtype=np.uint8)  # digits of other scripts count as letters


class Model(NamedTuple):
    """The counts of n-grams of letters per language."""

    languages: tuple[str, ...]  # their codes, such as "en"
    counts: NDArray[np.uint16]  # (SCRIPTS + WIDTH, languages)
    logs: NDArray[np.float32]  # log-probabilities, of the same shape


@lru_cache(maxsize=1)
def load_model() -> Model:
    """Return the model of the languages in `languages.npz`."""
    with (
        (files("tamis.text") / "languages.npz").open("rb") as file,
        np.load(file, allow_pickle=False) as table,
    ):
        return fit_model(tuple(table["codes"].tolist()), np.ascontiguousarray(table["counts"].T))


def fit_model(language_codes: tuple[str, ...], counts: NDArray[np.uint16], alpha: float = ALPHA) -> Model:
    """Return a model of counts (columns, languages), scaled to the same amount of text per language."""
    totals = counts.sum(axis=0, dtype=np.float64)
    median_total = float(np.median(totals))
    logs = np.log(counts * (median_total / totals).astype(np.float32) + np.float32(alpha))
    return Model(language_codes, counts, logs - np.float32(np.log(median_total + alpha * len(counts))))


def language(text: str | bytes) -> str | None:
    """Return the code of the language of a text; None if it has no letters of a known script.

    >>> language("Where have all the flowers gone?"), language("Sag mir, wo die Blumen sind")
    ('en', 'de')
    >>> language("1789 + 12") is None
    True
    """
    return next(iter(languages(text, top=1)), None)


def languages(text: str | bytes, top: int = 3) -> dict[str, float]:
    """Return the `top` most probable languages of a text, the likeliest first, with their probabilities.

    >>> likely = languages("Hvor er blomsterne henne?", top=2)
    >>> list(likely)
    ['da', 'nb']
    """
    if top < 1:
        raise ValueError(f"got top={top}, expected at least 1")
    model = load_model()
    columns = find_columns(text if isinstance(text, str) else decode(text))
    probabilities = np.exp(log_probabilities(columns, model))
    if not len(probabilities):
        return {}
    best = np.argsort(-probabilities, kind="stable")[:top]
    return {model.languages[k]: float(probabilities[k]) for k in best}


def log_probabilities(columns: NDArray[np.int64], model: Model) -> NDArray[np.float64]:
    """Return the log-probability of each language, given a text's columns; empty if no script is known."""
    if not model.counts[columns[columns < SCRIPTS]].any():
        return np.zeros(0)
    distinct, times = np.unique(columns, return_counts=True)
    scores: NDArray[np.float64] = times.astype(np.float64) @ model.logs[distinct].astype(np.float64)
    scores *= SHARPNESS / len(columns) ** DAMPING
    scores -= scores.max()
    scores -= np.log(np.exp(scores).sum())
    return scores


def find_columns(text: str, order: int = ORDER, width: int = WIDTH) -> NDArray[np.int64]:
    """Return the columns of a text: the script of each letter, then n-grams of 1 to `order` characters.

    N-grams stay within words; those of two and more characters may include the space before or after a word.
    Columns of n-grams are hashes.
    """
    codes = read_letters(text)
    other = codes >= _END_OF_LATIN
    if _LETTERS_PER_OTHER * other.sum() >= (codes != 0).sum():
        codes = _collapse_zeros(np.where(other, codes, 0))
    return np.concatenate(
        [
            find_scripts(codes[codes != 0]),
            *(ngrams[is_within] for ngrams, is_within in hash_ngrams(codes, order, width)),
        ]
    )


def hash_ngrams(
    codes: NDArray[np.uint32], order: int, width: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.bool_]]]:
    """Yield, for n = 1, 2, …, the column of the n-gram at each position, and whether it is within a word."""
    is_letter = is_within = codes != 0
    hashed = np.zeros(len(codes), dtype=np.uint32)
    for n in range(1, order + 1):
        last = codes[n - 1 :]
        hashed = (hashed[: len(last)] * _MULTIPLIERS[0]) ^ (last + np.uint32(n))
        hashed ^= hashed >> np.uint32(15)
        if n == 2:
            is_within = np.ones(len(last), dtype=bool)  # no two spaces are adjacent
        elif n > 2:
            is_within = is_within[: len(last)] & is_letter[n - 2 : len(codes) - 1]
        mixed = hashed * _MULTIPLIERS[1]
        yield (
            SCRIPTS + ((mixed ^ (mixed >> np.uint32(13))) & np.uint32(width - 1)).astype(np.int64),
            is_within,
        )


def read_letters(text: str) -> NDArray[np.uint32]:
    """Return code points in lower case, with one zero between words and at both ends."""
    plain = normalize("NFC", _ADDRESSES.sub(" ", text[:_SAMPLE])).lower()
    codes = np.frombuffer(plain.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    table = alphabet("none")
    kinds = table.cells[256 * table.blocks[codes >> 8] + (codes & 255)] & 7
    codes = np.where((kinds == BREAK) | np.isin(codes, _DIGITS), 0, codes)
    codes = codes[kinds != SKIP]  # soft hyphens and zero-width joiners are ignored
    return _collapse_zeros(np.concatenate([[0], codes, [0]]).astype(np.uint32))


def _collapse_zeros(codes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Replace adjacent zeros by one."""
    spaced: NDArray[np.uint32] = codes[np.append(True, (codes[1:] != 0) | (codes[:-1] != 0))]
    return spaced


def find_scripts(codes: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Return the column of each letter's script: a block of 128 letters, all of Han, or all of Hangul."""
    blocks: NDArray[np.int64] = np.minimum(codes >> 7, _BEYOND).astype(np.int64)
    han = ((codes >= 0x3400) & (codes < 0xA000)) | ((codes >= 0x20000) & (codes < 0x40000))
    blocks[han] = _HAN
    blocks[(codes >= 0xAC00) & (codes < 0xD7B0)] = _HANGUL
    return blocks


def find_least_cost(text: str, among: Sequence[str]) -> float:
    """Return the least -log P(text | language) of the letters of a text among some languages.

    Each letter depends on the one before. Unseen pairs have the probability of their letters, and unseen
    letters that of their script, whose letters are equally likely. Unlike the overlapping n-grams of
    `languages`, this is a probability of the text, so that texts of unequal length can be compared.
    """
    model = load_model()
    codes = read_letters(text)
    if len(codes) < 3:  # no letters
        return 0.0
    rows = np.array([model.languages.index(code) for code in among])
    (single, _), (double, _) = hash_ngrams(codes, 2, WIDTH)
    positions = np.flatnonzero(codes)
    script = find_scripts(codes[positions])
    # Han has about 27,000 characters, Hangul 11,172 syllables, and any other block 128 characters.
    letters_per_script = np.where(script == _HAN, 27_000, np.where(script == _HANGUL, 11_172, 128))[:, None]
    letters_per_language = model.counts[:SCRIPTS, rows].sum(axis=0, dtype=np.float64)
    # p (letters, languages) is first computed from the letter's script, then from the counts of the letter,
    # and then from the counts of its pair with the letter before.
    p = (
        (model.counts[script][:, rows] + _BACK_OFF / SCRIPTS)
        / (letters_per_language + _BACK_OFF)
        / letters_per_script
    )
    p = (model.counts[single[positions]][:, rows] + _BACK_OFF * p) / (letters_per_language + _BACK_OFF)
    # The number of first letters of words was not counted: a word has about five letters.
    previous = np.where(
        (codes[positions - 1] == 0)[:, None],
        letters_per_language / 5,
        model.counts[single[positions - 1]][:, rows],
    )
    # The count of a pair includes other pairs with the same hash, and is at most that of its first letter.
    pairs = np.minimum(model.counts[double[positions - 1]][:, rows], previous)
    p = (pairs + _BACK_OFF * p) / (previous + _BACK_OFF)
    mixed = np.array([code in _MIXED for code in among])
    latin = codes[positions] < 128
    p = np.where(latin[:, None] & (mixed | (model.counts[0, rows] > 0)), np.maximum(p, _FOREIGN), p)
    switched = (latin != (codes[positions - 1] < 128)) & (codes[positions - 1] != 0)
    p = np.where(switched[:, None] & mixed, _SWITCH * p, p)
    return float(-np.log(p).sum(axis=0).max())
