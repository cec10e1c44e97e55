"""Folds the characters of documents."""

from typing import Any

import numpy as np

from tamis._kernels.jit import (
    BOOLEAN,
    BYTES_1D,
    BYTES_OUT_1D,
    INDICES_1D,
    NUMBERS_1D,
    WORDS_1D,
    WORDS_OUT_1D,
    kernel,
    part,
)
from tamis._kernels.text.compiled.characters import cell_of, character, compose, is_space, put, write
from tamis._kernels.text.compiled.machine import HIGHS, U, eight
from tamis._kernels.text.kinds import (
    BREAK,
    GROWTH,
    MARK,
    PAD,
    REPLACEMENT,
    SKIP,
    SPACE,
    UNSPACED,
    Alphabet,
    Bytes,
    Int64s,
)


@part
def _mark(
    out: Any,
    w: int,
    buffer: Bytes,
    i: int,
    length: int,
    cell: int,
    pool: Bytes,
    pairs: Int64s,
    composed: Int64s,
    alone: bool,
) -> int:
    """Write a mark together with the character before it, or by itself if it may stand `alone`."""
    source, stop = buffer, i + length
    if cell >> 3 & 31 > 0:
        source, i = pool, cell >> 8
        stop = i + (cell >> 3 & 31)
    while i < stop:
        mark, length = character(source, i, stop)
        together = compose(out, w, mark, pairs, composed)
        if together >= 0:
            w = together
        elif alone:
            w = put(out, w, mark)
        i += length
    return w


@kernel(
    BYTES_1D,
    WORDS_1D,
    BYTES_1D,
    INDICES_1D,
    NUMBERS_1D,
    BYTES_1D,
    WORDS_1D,
    WORDS_1D,
    BYTES_OUT_1D,
    WORDS_OUT_1D,
)
def _fold_words(
    buffer: Bytes,
    offsets: Int64s,
    small: Bytes,
    blocks: Any,
    cells: Any,
    pool: Bytes,
    pairs: Int64s,
    composed: Int64s,
    out: Any,
    places: Any,
) -> int:
    w = 0
    for document in range(len(offsets) - 1):
        i, stop = offsets[document], offsets[document + 1]
        begun = w
        run, before = 0, 0  # number of UNSPACED characters in a row; offset of the last of them
        while i < stop:
            if run == 0:
                while i + 8 <= stop and eight(buffer, i) & HIGHS == 0:
                    for k in range(8):
                        out[U(w + k)] = small[buffer[U(i + k)]]
                    w += 8
                    i += 8
                if i == stop:
                    break
            byte = buffer[U(i)]
            if byte < 0x80:
                folded = small[byte]
                if run > 0 and folded != 0:
                    out[U(w)] = 0
                    w += 1
                run = 0
                out[U(w)] = folded
                w += 1
                i += 1
                continue
            code, length = character(buffer, i, stop)
            cell = 0 if code < 0 else cell_of(blocks, cells, code)
            kind = cell & 7
            inside = w > begun and out[U(w - 1)] != 0
            if kind == BREAK:
                out[U(w)] = 0
                w += 1
                run = 0
            elif kind == UNSPACED:
                if run == 0 and inside:
                    out[U(w)] = 0
                    w += 1
                if run > 1:
                    size = w - before
                    out[U(w)] = 0
                    w += 1
                    for k in range(size):
                        out[U(w + k)] = out[U(before + k)]
                    w += size
                before = w
                w = write(out, w, buffer, i, length, cell, pool)
                run += 1
            elif kind == MARK:
                if inside:
                    w = _mark(out, w, buffer, i, length, cell, pool, pairs, composed, run == 0)
            elif kind != SKIP:
                if run > 0:
                    out[U(w)] = 0
                    w += 1
                    run = 0
                w = write(out, w, buffer, i, length, cell, pool)
            i += length
        places[document + 1] = w
    return w


@kernel(
    BYTES_1D,
    WORDS_1D,
    INDICES_1D,
    NUMBERS_1D,
    BYTES_1D,
    WORDS_1D,
    WORDS_1D,
    BOOLEAN,
    BYTES_OUT_1D,
    WORDS_OUT_1D,
)
def _fold_characters(
    buffer: Bytes,
    offsets: Int64s,
    blocks: Any,
    cells: Any,
    pool: Bytes,
    pairs: Int64s,
    composed: Int64s,
    within: bool,
    out: Any,
    places: Any,
) -> int:
    w = 0
    for document in range(len(offsets) - 1):
        i, stop = offsets[document], offsets[document + 1]
        begun = w
        if within:
            out[U(w)] = SPACE
            w += 1
        while i < stop:
            code, length = character(buffer, i, stop)
            if code < 0:
                w = put(out, w, REPLACEMENT)
            elif is_space(code):
                if w == begun or out[U(w - 1)] != SPACE:
                    out[U(w)] = SPACE
                    w += 1
            else:
                cell = cell_of(blocks, cells, code)
                kind = cell & 7
                if kind == MARK and w > begun:
                    w = _mark(out, w, buffer, i, length, cell, pool, pairs, composed, True)
                elif kind != SKIP:
                    w = write(out, w, buffer, i, length, cell, pool)
            i += length
        if within and out[U(w - 1)] != SPACE:
            out[U(w)] = SPACE
            w += 1
        places[document + 1] = w
    return w


def fold_words(buffer: Bytes, offsets: Int64s, alphabet: Alphabet) -> tuple[Bytes, Int64s]:
    out, places = _room(buffer, offsets)
    end = _fold_words(buffer, offsets, *alphabet, out, places)
    return _pad(out, end), places


def fold_characters(buffer: Bytes, offsets: Int64s, alphabet: Alphabet, within: bool) -> tuple[Bytes, Int64s]:
    out, places = _room(buffer, offsets)
    end = _fold_characters(buffer, offsets, *alphabet[1:], within, out, places)
    return _pad(out, end), places


def _room(buffer: Bytes, offsets: Int64s) -> tuple[Bytes, Int64s]:
    # No character grows more than this (tests/text/test_alphabet.py); unused memory is never touched.
    return np.empty(GROWTH * len(buffer) + 2 * len(offsets) + PAD, dtype=np.uint8), np.zeros(
        len(offsets), dtype=np.int64
    )


def _pad(out: Bytes, end: int) -> Bytes:
    out[end : end + PAD] = 0
    return out[: end + PAD]
