"""The log: numbers that stay, a bounded size, nothing left of what is erased, and no error but LogError."""

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from tamis_mail.store import log as log_module
from tamis_mail.store.log import Event, EventLog, LogError


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    return EventLog.of(tmp_path / "mail.tamis")


def verdict(number: int = 0, **fields: Any) -> Event:
    event = Event(
        1_700_000_000 + number,
        "verdict",
        blake2b(bytes([number % 256]), digest_size=16).digest(),
        "spam",
        probability=0.75,
    )
    return replace(
        event, **{"sender": "a@b.example", "subject": f"subject {number}", "source": "stdin"} | fields
    )


def learned(number: int = 0, **fields: Any) -> Event:
    return verdict(number, **{"action": "learned", "probability": None, "weight": 1, **fields})


def test_an_event_comes_back_as_it_was_written_with_a_number(log: EventLog) -> None:
    event = learned(
        7, action="moved", before="ham", old_weight=4, old_rest=2, old_source="/home/ü", old_time=-5, undoes=3
    )
    assert list(log.append([event])) == [1]
    assert log.find(1) == replace(event, number=1)
    assert log.find(2) is None
    assert list(log.append([verdict(8), verdict(9)])) == [2, 3]
    assert [each.number for each in log.events()] == [3, 2, 1]
    assert [each.number for each in log.events(since=1_700_000_009)] == [3]


def test_only_the_owner_may_read_the_log(log: EventLog) -> None:
    log.append([verdict()])
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert [path.name for path in log.path.parent.iterdir()] == ["mail.tamis.log"]


def test_the_log_of_a_link_is_beside_the_store_itself(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link.tamis").symlink_to(tmp_path / "real" / "mail.tamis")
    assert EventLog.of(tmp_path / "link.tamis").path == tmp_path / "real" / "mail.tamis.log"


def test_old_verdicts_go_and_learning_events_stay(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "VERDICTS", 50)
    monkeypatch.setattr(log_module, "LEARNINGS", 20)
    monkeypatch.setattr(log_module, "_TRIM", 10)
    log.append([learned(number) for number in range(5)])
    for start in range(0, 400, 40):
        log.append([verdict(number) for number in range(start, start + 40)])
    numbers = [event.number for event in log.events()]
    assert numbers[-5:] == [5, 4, 3, 2, 1]
    assert numbers[:50] == [*range(405, 355, -1)]
    assert len(numbers) <= 5 + 50 + 40
    for number in range(60):  # one by one
        log.append([learned(number)])
    assert 20 <= len([event for event in log.events() if event.is_learning]) <= 30
    assert next(log.events()).number == 465


def test_a_number_is_not_used_again(log: EventLog) -> None:
    log.append([verdict(1), verdict(2)])
    with closing(sqlite3.connect(log.path)) as connection, connection:
        connection.execute("DELETE FROM event")
    assert list(log.append([verdict(3)])) == [3]


def test_what_is_erased_is_in_no_byte_of_the_file(log: EventLog) -> None:
    log.append([verdict(number, subject=f"private {number}", source="/secret") for number in range(50)])
    log.append([learned(7, subject="private 7 too", old_source="/secret/7")])
    kept, gone = verdict(8).digest, verdict(7).digest
    log.append([Event(0, "forgotten", gone, "", before="spam", source="/place")], erase=[gone])
    data = b"".join(path.read_bytes() for path in log.path.parent.iterdir())
    assert b"private 8" in data
    assert b"private 7" not in data
    assert data.count(gone) == 2  # of the new event, and its entry in the index
    assert [event.digest for event in log.events() if event.number in (8, 51)] == [b"", b""]
    assert [(event.label, event.subject, event.source) for event in [log.find(8)] if event] == [
        ("spam", "", "")
    ]
    assert log.find(9) == replace(verdict(8), number=9, subject="private 8", source="/secret", digest=kept)


def test_what_is_erased_from_many_is_in_no_byte_of_the_file(log: EventLog) -> None:
    log.append([verdict(number, subject=f"private ({number})") for number in range(250)])
    gone = range(0, 250, 7)
    log.append([], erase=[verdict(number).digest for number in gone])
    data = b"".join(path.read_bytes() for path in log.path.parent.iterdir())
    assert [number for number in range(250) if b"private (%d)" % number not in data] == [*gone]
    assert [number for number in range(250) if verdict(number).digest not in data] == [*gone]


def test_to_erase_where_there_is_no_log_makes_none(log: EventLog) -> None:
    assert list(log.append([], erase=[b"x" * 16])) == []
    assert not log.exists()


@pytest.mark.parametrize(
    "content", [b"my notes\n", b"SQLite format 3\0" + bytes(200)[:52] + b"tami" + bytes(900)]
)
def test_a_file_of_another_program_is_not_touched(log: EventLog, content: bytes) -> None:
    log.path.write_bytes(content)
    for use in (lambda: log.append([verdict()]), lambda: [*log.events()], log.clear):
        with pytest.raises(LogError, match="is not a log of tamis"):
            use()
    assert log.path.read_bytes() == content
    assert [path.name for path in log.path.parent.iterdir()] == ["mail.tamis.log"]


def test_a_damaged_log_is_set_aside_and_a_new_one_begins(log: EventLog) -> None:
    log.append([verdict(number) for number in range(500)])
    data = bytearray(log.path.read_bytes())
    data[100:] = b"\xff" * (len(data) - 100)
    log.path.write_bytes(data)
    with pytest.raises(LogError, match="is damaged"):
        list(log.events())
    with pytest.raises(
        LogError, match=r"was damaged: it is now mail\.tamis\.log\.damaged, and a new log begins"
    ):
        log.append([verdict(1)])
    assert [event.subject for event in log.events()] == ["subject 1"]
    assert Path(f"{log.path}.damaged").read_bytes() == data
    log.append([verdict(2)])


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER slow AFTER INSERT ON event BEGIN SELECT 1; END",
        "CREATE VIEW other AS SELECT 1",
        "DROP INDEX event_digest",
        "UPDATE event SET time = 'noon'",
        "UPDATE event SET subject = x'00'",
        "UPDATE event SET action = 'burned'",
        "UPDATE event SET probability = 'high'",
    ],
)
def test_a_log_that_another_program_has_changed_is_damage(log: EventLog, statement: str) -> None:
    log.append([verdict()])
    with closing(sqlite3.connect(log.path)) as connection, connection:
        connection.execute(statement)
    with pytest.raises(LogError, match="is damaged"):
        list(log.events())
    log.clear()
    assert not log.exists()
    assert list(log.append([verdict()])) == [1]


def test_a_log_that_is_locked_is_an_error_after_a_second(log: EventLog) -> None:
    log.append([verdict()])
    with closing(sqlite3.connect(log.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LogError, match="waited 1 second for another process that is writing"):
            log.append([verdict()])
        assert len([*log.events()]) == 1  # readers do not wait
        other.execute("ROLLBACK")
    assert list(log.append([verdict()])) == [2]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["fifo", "folder"])
def test_a_log_that_is_no_file_is_an_error(log: EventLog, make: Callable[[Path], None]) -> None:
    make(log.path)
    with pytest.raises(LogError, match=r"cannot be used \(is a"):
        log.append([verdict()])
    with pytest.raises(LogError, match=r"cannot be used \(is a"):
        list(log.events())


def test_a_link_that_leads_nowhere_is_not_followed(log: EventLog, tmp_path: Path) -> None:
    log.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LogError):
        log.append([verdict()])
    assert not (tmp_path / "elsewhere").exists()


def test_many_processes_write_at_once(log: EventLog) -> None:
    code = (
        "import sys; from tamis_mail.store.log import Event, EventLog\n"
        "for number in range(40):\n"
        "    EventLog(sys.argv[1]).append([Event(number, 'verdict', b'x', 'ham', probability=0.0)])\n"
    )
    children = [subprocess.Popen([sys.executable, "-c", code, str(log.path)]) for _ in range(4)]
    assert [child.wait() for child in children] == [0] * 4
    assert sorted(event.number for event in log.events()) == [*range(1, 161)]


def test_threads_that_begin_a_log_together_begin_one(log: EventLog) -> None:
    faults: list[BaseException] = []

    def write() -> None:
        try:
            log.append([verdict()])
        except LogError as error:
            faults.append(error)

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert len([*log.events()]) == 8


def test_a_process_that_is_killed_leaves_a_log_that_is_sound(log: EventLog) -> None:
    code = (
        "import sys; from tamis_mail.store.log import Event, EventLog\n"
        "while True:\n"
        "    EventLog(sys.argv[1]).append([Event(1, 'verdict', b'x', 'ham', probability=0.0)])\n"
        "    print(flush=True)\n"
    )
    written = 0
    for kill in range(5):
        with subprocess.Popen([sys.executable, "-c", code, str(log.path)], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            for _ in range(3 + kill):
                child.stdout.readline()
            child.kill()
            written += 3 + kill + len(child.stdout.read())
        assert written <= len([*log.events()]) <= written + kill + 1
    with closing(sqlite3.connect(log.path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.parametrize("source", ["/home/\udcff/x", "/ü", "a" * 5000])
def test_a_path_of_any_bytes_can_be_logged(log: EventLog, source: str) -> None:
    log.append([verdict(source=source)])
    assert [event.source for event in log.events()] == [source.encode("utf-8", "backslashreplace").decode()]


def test_a_full_disk_is_an_error_and_the_log_stays_sound(log: EventLog) -> None:
    log.append([verdict(number) for number in range(20)])
    code = (
        "import resource, sys; from tamis_mail.store.log import Event, EventLog, LogError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))\n"
        "event = Event(1, 'verdict', b'x', 'ham', probability=0.0, subject='s' * 100)\n"
        "try:\n"
        "    EventLog(sys.argv[1]).append([event] * 2000)\n"
        "except LogError as error:\n"
        "    print(error)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, str(log.path)], capture_output=True, text=True, check=True
    )
    assert "the disk" in answer.stdout
    assert answer.stdout.count("\n") == 1
    assert [event.number for event in log.events()] == [*range(20, 0, -1)]
    assert list(log.append([verdict()])) == [21]


def test_learning_events_are_paged_by_their_numbers(log: EventLog) -> None:
    log.append([event for number in range(10) for event in (verdict(number), learned(number))])
    first = log.find_learning(4)
    second = log.find_learning(4, first[-1].number)
    rest = log.find_learning(40, second[-1].number)
    numbers = [event.number for event in (*first, *second, *rest)]
    assert numbers == [event.number for event in log.events() if event.is_learning]
    assert len(first) == len(second) == 4


def test_verdicts_are_counted_by_day_and_label(log: EventLog) -> None:
    assert log.count_days() == []
    noon = 19_000 * 86_400 + 43_200
    events = [(noon, "spam"), (noon + 40_000, "spam"), (noon, "unsure"), (noon + 86_400, "spam")]
    log.append([learned(1, time=noon), *(verdict(time=time, label=label) for time, label in events)])
    assert log.count_days() == [(19_000, "spam", 2), (19_000, "unsure", 1), (19_001, "spam", 1)]


def test_headings_are_those_of_the_newest_event(log: EventLog) -> None:
    assert log.find_headings([b"x"]) == {}
    log.append([verdict(1, subject="old"), learned(1, subject="new"), verdict(2)])
    names = [verdict(number).digest for number in range(700)]
    headings = log.find_headings([*names[:3], bytes(16)])
    assert headings == {
        names[1]: ("a@b.example", "new"),
        names[2]: ("a@b.example", "subject 2"),
    }
    assert log.find_headings(names).keys() == {names[1], names[2]} | {names[257], names[258]}


def test_the_newest_number_grows_with_each_event(log: EventLog) -> None:
    assert log.newest_number() == 0
    (*_, last) = log.append([verdict(1), verdict(2)])
    assert log.newest_number() == last == 2
