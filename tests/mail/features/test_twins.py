"""The plain form of features is the meaning of the compiled one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis_mail import features
from tamis_mail.features import arrays, hashing
from tamis_mail.tokens import Tokens

WORDS = st.lists(
    st.sampled_from([b"see", b"you", b"soon", b"x", b"a" * 8, b"b" * 9, b"c" * 41, "é".encode()])
)
DOCUMENTS = st.builds(
    lambda lines: b"\n".join(b" ".join(line) for line in lines), st.lists(WORDS, max_size=4)
) | st.binary(max_size=60)
FIRST_TOKENS = st.builds(
    Tokens,
    head=st.binary(max_size=40),
    headers=DOCUMENTS,
    words=DOCUMENTS,
    marks=DOCUMENTS,
    version=st.just(1),
)
SECOND_TOKENS = st.builds(
    Tokens,
    head=st.binary(max_size=40),
    headers=DOCUMENTS,
    words=DOCUMENTS,
    marks=DOCUMENTS,
    relations=DOCUMENTS,
    version=st.just(2),
)
THIRD_TOKENS = st.builds(
    Tokens,
    head=st.binary(max_size=40),
    headers=DOCUMENTS,
    words=DOCUMENTS,
    marks=DOCUMENTS,
    relations=DOCUMENTS,
    patterns=DOCUMENTS,
    subject=DOCUMENTS,
    version=st.just(3),
)
TOKENS = FIRST_TOKENS | SECOND_TOKENS | THIRD_TOKENS


@given(TOKENS)
def test_all_forms_give_the_same_numbers(tokens: Tokens) -> None:
    numbers = sorted(hashing.hash_tokens(tokens))
    assert features.hash_tokens(tokens) == numbers
    assert arrays.hash_tokens(tokens).tolist() == numbers
    assert arrays.hash_tokens(tokens).dtype == np.uint64


def test_a_long_document_has_the_numbers_of_the_reference() -> None:
    document = b" ".join(b"%x" % (number * 2654435761) * (number % 7 + 1) for number in range(3000))
    tokens = Tokens(document[:1500], document, document.replace(b"0", b"\n"), document, document)
    assert features.hash_tokens(tokens) == sorted(hashing.hash_tokens(tokens))


def test_features_are_hashed_without_a_core_too(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = Tokens(b"From: a@b", b"from:@b", b"see you\nsoon", b"size~1", b"dkim:none")
    packed = features.pack_features(tokens)
    monkeypatch.setattr(features, "core", None)
    assert features.pack_features(tokens) == packed


@given(TOKENS)
def test_each_feature_has_a_name_of_one_printable_line(tokens: Tokens) -> None:
    names = features.name_features(tokens)
    assert sorted(names) == features.hash_tokens(tokens)
    assert all(name.isprintable() for name in names.values())


@pytest.mark.parametrize("version", features.VIEWS_OF)
def test_a_number_tells_its_view(version: int) -> None:
    names = features.VIEWS_OF[version]
    keys = [features.key(b"word", kind, version) for kind in range(len(names))]
    assert tuple(features.VIEWS[features.view(key, version)] for key in keys) == names
    assert arrays.views(np.array(keys, np.uint64), version).tolist() == list(range(len(names)))
    assert len(set(keys)) == len(names)
    assert max(keys) < 1 << features.KEY_BITS


def test_what_is_far_apart_in_the_first_forty_bytes_is_told_apart() -> None:
    long = b"x" * 39
    assert features.key(long + b"a", features.WORDS) != features.key(long + b"b", features.WORDS)
    assert features.key(long + b"a", features.WORDS) != features.key(long + b"ab", features.WORDS)


def test_numbers_spread_over_the_shelves() -> None:
    keys = np.array(
        [features.key(str(number).encode(), features.WORDS) for number in range(100_000)], np.uint64
    )
    assert len(np.unique(keys)) == len(keys)
    filled = np.bincount((keys >> np.uint64(features.KEY_BITS - 8)).astype(np.intp), minlength=256)
    assert filled.min() > 290  # 390 each, give or take five deviations
    assert filled.max() < 490


def test_pairs_do_not_cross_lines() -> None:
    apart = Tokens(b"", b"", b"one\ntwo", b"")
    together = Tokens(b"", b"", b"one two", b"")
    pairs = [
        {key for key in features.hash_tokens(tokens) if features.view(key) == features.PAIRS}
        for tokens in (apart, together)
    ]
    assert [len(found) for found in pairs] == [0, 1]


# The numbers are part of a store's format: a change here is a change of tokens.VERSION.
@pytest.mark.parametrize(
    ("token", "kind", "version", "number"),
    [
        (b"viagra", features.WORDS, 1, 91790486244482),
        (b"subject:hello", features.HEADERS, 1, 86957071562405),
        (b"From:", features.GRAMS, 1, 9011890139448),
        (b"viagra", features.WORDS, 2, 91790486244482),
        (b"subject:hello", features.HEADERS, 2, 86957071562401),
        (b"From:", features.GRAMS, 2, 9011890139448),
        (b"dkim:none", features.RELATIONS, 2, 240154183693724),
    ],
)
def test_numbers_never_change(token: bytes, kind: int, version: int, number: int) -> None:
    assert features.key(token, kind, version) == number


def test_a_token_that_is_repeated_is_hashed_once_for_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[bytes] = []
    hash_token = hashing._hash_token

    def count_and_hash(token: bytes, kind: int) -> int:
        hashed.append(token)
        return hash_token(token, kind)

    monkeypatch.setattr(hashing, "_hash_token", count_and_hash)
    documents = (b"", b"subject:!! " * 5000, b"buy " * 5000, b"url:x " * 5000, b"dkim:none " * 5000)
    names = features.name_features(Tokens(*documents))
    assert sorted(set(names.values())) == ["buy", "buy buy", "dkim:none", "subject:!!", "url:x"]
    assert sorted(hashed) == [b"buy", b"dkim:none", b"subject:!!", b"url:x"]


@given(...)
def test_wanted_names_are_among_all_names(words: bytes, headers: bytes, place: int) -> None:
    tokens = Tokens(head=b"From: a@b " + headers[:50], headers=headers, words=words, marks=headers)
    names = features.name_features(tokens)
    wanted = {key for number, key in enumerate(sorted(names)) if number % 3 == place % 3}
    assert features.name_features(tokens, wanted) == {key: names[key] for key in wanted}
