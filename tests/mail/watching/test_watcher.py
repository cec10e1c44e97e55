"""The loop of a watcher, on an account in memory."""

import io
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tamis_mail.serving.logs import Log
from tamis_mail.watching.mailbox import Folder
from tamis_mail.watching.memory import Memory
from tamis_mail.watching.watcher import Settings, Watcher
from tests.mail.watching.account import Account, WordClassifier

SPAM = b"Subject: cheap pills\n\nbuy\n"
HAM = b"Subject: lunch\n\nat noon?\n"
MAYBE = b"Subject: maybe\n\nhm\n"


class Bench:
    """An account, a filter and a memory; `run` is one pass of a watcher."""

    def __init__(self, folder: Path, **settings: bool) -> None:
        self.account = Account()
        self.classifier = WordClassifier()
        self.path = folder / "mail.tamis.watch"
        self.settings = settings
        self.now = 1_000_000.0
        self.log = io.StringIO()
        self.out = io.StringIO()
        self.watcher: Watcher | None = None
        self.memory: Memory | None = None

    def run(self) -> bool:
        """Run one pass of the watcher."""
        return self.start().run_pass()

    def start(self) -> Watcher:
        if self.watcher is None:
            settings = Settings(**self.settings)
            self.memory = Memory(self.path, "account", clock=lambda: self.now, is_copy=settings.is_dry_run)
            self.watcher = Watcher(
                self.account,
                self.memory,
                self.classifier,
                Log(self.log),
                settings,
                out=self.out,
                clock=lambda: self.now,
            )
        return self.watcher

    def restart(self) -> None:
        """Forget the process, as a kill does."""
        if self.memory is not None:
            self.memory.close()
        self.watcher = self.memory = None

    @property
    def lessons(self) -> list[tuple[bytes, str]]:
        return self.classifier.history


MakeBench = Callable[..., Bench]


@pytest.fixture
def make_bench(tmp_path: Path) -> MakeBench:
    def make(**settings: bool) -> Bench:
        bench = Bench(tmp_path, **settings)
        bench.run()  # the baseline of an empty account
        return bench

    return make


def test_new_mail_is_sorted_and_what_the_filter_moved_teaches_nothing(make_bench: MakeBench) -> None:
    bench = make_bench()
    for raw in (SPAM, HAM, MAYBE):
        bench.account.deliver(raw)
    for _ in range(3):
        assert bench.run()
    assert [bench.account.find(raw) for raw in (SPAM, HAM, MAYBE)] == [["Junk"], ["INBOX"], ["Unsure"]]
    assert bench.lessons == []


@pytest.mark.parametrize("tells_uids", [True, False])
def test_the_owner_corrects_the_filter_by_moving(make_bench: MakeBench, tells_uids: bool) -> None:
    bench = make_bench()
    bench.account.tells_uids = tells_uids
    bench.account.deliver(SPAM)
    uid = bench.account.deliver(HAM)
    bench.run()
    bench.account.move_by_hand("INBOX", uid, "Junk")
    bench.run()
    assert bench.lessons == [(HAM, "spam")]
    (uid,) = (uid for uid, one in bench.account.folders["Junk"].items() if one.raw == SPAM)
    uid = bench.account.move_by_hand("Junk", uid, "INBOX")
    bench.run()
    bench.run()
    assert bench.lessons == [(HAM, "spam"), (SPAM, "ham")]
    assert bench.account.find(SPAM) == ["INBOX"]
    bench.account.move_by_hand("INBOX", uid, "Junk")
    bench.run()
    assert bench.lessons[2:] == [(SPAM, "spam")]


def test_what_is_put_from_junk_into_the_trash_teaches_nothing(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.account.deliver(SPAM)
    bench.run()
    (uid,) = bench.account.folders["Junk"]
    uid = bench.account.move_by_hand("Junk", uid, "Trash")
    bench.run()
    assert bench.lessons == []
    bench.account.move_by_hand("Trash", uid, "INBOX")
    bench.run()
    assert bench.lessons == [(SPAM, "ham")]


def test_the_first_pass_is_a_baseline_in_which_only_unread_mail_is_sorted(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    read = SPAM + b"read"
    bench.account.deliver(read, keywords=frozenset({"\\Seen", "$Junk"}))
    bench.account.deliver(SPAM)
    old = bench.account.deliver(HAM, "Junk")
    for _ in range(2):
        bench.run()
    assert bench.account.find(read) == ["INBOX"]
    assert bench.account.find(SPAM) == ["Junk"]
    assert bench.lessons == []
    bench.account.move_by_hand("Junk", old, "Archive")
    bench.run()
    assert bench.lessons == [(HAM, "ham")]


def test_keywords_of_the_owner_teach_and_those_of_the_filter_do_not(make_bench: MakeBench) -> None:
    bench = make_bench(adds_keywords=True)
    bench.account.deliver(SPAM)
    uid = bench.account.deliver(HAM)
    bench.run()
    bench.run()
    (junk,) = bench.account.folders["Junk"].values()
    assert junk.keywords == {"$Junk"}
    assert bench.account.folders["INBOX"][uid].keywords == {"$NotJunk"}
    assert bench.lessons == []
    bench.account.folders["INBOX"][uid].keywords = frozenset({"$Junk"})
    bench.run()
    assert bench.lessons == [(HAM, "spam")]


def test_an_answered_message_is_ham_and_stays(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.account.deliver(SPAM, keywords=frozenset({"\\Answered"}))
    bench.run()
    assert bench.account.find(SPAM) == ["INBOX"]
    assert bench.lessons == [(SPAM, "ham")]


def test_what_a_server_puts_into_junk_teaches_only_without_only_moves(tmp_path: Path) -> None:
    for only_moves in (False, True):
        bench = Bench(tmp_path / "", only_moves=only_moves)
        bench.path = tmp_path / f"{only_moves}.watch"
        bench.run()
        bench.account.deliver(SPAM, "Junk")
        uid = bench.account.deliver(HAM)
        bench.run()
        assert bench.lessons == ([] if only_moves else [(SPAM, "spam")])
        bench.account.move_by_hand("INBOX", uid, "Junk")
        bench.run()
        assert bench.lessons[-1] == (HAM, "spam")


def test_a_message_that_is_delivered_twice_is_not_taken_for_one_that_came_from_junk(
    make_bench: MakeBench,
) -> None:
    bench = make_bench()
    bench.account.deliver(SPAM)
    bench.run()
    bench.account.deliver(SPAM)
    bench.run()
    assert bench.lessons == []
    bench.now += 100
    bench.run()
    assert bench.lessons == []
    assert bench.account.find(SPAM) == ["Junk", "Junk"]


def test_a_mail_program_that_copies_and_deletes_later_teaches_once(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.account.deliver(SPAM)
    bench.run()
    (uid,) = bench.account.folders["Junk"]
    bench.account.deliver(SPAM)  # the copy, in the inbox
    bench.run()
    del bench.account.folders["Junk"][uid]
    bench.run()
    assert bench.lessons == [(SPAM, "ham")]
    assert bench.account.find(SPAM) == ["INBOX"]


def test_two_copies_that_come_together_are_both_moved(make_bench: MakeBench) -> None:
    for tells_uids in (True, False):
        bench = make_bench()
        bench.account.tells_uids = tells_uids
        bench.account.deliver(SPAM)
        bench.account.deliver(SPAM)
        for _ in range(3):
            bench.run()
        assert bench.account.find(SPAM) == ["Junk", "Junk"]
        assert bench.lessons == []
        bench.restart()
        bench.path.unlink()


def test_new_uids_teach_nothing_and_sort_nothing_again(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.account.deliver(SPAM)
    uid = bench.account.deliver(HAM)
    bench.run()
    bench.account.validity = "2"
    folders = bench.account.folders
    for name in folders:
        folders[name] = {f"9{uid}": message for uid, message in folders[name].items()}
    bench.run()
    bench.run()
    assert bench.lessons == []
    assert bench.account.find(HAM) == ["INBOX"]
    bench.account.move_by_hand("INBOX", f"9{uid}", "Junk")
    bench.run()
    assert bench.lessons == [(HAM, "spam")]


def test_bodies_are_read_once(make_bench: MakeBench) -> None:
    bench = make_bench()
    for number in range(250):
        bench.account.deliver(HAM + b"%d" % number)
    bench.run()
    reads = bench.account.reads
    assert reads == 250
    for _ in range(3):
        bench.run()
    bench.restart()
    bench.run()
    assert bench.account.reads == reads


def test_a_message_that_cannot_be_handled_is_tried_a_few_times_and_stops_no_other(
    make_bench: MakeBench,
) -> None:
    bench = make_bench()
    poison = bench.account.deliver(b"Subject: poison\n\n")
    unreadable = bench.account.deliver(HAM)
    bench.account.unreadable.add(unreadable)
    bench.account.deliver(SPAM)
    bench.run()
    assert bench.account.find(SPAM) == ["Junk"]
    for _ in range(20):
        bench.now += 100_000
        bench.run()
    reads = bench.account.reads
    bench.now += 100_000
    bench.run()
    assert bench.account.reads == reads
    lines = [line for line in bench.log.getvalue().splitlines() if "event=message-failed" in line]
    assert len([line for line in lines if f"uid={poison}" in line]) == 5
    assert len([line for line in lines if f"uid={unreadable}" in line]) == 5
    assert set(bench.account.folders["INBOX"]) == {poison, unreadable}


def test_a_fault_of_the_store_is_reported_once_leaves_mail_and_is_tried_again(
    make_bench: MakeBench,
) -> None:
    bench = make_bench()
    uid = bench.account.deliver(HAM)
    bench.run()
    bench.classifier.fault = "the store is locked"
    bench.account.move_by_hand("INBOX", uid, "Junk")
    bench.account.deliver(SPAM)
    for _ in range(3):
        assert not bench.run()
    assert bench.account.find(SPAM) == ["INBOX"]
    assert bench.lessons == []
    assert bench.log.getvalue().count("event=fault ") == 2  # one for learning, one for sorting
    bench.classifier.fault = ""
    assert bench.run()
    assert bench.account.find(SPAM) == ["Junk"]
    assert bench.lessons == [(HAM, "spam")]
    assert bench.log.getvalue().count("event=fault-ended") == 2


def test_a_dry_run_prints_and_changes_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path, is_dry_run=True)
    bench.account.deliver(SPAM)
    bench.account.deliver(HAM)
    for _ in range(2):
        bench.run()
    assert bench.out.getvalue() == "would move to Junk 0.500: INBOX: (no sender): cheap pills\n"
    assert bench.account.find(SPAM) == ["INBOX"]
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_memory_begins_anew_and_teaches_nothing(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.account.deliver(SPAM)
    bench.account.deliver(HAM)
    bench.run()
    bench.restart()
    for damage in (b"no SQLite at all", b"SQLite format 3\0" + b"x" * 5000):
        bench.path.write_bytes(damage)
        for ending in ("-wal", "-shm"):
            bench.path.with_name(bench.path.name + ending).unlink(missing_ok=True)
        for _ in range(2):
            assert bench.run()
        assert bench.memory is not None
        assert bench.memory.renewal_reason
        bench.restart()
    assert bench.lessons == []
    assert bench.account.find(SPAM) == ["Junk"]
    assert bench.account.find(HAM) == ["INBOX"]


def test_what_the_owner_takes_back_from_the_trash_is_not_sorted_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    uid = bench.account.deliver(SPAM, keywords=frozenset({"\\Seen"}))
    bench.run()
    uid = bench.account.move_by_hand("INBOX", uid, "Trash")
    bench.run()
    bench.account.move_by_hand("Trash", uid, "INBOX")
    bench.run()
    assert bench.account.find(SPAM) == ["INBOX"]


def test_a_lesson_is_learned_once_and_not_in_every_pass(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.account.deliver(SPAM, "Junk")
    for _ in range(3):
        bench.run()
    assert bench.log.getvalue().count("event=learned") == 1


def test_a_message_that_got_another_uid_before_it_was_sorted_is_sorted(make_bench: MakeBench) -> None:
    bench = make_bench()
    uid = bench.account.deliver(SPAM)
    bench.classifier.fault = "the store is locked"
    bench.run()
    bench.account.move_by_hand("INBOX", uid, "INBOX")
    bench.run()
    bench.classifier.fault = ""
    bench.run()
    assert bench.account.find(SPAM) == ["Junk"]


def test_places_that_went_long_ago_are_forgotten(make_bench: MakeBench) -> None:
    bench = make_bench()
    for number in range(20):
        bench.account.deliver(HAM + b"%d" % number)
    bench.run()
    bench.account.folders["INBOX"].clear()
    bench.run()
    bench.restart()
    bench.now += 31 * 86400
    bench.run()
    bench.restart()
    with closing(sqlite3.connect(bench.path)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM place").fetchone() == (0,)


def test_a_stop_between_two_messages_leaves_the_rest_for_later(make_bench: MakeBench) -> None:
    bench = make_bench()
    for number in range(5):
        bench.account.deliver(SPAM + b"%d" % number)
    watcher = bench.start()
    moved: list[str] = []

    def stop_after_two(raw: bytes) -> None:
        moved.append("")
        if len(moved) == 2:
            watcher.stop.request()

    bench.account.on_move = stop_after_two
    assert not watcher.run(once=True)
    assert len(bench.account.folders["Junk"]) == 2
    bench.restart()
    bench.account.on_move = None
    assert bench.run()
    assert len(bench.account.folders["Junk"]) == 5


def test_what_the_owner_takes_out_of_junk_before_it_was_seen_there_is_ham(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.account.tells_uids = False
    bench.account.deliver(SPAM)
    bench.run()
    (uid,) = bench.account.folders["Junk"]
    uid = bench.account.move_by_hand("Junk", uid, "Archive")
    bench.run()
    assert bench.lessons == [(SPAM, "ham")]
    bench.account.move_by_hand("Archive", uid, "Junk")
    bench.run()
    assert bench.lessons == [(SPAM, "ham"), (SPAM, "spam")]


def test_a_folder_that_returns_without_changes_is_a_baseline_once(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench()
    missing: set[str] = set()
    list_folders = bench.account.list_folders

    def list_with_revisions() -> list[Folder]:
        return [
            replace(folder, revision=f"messages {' '.join(bench.account.folders[folder.name])}")
            for folder in list_folders()
            if folder.name not in missing
        ]

    monkeypatch.setattr(bench.account, "list_folders", list_with_revisions)
    bench.run()
    missing.add("Junk")
    bench.run()
    missing.clear()
    bench.run()
    uid = bench.account.deliver(HAM)
    bench.run()
    bench.account.move_by_hand("INBOX", uid, "Junk")
    bench.run()
    assert bench.lessons == [(HAM, "spam")]
