"""Names sort as Python sorts them, lexicons merge to what one would be, and finders find what is there."""

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tamis.text import Corpus, Tokenizer
from tamis.text.lexicon import Finder, Lexicon, PackedTexts
from tamis.text.vocabulary import ChunkMerger, Vocabulary, sum_by_class

thoroughly = settings(max_examples=100, deadline=None)
SETTINGS: list[dict[str, Any]] = [
    {},
    {"ngram_range": (2, 2)},
    {"ngram_range": (1, 3)},
    {"ngram_range": None, "pairs": 3},
    {"ngram_range": (1, 3), "pairs": 3},
    {"ngram_range": (1, 2), "stop_words": frozenset({"aa", "b"})},
    {"analyzer": "char", "ngram_range": (1, 3)},
    {"analyzer": "char_wb", "ngram_range": (2, 5)},
]

# Names that agree in their first 8, 16, … bytes, with zeros in them and after them.
stems = st.sampled_from(
    ["", "a", "aaaaaaa", "aaaaaaaa", "aaaaaaaab", "a" * 16, "a" * 40, "a" * 41, "é" * 20, "日" * 3]
)
names = st.lists(
    st.tuples(stems, st.text("ab\0é日", max_size=3)).map("".join), unique=True, min_size=1, max_size=30
)
words = st.lists(
    st.sampled_from(["aa", "b", "cc", "dd", "é", "日本", "longer-one", "longest of all"]), max_size=12
)
documents = st.lists(words.map(" ".join), max_size=6)


def made(texts: list[str]) -> PackedTexts:
    return PackedTexts.pack([text.encode() for text in texts])


@thoroughly
@given(texts=names)
@example(texts=["a\0", "a", "a\0\0"])
@example(texts=[f"{'x' * 50}{k}" for k in range(20)])
def test_names_are_sorted_as_python_sorts_them(texts: list[str]) -> None:
    order = made(texts).argsort().tolist()
    assert [texts[k] for k in order] == sorted(texts)


@thoroughly
@given(texts=names, data=st.data())
def test_names_are_read_back(texts: list[str], data: st.DataObject) -> None:
    assert made(texts).strings() == texts
    rows = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=5))
    assert made(texts).strings(np.array(rows, dtype=np.int64)) == [texts[k] for k in rows]


@pytest.mark.parametrize("how", SETTINGS, ids=range(len(SETTINGS)))
@settings(max_examples=30, deadline=None)
@given(texts=documents)
def test_entries_are_sorted_by_name(how: dict[str, Any], texts: list[str]) -> None:
    lexicon, _ = Tokenizer(min_length=1, **how).count(Corpus.of([*texts, "cc b aa cc"]))
    found = lexicon.names.strings()
    assert len(found) == len(set(found)) == len(lexicon)
    assert [found[k] for k in lexicon.argsort().tolist()] == sorted(found)


def test_entries_of_a_large_lexicon_are_sorted_by_name() -> None:
    rng = np.random.default_rng(4)
    texts = [" ".join(f"w{k}" for k in rng.integers(0, 5000, size=40)) for _ in range(200)]
    lexicon, _ = Tokenizer(ngram_range=(1, 5), pairs=4).count(Corpus.of(texts))
    found = lexicon.names.strings()
    assert [found[k] for k in lexicon.argsort().tolist()] == sorted(found)


@pytest.mark.parametrize("how", SETTINGS, ids=range(len(SETTINGS)))
@settings(max_examples=30, deadline=None)
@given(parts=st.lists(documents, min_size=1, max_size=4))
def test_merged_lexicons_are_the_lexicon_of_all(how: dict[str, Any], parts: list[list[str]]) -> None:
    tokenizer = Tokenizer(min_length=1, **how)
    counted = [tokenizer.count(Corpus.of(part)) for part in parts]
    whole, numbers = Lexicon.merge([lexicon for lexicon, _ in counted])
    found = whole.names.strings()
    for (lexicon, _), number in zip(counted, numbers, strict=True):
        assert [found[k] for k in number.tolist()] == lexicon.names.strings()
    every, _ = tokenizer.count(Corpus.of([text for part in parts for text in part]))
    assert sorted(found) == sorted(every.names.strings())


@pytest.mark.parametrize("how", SETTINGS, ids=range(len(SETTINGS)))
@settings(max_examples=30, deadline=None)
@given(known=documents, asked=documents, data=st.data())
def test_finders_find_what_is_there(
    how: dict[str, Any], known: list[str], asked: list[str], data: st.DataObject
) -> None:
    tokenizer = Tokenizer(min_length=1, **how)
    lexicon, _ = tokenizer.count(Corpus.of(known))
    kept = np.array(sorted(data.draw(st.sets(st.integers(0, max(0, len(lexicon) - 1))))), dtype=np.int64)
    lexicon = lexicon.take(kept[kept < len(lexicon)])
    stem_names = lexicon.names.strings()
    columns = np.array(data.draw(st.permutations(range(len(lexicon)))), dtype=np.int64)
    other, _ = tokenizer.count(Corpus.of(asked))
    place = dict(zip(stem_names, columns.tolist(), strict=True))
    finder = Finder(lexicon, columns)
    for question in (other, lexicon):
        expected = [place.get(name, -1) for name in question.names.strings()]
        assert finder.find(question).tolist() == expected


@thoroughly
@given(parts=st.lists(documents, min_size=1, max_size=5), always=st.booleans())
def test_what_is_gathered_is_the_sum_over_all(parts: list[list[str]], always: bool) -> None:
    tokenizer = Tokenizer(min_length=1, ngram_range=(1, 2))
    merger = ChunkMerger()
    for part in [["aa b"], *parts]:
        lexicon, rows = tokenizer.count(Corpus.of(part))
        merger.add(lexicon, sum_by_class(rows, len(lexicon), np.zeros(len(part), dtype=np.int64), 1))
        if always:
            merger.merge()
    merger.merge()
    tokens = [tokenizer.tokens(text) for part in [["aa b"], *parts] for text in part]
    found = merger.lexicons[0].names.strings()
    assert merger.document_frequency.tolist() == [[sum(name in t for t in tokens) for name in found]]
    assert merger.term_frequency.tolist() == [[sum(t.count(name) for t in tokens) for name in found]]
    assert set(found) == {name for each in tokens for name in each}


def test_a_vocabulary_is_kept_in_a_pickle_without_what_can_be_made_again() -> None:
    lexicon, _ = Tokenizer(ngram_range=(1, 2)).count(Corpus.of(["send money to mary", "money"]))
    vocabulary = Vocabulary.sort(lexicon)
    before = pickle.dumps(vocabulary)
    assert vocabulary.find(lexicon).columns.tolist() == vocabulary.columns.tolist()
    assert vocabulary.names.tolist() == sorted(lexicon.names.strings())
    again = pickle.loads(before)
    assert again.names.tolist() == vocabulary.names.tolist()
    assert again.find(lexicon).columns.tolist() == vocabulary.columns.tolist()
    assert len(pickle.dumps(vocabulary)) == len(before)
    kept = again.keep_columns(np.arange(len(again)) % 2 == 0)
    assert kept.names.tolist() == vocabulary.names[::2].tolist()
    assert (kept.find(lexicon).columns >= 0).sum() == len(kept)
