"""Text: the compiled core gives the bits that the reference gives, whatever bytes come."""

import itertools
import os
import subprocess
import sys
from types import ModuleType
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tamis import threads
from tamis._kernels import text as door
from tamis._kernels.text import reference
from tamis._kernels.text.kinds import LONG, PAD, Alphabet, Bytes, Int64s, Rows, Tokens, TokenStream, UInt64s
from tamis.compiled import core
from tamis.text import Corpus, Tokenizer
from tamis.text.alphabet import Fold, alphabet
from tests.kernels.oracle import assert_same_bits
from tests.kernels.text_door import use_kernels

if core is None:
    pytest.skip("the compiled core is not built, or switched off", allow_module_level=True)
from tamis._kernels.text import compiled

thoroughly = settings(max_examples=150, deadline=None)

# What the kernels look at twice: case, marks, scripts without spaces, what is skipped, white space, breaks.
TURNING = (
    "aAbB1_-. \t\n\u00a0\u3000\0'"
    "éÉßẞΣςσİıŉΐſŒµªﬁﬅǆǅ"
    "\u0300\u0301\u0308\u0323\u0345\u0340\u0344\u093c\u05b4\u064b"
    "日本語年々〇ーかﾞｶが\u3099\u309aカ한국\u1112\u1161\u11abไทย\u0e31\u0e4d\u0eb3ក\u17d2မ\u1039"
    "ＡＢｃ１½⑴㈱℡Å\uf900\U0002f800𠀀🙂"
    "\u00ad\u200b\u200c\u200d\u202e\u2066\ufeff\ufe0f\U000e0101"
    "\u0958\u0344\u1e9e\u1fb3\u1f80٣৪"
)
BROKEN = [
    b"\xff", b"\x80", b"\xc3", b"\xc0\xaf", b"\xe0\x80\x80", b"\xe6\x97", b"\xed\xa0\x80", b"\xed\xbf\xbf",
    b"\xf0\x9f\x99", b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80",
]  # fmt: skip
LENGTHS = [0, 1, 7, 8, 9, 62, 63, 64, 65, 66, 127, 128, 129]

characters = st.sampled_from(TURNING) | st.characters()
pieces = st.one_of(
    st.text(characters, max_size=12).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.text(st.sampled_from("ab"), min_size=5, max_size=18).map(str.encode),
    st.sampled_from([b"prefixed" + tail for tail in (b"", b"a", b"b", b"abcdefg", b"abcdefgh", b"abcdefgi")]),
    st.sampled_from(BROKEN),
    st.binary(max_size=8),
)  # fmt: skip
free = st.lists(pieces, max_size=8).map(b"".join)
# Documents that end where eight or 64 bytes end, with a token or a break there.
sized = st.tuples(st.sampled_from(LENGTHS), st.text("aé -日", min_size=1, max_size=9)).map(
    lambda drawn: (drawn[1].encode() * 130)[: drawn[0]]
)
documents = st.lists(free | sized, max_size=6)
alphabets = st.tuples(
    st.sampled_from(["none", "case", "compatible", "base"]),
    st.sampled_from(["pairs", "words"]),
    st.sampled_from(["keep", "shape"]),
).map(lambda settings: alphabet(*settings))


def random_documents(seed: int, count: int, vocabulary: int) -> list[bytes]:
    """Words of 1 to 24 bytes, many of them with the same beginning."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 25, size=vocabulary)
    words = [
        (b"commonly"[: size // 2] + rng.integers(97, 123, size=24).astype(np.uint8).tobytes())[:size]
        for size in sizes
    ]
    return [b" ".join(words[k] for k in rng.integers(0, vocabulary, size=30)) for _ in range(count)]


def read(texts: list[bytes], letters: Alphabet, shortest: int = 1) -> TokenStream:
    corpus = Corpus.of(texts)
    folded = compiled.fold_words(corpus.text, corpus.offsets, letters)
    return compiled.read_words(*folded, shortest, letters)


def room(rows: Rows) -> Any:
    return np.empty(len(rows.indices), dtype=np.int32), np.empty(len(rows.indices))


def flat(found: TokenStream) -> tuple[Any, ...]:
    return found.numbers, found.documents, *found.tokens


def every(found: TokenStream) -> Tokens:
    """All tokens, as often as they come."""
    starts, lengths = found.tokens.starts[found.numbers], found.tokens.lengths[found.numbers]
    return Tokens(found.tokens.text, starts, lengths, found.tokens.keys[found.numbers])


def check_unite(tokens: Tokens) -> tuple[Any, Tokens]:
    numbers, stems = reference.number_tokens(tokens)
    again, twin = compiled.number_tokens(tokens)
    assert_same_bits((again, *twin), (numbers, *stems))
    return numbers, stems


def names(text: Bytes, starts: Int64s, lengths: Int64s) -> list[bytes]:
    whole = text.tobytes()
    return [whole[i : i + n] for i, n in zip(starts.tolist(), lengths.tolist(), strict=True)]


# ── bytes → tokens ──


@thoroughly
@given(texts=documents, letters=alphabets, shortest=st.integers(1, 4))
@example(texts=[b"e\xcc\x81" * 40, b"", "が".encode() * 30], letters=alphabet(), shortest=2)
def test_words_are_found_alike(texts: list[bytes], letters: Alphabet, shortest: int) -> None:
    corpus = Corpus.of(texts)
    folded = reference.fold_words(corpus.text, corpus.offsets, letters)
    assert_same_bits(compiled.fold_words(corpus.text, corpus.offsets, letters), folded)
    found = reference.read_words(*folded, shortest, letters)
    assert_same_bits(flat(compiled.read_words(*folded, shortest, letters)), flat(found))
    assert not folded[0][-PAD:].any()
    assert not found.tokens.text[-PAD:].any()
    for name in names(*found.tokens[:3]):
        assert b"\0" not in name
        name.decode()  # folded text is UTF-8, whatever the bytes were


@thoroughly
@given(
    texts=documents,
    letters=alphabets,
    within=st.booleans(),
    sizes=st.sampled_from([(1, 1), (2, 2), (1, 3), (2, 5), (4, 9)]),
)
def test_runs_of_characters_are_found_alike(
    texts: list[bytes], letters: Alphabet, within: bool, sizes: tuple[int, int]
) -> None:
    corpus = Corpus.of(texts)
    folded = reference.fold_characters(corpus.text, corpus.offsets, letters, within)
    assert_same_bits(compiled.fold_characters(corpus.text, corpus.offsets, letters, within), folded)
    found = reference.read_grams(*folded, *sizes, within)
    assert_same_bits(flat(compiled.read_grams(*folded, *sizes, within)), flat(found))


@pytest.mark.parametrize("fold", get_args(Fold))
def test_every_character_is_read_alike(fold: Fold) -> None:
    """In a word, in a run of Chinese, with marks; less most ideographs and syllables, which are all alike."""
    letters = alphabet(fold)
    plain = [(0, 0x3410), (0x9FF0, 0xAC10), (0xD7A0, 0xD800), (0xF900, 0x10100), (0x1D400, 0x1D800)]
    far = [(0x1F100, 0x1F300), (0x2F800, 0x2F820), (0xE0000, 0xE0200), (0x10FFF0, 0x110000)]
    codes = [code for start, stop in plain + far for code in range(start, stop)]
    around = ".{0}a{0}.日{0}.日本{0}{0}{0}.{0}\u0301.日本{0}\u3099語"
    texts = ["".join(around.format(chr(code)) for code in codes[k::8]) for k in range(8)]
    corpus = Corpus.of(texts)
    folded = reference.fold_words(corpus.text, corpus.offsets, letters)
    assert_same_bits(compiled.fold_words(corpus.text, corpus.offsets, letters), folded)
    runs = reference.fold_characters(corpus.text, corpus.offsets, letters, True)
    assert_same_bits(compiled.fold_characters(corpus.text, corpus.offsets, letters, True), runs)


@pytest.mark.parametrize("length", range(140))
def test_a_word_ends_where_the_document_does(length: int) -> None:
    for text in (b"a" * length, (b"ab " * 60)[:length], (" é".encode() * 60)[:length], b" " * length):
        found = read([text, b"", text], alphabet())
        corpus = Corpus.of([text, b"", text])
        folded = reference.fold_words(corpus.text, corpus.offsets, alphabet())
        assert_same_bits(flat(found), flat(reference.read_words(*folded, 1, alphabet())))
        assert found.documents[1] == found.documents[2]
        if text == b"a" * length and length:
            assert names(*every(found)[:3]) == [text, text]


# ── tokens → numbers ──


@thoroughly
@given(texts=documents, letters=alphabets, shift=st.integers(1, 3), shares=st.integers(1, 4))
def test_tokens_are_numbered_and_counted_alike(
    texts: list[bytes], letters: Alphabet, shift: int, shares: int
) -> None:
    found = read(texts, letters)
    tokens, known = every(found), len(found.tokens.keys)
    check_unite(tokens)
    counted = reference.count_numbers(found.numbers, found.documents, known)
    assert_same_bits(compiled.count_numbers(found.numbers, found.documents, known), counted)
    assert counted.counts.sum() == len(tokens.keys)
    asked = found.numbers, found.documents, found.numbers, found.documents, shift
    pairs = reference.make_pair_keys(*asked)
    assert_same_bits(compiled.make_pair_keys(*asked), pairs)
    check_shares(pairs[0], shares)
    hashed = reference.hash_tokens(*tokens[:3], shift)
    assert_same_bits((compiled.hash_tokens(*tokens[:3], shift),), (hashed,))


def check_shares(keys: UInt64s, shares: int) -> None:
    numbers = np.full((2, len(keys)), -1, dtype=np.int32)
    first = []
    for share in range(shares):
        first.append(reference.number_keys(keys, numbers[0], share, shares))
        assert_same_bits((compiled.number_keys(keys, numbers[1], share, shares),), (first[-1],))
    assert (numbers[0] == numbers[1]).all()
    assert (numbers >= 0).all()
    assert sorted(keys[np.concatenate(first)].tolist()) == sorted(set(keys.tolist()))


@thoroughly
@given(texts=documents, asked=documents, step=st.integers(1, 3))
def test_tokens_are_found_alike(texts: list[bytes], asked: list[bytes], step: int) -> None:
    whole = read(texts, alphabet()).tokens
    starts, lengths = whole.starts[::step].copy(), whole.lengths[::step].copy()
    known = Tokens(whole.text, starts, lengths, whole.keys[::step].copy())
    table = reference.index_keys(known.keys)
    assert_same_bits((compiled.index_keys(known.keys),), (table,))
    for other in (texts, asked, texts + asked):
        wanted = read(other, alphabet()).tokens
        numbers = reference.find_tokens(table, known, wanted)
        assert_same_bits((compiled.find_tokens(table, known, wanted),), (numbers,))
        theirs, ours = names(*wanted[:3]), names(*known[:3])
        assert [ours[k] if k >= 0 else None for k in numbers] == [t if t in ours else None for t in theirs]
        exact = wanted.keys[wanted.lengths < 8]
        assert_same_bits((compiled.find_keys(table, exact),), (reference.find_keys(table, exact),))


@thoroughly
@given(
    texts=documents,
    parts=st.lists(st.lists(st.integers(0, 10**6), max_size=4), max_size=6),
    between=st.sampled_from([b"", b" ", b" * * "]),
)
def test_names_are_joined_alike(texts: list[bytes], parts: list[list[int]], between: bytes) -> None:
    tokens = read([*texts, b"one"], alphabet()).tokens
    each = [np.array(numbers, dtype=np.int32) % len(tokens.keys) for numbers in parts]
    listed = np.concatenate([np.zeros(0, dtype=np.int32), *each]).astype(np.int32)
    bounds = np.cumsum([0, *map(len, each)]).astype(np.int64)
    middle = np.frombuffer(between, dtype=np.uint8)
    asked = (*tokens[:3], listed, bounds, middle)
    joined = reference.join_tokens(*asked)
    assert_same_bits(compiled.join_tokens(*asked), joined)
    stems = names(*tokens[:3])
    assert names(*joined) == [between.join(stems[k] for k in numbers) for numbers in each]


@pytest.mark.parametrize("keys", ["all", "some"])
def test_long_tokens_of_one_key_are_told_apart_by_their_bytes(keys: str) -> None:
    tokens = every(read(random_documents(1, 40, 300), alphabet()))
    long = tokens.lengths >= 8
    low = np.uint64(7) if keys == "all" else tokens.keys & np.uint64(7)
    tokens = tokens._replace(keys=np.where(long, np.uint64(LONG << 56) | low, tokens.keys))
    assert len(set(tokens.keys[long].tolist())) <= 8
    numbers, known = compiled.number_tokens(tokens)
    assert len(known.keys) == len(set(names(*tokens[:3]))) > 200
    assert [names(*known[:3])[k] for k in numbers] == names(*tokens[:3])
    table = reference.index_keys(known.keys)
    assert_same_bits((compiled.index_keys(known.keys),), (table,))
    assert (compiled.find_tokens(table, known, tokens) == numbers).all()


def test_tables_grow() -> None:
    found = read(random_documents(2, 3_000, 60_000), alphabet())
    assert len(found.tokens.keys) > 2**15
    check_unite(every(found))
    keys, _ = compiled.make_pair_keys(found.numbers, found.documents, found.numbers, found.documents, 1)
    for shares in (1, 3):
        check_shares(keys, shares)
    assert len(set(keys.tolist())) > 2**15
    distinct, asked = np.unique(keys)[::2].copy(), np.unique(keys)
    table = reference.index_keys(distinct)
    assert_same_bits((compiled.index_keys(distinct),), (table,))
    assert_same_bits((compiled.find_keys(table, asked),), (reference.find_keys(table, asked),))


@st.composite
def counted(draw: st.DrawFn) -> tuple[Rows, int]:
    """Rows as documents give them: each number once in a row."""
    known = draw(st.integers(1, 7))
    numbers = draw(st.lists(st.lists(st.integers(0, known - 1), unique=True), max_size=6))
    flat = list(itertools.chain(*numbers))
    counts = draw(st.lists(st.integers(1, 9), min_size=len(flat), max_size=len(flat)))
    indptr = np.cumsum([0, *map(len, numbers)]).astype(np.int64)
    return Rows(indptr, np.array(flat, dtype=np.int32), np.array(counts, dtype=np.float64)), known


@thoroughly
@given(case=counted(), data=st.data())
def test_rows_are_arranged_alike(case: tuple[Rows, int], data: st.DataObject) -> None:
    rows, known = case
    places = st.lists(st.integers(-1, 5), min_size=known, max_size=known)
    signs = st.lists(st.sampled_from([1.0, -1.0]), min_size=known, max_size=known)
    columns = np.array(data.draw(places), dtype=np.int32)
    signed = np.array(data.draw(signs))
    found = reference.arrange(rows, columns, signed, *room(rows))
    assert_same_bits(compiled.arrange(rows, columns, signed, *room(rows)), found)
    dense = np.zeros((len(rows.indptr) - 1, 6))
    for row, (start, stop) in enumerate(itertools.pairwise(rows.indptr)):
        for k in range(start, stop):
            number = rows.indices[k]
            if columns[number] >= 0:
                dense[row, columns[number]] += rows.counts[k] * signed[number]
        within = slice(found.indptr[row], found.indptr[row + 1])
        assert (np.diff(found.indices[within]) > 0).all()
        again = np.zeros(6)
        again[found.indices[within]] = found.counts[within]
        assert (again == dense[row]).all()


@thoroughly
@given(case=counted(), classes=st.integers(1, 3))
def test_rows_are_added_alike(case: tuple[Rows, int], classes: int) -> None:
    rows, known = case
    group = np.arange(len(rows.indptr) - 1) % classes
    tables = np.zeros((2, classes, known), dtype=np.int64)
    condensed = reference.sum_groups(rows, group, classes, known)
    assert_same_bits(compiled.sum_groups(rows, group, classes, known), condensed)
    assert_same_bits(door.sum_groups(rows, group, classes, known), condensed)
    same = np.zeros((2, classes, known), dtype=np.int64)
    itself = np.arange(known, dtype=np.int32)
    reference.add_rows(*condensed, itself, np.arange(classes), same[0])
    reference.add_rows(*rows, itself, group, same[1])
    assert (same[0] == same[1]).all()
    columns = np.arange(known, dtype=np.int32)[::-1].copy()
    columns[: known // 3] = -1
    reference.add_rows(*rows, columns, group, tables[0])
    compiled.add_rows(*rows, columns, group, tables[1])
    assert (tables[0] == tables[1]).all()
    for k in range(classes):
        mine = np.repeat(group, np.diff(rows.indptr)) == k
        sums = np.bincount(rows.indices[mine], rows.counts[mine], known)
        assert (tables[0, k, columns[columns >= 0]] == sums[columns >= 0]).all()
    moved = np.zeros((2, classes, 2 * known), dtype=np.int64)
    places = np.arange(known) * 2
    reference.add_columns(tables[0], places, moved[0])
    compiled.add_columns(tables[0], places, moved[1])
    assert (moved[0] == moved[1]).all()
    assert (moved[0][:, places] == tables[0]).all()


# ── the door ──


def test_the_door_shares_out_many_keys_and_numbers_them_once(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = np.random.default_rng(5).integers(0, 3000, size=9000).astype(np.uint64)
    alone = door.number_keys(keys)
    monkeypatch.setattr(door, "_MIN_KEYS", 1000)
    for count in (1, 4):
        monkeypatch.setattr(threads, "_processors", lambda count=count: count)
        shared = door.number_keys(keys)
        assert (keys[shared.first_positions[shared.numbers]] == keys).all()
        assert len(shared.first_positions) == len(alone.first_positions) == len(set(keys.tolist()))
        assert (shared.first_positions[shared.numbers] == alone.first_positions[alone.numbers]).all()


@pytest.mark.parametrize("kernels", [reference, compiled], ids=["reference", "compiled"])
def test_either_side_of_the_door_gives_the_same(monkeypatch: pytest.MonkeyPatch, kernels: ModuleType) -> None:
    use_kernels(monkeypatch, kernels)
    corpus = Corpus.of(["Straße, CAFÉ und 東京都!", b"a\xffb", "e\u0301 " * 50])
    folded = door.fold_words(corpus.text, corpus.offsets, alphabet())
    assert_same_bits(folded, reference.fold_words(corpus.text, corpus.offsets, alphabet()))
    found = door.read_words(*folded, 1, alphabet())
    assert_same_bits(flat(found), flat(reference.read_words(*folded, 1, alphabet())))
    stems, known = found.tokens, len(found.tokens.keys)
    united = door.number_tokens(every(found))
    assert (united[0] == found.numbers).all()
    assert_same_bits(united[1], stems)
    keys, starts = door.make_pair_keys(found.numbers, found.documents, found.numbers, found.documents, 1)
    numbers = np.empty(len(keys), dtype=np.int32)
    first = reference.number_keys(keys, numbers, 0, 1)
    assert_same_bits(door.number_keys(keys), (numbers, first))
    assert starts[-1] == len(keys)
    runs = door.fold_characters(corpus.text, corpus.offsets, alphabet(), True)
    assert_same_bits(runs, reference.fold_characters(corpus.text, corpus.offsets, alphabet(), True))
    assert_same_bits(flat(door.read_grams(*runs, 2, 4, True)), flat(reference.read_grams(*runs, 2, 4, True)))
    assert_same_bits((door.hash_tokens(*stems[:3]),), (reference.hash_tokens(*stems[:3], 0),))
    rows = door.count_numbers(found.numbers, found.documents, known)
    assert_same_bits(rows, reference.count_numbers(found.numbers, found.documents, known))
    table = door.index_keys(stems.keys)
    assert (door.find_tokens(table, stems, every(found)) == found.numbers).all()
    assert (door.find_keys(table, stems.keys) >= 0).all()
    columns, signs = np.arange(known, dtype=np.int32)[::-1].copy(), np.ones(known)
    assert_same_bits(door.arrange(rows, columns, signs), reference.arrange(rows, columns, signs, *room(rows)))
    totals = np.zeros((1, known), dtype=np.int64)
    door.add_rows(rows, columns, np.zeros(3, dtype=np.int64), totals)
    assert totals.sum() == len(found.numbers)
    moved = np.zeros((2, known), dtype=np.int64)
    door.add_columns(totals, np.arange(known)[::-1].copy(), moved)
    assert (moved[0] == totals[0, ::-1]).all()
    parts = np.arange(known, dtype=np.int32)
    joined = door.join_tokens(*stems[:3], parts, np.arange(known + 1), np.zeros(0, dtype=np.uint8))
    assert names(*joined) == names(*stems[:3])


@pytest.mark.parametrize("switch", ["on", "off"])
def test_the_switch_chooses_the_kernels_and_not_the_tokens(switch: str) -> None:
    script = """
import sys
from tamis.text import Tokenizer

print(Tokenizer(ngram_range=(1, 2)).tokens("Send caf\\u00e9 money to Mary"))
print("tamis._kernels.text.compiled" in sys.modules, "tamis._core" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TAMIS_CORE": switch},
    )
    assert done.returncode == 0, done.stderr
    tokens, modules = done.stdout.splitlines()
    assert tokens == str(Tokenizer(ngram_range=(1, 2)).tokens("Send café money to Mary"))
    assert modules == ("True True" if switch == "on" else "False False")
