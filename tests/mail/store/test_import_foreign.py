"""What bogofilter and SpamAssassin have learned, as counts lent to a store."""

import hashlib
import io
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from typing_extensions import Buffer

from tamis_mail.features import WORDS, key
from tamis_mail.features.word_list import word_key
from tamis_mail.schema import MAX_DECAYS
from tamis_mail.store import Store, StoreError, import_foreign, maintenance
from tamis_mail.store.import_foreign import (
    ImportSummary,
    load_bogofilter,
    load_spamassassin,
)
from tests.mail.store.memory import careless, learn, remembered

# As `bogoutil -d wordlist.db` of bogofilter 1.2.5 writes it.
BOGOFILTER = b"""\
$100 17 5 20261115
.ENCODING 2 0 20261115
.MSG_COUNT 20 30 20261115
.WORDLIST_VERSION 20040500 0 20261115
Boost 1 0 20261115
boost 19 2 20261115
BOOST 5 0 20261115
from:firemail.de 3 0 20261115
from:steven 1 0 20261115
head:X-Mailer 14 25 20261115
mime:attachment 8 0 20261115
rcvd:66.161.8.83 0 2 20261115
rcvd:AFS2000-SERVER 1 0 20261115
shop.example.com 4 0 20261115
subj:Annuity 2 0 20261115
"""


def hashed(token: bytes) -> bytes:
    return hashlib.sha1(token).hexdigest()[-10:].encode()


# As `sa-learn --backup` of SpamAssassin 4.0.1 writes it.
SPAMASSASSIN = b"".join(
    [
        b"v\t3\tdb_version # this must be the first line!!!\nv\t110\tnum_spam\nv\t140\tnum_nonspam\n",
        *(
            b"t\t%d\t%d\t1030305760\t%s\n" % (spam, ham, hashed(token))
            for spam, ham, token in [
                (100, 2, b"watches"),
                (60, 1, b"Watches"),
                (7, 0, b"UD:shop.example"),
                (0, 31, b"HTo:D*org"),
                (500, 0, b"cheap"),
            ]
        ),
        b"s\ts\tf2c5f92f8c88c523878e30c693aa98dadf1f9cbd@sa_generated\n",
    ]
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store") as store:
        yield store


def counts(store: Store, token: bytes, view: int) -> list[int]:
    number = key(token, view)
    return store.counts([number])[number]


def lent(store: Store) -> dict[str, int]:
    return {label.name: label.lent for label in store.labels()}


def word_counts(store: Store, token: bytes) -> tuple[int, int] | None:
    number = word_key(token)
    return store.word_counts([number]).get(number)


def test_bogofilters_tokens_become_a_word_list(store: Store) -> None:
    assert load_bogofilter(store, BOGOFILTER.splitlines(keepends=True)) == ImportSummary(
        20, 30, 12, 12, 12, 0
    )
    assert store.word_list_totals() == (20, 30)
    assert store.labels() == []  # nothing was learned
    assert word_counts(store, b"$100") == (17, 5)
    assert word_counts(store, b"boost") == (19, 2)
    assert word_counts(store, b"BOOST") == (5, 0)  # another token of bogofilter
    assert word_counts(store, b"head:X-Mailer") == (14, 25)
    assert word_counts(store, b"unknown") is None
    assert word_counts(store, b".WORDLIST_VERSION") is None
    assert maintenance.check(store) == []
    assert maintenance.versions(store) == []


def test_malformed_lines_are_counted(store: Store) -> None:
    lines = [b"\n", b"word\n", b"word x 1 2\n", b"\xff\xff 1\n", b".MSG_COUNT 3 4\r\n", b"good 1 2 0\r\n"]
    assert load_bogofilter(store, lines) == ImportSummary(3, 4, 1, 1, 1, 3)
    assert store.word_list_totals() == (3, 4)


def test_without_a_count_of_messages_nothing_is_lent(store: Store) -> None:
    with pytest.raises(StoreError, match=r"there is no \.MSG_COUNT among 2 tokens: give all that `bogoutil"):
        load_bogofilter(store, [b"a 1 0 20200101\n", b"b 1 0 20200101\n"])
    with pytest.raises(StoreError, match="num_spam or num_nonspam is not among 0 tokens"):
        load_spamassassin(store, [b"v\t3\tdb_version\n"], [])
    assert store.labels() == []


def test_the_same_counts_are_lent_once(store: Store) -> None:
    load_bogofilter(store, BOGOFILTER.splitlines(keepends=True))
    before = remembered(store)
    with pytest.raises(StoreError, match="already has these counts of bogofilter"):
        load_bogofilter(store, BOGOFILTER.splitlines(keepends=True))
    assert remembered(store) == before
    assert word_counts(store, b"boost") == (19, 2)


def test_a_store_has_one_word_list_of_both_kinds(store: Store) -> None:
    with pytest.raises(StoreError, match="20 spam and 0 ham messages, and without both kinds"):
        load_bogofilter(store, [b".MSG_COUNT 20 0 0\n", b"boost 19 0 0\n"])
    assert store.word_list_totals() is None
    load_bogofilter(store, BOGOFILTER.splitlines(keepends=True))
    with pytest.raises(StoreError, match=r"already has a word list .* import this one into a new store"):
        load_bogofilter(store, [b".MSG_COUNT 7 7 0\n", b"other 5 0 0\n"])
    assert store.word_list_totals() == (20, 30)
    assert word_counts(store, b"other") is None


def test_decay_does_not_change_a_word_list(store: Store) -> None:
    learn(store, [1], "ham")
    maintenance.decay(store)
    load_bogofilter(store, BOGOFILTER.splitlines(keepends=True))
    maintenance.decay(store)
    maintenance.prune(store, 0)
    assert store.word_list_totals() == (20, 30)
    assert word_counts(store, b"subj:Annuity") == (2, 0)
    assert maintenance.check(store) == []


def test_what_is_lent_weighs_what_a_message_weighs_today(store: Store) -> None:
    learn(store, [1], "ham")
    maintenance.decay(store)
    load_spamassassin(store, SPAMASSASSIN.splitlines(keepends=True), [b"watches"])
    assert lent(store) == {"ham": 280, "spam": 220}
    assert counts(store, b"watches", WORDS) == [4, 200]
    assert maintenance.check(store) == []


def test_what_cannot_be_added_is_refused(store: Store) -> None:
    for _ in range(MAX_DECAYS):
        maintenance.decay(careless(store))
    words = [b"word%d" % number for number in range(10)]
    large = [b"v\t999999999999\tnum_spam\nv\t1\tnum_nonspam\n".splitlines(keepends=True)]
    large += [[b"t\t999999999999\t0\t0\t%s\n" % hashed(word) for word in words]]
    with pytest.raises(StoreError, match="too large"):
        load_spamassassin(store, [line for lines in large for line in lines], words)
    learn(store, [1])
    store.connection.execute("UPDATE journal SET version = 7")
    with pytest.raises(StoreError, match="counts tokens of version 7"):
        load_spamassassin(store, SPAMASSASSIN.splitlines(keepends=True), words)


def test_counts_are_imported_as_the_tokens_of_the_store(store: Store) -> None:
    learn(store, [1], "ham")
    store.connection.execute("UPDATE journal SET version = 1")
    load_bogofilter(store, BOGOFILTER.splitlines(keepends=True))
    assert maintenance.versions(store) == [1]
    assert word_counts(store, b"subj:Annuity") == (2, 0)  # whatever the version of our own tokens
    load_spamassassin(store, SPAMASSASSIN.splitlines(keepends=True), [b"watches"])
    assert store.counts([key(b"watches", WORDS, 1)]) == {key(b"watches", WORDS, 1): [2, 100]}


def test_spamassassins_tokens_are_found_by_words(store: Store) -> None:
    words = [b"Watches", b"watches", b"shop.example", b"unknown", b"of", b"cheap"]
    assert load_spamassassin(store, SPAMASSASSIN.splitlines(keepends=True), words) == ImportSummary(
        110, 140, 5, 3, 3, 0
    )
    assert lent(store) == {"spam": 110, "ham": 140}
    assert counts(store, b"watches", WORDS) == [100, 2]
    assert counts(store, b"url:shop.example", WORDS) == [7, 0]
    assert counts(store, b"cheap", WORDS) == [110, 0]  # there were 110 messages
    assert maintenance.check(store) == []


def test_lines_that_are_not_spamassassins_are_counted(store: Store) -> None:
    lines = [*SPAMASSASSIN.splitlines(keepends=True), b"t\t1\t2\n", b"x\n", b"\n"]
    assert load_spamassassin(store, lines, []).malformed == 2
    with pytest.raises(StoreError, match="already has these counts of spamassassin"):
        load_spamassassin(store, lines, [])


@pytest.mark.skipif(shutil.which("bogofilter") is None, reason="bogofilter is not installed")
def test_a_dump_of_bogofilter_itself(store: Store, tmp_path: Path) -> None:
    for option, words in (("-s", "Cheap watches at shop.example.com"), ("-n", "Lunch at noon")):
        mail = f"From: Ann <ann@mail.example.org>\nSubject: {words}\n\n{words} today\n".encode()
        subprocess.run(["bogofilter", "-d", tmp_path, option], input=mail, check=True)
    dump = subprocess.run(
        ["bogoutil", "-d", tmp_path / "wordlist.db"], capture_output=True, check=True
    ).stdout
    result = load_bogofilter(store, dump.splitlines(keepends=True))
    assert (result.spam, result.ham, result.malformed) == (1, 1, 0)
    assert word_counts(store, b"subj:watches") == (1, 0)
    assert word_counts(store, b"Lunch") == (0, 1)
    assert word_counts(store, b"today") == (1, 1)
    assert word_counts(store, b"from:mail.example.org") == (1, 1)


class Endless(io.RawIOBase):
    """A file of one line without end."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        view[:] = b"a" * len(view)
        return len(view)


def test_a_line_without_end_is_refused(store: Store) -> None:
    def spamassassin(store: Store, file: IO[bytes]) -> ImportSummary:
        return load_spamassassin(store, file, [])

    for load in (load_bogofilter, spamassassin):
        with pytest.raises(StoreError, match=r"line 1 has more than 65536 bytes.*nothing was loaded"):
            load(store, io.BufferedReader(Endless()))
    with pytest.raises(StoreError, match="line 1 has more"):
        load_bogofilter(store, [b"a" * 70_000])
    assert store.labels() == []


def test_lines_that_come_again_and_again_take_no_memory(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_foreign, "_BATCH_LINES", 4)
    lines = [b".MSG_COUNT 100 200 20260101\n", *[b"cheap 30 1 0\n", b"lunch 0 1 0\n"] * 50]
    assert load_bogofilter(store, lines) == ImportSummary(100, 200, 100, 100, 2, 0)
    assert word_counts(store, b"cheap") == (100, 50)  # there were 100 messages
    assert word_counts(store, b"lunch") == (0, 50)
    assert maintenance.check(store) == []
    monkeypatch.setattr(import_foreign, "_MAX_FEATURES", 3)
    with pytest.raises(StoreError, match="more than 3 tokens"):
        load_bogofilter(store, [b".MSG_COUNT 1 1\n", *(b"word%d 1 1\n" % n for n in range(9))])


def test_sums_of_another_filters_counts_do_not_overflow(store: Store) -> None:
    words = [b"%s 999999999999 999999999999\n" % bytes([*b"boost"[: n % 5], 65 + n % 26]) for n in range(99)]
    load_bogofilter(store, [b".MSG_COUNT 10 999999999999\n", *words])
    assert maintenance.check(store) == []
