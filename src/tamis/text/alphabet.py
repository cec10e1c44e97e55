"""The table of each character's class and folded form. It does not depend on the version of Python.

`tools/alphabet` makes `alphabet.npz` from Unicode's data. The cell of a character is a number that holds
its class, such as WORD (bits 0 to 2), the number of bytes of its folded form (bits 3 to 7; 0 if the character
does not change) and their position in `pool` (the other bits). The cells of 256 successive characters are a
block; equal blocks are stored once. `pairs` are those of a letter and a combining mark for which Unicode has
a single character, and `composed` are these characters.
"""

from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tamis._kernels.text import UNSPACED, WORD, Alphabet
from tamis.text.checking import check_choice

Fold = Literal["none", "case", "compatible", "base"]
Unspaced = Literal["pairs", "words"]
Digit = Literal["keep", "shape"]

# The cell of a character of class WORD that is folded to one byte, at position 1 of `pool`: "0".
_ZERO = WORD | 1 << 3 | 1 << 8


@lru_cache(maxsize=1)
def _load_tables() -> dict[str, NDArray[Any]]:
    with (
        (files("tamis.text") / "alphabet.npz").open("rb") as file,
        np.load(file, allow_pickle=False) as tables,
    ):
        return {name: tables[name] for name in tables.files}


def unicode_version() -> str:
    """Return the version of Unicode that the table was made from."""
    return str(_load_tables()["version"])


@lru_cache(maxsize=16)
def alphabet(fold: Fold = "case", unspaced: Unspaced = "pairs", digits: Digit = "keep") -> Alphabet:
    """Return the table for these settings.

    `fold`: "none" changes no character, "case" folds case, "compatible" also folds full-width letters,
    ligatures and the like, "base" also removes accents. `unspaced`: "pairs" splits Chinese, Japanese, Korean,
    Thai, Lao, Khmer and Burmese into pairs of characters, "words" reads them as other words. `digits`: "keep"
    changes no digit, "shape" replaces each by 0.
    """
    check_choice("fold", fold, get_args(Fold))
    check_choice("unspaced", unspaced, get_args(Unspaced))
    check_choice("digits", digits, get_args(Digit))
    tables = _load_tables()
    blocks, cells = tables[f"blocks_{fold}"], tables["cells"]
    if unspaced == "words":
        cells = np.where(cells & 7 == UNSPACED, cells - np.uint32(UNSPACED - WORD), cells).astype(np.uint32)
    if digits == "shape":
        blocks, cells = _replace_cells(blocks, cells, tables["digits"], _ZERO)
    ascii_cells = cells[256 * blocks[0] : 256 * blocks[0] + 128]
    length, position = ascii_cells >> 3 & 31, ascii_cells >> 8
    folded = np.where(length == 0, np.arange(128), tables["pool"][position])
    folded = np.where(ascii_cells & 7 == WORD, folded, 0).astype(np.uint8)
    return Alphabet(folded, blocks, cells, tables["pool"], tables["pairs"], tables["composed"])


def _replace_cells(blocks: Any, cells: Any, characters: Any, cell: int) -> tuple[Any, Any]:
    """Return blocks and cells with another cell for some characters, whose blocks are copied first."""
    changed = np.unique(characters >> 8)
    new_blocks = blocks.copy()
    new_blocks[changed] = len(cells) // 256 + np.arange(len(changed))
    new_cells = np.concatenate([cells, *(cells[256 * blocks[b] : 256 * blocks[b] + 256] for b in changed)])
    new_cells[256 * new_blocks[characters >> 8] + (characters & 255)] = cell
    return new_blocks, new_cells
