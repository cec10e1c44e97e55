"""The plain form of features is the meaning of the fast one."""

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
)
TOKENS = FIRST_TOKENS | SECOND_TOKENS


@given(st.lists(FIRST_TOKENS, max_size=5) | st.lists(SECOND_TOKENS, max_size=5))
def test_both_forms_give_the_same_numbers(messages: list[Tokens]) -> None:
    found = arrays.hash_tokens(messages)
    each = np.split(found.keys, found.starts[1:-1]) if messages else []
    assert [keys.tolist() for keys in each] == [sorted(features.hash_tokens(one)) for one in messages]
    assert len(found) == len(messages)


@given(TOKENS)
def test_each_feature_has_a_name_of_one_printable_line(tokens: Tokens) -> None:
    names = features.name_features(tokens)
    assert set(names) == features.hash_tokens(tokens)
    assert all(name.isprintable() for name in names.values())


def test_messages_of_different_versions_are_no_batch() -> None:
    with pytest.raises(ValueError, match=r"one version, not of \[1, 2\]"):
        arrays.hash_tokens([Tokens(b"", b"", b"", b"", version=version) for version in (2, 1)])


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


def test_pairs_do_not_cross_lines_or_messages() -> None:
    apart = Tokens(b"", b"", b"one\ntwo", b"")
    together = Tokens(b"", b"", b"one two", b"")
    pairs = [
        {key for key in features.hash_tokens(tokens) if features.view(key) == features.PAIRS}
        for tokens in (apart, together)
    ]
    assert [len(found) for found in pairs] == [0, 1]
    assert not arrays.hash_tokens([Tokens(b"", b"", b"one", b"")] * 2).keys.tolist()[2:]


def test_a_batch_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 65535 messages"):
        arrays.hash_tokens([Tokens(b"", b"", b"", b"")] * arrays.MAX_MESSAGES)


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

    def count_and_hash(token: bytes, kind: int, version: int) -> int:
        hashed.append(token)
        return features.key(token, kind, version)

    monkeypatch.setattr(hashing, "key", count_and_hash)
    documents = (b"", b"subject:!! " * 5000, b"buy " * 5000, b"url:x " * 5000, b"dkim:none " * 5000)
    names = features.name_features(Tokens(*documents))
    assert sorted(set(names.values())) == ["buy", "buy buy", "dkim:none", "subject:!!", "url:x"]
    assert len(hashed) == 4
