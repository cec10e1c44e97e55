"""Stores on servers: several hosts, kills, copies, and a user's store on top of the site's."""

import io
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tamis_mail import Sieve
from tamis_mail.message import canonical, digest
from tamis_mail.sample import messages
from tamis_mail.schema import TABLES
from tamis_mail.store import Store, StoreError, exchange, has_store, maintenance, people, replica
from tamis_mail.store.copying import copy
from tamis_mail.store.database import Connection
from tamis_mail.store.log import EventLog
from tamis_mail.store.postgresql_rows import PostgresqlRows
from tamis_mail.store.redis_rows import RedisRows
from tamis_mail.store.shared_rows import SHARED_TABLES, Changes, Position
from tests.mail.shared.servers import Server
from tests.surfaces.terminal import type_in

if TYPE_CHECKING:
    from tests.mail.shared.conftest import Hosts

pytestmark = pytest.mark.peers
MAIL = [one.raw for one in messages()][:60]
SMALL = [f"Subject: note {n}\n\nnumber {n % 11} of {n} words\n".encode() for n in range(40)]
NAMES = (f"store-{number}" for number in count())


@pytest.fixture
def address(server: Server, hosts: "Hosts") -> str:
    return server.store(next(NAMES))


def export(store: Store) -> bytes:
    text = io.BytesIO()
    exchange.export(store, text)
    return text.getvalue()


def test_every_table_of_a_store_is_shared() -> None:
    assert set(SHARED_TABLES) == set(TABLES) - {"migration"}


def test_a_second_host_sees_each_lesson_at_once(address: str, hosts: "Hosts") -> None:
    with Sieve.open(address) as one:
        one.learn_many(MAIL[:20], "ham", processes=1)
        hosts.use("second")
        with Sieve.open(address) as other:
            assert export(other.store) == export(one.store)
            other.learn_many(MAIL[20:40], "spam", processes=1)
            for raw in MAIL[:5]:
                assert one.sort(raw).log_odds == other.sort(raw).log_odds
                assert one.sort_batch([raw])[0].log_odds == other.sort_batch([raw])[0].log_odds
            one.forget(MAIL[3])
            assert other.learn(MAIL[3], "ham").action == "learned"
            assert one.learn(MAIL[3], "ham").action == "known"
            assert export(other.store) == export(one.store)
            assert maintenance.check(one.store) == maintenance.check(other.store) == []


def test_the_store_is_that_of_a_file_to_the_bit(address: str, tmp_path: Path) -> None:
    with Sieve.open(address) as shared, Sieve.open(tmp_path / "mail.tamis") as local:
        for sieve in (shared, local):
            sieve.learn_many(MAIL[:20], "ham", processes=1)
            sieve.learn_many(MAIL[20:40], "spam", processes=1)
            sieve.forget(MAIL[7])
        assert shared.store.setting("weights") == local.store.setting("weights")
        for raw in MAIL[40:]:
            assert shared.sort(raw).log_odds == local.sort(raw).log_odds


def test_an_error_in_a_transaction_changes_nothing_and_frees_the_lock(address: str) -> None:
    with Sieve.open(address) as sieve:
        sieve.learn(MAIL[0], "ham")
        before = export(sieve.store)
        with suppress(ZeroDivisionError), sieve.store.transaction() as writer:
            writer.write_setting("log", "off")
            raise ZeroDivisionError
        assert export(sieve.store) == before
        assert sieve.learn(MAIL[1], "spam").action == "learned"


def test_a_replica_that_is_far_behind_reads_everything_again(
    address: str, hosts: "Hosts", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tamis_mail.store.redis_rows._LOG_BYTES", 2000)
    monkeypatch.setattr("tamis_mail.store.postgresql_rows._KEPT_COMMITS", 2)
    monkeypatch.setattr("tamis_mail.store.postgresql_rows._TRIM", 1)
    with Sieve.open(address) as one:
        one.learn(SMALL[0], "ham")
        hosts.use("second")
        with Sieve.open(address) as other:
            for number, raw in enumerate(SMALL[1:12]):
                one.learn(raw, "spam" if number % 2 else "ham")
            one.forget(SMALL[2])
            assert export(other.store) == export(one.store)
            assert maintenance.check(other.store) == []


def test_forgetting_on_one_host_erases_the_log_of_another(address: str, hosts: "Hosts") -> None:
    with Sieve.open(address) as one:
        one.learn(b"From: ann@example.org\nSubject: secret\n\ntext", "ham")
        log = EventLog.of(address)
        assert [event.subject for event in log.events()] == ["secret"]
        hosts.use("second")
        with Sieve.open(address) as other:
            other.forget(b"From: ann@example.org\nSubject: secret\n\ntext")
        assert one.store.labels()[0].messages == 0
        assert [event.subject for event in log.events()] == [""]


def test_a_replica_that_is_damaged_is_loaded_again(address: str) -> None:
    with Sieve.open(address) as sieve:
        sieve.learn(MAIL[0], "ham")
        before, path = export(sieve.store), sieve.store.path
    path.write_bytes(b"no database at all" * 100)
    with Sieve.open(address) as sieve:
        assert export(sieve.store) == before


def test_a_replica_that_another_process_writes_is_not_deleted(
    address: str, hosts: "Hosts", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tamis_mail.store.database.BUSY_SECONDS", 0.1)
    with Sieve.open(address) as sieve:
        path = sieve.store.path
    hosts.use("second")
    with Sieve.open(address) as other:
        other.learn(MAIL[0], "ham")
    hosts.use("first")
    number = path.stat().st_ino
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another process that is writing"):
            Store(address)
    assert path.stat().st_ino == number
    with Sieve.open(address) as sieve:
        assert sieve.store.labels()[0].messages == 1


def test_a_commit_of_the_server_stands_if_the_replica_cannot_be_written(
    address: str, hosts: "Hosts", monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk of the host fails the commit of the replica after the commit of the server."""
    with Sieve.open(address) as sieve:
        sieve.learn_many(MAIL[:20], "ham", processes=1)
        connection = sieve.store.connection
        assert isinstance(connection, replica.ReplicaConnection)
        commit = connection.rows.commit

        def commit_and_fill_the_disk(*arguments: Any) -> None:
            commit(*arguments)
            monkeypatch.setattr(Connection, "commit_writing", fail)

        def fail(_: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        monkeypatch.setattr(connection.rows, "commit", commit_and_fill_the_disk)
        assert maintenance.decay(sieve.store) == 1
        monkeypatch.undo()
        hosts.use("first")
        assert sieve.store.message_weight() == 2
        assert maintenance.check(sieve.store) == []


def test_a_commit_whose_answer_was_lost_is_recognised_after_later_commits(
    address: str, hosts: "Hosts", monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        store = stack.enter_context(Store(address))
        hosts.use("second")
        other = stack.enter_context(Store(address))
        connection = store.connection
        assert isinstance(connection, replica.ReplicaConnection)
        if not isinstance(connection.rows, RedisRows):
            pytest.skip("a commit of PostgreSQL is looked up by its version")
        commit = connection.rows._commit_rows

        def commit_twice(*arguments: Any) -> Any:
            assert commit(*arguments) == b"committed"
            for _ in range(3):
                maintenance.decay(other)
            return commit(*arguments)

        monkeypatch.setattr(connection.rows, "_commit_rows", commit_twice)
        assert maintenance.decay(store) == 1
        assert store.message_weight() == other.message_weight() == 16


def test_a_commit_that_the_server_still_writes_is_waited_for(address: str, hosts: "Hosts") -> None:
    """A connection is lost while the server commits: the answer is that of the end of the transaction."""
    with Store(address) as store, Store(address) as other:
        one, two = store.connection, other.connection
        assert isinstance(one, replica.ReplicaConnection)
        assert isinstance(two, replica.ReplicaConnection)
        if not isinstance(one.rows, PostgresqlRows) or not isinstance(two.rows, PostgresqlRows):
            pytest.skip("a commit of Redis is a script, which runs at once")
        base = one.rows.begin(1)
        following = Position(base.version + 1, b"0" * 16)
        one.rows._write(base, following, Changes([], []), None)
        with ThreadPoolExecutor() as pool:
            answer = pool.submit(two.rows._was_committed, following)
            with suppress(TimeoutError):
                answer.result(0.3)
            one.rows._connection.execute("COMMIT")
            assert answer.result(10)


CHILD = """
import sys
from tamis_mail import Sieve
from tamis_mail.store import Store

with Store(sys.argv[1]) as store, store.transaction() as writer:
    writer.write_setting("log", "off")
    print("inside", flush=True)
    sys.stdin.read()
"""


def test_the_lock_of_a_killed_client_is_free_at_once(address: str) -> None:
    Store(address).close()
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "inside\n"
        child.kill()
        child.wait()
    with Sieve.open(address) as sieve:  # a lock that stays is an error after BUSY_SECONDS
        assert sieve.learn(MAIL[0], "ham").action == "learned"
        assert sieve.store.setting("log") is None


def test_a_server_that_was_killed_and_started_again_has_lost_nothing(server: Server, hosts: "Hosts") -> None:
    address = server.store(next(NAMES))
    with Sieve.open(address) as sieve:
        sieve.learn_many(MAIL[:20], "ham", processes=1)
        server.kill()
        server.start()
        assert sieve.learn(MAIL[20], "spam").action == "learned"
        assert sum(label.messages for label in sieve.store.labels()) == 21
        hosts.use("second")
        with Sieve.open(address) as other:
            assert export(other.store) == export(sieve.store)


def write_without_lock(store: Store) -> None:
    connection = store.connection
    assert isinstance(connection, replica.ReplicaConnection)
    assert isinstance(connection.rows, RedisRows)
    with store.transaction() as writer:
        writer.write_setting("log", "off")
        connection.rows.delete_lock()


def test_a_writer_that_lost_its_lock_writes_nothing(servers: dict[str, Server], hosts: "Hosts") -> None:
    if "redis" not in servers:
        pytest.skip("needs redis-server: apt-get install redis-server")
    address = servers["redis"].store(next(NAMES))
    with Sieve.open(address) as sieve:
        sieve.learn(MAIL[0], "ham")
        before = export(sieve.store)
        with pytest.raises(StoreError, match="lost the writer's lock"):
            write_without_lock(sieve.store)
        assert export(sieve.store) == before


def test_a_server_that_lost_commits_is_followed_all_the_same(address: str, hosts: "Hosts") -> None:
    """A replica may have seen commits that the server lost: the server decides."""
    with Sieve.open(address) as sieve:
        sieve.learn_many(SMALL[:9], "ham", processes=1)
        hosts.use("second")
        replica.delete(address)
        with Sieve.open(address) as other:
            other.learn(SMALL[10], "ham")
            assert export(sieve.store) == export(other.store)
            assert sum(label.messages for label in sieve.store.labels()) == 1


def test_a_copy_is_the_same_to_the_bit(address: str, server: Server, tmp_path: Path) -> None:
    shares: list[float] = []
    with Sieve.open(tmp_path / "mail.tamis") as sieve:
        sieve.learn_many(MAIL[:20], "ham", processes=1)
        sieve.learn_many(MAIL[20:40], "spam", processes=1)
        sieve.learn_sent([b"From: me@home.example\nTo: ann@example.org\n\none"])
        people.add_entries(sieve.store, ["bob@example.net"], is_allowed=True)
        with Store(address) as remote, Store(tmp_path / "back.tamis") as back:
            assert copy(sieve.store, remote, shares.append) == 40
            assert copy(remote, back) == 40
            assert export(back) == export(sieve.store)
            assert back.setting("weights") == sieve.store.setting("weights")
            keys = np.array(sorted(sieve.store.find_features(digest(canonical(MAIL[0]))) or []), np.uint64)
            expected = sieve.store.coefficient_array(keys)
            found = back.coefficient_array(keys)
            assert expected is not None
            assert found is not None
            assert np.array_equal(found, expected)
            assert maintenance.check(back) == []
            with pytest.raises(StoreError, match="is not empty"):
                copy(back, remote)
            sieve.forget(MAIL[0])
            copy(sieve.store, remote, replace=True)
            assert export(remote) == export(sieve.store)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_the_overlay_is_the_weighted_sum_of_both_stores(address: str, tmp_path: Path) -> None:
    site = f"{address}-site"
    with Sieve.open(site) as everyone, Sieve.open(tmp_path / "sum.tamis", log=False) as total:
        everyone.learn_many(SMALL[:4], "ham", processes=1)
        everyone.learn_many(SMALL[4:8], "spam", processes=1)
        with Sieve.open(f"{address}&site={site.partition('store=')[2]}") as user:
            alone = [user.sort(raw).log_odds for raw in SMALL]
            assert alone == [everyone.sort(raw).log_odds for raw in SMALL]
            user.learn(SMALL[20], "spam")
            user.learn(SMALL[21], "work")
            total.learn_many([*SMALL[:4]], "ham", processes=1)
            total.learn_many([*SMALL[4:8], SMALL[20]], "spam", processes=1)
            total.learn(SMALL[21], "work")
            expected = [total.sort(raw).log_odds for raw in SMALL]
            assert [user.sort(raw).log_odds for raw in SMALL] == expected
            assert np.allclose([one.log_odds for one in user.sort_batch(SMALL)], expected, atol=1e-9)
            many = [one.log_odds for one in user.sort_many(SMALL, processes=1)]
            assert np.allclose(many, expected, atol=1e-9)
            assert everyone.store.find_entry(digest(canonical(SMALL[20]))) is None
            user.forget(SMALL[20])
            user.forget(SMALL[21])
            assert [user.sort(raw).log_odds for raw in SMALL] == alone
            everyone.forget(SMALL[7])
            assert [user.sort(raw).log_odds for raw in SMALL] == [
                everyone.sort(raw).log_odds for raw in SMALL
            ]


def test_a_new_store_counts_the_older_tokens_of_the_site(address: str) -> None:
    site = f"{address}-site"
    with Sieve.open(site) as everyone:
        with everyone.store.transaction() as writer:
            writer.write_setting("tokens", 2)  # as if it had counts of another filter
        everyone.learn_many(SMALL[:4], "ham", processes=1)
        with Sieve.open(f"{address}&site={site.partition('store=')[2]}") as user:
            user.learn_many(SMALL[20:24], "spam", processes=1)
            user.learn(SMALL[24], "spam")
            assert maintenance.versions(user.store) == maintenance.versions(everyone.store) == [2]
            assert user.sort(SMALL[20]).probability > 0.5
            assert len(list(user.sort_many(SMALL, processes=2))) == len(SMALL)


def test_a_weight_and_a_decay_multiply_the_counts_of_an_overlay(address: str) -> None:
    site = f"{address}-site"
    with Sieve.open(site) as everyone:
        everyone.learn_many(SMALL[:4], "ham", processes=1)
        with Sieve.open(f"{address}&site={site.partition('store=')[2]}&weight=3") as user:
            user.learn(SMALL[0], "ham")
            user.learn(SMALL[9], "spam")
            maintenance.decay(everyone.store)
            store = user.verdict_store
            weights = {label.name: label.weight for label in store.labels()}
            assert (store.message_weight(), weights) == (2, {"ham": 2 * 3 + 4, "spam": 2 * 3})
            keys = user.store.find_features(digest(canonical(SMALL[0]))) or []
            own, all_of_site = user.store.counts(keys), everyone.store.counts(keys)
            for key, row in store.counts(keys).items():
                assert row == [6 * own[key][0] + all_of_site[key][0], 6 * own[key][1]]
            arrays = store.count_arrays(np.array(keys, np.uint64), {})
            assert arrays.tolist() == [store.counts(keys)[key] for key in keys]


def test_the_user_decides_before_the_site(address: str) -> None:
    site = f"{address}-site"
    with Sieve.open(site) as everyone:
        people.add_entries(everyone.store, ["ann@example.org", "bob@example.net"], is_allowed=False)
        with Sieve.open(f"{address}&site={site.partition('store=')[2]}") as user:
            people.add_entries(user.store, ["ann@example.org"], is_allowed=True)
            listed = [
                user.sort(f"From: {name}\n\nhello".encode()).listed
                for name in ("ann@example.org", "bob@example.net")
            ]
    assert [str(one).partition(":")[0] for one in listed] == ["allowed", "blocked"]


def test_a_store_that_is_not_there_is_no_store(address: str) -> None:
    assert not has_store(address)
    with pytest.raises(StoreError, match="there is no store at"):
        Sieve.open(address, create=False)
    assert not has_store(address)


def test_the_command_line_takes_an_address_as_a_store(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = type_in(monkeypatch)
    assert run("sort", "--store", address, stdin=MAIL[0]).text == "unsure 0.5000\n"
    for label, raw in (("--spam", MAIL[0]), ("--ham", MAIL[1])):
        assert run("learn", label, "-", "--store", address, stdin=raw).text.startswith("stdin: 1 learned")
    with Sieve.open(address) as sieve:
        verdict = sieve.sort(MAIL[2])
    expected = f"{verdict.label} {verdict.probability:.4f}\n"
    assert run("sort", "--store", address, stdin=MAIL[2]).text == expected
    assert len(run("log", "--learned", "--store", address).text.splitlines()) >= 2
    copied = run("store", "copy", address, f"sqlite:{tmp_path / 'copy.tamis'}")
    assert copied.text.startswith("2 messages of "), copied
    with Store(tmp_path / "copy.tamis") as store:
        assert maintenance.check(store) == []


@pytest.mark.parametrize(
    ("store", "words"),
    [
        ("redis://127.0.0.1:1/0", "cannot be reached"),
        ("postgresql://ann@127.0.0.1:1/mail", "cannot be reached"),
        ("redis://127.0.0.1:1/mail", "expected a number, as in /0"),
        ("postgresql://ann@127.0.0.1:1/", "names no database"),
        ("redis://:secret@127.0.0.1/0", "has a password"),
    ],
)
def test_an_address_that_cannot_be_used_gives_one_line(
    store: str, words: str, hosts: "Hosts", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tamis_mail.store.redis_rows._RETRIES", 1)
    with pytest.raises(StoreError) as caught:
        Sieve.open(store)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)
