"""The table of characters is what Unicode's database makes it, and nothing outgrows the room kernels make."""

import unicodedata
from functools import lru_cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray

from tamis._kernels.text.kinds import (  # noqa: PLC2701 (what kernels rely on is held here)
    BREAK,
    GROWTH,
    MARK,
    REPLACEMENT,
    SKIP,
    UNSPACED,
    WORD,
    Alphabet,
)
from tamis.text.alphabet import Digit, Fold, Unspaced, alphabet, unicode_version

TOOL = Path(__file__).parents[2] / "tools" / "alphabet"
FOLDS: tuple[Fold, ...] = get_args(Fold)
CODES = np.array([c for c in range(0x110000) if not 0xD800 <= c < 0xE000])


@lru_cache(maxsize=1)
def tool() -> ModuleType:
    loader = SourceFileLoader("alphabet_tool", str(TOOL))
    spec = spec_from_loader("alphabet_tool", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@lru_cache(maxsize=1)
def made() -> dict[str, NDArray[Any]]:
    """The tables, made anew from the database of the Python that runs."""
    found: dict[str, NDArray[Any]] = tool().made()
    return found


def cells(blocks: NDArray[Any], table: NDArray[Any]) -> NDArray[np.int64]:
    """The cell of each character."""
    return np.asarray(table[blocks[CODES >> 8].astype(np.int64) * 256 + (CODES & 255)]).astype(np.int64)


def kinds(found: NDArray[np.int64]) -> NDArray[np.int64]:
    return found & 7


def folded(found: NDArray[np.int64], pool: NDArray[np.uint8], rows: NDArray[Any]) -> list[bytes]:
    """What the characters of some rows are folded to."""
    whole = pool.tobytes()
    return [
        whole[cell >> 8 : (cell >> 8) + (cell >> 3 & 31)] if cell >> 3 & 31 else chr(code).encode()
        for code, cell in zip(CODES[rows].tolist(), found[rows].tolist(), strict=True)
    ]


def sizes() -> NDArray[np.int64]:
    """Bytes of each character in UTF-8."""
    return 1 + (CODES >= 0x80) + (CODES >= 0x800) + (CODES >= 0x10000)


def folded_sizes(letters: Alphabet) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    found = cells(letters.blocks, letters.cells)
    length = found >> 3 & 31
    return kinds(found), np.where(length == 0, sizes(), length)


def every_alphabet() -> list[Alphabet]:
    return [alphabet(f, u, d) for f in FOLDS for u in get_args(Unspaced) for d in get_args(Digit)]


# ── the file ──


def test_the_table_is_no_older_than_the_oldest_python_and_says_its_version() -> None:
    assert tuple(map(int, unicode_version().split("."))) >= (15, 1, 0)


# Characters that Unicode 15.0 and 15.1 read otherwise than 14.0, which Python 3.11 has: there are none. What
# a Python with a newer database than the table's reads otherwise is named here.
CHANGED: frozenset[str] = frozenset()


@pytest.mark.parametrize("fold", FOLDS)
def test_the_table_is_what_the_database_says(fold: Fold) -> None:
    """Of the characters that the running Python knows; of all, if its version of Unicode is the table's."""
    letters = alphabet(fold)
    ours = cells(letters.blocks, letters.cells)
    theirs = cells(made()[f"blocks_{fold}"], made()["cells"])
    differ = kinds(ours) != kinds(theirs)
    rows = np.flatnonzero((ours >> 3 & 31 > 0) | (theirs >> 3 & 31 > 0))
    assert len(rows) > 1000 or fold == "none"
    names = zip(folded(ours, letters.pool, rows), folded(theirs, made()["pool"], rows), strict=True)
    differ[rows] |= np.array([a != b for a, b in names], dtype=np.bool_)
    changed = {chr(code) for code in CODES[differ].tolist()}
    if unicodedata.unidata_version == unicode_version():
        assert changed == set()
    else:
        assert {c for c in changed if unicodedata.category(c) not in ("Cn", "Co")} <= CHANGED


@pytest.mark.parametrize("name", ["pairs", "composed", "digits"])
def test_what_is_listed_is_what_the_database_lists(name: str) -> None:
    with np.load(TOOL.parents[1] / "src" / "tamis" / "text" / "alphabet.npz") as file:
        ours = file[name]
    known = np.isin(ours, made()[name])
    assert known.sum() == len(made()[name])
    if name == "digits":
        assert all(unicodedata.category(chr(code)) == "Cn" for code in ours[~known].tolist())
    elif unicodedata.unidata_version >= "15":
        assert known.all()


def test_pairs_are_canonical_compositions_and_sorted() -> None:
    letters = alphabet()
    assert (np.diff(letters.pairs) > 0).all()
    for pair, together in zip(letters.pairs.tolist(), letters.composed.tolist(), strict=True):
        if unicodedata.category(chr(together)) != "Cn":
            assert unicodedata.normalize("NFC", chr(pair >> 21) + chr(pair & 0x1FFFFF)) == chr(together)


# ── what holds of any table ──


@pytest.mark.parametrize("fold", FOLDS)
def test_folding_twice_is_folding_once(fold: Fold) -> None:
    """What a word is folded to is of no class that would be read otherwise if it came again."""
    letters = alphabet(fold)
    found = cells(letters.blocks, letters.cells)
    kind = dict(zip(CODES.tolist(), kinds(found).tolist(), strict=True))
    rows = np.flatnonzero(found >> 3 & 31)
    once = dict(zip(CODES[rows].tolist(), folded(found, letters.pool, rows), strict=True))
    for code, name in once.items():
        parts = [ord(c) for c in name.decode()]
        assert b"".join(once.get(part, chr(part).encode()) for part in parts) == name
        within = {kind[part] for part in parts}
        assert kind[code] == BREAK or BREAK not in within
        assert kind[code] != UNSPACED or (within == {UNSPACED} and len(parts) == 1)


@pytest.mark.parametrize("fold", ["compatible", "base"])
def test_what_is_folded_to_marks_is_a_mark(fold: Fold) -> None:
    letters = alphabet(fold)
    found = cells(letters.blocks, letters.cells)
    kind = dict(zip(CODES.tolist(), kinds(found).tolist(), strict=True))
    rows = np.flatnonzero((found >> 3 & 31 > 0) & (kinds(found) != MARK))
    for code, name in zip(CODES[rows].tolist(), folded(found, letters.pool, rows), strict=True):
        assert {kind[ord(c)] for c in name.decode()} != {MARK}, f"U+{code:04X}"


def test_ascii_is_read_off_a_table_of_its_own() -> None:
    for letters in every_alphabet():
        found = cells(letters.blocks, letters.cells)
        kind = kinds(found)[:128].tolist()
        names = folded(found, letters.pool, np.arange(128))
        assert set(kind) == {BREAK, WORD}
        assert letters.ascii.tolist() == [
            name[0] if k == WORD else 0 for k, name in zip(kind, names, strict=True)
        ]
        assert all(len(name) == 1 for name in names)


def test_digits_have_a_shape() -> None:
    ours, plain = alphabet(digits="shape"), alphabet()
    shaped, kept = (cells(a.blocks, a.cells) for a in (ours, plain))
    digits = np.array([unicodedata.category(chr(c)) == "Nd" for c in CODES.tolist()])
    assert set(folded(shaped, ours.pool, digits)) == {b"0"}
    changed = np.flatnonzero((shaped != kept) & ~digits)
    assert {unicodedata.category(chr(c)) for c in CODES[changed].tolist()} <= {
        "Cn"
    }  # digits of a newer Unicode


def test_scripts_without_spaces_are_words_if_asked() -> None:
    pairs, words = alphabet(), alphabet(unspaced="words")
    before, after = (kinds(cells(a.blocks, a.cells)) for a in (pairs, words))
    assert (after == np.where(before == UNSPACED, WORD, before)).all()
    assert (before == UNSPACED).any()


# ── room: the kernels write without looking (`GROWTH`) ──


def test_no_character_outgrows_the_room_that_is_made_for_it() -> None:
    """What may be written for a character of b bytes is at most GROWTH · b bytes.

    A word's character is preceded by a zero at most, where pairs end. One of a script without spaces is
    preceded by a zero and the character before it once more, whatever that is composed to. A break is a zero.
    What is no UTF-8 is a zero, or a replacement where runs of characters are asked for.
    """
    most = GROWTH * sizes()
    for letters in every_alphabet():
        kind, written = folded_sizes(letters)
        largest = max(int(written[kind == UNSPACED].max(initial=0)), utf8(letters.composed.max()))
        assert (1 + written <= most)[kind == WORD].all()
        assert (1 + largest + written <= most)[kind == UNSPACED].all()
        assert (written <= most)[(kind != WORD) & (kind != UNSPACED)].all()
    assert utf8(REPLACEMENT) <= GROWTH


def utf8(code: int) -> int:
    return len(chr(code).encode())


def test_what_a_mark_is_composed_to_has_room() -> None:
    """A mark takes the letter before it away and adds what both are together, or follows it.

    One that is folded to several marks does so with each in turn.
    """
    for letters in every_alphabet():
        found = cells(letters.blocks, letters.cells)
        rows = np.flatnonzero(kinds(found) == MARK)
        gain: dict[int, int] = {}
        for pair, together in zip(letters.pairs.tolist(), letters.composed.tolist(), strict=True):
            mark = pair & 0x1FFFFF
            gain[mark] = max(gain.get(mark, 0), utf8(together) - utf8(pair >> 21))
        for code, name in zip(CODES[rows].tolist(), folded(found, letters.pool, rows), strict=True):
            most = sum(max(gain.get(ord(c), 0), len(c.encode())) for c in name.decode())
            assert most <= GROWTH * utf8(code)


def test_a_class_fits_three_bits_and_a_length_five() -> None:
    for letters in every_alphabet():
        found = cells(letters.blocks, letters.cells)
        assert set(kinds(found).tolist()) <= {BREAK, WORD, MARK, UNSPACED, SKIP}
        assert ((found >> 8) + (found >> 3 & 31) <= len(letters.pool)).all()


@pytest.mark.parametrize(
    ("asked", "given"), [("fold", "lower"), ("unspaced", "no"), ("digits", "0"), ("fold", None)]
)
def test_a_wrong_word_is_told(asked: str, given: Any) -> None:
    with pytest.raises(ValueError, match=f"got {asked}={given!r}, expected one of '"):
        alphabet(**{asked: given})
