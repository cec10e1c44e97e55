"""Random calls of every kernel, through the doors: any shape, extreme values, broken arguments.

`draw_call` makes the call of a number; the same seed gives the same calls. `judge_call` makes it, and
compares the result with the reference: to the bit, or as nearly as `tests/kernels` demands. About a third
of the calls have one broken argument: an index, a size, a number that is not finite, another type, shape or
order in memory. A broken call must be refused, or return; only a sanitizer can tell whether compiled code
went beyond an array (`tools/sanitize`).
"""

import warnings
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any, Final, Literal
from unittest.mock import patch

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tamis import _kernels, threads
from tamis._kernels import dense, factors, reference, text
from tamis._kernels.dense import reference as dense_reference
from tamis._kernels.factors import reference as factors_reference
from tamis._kernels.text import reference as text_reference
from tamis._kernels.text.kinds import Rows, Tokens
from tamis.compiled import core
from tamis.text import Corpus
from tamis.text.alphabet import alphabet
from tamis_mail import features, message, tokens
from tamis_mail.features.arrays import expand_ranges
from tamis_mail.features.batches import open_batch, read_batch
from tamis_mail.mailbox import mbox
from tamis_mail.message import canonical_reference
from tamis_mail.message.dates import read_date
from tamis_mail.message.heading import read_batch_headings, read_by_python
from tamis_mail.store import bundle_arrays
from tamis_mail.store import tables as store_tables
from tamis_mail.store.runs import Run
from tamis_mail.verdict import arrays as verdict_arrays
from tamis_mail.verdict import fitting

__all__ = ["KERNELS", "Call", "Outcome", "draw_call", "judge_call"]

Floats = NDArray[np.float64]
Words = NDArray[np.int64]
Outcome = Literal["compared", "called", "refused", "accepted"]

_SIZES: Final = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 33, 63, 65, 100, 257)
_SMALL_SIZES: Final = (0, 1, 2, 3, 5, 8, 17)
_REFUSALS: Final = (ValueError, IndexError, TypeError, OverflowError, MemoryError)
_EXTREME_INTEGERS: Final = (
    -1,
    -2,
    0,
    1,
    7,
    255,
    1 << 20,
    1 << 31,
    (1 << 32) - 1,
    1 << 40,
    1 << 62,
    (1 << 63) - 1,
)
# Sizes between make C++ ask for more memory than there is, at which AddressSanitizer ends the process.
_EXTREME_SIZES: Final = (-1, -2, 0, 1, 7, 255, 1 << 12, 1 << 62, (1 << 63) - 1, 1 << 64)
_ENDLESS: Final = 1 << 12
_EXTREME_FLOATS: Final = (np.nan, np.inf, -np.inf, 1.7e308, -1.7e308, 5e-324, -0.0, 2.0**63, -(2.0**31), 1e19)
_TURNING_POINTS: Final = np.array(
    [
        sign * 2.0**exponent
        for exponent in (-1074, -1022, -62, -32, -31, -1, 0, 31, 32, 33, 52, 53, 63, 64)
        for sign in (1, -1)
    ]
)


@dataclass(frozen=True)
class Call:
    """A call of a kernel, and what its result is compared with."""

    name: str
    door: Callable[..., Any]
    arguments: tuple[Any, ...]
    reference: Callable[..., Any] | None = None  # None: the result is not compared
    agrees: Callable[[Any, Any], bool] | None = None  # None: to the bit
    breaks: str = ""  # the argument that was broken, and how


def draw_call(seed: int, number: int) -> Call:
    """Draw the call of a number."""
    dice = np.random.default_rng([seed, number])
    names = list(KERNELS)
    name = names[number % len(names)]
    call = replace(KERNELS[name](dice), name=name)
    # Threads divide the work of one call in two, and of the other not.
    threads.MIN_PARALLEL_WORK = int(dice.choice((0, 1_000_000)))
    return _break(dice, call) if dice.random() < 0.33 else call


def judge_call(call: Call) -> tuple[Outcome, list[str]]:
    """Make a call; return how it ended, and its faults."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            ours = call.door(*call.arguments)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is a fault)
            if call.breaks and isinstance(error, _REFUSALS):
                return "refused", []
            return "called", [f"{call.name} raised {type(error).__name__}: {error}"]
        if call.breaks:  # the reference might fill the memory, or never end
            return "accepted", []
        if call.reference is None:
            return "called", []
        theirs = call.reference(*call.arguments)
        agrees = call.agrees or has_same_bits
        return "compared", [] if agrees(ours, theirs) else [f"{call.name} differs from its reference"]


def has_same_bits(ours: Any, theirs: Any) -> bool:
    """Whether two results have the same types, shapes and bits; all NaNs are one."""
    if isinstance(theirs, tuple):
        return len(ours) == len(theirs) and all(map(has_same_bits, ours, theirs))
    if isinstance(theirs, np.ndarray):
        if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
            return False
        if theirs.dtype == np.float64:
            ours, theirs = (np.where(np.isnan(values), np.nan, values) for values in (ours, theirs))
        return bool(ours.tobytes() == theirs.tobytes())
    return bool(ours == theirs)


def _is_close(tolerance: float) -> Callable[[Any, Any], bool]:
    def agrees(ours: Any, theirs: Any) -> bool:
        size = np.abs(theirs[np.isfinite(theirs)]).max(initial=1.0)
        return bool(np.allclose(ours, theirs, rtol=tolerance, atol=tolerance * size, equal_nan=True))

    return agrees


# ── values ──


def _size(dice: Generator) -> int:
    return int(dice.choice(_SIZES))


def _choose(dice: Generator, *options: Callable[..., Floats]) -> Callable[..., Floats]:
    return options[dice.integers(len(options))]


def _small_size(dice: Generator) -> int:
    return int(dice.choice(_SMALL_SIZES))


def _tame(dice: Generator, *shape: int) -> Floats:
    return dice.normal(size=shape) * 10.0 ** dice.integers(-3, 3)


def _draw_normals(dice: Generator, *shape: int) -> Floats:
    return dice.normal(size=shape)


def _finite(dice: Generator, *shape: int) -> Floats:
    """Finite numbers: everyday or whole ones, of all exponents, subnormal, largest, turning points, zeros."""
    kind = dice.integers(8)
    if kind == 0:
        values = dice.normal(size=shape) * 10.0 ** dice.integers(-6, 6)
    elif kind == 1:
        values = dice.integers(-9, 9, size=shape).astype(np.float64)
    elif kind == 2:
        values = dice.integers(-(1 << 53), 1 << 53, size=shape).astype(np.float64)
    elif kind == 3:
        values = dice.integers(0, 1 << 64, size=shape, dtype=np.uint64).view(np.float64)
        values = np.where(np.isfinite(values), values, 1.0)
    elif kind == 4:
        values = dice.integers(0, 1 << 52, size=shape, dtype=np.uint64).view(np.float64)
    elif kind == 5:
        values = dice.uniform(-1.0, 1.0, size=shape) * 1.79e308
    elif kind == 6:
        points = dice.choice(_TURNING_POINTS, size=shape)
        values = np.nextafter(points, dice.choice((0.0, np.inf), size=shape))
        values = np.where(np.isfinite(values), values, 0.0)
    else:
        values = dice.normal(size=shape) * 10.0 ** dice.integers(-300, 300, size=shape)
    share = dice.choice((0.0, 0.1, 0.9))
    return np.where(dice.random(shape) < share, dice.choice((0.0, -0.0)), values)


def _moderate(dice: Generator, *shape: int) -> Floats:
    """Numbers whose squares neither overflow nor vanish, zeros among them."""
    values = dice.choice((-1.0, 1.0), size=shape) * dice.uniform(1.0, 2.0, size=shape)
    return np.where(dice.random(shape) < 0.1, 0.0, values * 2.0 ** dice.integers(-300, 300, size=shape))


def _any(dice: Generator, *shape: int) -> Floats:
    values = _finite(dice, *shape)
    return np.where(
        dice.random(shape) < dice.choice((0.0, 0.1)),
        dice.choice((np.nan, np.inf, -np.inf), size=shape),
        values,
    )


def _groups(dice: Generator, rows: int) -> tuple[Words | None, int]:
    groups = int(dice.choice((1, 1, 2, 3, 40)))
    return (dice.integers(0, groups, size=rows) if groups > 1 or dice.random() < 0.3 else None), groups


def _rows_of_entries(dice: Generator, rows: int) -> Words:
    sizes = dice.integers(0, dice.choice((1, 3, 12, 60)), size=rows)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _settled(dice: Generator, cells: int) -> tuple[Words, int]:
    words = dice.integers(-(1 << 40), 1 << 40, size=(int(dice.choice((1, 2, 3, 9, 70))), cells))
    words[:, dice.random(cells) < 0.2] = 0
    return reference.settle(words, int(dice.integers(-75, 40)))


def _or_empty(values: Any, dtype: type) -> Any:
    return np.zeros(0, dtype=dtype) if values is None else values


# ── sums and scores ──


def _span(dice: Generator) -> Call:
    return Call("", _kernels.span, (_any(dice, _size(dice), _small_size(dice)),), reference.span)


def _two_product(dice: Generator) -> Call:
    n, m = _size(dice), _small_size(dice)
    x, y = _moderate(dice, n, m), _moderate(dice, n, int(dice.choice((m, 1))))
    return Call("", _kernels.two_product, (x, y), reference.two_product)


def _deposit(dice: Generator) -> Call:
    x = _finite(dice, _size(dice), _small_size(dice))
    arguments = (x, reference.span(x)[0], *_groups(dice, len(x)))
    return Call(
        "",
        _kernels.deposit,
        arguments,
        lambda x, bounds, group, groups: reference.deposit(x, bounds, _or_empty(group, np.int64), groups),
    )


def _deposit_powers(dice: Generator) -> Call:
    x = _finite(dice, _size(dice), _small_size(dice))
    arguments = (x, reference.span(x)[0], *_groups(dice, len(x)))
    return Call(
        "",
        _kernels.deposit_powers,
        arguments,
        lambda x, bounds, group, groups: reference.deposit_powers(
            x, bounds, _or_empty(group, np.int64), groups
        ),
    )


def _deposit_columns(dice: Generator) -> Call:
    draw = _choose(dice, _finite, _any)
    x = draw(dice, _size(dice), max(1, _small_size(dice)))
    arguments = ((*np.ascontiguousarray(x.T),), *_groups(dice, len(x)), int(dice.integers(1, 3)))
    _use_any_variant(dice)

    def call(columns: Any, *others: Any) -> Any:
        return _kernels.deposit_columns([*columns], *others)

    def refer(columns: Any, group: Any, groups: Any, power: Any) -> Any:
        return reference.deposit_columns([*columns], _or_empty(group, np.int64), groups, power)

    return Call("", call, arguments, refer)


def _deposit_rows(dice: Generator) -> Call:
    draw = _choose(dice, _finite, _any)
    x = draw(dice, _size(dice), _small_size(dice))
    arguments = (x, *_groups(dice, len(x)), int(dice.integers(1, 3)))

    def refer(x: Any, group: Any, *others: Any) -> Any:
        return reference.deposit_rows(x, _or_empty(group, np.int64), *others)

    return Call("", _kernels.deposit_rows, arguments, refer)


def _deposit_products(dice: Generator) -> Call:
    n, m = _size(dice), _small_size(dice)
    x, y = _finite(dice, n, m), _finite(dice, n, int(dice.choice((m, 1))))
    arguments = (x, reference.span(x)[0], y, reference.span(y)[0], *_groups(dice, n))
    return Call(
        "",
        _kernels.deposit_products,
        arguments,
        lambda x, a, y, b, group, groups: reference.deposit_products(
            x, a, y, b, _or_empty(group, np.int64), groups
        ),
    )


def _deposit_sparse(dice: Generator) -> Call:
    n, columns = _size(dice), 1 + _size(dice)
    indptr = _rows_of_entries(dice, n)
    indices = dice.integers(0, columns, size=indptr[-1]).astype(str(dice.choice(("int32", "int64"))))
    weights = _finite(dice, n) if dice.random() < 0.5 else None
    arguments = (indptr, indices, _finite(dice, len(indices)), weights, *_groups(dice, n), columns)

    def refer(
        indptr: Any, indices: Any, values: Any, weights: Any, group: Any, groups: Any, columns: Any
    ) -> Any:
        amounts, rows = _or_empty(weights, np.float64), _or_empty(group, np.int64)
        return reference.deposit_sparse(indptr, indices, values, amounts, rows, groups, columns)

    return Call("", _kernels.deposit_sparse, arguments, refer)


def _codes(dice: Generator) -> tuple[Words, Words]:
    n, d = _size(dice), _small_size(dice)
    sizes = dice.integers(0, dice.choice((1, 3, 30)) + 1, size=d)
    codes = dice.integers(0, 1 << 20, size=(n, d)) % (sizes + 1) - 1
    return codes, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _deposit_codes(dice: Generator) -> Call:
    codes, offsets = _codes(dice)
    weights = _finite(dice, len(codes)) if dice.random() < 0.5 else None

    def refer(codes: Any, offsets: Any, weights: Any, group: Any, groups: Any) -> Any:
        return reference.deposit_codes(
            codes, offsets, _or_empty(weights, np.float64), _or_empty(group, np.int64), groups
        )

    return Call("", _kernels.deposit_codes, (codes, offsets, weights, *_groups(dice, len(codes))), refer)


def _gaussian_scores(dice: Generator) -> Call:
    n, d, classes = _size(dice), _small_size(dice), _small_size(dice)
    draw = _choose(dice, _tame, _finite)
    x = draw(dice, n, d)
    x = np.where(dice.random((n, d)) < dice.choice((0.0, 0.1, 1.0)), np.nan, x)
    arguments = (x, *(draw(dice, classes, d) for _ in range(3)), draw(dice, classes))
    return Call("", _kernels.gaussian_scores, arguments, reference.gaussian_scores if draw is _tame else None)


def _gather_scores(dice: Generator) -> Call:
    codes, offsets = _codes(dice)
    classes = _small_size(dice)
    table = _any(dice, int(offsets[-1]), classes)
    return Call(
        "", _kernels.gather_scores, (codes, offsets, table, _finite(dice, classes)), reference.gather_scores
    )


def _log_sum_rows(dice: Generator) -> Call:
    scores = _any(dice, _size(dice), _small_size(dice))
    return Call("", _kernels.log_sum_rows, (scores,), reference.log_sum_rows, _agree_row_by_row)


def _agree_row_by_row(ours: Floats, theirs: Floats) -> bool:
    return bool(np.allclose(ours, theirs, rtol=1e-13, atol=1e-13, equal_nan=True))


def _settle(dice: Generator) -> Call:
    words = dice.integers(-(1 << 62), 1 << 62, size=(int(dice.choice((1, 2, 5, 70))), _size(dice)))
    words >>= int(dice.choice((0, 20, 30, 31, 32, 33, 60)))
    return Call("", _kernels.settle, (words, int(dice.integers(-75, 40))), reference.settle)


def _combine(dice: Generator) -> Call:
    cells = _size(dice)
    arguments = (*_settled(dice, cells), *_settled(dice, cells), int(dice.choice((1, -1))))
    return Call("", _kernels.combine, arguments, reference.combine)


def _multiply(dice: Generator) -> Call:
    cells = _small_size(dice)
    factors_of_cells = np.where(dice.random(cells) < 0.2, 1.0, _finite(dice, cells))
    arguments = (*_settled(dice, cells), factors_of_cells, int(dice.choice((1, 2, 4, 8, 80))))
    return Call("", _kernels.multiply, arguments, reference.multiply)


def _read(dice: Generator) -> Call:
    return Call("", _kernels.read, _settled(dice, _size(dice)), reference.read)


# ── text ──

_CHARACTERS: Final = (
    "aAbB1_-. \t\n\u00a0\u3000\0'éÉßẞΣςσİıŉΐſŒµªﬁﬅǆǅ\u0300\u0301\u0308\u0323\u0345\u0340\u0344"
    "\u093c\u05b4\u064b"
    "日本語年々〇ーかﾞｶが\u3099\u309aカ한국\u1112\u1161\u11abไทย\u0e31\u0e4d\u0eb3ក\u17d2မ\u1039ＡＢｃ１½⑴㈱℡Å\uf900\U0002f800𠀀🙂"
    "\u00ad\u200b\u200c\u200d\u202e\u2066\ufeff\ufe0f\U000e0101\u0958\u0344\u1e9e\u1fb3\u1f80٣৪\ufdfa\U0010ffff"
)
_BROKEN: Final = (
    *(b"\xff", b"\x80", b"\xc3", b"\xc0\xaf", b"\xe0\x80\x80", b"\xe6\x97", b"\xed\xa0\x80", b"\xed\xbf\xbf"),
    *(b"\xf0\x9f\x99", b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80", b"\xf4"),
)
_ENDS: Final = (0, 1, 7, 8, 9, 62, 63, 64, 65, 66, 127, 128, 129)


def _piece(dice: Generator) -> bytes:
    kind = dice.integers(6)
    if kind == 0:
        return "".join(dice.choice(list(_CHARACTERS), size=dice.integers(13))).encode()
    if kind == 1:
        return bytes(dice.choice(list(b"ab"), size=dice.integers(5, 19)).tolist())
    if kind == 2:
        return b"prefixed" + b"abcdefgh"[: dice.integers(9)]
    if kind == 3:
        return bytes(dice.choice(np.array(_BROKEN, dtype=object)))
    if kind == 4:
        return dice.bytes(int(dice.integers(9)))
    return b" "


def _document(dice: Generator) -> bytes:
    if dice.random() < 0.3:
        pattern = "".join(dice.choice(list("aé -日\u0301"), size=dice.integers(1, 9))).encode()
        return (pattern * 130)[: int(dice.choice(_ENDS))]
    return b"".join(_piece(dice) for _ in range(dice.integers(dice.choice((2, 8, 40)))))


def _corpus(dice: Generator) -> Corpus:
    corpus = Corpus.of([_document(dice) for _ in range(dice.integers(6))])
    return Corpus(corpus.text.copy(), corpus.offsets)  # memory of its own, with guarded ends


def _alphabet(dice: Generator) -> Any:
    fold = dice.choice(("none", "case", "compatible", "base"))
    return alphabet(str(fold), str(dice.choice(("pairs", "words"))), str(dice.choice(("keep", "shape"))))


def _stream(dice: Generator) -> Any:
    letters = _alphabet(dice)
    folded, offsets = text_reference.fold_words(*_corpus(dice), letters)
    return text_reference.read_words(folded.copy(), offsets, 1, letters)


def _occurrences(dice: Generator) -> Tokens:
    """All tokens of documents, as often as they occur."""
    stream = _stream(dice)
    whole = stream.tokens
    places = stream.numbers
    return Tokens(whole.text.copy(), whole.starts[places], whole.lengths[places], whole.keys[places])


def _keys(dice: Generator) -> NDArray[np.uint64]:
    count = int(dice.choice((0, 1, 5, 100, 3000)))
    return dice.integers(0, int(dice.choice((1, 7, 1000, 1 << 62))), size=count).astype(np.uint64)


def _counts(dice: Generator) -> tuple[Rows, int]:
    known = 1 + _size(dice)
    rows = [dice.permutation(known)[: dice.integers(known + 1)] for _ in range(_small_size(dice))]
    indices = np.concatenate([np.zeros(0, dtype=np.int32), *rows]).astype(np.int32)
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return Rows(indptr, indices, dice.integers(1, 9, size=len(indices)).astype(np.float64)), known


def _fold_words(dice: Generator) -> Call:
    return Call("", text.fold_words, (*_corpus(dice), _alphabet(dice)), text_reference.fold_words)


def _fold_characters(dice: Generator) -> Call:
    arguments = (*_corpus(dice), _alphabet(dice), bool(dice.integers(2)))
    return Call("", text.fold_characters, arguments, text_reference.fold_characters)


def _read_words(dice: Generator) -> Call:
    letters = _alphabet(dice)
    folded, offsets = text_reference.fold_words(*_corpus(dice), letters)
    arguments = (folded.copy(), offsets, int(dice.integers(1, 5)), letters)
    return Call("", text.read_words, arguments, text_reference.read_words)


def _read_grams(dice: Generator) -> Call:
    within = bool(dice.integers(2))
    folded, offsets = text_reference.fold_characters(*_corpus(dice), _alphabet(dice), within)
    least = int(dice.integers(1, 5))
    arguments = (folded.copy(), offsets, least, least + int(dice.integers(5)), within)
    return Call("", text.read_grams, arguments, text_reference.read_grams)


def _number_tokens(dice: Generator) -> Call:
    return Call("", text.number_tokens, (_occurrences(dice),), text_reference.number_tokens)


def _make_keys(dice: Generator) -> Call:
    return Call("", text.make_keys, _occurrences(dice)[:3], text_reference.make_keys)


def _number_keys(dice: Generator) -> Call:
    def refer(keys: Any) -> Any:
        numbers = np.empty(len(keys), dtype=np.int32)
        return numbers, text_reference.number_keys(keys, numbers, 0, 1)

    return Call("", lambda keys: tuple(text.number_keys(keys)), (_keys(dice),), refer)


def _index_keys(dice: Generator) -> Call:
    return Call("", text.index_keys, (np.unique(_keys(dice)[:300]),), text_reference.index_keys)


def _find_tokens(dice: Generator) -> Call:
    known = _stream(dice).tokens
    table = text_reference.index_keys(known.keys)
    other = _occurrences(dice) if dice.random() < 0.5 else known
    return Call("", text.find_tokens, (table, known, other), text_reference.find_tokens)


def _find_keys(dice: Generator) -> Call:
    keys = _keys(dice)[:300]
    return Call(
        "",
        text.find_keys,
        (text_reference.index_keys(np.unique(keys)[::2].copy()), keys),
        text_reference.find_keys,
    )


def _join_tokens(dice: Generator) -> Call:
    known = _stream(dice).tokens
    parts = [
        dice.integers(0, max(1, len(known.keys)), size=dice.integers(5)) for _ in range(_small_size(dice))
    ]
    numbers = np.concatenate([np.zeros(0, dtype=np.int32), *parts]).astype(np.int32)
    bounds = np.cumsum([0, *map(len, parts)]).astype(np.int64)
    if not len(known.keys):
        numbers, bounds = numbers[:0].copy(), bounds * 0
    separator = np.frombuffer(dice.choice([b"", b" ", b" * * "]), dtype=np.uint8)
    return Call("", text.join_tokens, (*known[:3], numbers, bounds, separator), text_reference.join_tokens)


def _make_pair_keys(dice: Generator) -> Call:
    stream = _stream(dice)
    arguments = (stream.numbers, stream.documents, stream.numbers, stream.documents, int(dice.integers(1, 4)))
    return Call("", text.make_pair_keys, arguments, text_reference.make_pair_keys)


def _count_numbers(dice: Generator) -> Call:
    stream = _stream(dice)
    return Call(
        "",
        text.count_numbers,
        (stream.numbers, stream.documents, len(stream.tokens.keys)),
        text_reference.count_numbers,
    )


def _sum_groups(dice: Generator) -> Call:
    rows, known = _counts(dice)
    groups = int(dice.integers(1, 4))
    group = dice.integers(0, groups, size=len(rows.indptr) - 1)
    return Call("", text.sum_groups, (rows, group, groups, known), text_reference.sum_groups)


def _arrange(dice: Generator) -> Call:
    rows, known = _counts(dice)
    columns = dice.integers(-1, dice.choice((1, 6, 200)), size=known).astype(np.int32)

    def refer(rows: Any, columns: Any, signs: Any) -> Any:
        room = np.empty(len(rows.indices), dtype=np.int32), np.empty(len(rows.indices))
        return text_reference.arrange(rows, columns, signs, *room)

    return Call("", text.arrange, (rows, columns, dice.choice((1.0, -1.0), size=known)), refer)


def _add_columns(dice: Generator) -> Call:
    rows, known, columns = _small_size(dice), _size(dice), 1 + _size(dice)
    sums = dice.integers(-(1 << 40), 1 << 40, size=(rows, known))
    arguments = (sums, dice.integers(0, columns, size=known), np.zeros((rows, columns), dtype=np.int64))

    def change(add: Callable[..., None]) -> Callable[..., Any]:
        def call(sums: Any, numbers: Any, table: Any) -> Any:
            own = table.copy(order="K") if isinstance(table, np.ndarray) else table
            add(sums, numbers, own)
            return own

        return call

    return Call("", change(text.add_columns), arguments, change(text_reference.add_columns))


def _add_rows(dice: Generator) -> Call:
    rows, known = _counts(dice)
    groups, wide = int(dice.integers(1, 4)), 1 + _size(dice)
    columns = dice.integers(-1, wide, size=known).astype(np.int32)
    group = dice.integers(0, groups, size=len(rows.indptr) - 1)

    def change(add: Callable[..., None]) -> Callable[..., Any]:
        def call(rows: Any, columns: Any, group: Any, table: Any) -> Any:
            own = table.copy(order="K")
            add(rows, columns, group, own)
            return own

        return call

    def refer(rows: Any, columns: Any, group: Any, table: Any) -> None:
        text_reference.add_rows(rows[0], rows[1], rows[2], columns, group, table)

    arguments = (rows, columns, group, np.zeros((groups, wide), dtype=np.int64))
    return Call("", change(text.add_rows), arguments, change(refer))


def _hash_tokens(dice: Generator) -> Call:
    arguments = (*_occurrences(dice)[:3], int(dice.choice((0, 1, 42, (1 << 32) - 1))))
    return Call("", text.hash_tokens, arguments, text_reference.hash_tokens)


# ── dense matrices and factors ──


def _multiply_centred(dice: Generator) -> Call:
    n, p, extra = max(1, _size(dice)), _size(dice), int(dice.choice((0, 0, 1, 2, 9)))
    draw = _choose(dice, _tame, _any)
    first, last = sorted(dice.integers(0, n + 1, size=2).tolist())
    values, centre = draw(dice, n, p), draw(dice, p + extra)
    order = dice.permutation(n) if dice.random() < 0.5 else None
    weights = dice.exponential(size=(n, 1)) if dice.random() < 0.5 else None
    others = draw(dice, n, extra) if extra else None

    def call(values: Any, centre: Any, first: Any, last: Any, order: Any, weights: Any, extra: Any) -> Any:
        place = slice(first, last)
        return np.triu(dense.multiply_centred(values, centre, place, order, weights, extra))

    def refer(*arguments: Any) -> Any:
        return np.triu(dense_reference.multiply_centred(*arguments))

    arguments = (values, centre, first, last, order, weights, others)
    compares = draw is _tame and last > first
    _use_any_variant(dice)
    return Call("", call, arguments, refer if compares else None, _is_close(1e-10))


def _multiply_blocks(dice: Generator) -> Call:
    n, p = max(1, _size(dice)), max(1, _size(dice))
    draw = _choose(dice, _tame, _any)
    first, last = sorted(dice.integers(0, n + 1, size=2).tolist())
    values, centre = draw(dice, n, p), draw(dice, p)
    rows = values if dice.random() < 0.5 else (*np.ascontiguousarray(values.T),)

    def call(rows: Any, centre: Any, first: Any, last: Any, block: Any) -> Any:
        data = [*rows] if isinstance(rows, tuple) else rows
        return dense.multiply_blocks(data, centre, slice(first, last), block)

    def refer(rows: Any, *arguments: Any) -> Any:
        values = np.column_stack(rows) if isinstance(rows, tuple) else rows
        return dense_reference.multiply_row_blocks(values, *arguments)

    arguments = (rows, centre, first, last, int(dice.choice((1, 7, 64, 4096))))
    _use_any_variant(dice)
    return Call("", call, arguments, refer if draw is _tame else None, _is_close(1e-10))


def _deposit_blocks(dice: Generator) -> Call:
    n, p = max(1, _size(dice)), max(1, _size(dice))
    draw = _choose(dice, _tame, _any)
    arguments = (draw(dice, n, p), draw(dice, p), int(dice.choice((1, 7, 64, 4096))))

    def call(*arguments: Any) -> Any:
        return dense.deposit_blocks(*arguments)[3]

    def refer(*arguments: Any) -> Any:
        return dense_reference.deposit_row_blocks(*arguments)[3]

    _use_any_variant(dice)
    return Call("", call, arguments, refer if draw is _tame else None, _is_close(1e-10))


def _sum_responsible(dice: Generator) -> Call:
    n, d, k = max(1, _size(dice)), int(dice.integers(0, 20)), int(dice.integers(1, 10))
    draw = _choose(dice, _draw_normals, _any)
    first, last = sorted(dice.integers(0, n + 1, size=2).tolist())
    weights = dice.exponential(size=n) if dice.random() < 0.5 else None
    quadratic = draw(dice, k * d, d).reshape(k, d, d)
    if draw is _draw_normals:
        quadratic = -0.5 * quadratic @ np.swapaxes(quadratic, 1, 2)
    parameters = draw(dice, d), draw(dice, k), draw(dice, k, d), quadratic

    def call(rows: Any, first: Any, last: Any, *others: Any) -> Any:
        return dense.sum_responsible(rows, slice(first, last), *others)[0]

    def refer(*arguments: Any) -> Any:
        return dense_reference.sum_responsible(*arguments)[0]

    hard = bool(dice.random() < 0.3)
    arguments = (draw(dice, n, d), first, last, weights, *parameters, hard)
    _use_any_variant(dice)
    return Call("", call, arguments, refer if draw is _draw_normals and not hard else None, _is_close(1e-8))


def _use_any_variant(dice: Generator) -> None:
    """Choose the instructions of dense kernels among those that this processor has."""
    if core is not None and hasattr(core.dense, "variants"):
        names = [name for name, can_run in core.dense.variants() if can_run]
        core.dense.use_variant(str(dice.choice(names)))


def _entries(dice: Generator, rows: int, others: int) -> tuple[Words, Words]:
    indptr = _rows_of_entries(dice, rows) if others else np.zeros(rows + 1, dtype=np.int64)
    return indptr, dice.integers(0, max(others, 1), size=indptr[-1])


def _solve_rows(dice: Generator) -> Call:
    n, m, k = _small_size(dice), _size(dice), int(dice.choice((0, 1, 2, 5, 7, 8, 9, 16, 17, 24, 33, 47)))
    is_tame = dice.random() < 0.6
    draw = _tame if is_tame else _any
    indptr, indices = _entries(dice, n, m)
    count = len(indices)
    weights = dice.exponential(size=count) if is_tame else _any(dice, count)
    pulls = dice.normal(size=count) if is_tame else _any(dice, count)
    other = dice.normal(size=(m, k)) if is_tame else _any(dice, m, k)
    ridge = dice.uniform(0.1, 2.0, (n, k)) if is_tame else _any(dice, n, k)
    root = dice.normal(size=(k, k))
    base = root @ root.T if dice.random() < 0.3 else None
    pull, noise = (
        (draw(dice, k) if dice.random() < 0.3 else None),
        (draw(dice, n, k) if dice.random() < 0.3 else None),
    )
    offsets = draw(dice, m) if dice.random() < 0.3 else None
    _use_any_variant(dice)

    def refer(
        indptr: Any,
        indices: Any,
        weights: Any,
        pulls: Any,
        other: Any,
        ridge: Any,
        base: Any,
        pull: Any,
        noise: Any,
        offsets: Any,
    ) -> Any:
        size, columns = ridge.shape
        out = np.zeros((size, columns))
        nothing = np.zeros((0, 0))
        equations = (
            nothing if base is None else base,
            np.zeros(columns) if pull is None else pull,
            nothing if noise is None else noise,
            np.zeros(len(other)) if offsets is None else offsets,
        )
        factors_reference.solve_rows(indptr, indices, weights, pulls, other, ridge, *equations, 0, size, out)
        return out

    arguments = (indptr, indices, weights, pulls, other, ridge, base, pull, noise, offsets)
    return Call("", factors.solve_rows, arguments, refer if is_tame else None, _is_close(1e-7))


def _row_squares(dice: Generator) -> Call:
    n, m, k = _size(dice), _size(dice), 1 + _small_size(dice)
    draw = _choose(dice, _tame, _any)
    indptr, indices = _entries(dice, n, m)
    arguments = (
        indptr,
        indices,
        draw(dice, len(indices)),
        draw(dice, len(indices)),
        draw(dice, n, k),
        draw(dice, m, k),
    )

    def refer(indptr: Any, indices: Any, weights: Any, targets: Any, rows: Any, other: Any) -> Any:
        out = np.empty(len(rows))
        factors_reference.row_squares(indptr, indices, weights, targets, rows, other, 0, len(out), out)
        return out

    return Call("", factors.row_squares, arguments, refer if draw is _tame else None, _is_close(1e-10))


def _top_rows(dice: Generator) -> Call:
    n, m = _size(dice), _size(dice)
    scores = dice.choice((-np.inf, -1.0, 0.0, -0.0, 0.5, 2.0, np.inf), size=(n, m))
    is_plain = dice.random() < 0.7
    if not is_plain:
        scores = _any(dice, n, m)

    def refer(scores: Any, count: Any) -> Any:
        out = np.empty((len(scores), count), dtype=np.int64)
        factors_reference.top_rows(scores, 0, len(scores), out)
        return out

    return Call("", factors.top_rows, (scores, int(dice.choice((1, 2, 6, 50)))), refer if is_plain else None)


def _dot_pairs(dice: Generator) -> Call:
    n, m, k, pairs = _size(dice), _size(dice), _small_size(dice), _size(dice)
    draw = _choose(dice, _tame, _any)
    places = (
        dice.integers(-1, max(n, 1) if n else 0, size=pairs),
        dice.integers(-1, max(m, 1) if m else 0, size=pairs),
    )

    def refer(left: Any, right: Any, i: Any, j: Any) -> Any:
        out = np.empty(len(i))
        factors_reference.dot_pairs(left, right, i, j, 0, len(i), out)
        return out

    arguments = (draw(dice, n, k), draw(dice, m, k), *places)
    return Call("", factors.dot_pairs, arguments, refer if draw is _tame else None, _is_close(1e-10))


# ── one row at a time ──


def _add_row(dice: Generator) -> Call:
    cells, d = 1 + _size(dice), _small_size(dice)
    words, low = _settled(dice, cells + d)
    values = _moderate(dice, d)
    if d and dice.random() < 0.3:
        values[dice.integers(d)] = np.nan
    start = int(dice.integers(0, cells + 1))
    weight, power = float(dice.choice((1.0, 0.5, 3.0, 0.0))), int(dice.integers(0, 3))
    arguments = (words, low, start, values, weight, power)
    return Call("", _kernels.add_row, arguments, reference.add_row, _have_same_sums)


def _have_same_sums(ours: Any, theirs: Any) -> bool:
    """Whether words are the same sums; they may be cut off at another place."""
    (words, low), (other_words, other_low) = ours, theirs
    difference = reference.combine(words, low, other_words, other_low, -1)
    return not reference.read(*difference)[0].any()


def _describe_moments(dice: Generator) -> Call:
    columns, groups, rows = int(dice.integers(1, 6)), int(dice.integers(1, 4)), _small_size(dice)
    group = dice.integers(0, groups, size=rows)
    x, w = _tame(dice, rows, columns), dice.integers(1, 4, size=(rows, 1)).astype(np.float64)

    def deposit(values: Floats) -> tuple[Words, int]:
        return reference.deposit_products(
            values, reference.span(values)[0], w, reference.span(w)[0], group, groups
        )

    arguments = (*deposit(np.ones_like(x)), *deposit(x), *deposit(x * x), columns)

    def refer(weight: Any, *others: Any) -> Floats:
        moments = np.empty((3, weight.shape[1]))
        describe: Any = reference.describe_moments
        describe(weight, *others, moments)
        return moments

    def call(*arguments: Any) -> Any:
        describe: Any = _kernels.describe_moments
        return describe(*arguments, False)

    return Call("", call, arguments, refer, _is_close(1e-9))


# ── mail ──


def _lists(dice: Generator) -> tuple[NDArray[np.uint64], Words]:
    """Ascending lists of keys, one after the other, and their sizes."""
    largest = int(dice.choice((5, 1000, 1 << 48)))
    lists = [
        np.unique(dice.integers(0, largest, size=_size(dice)).astype(np.uint64))
        for _ in range(_small_size(dice))
    ]
    keys = np.concatenate([*lists, np.empty(0, np.uint64)])
    return keys, np.array([len(one) for one in lists], np.int64)


def _merge_lists(dice: Generator) -> Call:
    def call(keys: Any, sizes: Any) -> Any:
        distinct, indices = np.empty(len(keys), np.uint64), np.empty(len(keys), np.int64)
        n_distinct = _mail().merge_lists(keys, sizes, distinct, indices)
        return distinct[:n_distinct], indices

    return Call("", call, _lists(dice), bundle_arrays.merge_sorted)


def _find_stored_keys(dice: Generator) -> Call:
    stored, _ = _lists(dice)
    keys, _ = _lists(dice)

    def call(stored: Any, keys: Any) -> Any:
        places = np.empty(len(keys), np.int64)
        _mail().find_keys(stored, keys, places)
        return places

    def refer(stored: Any, keys: Any) -> Any:
        places = np.searchsorted(stored, keys)
        is_stored = (
            stored[np.minimum(places, len(stored) - 1)] == keys if len(stored) else np.zeros(len(keys), bool)
        )
        return np.where(is_stored, places, -1).astype(np.int64)

    return Call("", call, (np.unique(stored), np.unique(keys)), refer)


def _sum_tables(dice: Generator) -> Call:
    keys, sizes = _lists(dice)
    counts = dice.integers(-2, 3, size=(len(keys), int(dice.integers(1, 4))))

    def call(keys: Any, sizes: Any, counts: Any) -> Any:
        total = np.empty_like(keys), np.empty_like(counts)
        entries = _mail().sum_tables(keys, sizes, counts, *total)
        return total[0][:entries], total[1][:entries]

    def refer(keys: Any, _: Any, counts: Any) -> Any:
        distinct, places = np.unique(keys, return_inverse=True)
        total = np.zeros((len(distinct), counts.shape[1]), np.int64)
        np.add.at(total, places, counts)
        is_kept = total.any(axis=1)
        return distinct[is_kept], total[is_kept]

    return Call("", call, (keys, sizes, counts), refer)


def _bundle(dice: Generator) -> tuple[NDArray[np.uint64], Words, Words]:
    """The distinct keys of messages, the starts of the messages, and the indices of their keys."""
    keys, sizes = _lists(dice)
    distinct, indices = bundle_arrays.merge_sorted(keys, sizes)
    return distinct, np.concatenate([[0], np.cumsum(sizes)]), indices.astype(np.int64)


def _encode_bundle(dice: Generator) -> Call:
    def call(keys: Any, starts: Any, indices: Any, low_bytes: Any) -> Any:
        return tuple(
            np.frombuffer(part, np.uint8) for part in _mail().encode_bundle(keys, starts, indices, low_bytes)
        )

    def refer(*arguments: Any) -> Any:
        return tuple(np.frombuffer(part, np.uint8) for part in bundle_arrays.encode_by_numpy(*arguments))

    return Call("", call, (*_bundle(dice), int(dice.integers(4, 6))), refer)


def _decode_bundle(dice: Generator) -> Call:
    keys, starts, indices = _bundle(dice)
    low_bytes = int(dice.integers(4, 6))
    head, tail = (
        np.frombuffer(part, np.uint8)
        for part in bundle_arrays.encode_by_numpy(keys, starts, indices, low_bytes)
    )
    lows, highs = 4 * (len(starts) - 1), 4 * (len(starts) - 1) + low_bytes * len(keys)
    parts = [head[:lows], head[lows:highs], head[highs:], tail[: len(indices)], tail[len(indices) :]]
    if dice.random() < 0.5:  # bytes that lie: a fault, the same one
        place = int(dice.integers(1, 4))
        damaged = parts[place].copy()
        damaged[dice.random(len(damaged)) < 0.1] ^= np.uint8(1 << dice.integers(0, 8))
        if place < 3 or np.array_equal(damaged == 255, parts[place] == 255):
            parts[place] = damaged

    def run(decode: Callable[..., int], *arguments: Any) -> Any:
        own_keys, own_indices = np.zeros(len(keys), np.uint64), np.zeros(len(indices), np.int64)
        fault = decode(*arguments, own_keys, own_indices)
        return (np.array([fault]), *((own_keys, own_indices) if not fault else ()))

    return Call(
        "",
        lambda *arguments: run(_mail().decode_bundle, *arguments),
        (*(part.copy() for part in parts), low_bytes),
        lambda *arguments: run(bundle_arrays.decode_by_numpy, *arguments),
    )


def _make_design(dice: Generator) -> Call:
    features = 1 + _size(dice)
    of_messages = [np.flatnonzero(dice.random(features) < 0.5) for _ in range(_size(dice))]
    starts = np.cumsum([0, *map(len, of_messages)])
    rows = np.concatenate([np.empty(0, np.int64), *of_messages])

    def call(rows: Any, starts: Any, kinds: Any) -> Any:
        slots, is_used = np.array([4, 0, 1, 4, 2], np.uint8), np.empty(len(kinds), np.uint8)
        matrix = _mail().FitMatrix(rows, starts, kinds, slots, is_used)
        entry_starts = np.empty(len(starts), np.int64)
        columns, values = np.empty(len(matrix), np.int32), np.empty(len(matrix))
        matrix.write_starts(entry_starts)
        matrix.write_entries(columns, values)
        return is_used.view(np.bool_), columns, values, entry_starts

    def refer(rows: Any, starts: Any, kinds: Any) -> Any:
        is_used, design = fitting.make_design_by_numpy(rows, starts, kinds)
        return is_used, design.columns, design.values, design.starts

    rows = rows.astype(np.int32 if dice.random() < 0.5 else np.int64)
    return Call("", call, (rows, starts, dice.integers(0, 5, size=features).astype(np.uint8)), refer)


def _fit_matrix(dice: Generator) -> Call:
    rows, features, slots = _size(dice), _size(dice), int(dice.integers(1, 5))
    slot_of = dice.integers(0, slots, size=features).astype(np.uint8)
    of_rows = [np.flatnonzero(dice.random(features) < 0.3) for _ in range(rows)]
    starts = np.cumsum([0, *map(len, of_rows)])
    columns = np.concatenate([np.empty(0, np.int64), *of_rows])
    values = _tame(dice, rows, slots)[np.repeat(np.arange(rows), np.diff(starts)), slot_of[columns]]

    def call(
        starts: Any, columns: Any, values: Any, slots: Any, of_rows: Any, of_columns: Any, n: int
    ) -> Any:
        matrix = _mail().FitMatrix(starts, columns, values, slots)
        sums, transposed = np.zeros(max(len(starts) - 1, 0)), np.zeros(len(slots))
        squares, step = np.zeros(len(slots)), np.zeros(len(slots))
        matrix.multiply(of_columns, sums)
        matrix.multiply_transposed(of_rows, np.abs(of_rows), transposed, squares)
        matrix.solve(np.abs(of_rows), 1 + np.abs(of_columns), of_columns, 0.1, 0.1, min(n, _ENDLESS), step)
        return sums, transposed, squares

    def refer(starts: Any, columns: Any, values: Any, _: Any, of_rows: Any, of_columns: Any, __: int) -> Any:
        owners = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        design = fitting.SparseRows.of(owners, columns, values, len(starts) - 1, len(of_columns))
        return design.multiply(of_columns), *design.multiply_transposed(of_rows, np.abs(of_rows))

    arguments = (
        starts,
        columns.astype(np.int32),
        values,
        slot_of,
        _tame(dice, rows),
        _tame(dice, features),
        9,
    )
    return Call("", call, arguments, refer)


def _merged_features(dice: Generator) -> Call:
    """Merge the features of messages in two parts, and sum them."""
    keys, sizes = _lists(dice)

    def call(keys: Any, sizes: Any, labels: int, ranges: int) -> Any:
        ends = np.cumsum(sizes).tolist()
        lists = [keys[end - size : end] for end, size in zip(ends, sizes.tolist(), strict=True)]
        batch = open_batch([b""] * len(lists))
        for index, one in enumerate(lists):
            batch.set_features(index, one.astype("<u8").tobytes())
        half = len(lists) // 2
        parts = [_mail().MergedFeatures(batch, places) for places in (range(half), range(half, len(lists)))]
        sums = _mail().FeatureSum(labels, ranges)
        for number, part in enumerate(parts):
            part.encode(3 + number)
            sums.add(part, [(number, 1)])
        for number in range(ranges):
            sums.sum_range(number)
        total, counts = np.empty(len(sums), np.uint64), np.empty((len(sums), labels), np.int64)
        for number in range(ranges):
            sums.write_range(number, total, counts)
        rows = np.empty(len(keys), np.int32)
        sums.gather(
            [(number, place) for number, part in enumerate(parts) for place in range(len(part))], rows
        )
        return total, counts.sum(axis=1), rows

    def refer(keys: Any, sizes: Any, *_: int) -> Any:
        distinct, indices = bundle_arrays.merge_sorted(keys, sizes)
        return distinct, np.bincount(indices, minlength=len(distinct)), indices.astype(np.int32)

    return Call("", call, (keys, sizes, 2, int(dice.integers(1, 5))), refer)


def _score_table(dice: Generator) -> Call:
    """Read rows of a store, which may be any bytes, and score a message by them."""
    rows = [
        (int(number), dice.bytes(int(dice.choice((5, 10, 12, 18, 20))) * _small_size(dice)))
        for number in dice.integers(-1, 9, size=_small_size(dice))
    ]
    sound = [
        (number, bytes(4 * number) + bytes([number, 0, 0, 0, 1, 2])) for number in range(_small_size(dice))
    ]

    def call(labels: int, start: int, bits: int, width: int, entries: int) -> Any:
        table = _mail().ScoreTable(labels, 3)
        for part in (rows, sound[:1]):
            with suppress(ValueError):
                table.add_run(part, start, bits, width, labels, entries)
            with suppress(ValueError):
                table.add_coefficients(part, bits)
        table.finish()
        views = [[1.0, 0.1, 1.0, 10.0, 0.0, 0.0, 0.1, 5.0, 5.0, 0.5]] * 5
        table.compare([(0, 1.0)], [(1, 1.0)], views, 10.0)
        batch = open_batch([b"", b""])
        keys = np.unique(dice.integers(0, 1 << 48, size=40, dtype=np.uint64))
        batch.set_features(1, keys.astype("<u8").tobytes())
        return len(table.score(batch))

    arguments = (
        2,
        int(dice.integers(-1, 2)),
        int(dice.choice((0, 3, 16, 48))),
        int(dice.choice((1, 2, 4, 8))),
        99,
    )
    return Call("", call, arguments, lambda *_: 2)


def _compress_bytes(dice: Generator) -> Call:
    raw = np.minimum(dice.geometric(dice.random() * 0.98 + 0.01, _size(dice) ** 2), 255).astype(np.uint8)

    def call(raw: Any) -> Any:
        return zlib.decompress(_mail().compress_bytes(raw.tobytes()))

    return Call("", call, (raw,), lambda raw: raw.tobytes())


_MBOX_PIECES: Final = (
    b"From a@b Mon Jan  1 00:00:00 2024\n",
    b"From here\n",
    b">From x\n",
    b"\n",
    b"\r\n",
    b"Content-Length: 3\n",
    b"content-length: 400\n",
    b"text\n",
    b"From ",
    b"x" * 1100,
)


def _split_mbox(dice: Generator) -> Call:
    pieces = (_MBOX_PIECES[k] for k in dice.integers(0, len(_MBOX_PIECES), size=_size(dice)))
    text = _MBOX_PIECES[0] + b"".join(pieces)

    def split(block: int, largest: int) -> Any:
        source = BytesIO(text)
        return list(mbox.split(lambda most: source.read(min(most, max(block, 1))), max(largest, 0)))

    def refer(block: int, largest: int) -> Any:
        with patch.object(mbox, "core", None):
            return split(block, largest)

    def call(block: int, largest: int, begin: int) -> Any:
        _mail().split_mbox(text, begin, largest, block % 2 == 0)
        return split(min(block, 1 << 20), min(largest, 1 << 20))

    return Call(
        "",
        call,
        (int(dice.choice((64, 2000, 9999))), 1 << 20, 0),
        lambda block, largest, _: refer(block, largest),
    )


def _judged_features(dice: Generator) -> tuple[Words, Words, Words, NDArray[np.uint8]]:
    """Features of messages: their rows, where messages begin and end, and the views of the rows."""
    n, rows, messages = _size(dice), 1 + _size(dice), 1 + _small_size(dice)
    begins, ends = np.sort(dice.integers(0, n + 1, size=(2, messages)), axis=0)
    return dice.integers(0, rows, size=n), begins, ends, dice.integers(0, 5, size=rows).astype(np.uint8)


def _sum_views(dice: Generator) -> Call:
    rows, begins, ends, views = _judged_features(dice)
    rows = rows.astype(np.int32 if dice.random() < 0.5 else np.int64)
    groups = dice.integers(0, len(views), size=len(views)).astype(np.int32)
    is_known = dice.integers(0, 2, size=len(views)).astype(np.uint8)
    cells = 5 * len(begins)

    def call(rows: Any, groups: Any, begins: Any, ends: Any, views: Any, weights: Any, is_known: Any) -> Any:
        sums = np.empty((cells // 5, 5)), *np.empty((2, cells // 5, 5), np.int64)
        _mail().sum_views(rows, groups, begins, ends, views, weights, is_known, *sums)
        return sums

    def refer(rows: Any, groups: Any, begins: Any, ends: Any, views: Any, weights: Any, is_known: Any) -> Any:
        places, owners = expand_ranges(begins, ends)
        of_features = groups[rows[places]]
        cell = owners * 5 + views[of_features]
        sums = np.zeros(cells) + np.bincount(cell, weights[of_features], cells)
        sizes = np.bincount(cell, minlength=cells)
        known = np.bincount(cell[is_known[of_features] != 0], minlength=cells)
        return sums.reshape(-1, 5), sizes.reshape(-1, 5), known.reshape(-1, 5)

    arguments = rows, groups, begins, ends, views, _tame(dice, len(views)), is_known
    return Call("", call, arguments, refer)


def _group_counts(dice: Generator) -> Call:
    rows, most = _size(dice), int(dice.choice([2, 5, 1 << 40]))
    counts = dice.integers(-most, most, size=(rows, int(dice.integers(0, 4))))

    def call(views: Any, counts: Any) -> Any:
        groups, firsts = np.empty(len(views), np.int32), np.empty(len(views), np.int64)
        number = _mail().group_counts(views, counts, groups, firsts)
        return groups, firsts[:number]

    def refer(views: Any, counts: Any) -> Any:
        groups, firsts = verdict_arrays.group_by_numpy(views, counts)
        return groups.astype(np.int32), firsts

    views = dice.integers(0, 3, size=rows).astype(np.uint8)
    return Call("", call, (views, counts), refer)


def _encode_entries(dice: Generator) -> Call:
    largest = int(dice.choice((5, 1000, 1 << 48)))
    keys = np.unique(dice.integers(0, largest, size=max(1, _size(dice))).astype(np.uint64))
    labels, shift = int(dice.integers(0, 4)), int(dice.choice((0, 3, 20, 32, 33, 48)))
    magnitudes = dice.integers(0, 64, size=(len(keys), 1))
    counts = dice.integers(-(2**63), 2**63, size=(len(keys), labels)) >> magnitudes
    widths = store_tables.find_widths(counts)
    run = Run(1, 1, 0, shift, int(dice.choice(widths)), labels, 0)  # a run has at least one entry

    def call(keys: Any, counts: Any, widths: Any, entries: Any) -> Any:
        table = store_tables.CountTable(keys, counts)
        return store_tables.find_widths(counts), *store_tables.encode_entries(run, table, widths, entries)

    def refer(keys: Any, counts: Any, widths: Any, entries: Any) -> Any:
        with patch.object(store_tables, "core", None):
            return call(keys, counts, widths, entries)

    return Call("", call, (keys, counts, widths, int(np.count_nonzero(widths == run.width))), refer)


def _sum_coefficients(dice: Generator) -> Call:
    rows, begins, ends, views = _judged_features(dice)
    messages = len(begins)

    def call(rows: Any, begins: Any, ends: Any, views: Any, values: Any, n_views: Any) -> Any:
        sums = np.empty(messages)
        _mail().sum_coefficients(rows, begins, ends, views, values, n_views, sums)
        return sums

    def refer(rows: Any, begins: Any, ends: Any, views: Any, values: Any, n_views: Any) -> Any:
        places, owners = expand_ranges(begins, ends)
        rows = rows[places]
        cell = owners * n_views + views[rows]
        sizes = np.bincount(cell, minlength=1)
        return np.zeros(messages) + np.bincount(owners, values[rows] / np.sqrt(sizes[cell]), messages)

    return Call("", call, (rows, begins, ends, views, _tame(dice, len(views)), 5), refer)


def _add_counts(dice: Generator) -> Call:
    stored, keys = (np.unique(dice.integers(0, 300, _size(dice)).astype(np.uint64)) for _ in range(2))
    kind = str(dice.choice(["i1", "i2", "i4", "i8"]))
    labels = int(dice.integers(0, 4))
    stored_counts = dice.integers(-128, 128, size=(len(stored), labels)).astype(kind)
    counts = dice.integers(-9, 9, size=(len(keys), labels + int(dice.integers(0, 2))))

    def call(stored: Any, stored_counts: Any, keys: Any, counts: Any) -> Any:
        own = counts.copy()
        _mail().add_counts(stored, stored_counts, keys, own)
        return own

    def refer(stored: Any, stored_counts: Any, keys: Any, counts: Any) -> Any:
        own = counts.copy()
        is_there = np.isin(keys, stored)
        own[is_there, : stored_counts.shape[1]] += stored_counts[np.searchsorted(stored, keys[is_there])]
        return own

    return Call("", call, (stored, stored_counts, keys, counts), refer)


_FIELD_PIECES: Final = (
    "=",
    "?",
    "=?",
    "a",
    "~",
    " ",
    "\t",
    "\x7f",
    "\x1f",
    "é",
    "€",
    "\U0001f600",
    "\ud800",
    "",
)


def _find_encoded_fields(dice: Generator) -> Call:
    values = ["".join(dice.choice(_FIELD_PIECES, size=dice.integers(0, 6))) for _ in range(_small_size(dice))]
    pairs = [("subject", value) for value in values]

    def call(pairs: Any, _: Any) -> Any:
        return _mail().find_encoded_fields(pairs)

    def refer(pairs: Any, _: Any) -> Any:
        is_plain = [v.isascii() and v.isprintable() and "=?" not in v for _, v in pairs]
        return [place for place, plain in enumerate(is_plain) if not plain]

    return Call("", call, (pairs, 0), refer)


_RAW_PIECES: Final = (
    *(b"\n", b"\n\n", b"\r\n", b" ", b"\0", b"\xff", b"From a\n", b">From ", b"X-Spam: y\n", b"Subject: "),
    *(
        b"=?utf-8?q?=C3",
        b"=A9?=",
        b"=?x?b?YQ",
        b"==?=",
        b"\n--x\n",
        b"\n--x--",
        b"Date: ",
        b"1 Jan 2000 1:02",
    ),
    *(
        b"Content-Type: multipart/mixed; boundary=x\n\n",
        b"Content-Type: text/html\n",
        b"<b>",
        b"word ",
        b"=\n",
    ),
    *(b"Content-Transfer-Encoding: base64\n", b"1 Jan 2000 1:02", b"word "),
)


def _read_raw_messages(dice: Generator) -> Call:
    raws = [
        b"".join(_RAW_PIECES[k] for k in dice.integers(0, len(_RAW_PIECES), size=_small_size(dice) * 2))
        for _ in range(_small_size(dice))  # digests of eight are computed together
    ]

    version = int(dice.integers(2, 4))  # of the tokens: one that the core reads

    def call(raws: Any, _: Any) -> Any:
        plain, digests = message.identify(raws)
        read = features.read_features(plain, version)
        batch = open_batch(raws)
        dates = read_batch(batch, range(len(raws)), version)
        packed = [batch.features(index) for index in range(len(raws))]
        if (batch.digests(), list(zip(packed, dates, strict=True))) != (digests, read):
            raise AssertionError("a batch is read otherwise than its messages")
        if read_batch_headings(raws, batch) != message.read_headings(raws, plain):
            raise AssertionError("the headings of a batch are others than those of its messages")
        return plain, digests, message.read_headings(raws, plain), read

    def refer(raws: Any, _: Any) -> Any:
        plain = [canonical_reference.canonical(raw) for raw in raws]
        parsed = [message.parse(one) for one in plain]
        packed = [features.pack_features(tokens.read(one, version)) for one in parsed]
        dates = [read_date(one.headers) for one in parsed]
        headings = [read_by_python(raw, one) for raw, one in zip(raws, plain, strict=True)]
        return plain, [message.digest(one) for one in plain], headings, list(zip(packed, dates, strict=True))

    return Call("", call, (raws, 0), refer)


def _mail() -> Any:
    if core is None:
        raise RuntimeError("there is no compiled core")
    return core.mail


KERNELS: Final[dict[str, Callable[[Generator], Call]]] = {
    "span": _span,
    "two_product": _two_product,
    "deposit": _deposit,
    "deposit_powers": _deposit_powers,
    "deposit_columns": _deposit_columns,
    "deposit_products": _deposit_products,
    "deposit_rows": _deposit_rows,
    "deposit_sparse": _deposit_sparse,
    "deposit_codes": _deposit_codes,
    "gaussian_scores": _gaussian_scores,
    "gather_scores": _gather_scores,
    "log_sum_rows": _log_sum_rows,
    "settle": _settle,
    "combine": _combine,
    "multiply": _multiply,
    "read": _read,
    "text.fold_words": _fold_words,
    "text.fold_characters": _fold_characters,
    "text.read_words": _read_words,
    "text.read_grams": _read_grams,
    "text.number_tokens": _number_tokens,
    "text.make_keys": _make_keys,
    "text.number_keys": _number_keys,
    "text.index_keys": _index_keys,
    "text.find_tokens": _find_tokens,
    "text.find_keys": _find_keys,
    "text.join_tokens": _join_tokens,
    "text.make_pair_keys": _make_pair_keys,
    "text.count_numbers": _count_numbers,
    "text.sum_groups": _sum_groups,
    "text.arrange": _arrange,
    "text.add_columns": _add_columns,
    "text.add_rows": _add_rows,
    "text.hash_tokens": _hash_tokens,
    "dense.multiply_centred": _multiply_centred,
    "dense.multiply_blocks": _multiply_blocks,
    "dense.deposit_blocks": _deposit_blocks,
    "dense.sum_responsible": _sum_responsible,
    "factors.solve_rows": _solve_rows,
    "factors.row_squares": _row_squares,
    "factors.top_rows": _top_rows,
    "factors.dot_pairs": _dot_pairs,
    "add_row": _add_row,
    "describe_moments": _describe_moments,
    "mail.merge_lists": _merge_lists,
    "mail.find_keys": _find_stored_keys,
    "mail.add_counts": _add_counts,
    "mail.sum_tables": _sum_tables,
    "mail.encode_bundle": _encode_bundle,
    "mail.decode_bundle": _decode_bundle,
    "mail.FitMatrix": _fit_matrix,
    "mail.MergedFeatures": _merged_features,
    "mail.ScoreTable": _score_table,
    "mail.split_mbox": _split_mbox,
    "mail.compress_bytes": _compress_bytes,
    "mail.FitMatrix of rows": _make_design,
    "mail.sum_views": _sum_views,
    "mail.group_counts": _group_counts,
    "mail.encode_entries": _encode_entries,
    "mail.sum_coefficients": _sum_coefficients,
    "mail.find_encoded_fields": _find_encoded_fields,
    "mail.read_messages": _read_raw_messages,
}


# ── broken arguments ──


def _break(dice: Generator, call: Call) -> Call:
    """Break one number or array among the arguments."""
    places = [path for path, _ in _leaves(call.arguments)]
    path = places[dice.integers(len(places))]
    value = dict(_leaves(call.arguments))[path]
    breaks, broken = _break_array(dice, value) if isinstance(value, np.ndarray) else _break_size(dice)
    has_empty = any(isinstance(leaf, np.ndarray) and not leaf.size for _, leaf in _leaves(call.arguments))
    if isinstance(broken, int) and has_empty and abs(broken) > _ENDLESS:
        return call  # 2 ** 40 times nothing needs no memory, and is not refused for that
    arguments = _with_leaf(call.arguments, path, broken)
    return replace(call, arguments=arguments, breaks=f"argument {'.'.join(map(str, path))}: {breaks}")


def _leaves(arguments: tuple[Any, ...]) -> list[tuple[tuple[int, ...], Any]]:
    """Arrays and integers among arguments and their parts, each with its place."""
    leaves: list[tuple[tuple[int, ...], Any]] = []
    for number, value in enumerate(arguments):
        if isinstance(value, tuple):
            leaves += [((number, *path), leaf) for path, leaf in _leaves(value)]
        elif isinstance(value, np.ndarray) or type(value) is int:
            leaves.append(((number,), value))
    return leaves


def _with_leaf(arguments: Any, path: tuple[int, ...], value: Any) -> Any:
    number, *rest = path
    inner = _with_leaf(arguments[number], tuple(rest), value) if rest else value
    values = [*arguments[:number], inner, *arguments[number + 1 :]]
    return type(arguments)(*values) if hasattr(arguments, "_fields") else tuple(values)


def _break_size(dice: Generator) -> tuple[str, int]:
    value = int(_EXTREME_SIZES[dice.integers(len(_EXTREME_SIZES))]) * int(dice.choice((1, 1, -1)))
    return f"is {value}", value


def _extreme_integer(dice: Generator) -> int:
    return int(_EXTREME_INTEGERS[dice.integers(len(_EXTREME_INTEGERS))]) * int(dice.choice((1, 1, -1)))


def _break_array(dice: Generator, array: NDArray[Any]) -> tuple[str, NDArray[Any]]:
    kind = int(dice.integers(10))
    if kind <= 3 and array.size:
        broken = array.copy()
        place = int(dice.integers(array.size))
        if array.dtype.kind == "f":
            value: Any = _EXTREME_FLOATS[dice.integers(len(_EXTREME_FLOATS))]
        else:
            limits = np.iinfo(array.dtype)
            value = (
                _extreme_integer(dice)
                if dice.random() < 0.7
                else int(broken.flat[place]) + int(dice.choice((-1, 1)))
            )
            value = min(max(value, int(limits.min)), int(limits.max))
        broken.flat[place] = value
        return f"element {place} is {value}", broken
    if kind == 4 and len(array):
        return "is shorter", array[:-1].copy()
    if kind == 5 and len(array):
        return "is longer", np.concatenate([array, array[-1:]])
    if kind == 6:
        other = {"f": np.float32, "i": np.int16, "u": np.int8}[array.dtype.kind]
        with np.errstate(all="ignore"):
            return f"is of {np.dtype(other)}", array.astype(other)
    if kind == 7:
        return "is not contiguous", np.repeat(array, 2, axis=-1)[..., ::2]
    if kind == 8:
        return "has another dimension", array[None] if dice.random() < 0.5 else array.reshape(-1)[:, None]
    broken = array.copy()
    broken.flags.writeable = False
    return "is read-only", broken
