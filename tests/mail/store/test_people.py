"""Allowed and blocked senders and correspondents in the store: exact, and never half-written."""

import hashlib
import io
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tamis_mail import Sieve
from tamis_mail.schema import MAX_RECIPIENTS_LENGTH, MAX_SENDERS_LENGTH
from tamis_mail.store import Store, StoreError, database, exchange, maintenance, people, saving
from tamis_mail.verdict import VerdictError
from tests.mail.store.memory import careless, learn

DIGEST = hashlib.blake2b(b"a sent message", digest_size=16).digest()
ME, ANN, BOB = "me@home.example", "ann@example.org", "bob@example.net"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store") as store:
        people.add_entries(careless(store), [ANN, "@example.net"], is_allowed=True)
        people.add_entries(store, ["@evil.example"], is_allowed=False)
        with store.transaction():
            people.record_sent(store, DIGEST, [ME], [ANN, BOB, ME])
        yield store


def text(store: Store) -> bytes:
    file = io.BytesIO()
    exchange.export(store, file)
    return file.getvalue()


ENTRIES = {
    "ann@example.org": ANN,
    " Ann <ANN@Example.org> ": ANN,
    "mailto:ann@example.org": ANN,
    "Example.NET": "@example.net",
    "@example.net": "@example.net",
    "*@example.net": "@example.net",
    "example.net.": "@example.net",
    ".top": "@top",
    "@localhost": "@localhost",
    "root@localhost": "root@localhost",
    "m\u00fcnchen.example": "@xn--mnchen-3ya.example",
    "xn--mnchen-3ya.example": "@xn--mnchen-3ya.example",
    "ann@M\u00dcNCHEN.example": "ann@xn--mnchen-3ya.example",
    "a\uff61b\u3002org": "@a.b.org",
    "Ann <ann@example.org>;": ANN,
    "ann..x@example.org": "ann..x@example.org",
}


@pytest.mark.parametrize("given", ENTRIES)
def test_an_entry_is_understood_in_each_form(given: str) -> None:
    assert people.parse_entry(given) == ENTRIES[given]


@pytest.mark.parametrize(
    "given",
    ["", "list", "--remove", "a b", "*.example.org", "~/Mail", "C:\\mail", "ann@", "@", ".", "a@b@c.org",
     "a@x.org, b@x.org", "a@x.org b@x.org", "http://example.org", "x" * 300 + ".org", "a@\x1b[31m.org", "<>"],
)  # fmt: skip
def test_what_is_no_entry_is_refused_in_one_short_line(given: str) -> None:
    with pytest.raises(ValueError, match="expected") as error:
        people.parse_entry(given)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 250


def test_a_newer_entry_replaces_an_older_one(store: Store) -> None:
    assert people.list_entries(store, is_allowed=True) == ["@example.net", ANN]
    assert people.add_entries(store, [ANN, BOB], is_allowed=False) == {ANN: True, BOB: None}
    assert people.list_entries(store, is_allowed=True) == ["@example.net"]
    assert people.remove_entries(store, ["@example.net"], is_allowed=False) == {"@example.net": True}
    assert people.list_entries(store, is_allowed=True) == ["@example.net"]
    assert people.remove_entries(store, ["@example.net"], is_allowed=True) == {"@example.net": True}
    assert people.list_entries(store, is_allowed=True) == []
    assert people.list_entries(store, is_allowed=False) == ["@evil.example", BOB, ANN]


def test_one_query_finds_all_that_covers_an_address(store: Store) -> None:
    statements: list[str] = []
    store.connection.set_trace_callback(statements.append)
    found = people.look_up(store, ["x@mail.example.net", ANN, "me@home.example"])
    store.connection.set_trace_callback(None)
    assert found.listed == {"@example.net": True, ANN: True}
    assert found.correspondents == {ANN: (1, 0), ME: (1, 1)}
    assert sum("listed" in statement for statement in statements) == 1
    plan = store.connection.execute(
        "EXPLAIN QUERY PLAN SELECT entry, is_allowed, NULL FROM listed WHERE entry IN (?) UNION ALL "
        "SELECT address, received, wrote FROM correspondent WHERE address IN (?)",
        ("a", "a"),
    ).fetchall()
    assert not any("SCAN" in row[-1] for row in plan)
    many = [f"a{n}@x{n}.example" for n in range(3000)]
    assert people.look_up(store, [*many, ANN]).listed == {ANN: True}


def test_lists_and_sent_mail_are_saved_exported_and_loaded(store: Store, tmp_path: Path) -> None:
    saving.backup(store, tmp_path / "backup")
    saving.restore(tmp_path / "backup", tmp_path / "restored")
    with Store(tmp_path / "restored") as restored, Store(tmp_path / "new") as new:
        assert text(restored) == text(store)
        exchange.load(new, io.BytesIO(text(store)))
        assert text(new) == text(store)
        assert people.count_people(new) == people.count_people(store) == people.PeopleCounts(2, 1, 1, 2)
        with new.transaction():
            assert people.remove_sent(new, DIGEST)
            assert not people.remove_sent(new, DIGEST)
        assert people.count_people(new).correspondents == 0
        assert maintenance.check(new) == []


def test_a_merge_unites_lists_and_counts_shared_messages_once(store: Store, tmp_path: Path) -> None:
    with Store(tmp_path / "other") as other:
        people.add_entries(other, [ANN, "@evil.example"], is_allowed=False)
        people.add_entries(other, [BOB], is_allowed=True)
        with other.transaction():
            people.record_sent(other, DIGEST, [ME], [ANN, BOB, ME])
            people.record_sent(other, DIGEST[:15] + b"x", [ME], [ANN])
        assert people.find_contradictions(store, other) == [(ANN, True)]
        assert people.find_contradictions(other, store) == [(ANN, False)]
        maintenance.merge(store, other)
        assert people.look_up(store, [ANN, BOB]).correspondents == {ANN: (2, 0), BOB: (1, 0)}
        assert people.list_entries(store, is_allowed=True) == ["@example.net", BOB, ANN]
        assert people.list_entries(store, is_allowed=False) == ["@evil.example"]
        assert maintenance.check(store) == []
        before = text(store)
        maintenance.merge(store, other)  # nothing is counted twice
        assert text(store) == before


def test_addresses_of_a_message_are_kept_up_to_a_length(store: Store, tmp_path: Path) -> None:
    name = "\U0001f600" * 60
    crowd = [f"{name}{n}@example.org" for n in range(200)]
    with store.transaction():
        assert people.record_sent(store, b"crowd", crowd, crowd)
    row = store.connection.execute(
        "SELECT senders, recipients FROM sent WHERE digest = ?", (b"crowd".hex(),)
    ).fetchone()
    for addresses, longest in zip(row, (MAX_SENDERS_LENGTH, MAX_RECIPIENTS_LENGTH), strict=True):
        assert longest - 100 < len(addresses) <= longest
        assert set(addresses.splitlines()) < set(crowd)
    assert maintenance.check(store) == []
    with Store(tmp_path / "new") as new:
        exchange.load(new, io.BytesIO(text(store)))  # the longest row is a line that can be read
        assert text(new) == text(store)


def test_an_older_store_gets_the_tables_when_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "old"
    with monkeypatch.context() as patch:
        first = dict([next(iter(database.MIGRATIONS.items()))])
        patch.setattr(database, "MIGRATIONS", first)
        Store(path).close()
        with closing(sqlite3.connect(path)) as connection:
            assert not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'listed'").fetchone()
    with monkeypatch.context() as patch:  # without permission, it is read as if the tables were empty
        patch.setattr(os, "access", lambda *_: False)
        before = path.read_bytes()
        with Sieve.open(path, readonly=True) as sieve:
            assert sieve.sort(b"From: ann@example.org\n\n").label == "unsure"
            assert people.list_entries(sieve.store, is_allowed=True) == []
            assert maintenance.status(sieve.store).people == people.PeopleCounts(0, 0, 0, 0)
        assert path.read_bytes() == before
    with Store(path) as store:
        people.add_entries(store, [ANN], is_allowed=True)
        assert maintenance.check(store) == []


HOSTILE = {
    "an entry that is no address": "INSERT INTO listed VALUES ('no address', 1)",
    "an entry in capital letters": "INSERT INTO listed VALUES ('Ann@example.org', 1)",
    "an entry that is bytes": "INSERT INTO listed VALUES (x'ff', 1)",
    "neither allowed nor blocked": "UPDATE listed SET is_allowed = 2",
    "allowed by text": "UPDATE listed SET is_allowed = 'yes'",
    "a count of text": "UPDATE correspondent SET received = 'x'",
    "a count below zero": "UPDATE correspondent SET received = -1",
    "another count": "UPDATE correspondent SET received = 7",
    "a correspondent of no message": "INSERT INTO correspondent VALUES ('a@b.c', 1, 0)",
    "a correspondent that is gone": "DELETE FROM correspondent",
    "recipients that are bytes": "UPDATE sent SET recipients = x'ff'",
    "recipients that are a number": "UPDATE sent SET recipients = 7.5",
    "recipients that are no addresses": "UPDATE sent SET recipients = 'a b'",
    "a digest of no digits": "UPDATE sent SET digest = 'xyz'",
}


@pytest.mark.parametrize("damage", HOSTILE.values(), ids=HOSTILE)
def test_people_that_no_store_has_are_found_by_check_and_end_in_one_line(
    store: Store, tmp_path: Path, damage: str
) -> None:
    store.connection.execute(damage)
    faults = maintenance.check(store)
    assert faults
    assert all(fault.isprintable() and len(fault) < 300 for fault in faults)
    sieve = Sieve(store)
    raw = b"From: ann@example.org\nTo: bob@example.net\n\n"

    def merge() -> None:
        with Store(tmp_path / "other") as other:
            maintenance.merge(other, store)
        with Store(tmp_path / "another") as other:
            maintenance.merge(store, other)

    def forget() -> None:
        with store.transaction():
            people.remove_sent(store, DIGEST)

    for act in (
        lambda: sieve.sort(raw),
        lambda: list(sieve.sort_many([raw], processes=1)),
        lambda: maintenance.status(store),
        lambda: text(store),
        lambda: people.list_entries(store, is_allowed=True),
        merge,
        forget,
        lambda: sieve.learn_sent([raw]),
    ):
        with suppress(StoreError, VerdictError):  # nothing else may come of it
            act()


def test_an_export_with_a_hostile_entry_is_not_loaded(store: Store, tmp_path: Path) -> None:
    for old, new in ((b'"@evil.example"', b'"evil\\u001b[31m"'), (b"ann@example.org\\n", b"Ann\\n")):
        *lines, _ = text(store).replace(old, new).splitlines(keepends=True)
        numbers = " ".join(
            str(sum(line.startswith(kind) for line in lines))
            for kind in (b"set", b"row", b"lab", b"mes", b"fea", b"cou")
        )
        end = f"end {numbers} {hashlib.sha256(b''.join(lines)).hexdigest()}\n".encode()
        with Store(tmp_path / "new") as other:
            with pytest.raises(StoreError, match="nothing was added") as error:
                exchange.load(other, io.BytesIO(b"".join(lines) + end))
            assert str(error.value).isprintable()
            assert people.count_people(other) == people.PeopleCounts(0, 0, 0, 0)


KILLS = 12
CHILD = """
import itertools, sys
from tamis_mail import Sieve
from tamis_mail.store import people

def raw(number):
    return f"From: me@home.example\\nTo: a{number % 7}@x.example, b{number}@x.example\\n\\n{number}".encode()

with Sieve.open(sys.argv[1]) as sieve:
    print("open", flush=True)
    for number in itertools.count(int(sys.argv[2])):
        people.add_entries(sieve.store, [f"e{number}@x.example", "@x.example"], is_allowed=bool(number % 2))
        sieve.learn_sent([raw(number), raw(number)])
        if number % 3 == 2:
            sieve.forget(raw(number))
        print(number, flush=True)
"""


def test_a_process_that_is_killed_leaves_lists_and_correspondents_whole(tmp_path: Path) -> None:
    dice = random.Random(4)
    first = 0
    for _ in range(KILLS):
        command = [sys.executable, "-c", CHILD, str(tmp_path / "store"), str(first)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "open\n"
            lines = [child.stdout.readline() for _ in range(dice.randint(0, 12))]
            time.sleep(dice.uniform(0, 0.01))  # so that it is in the middle of something
            child.send_signal(signal.SIGKILL)
            lines += child.stdout.read().split("\n")
        done = [int(line) for line in lines if line.strip().isdigit()]
        with Store(tmp_path / "store") as store:
            assert maintenance.check(store) == []  # the counts are those of the sent messages
            listed = people.list_entries(store, is_allowed=True) + people.list_entries(
                store, is_allowed=False
            )
            assert {f"e{number}@x.example" for number in done} <= set(listed)
            known = people.look_up(store, [f"b{number}@x.example" for number in done]).correspondents
            assert set(known) == {f"b{number}@x.example" for number in done if number % 3 != 2}
            assert set(known.values()) <= {(1, 0)}
            found = {int(entry[1:].partition("@")[0]) for entry in listed if entry != "@x.example"}
        first = max([first, *done, *found]) + 1
    assert first > KILLS


def test_messages_without_people_leave_the_text_of_a_store_as_it_was(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        learn(careless(store), range(3))
        before = text(store)
        people.add_entries(store, [ANN], is_allowed=True)
        with store.transaction():
            people.record_sent(store, DIGEST, [ME], [ANN])
        assert text(store) != before
        people.remove_entries(store, [ANN], is_allowed=True)
        with store.transaction():
            people.remove_sent(store, DIGEST)
        assert text(store) == before
