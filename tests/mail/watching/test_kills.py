"""A watcher that is killed, or loses its mailbox, at any step, while mail comes and the owner moves it.

The oracle is a model of each message: the folder in which it must be, and the lessons that its moves teach.
"""

import itertools
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tamis_mail.watching.lessons import find_lesson
from tamis_mail.watching.mailbox import MailboxError
from tests.mail.watching.account import ROLES, Account, Interruption, KilledError, WordClassifier
from tests.mail.watching.test_watcher import Bench

_MEMORY = "/dev/shm"
WORDS = {"Junk": "pills", "INBOX": "lunch", "Unsure": "maybe"}  # by where the filter puts such a message


@dataclass
class Expected:
    """What must be true of a message after the next complete pass."""

    folder: str
    lessons: list[str] = field(default_factory=list)
    optional: str | None = (
        None  # a lesson that may be missed, because the watcher never saw the message before
    )
    last_watched: str = ""  # the folder in which the watcher saw it before it was put into the trash
    is_settled: bool = False  # a complete pass has seen it where it is

    def allows(self, lessons: list[str]) -> bool:
        plain = _drop_repeats(self.lessons)
        return lessons in (plain, _drop_repeats([*self.lessons, *([self.optional] if self.optional else [])]))


def _drop_repeats(labels: list[str]) -> list[str]:
    return [label for label, _ in itertools.groupby(labels)]


class KilledWatcher(RuleBasedStateMachine):
    """Deliveries, moves and marks of the owner, passes, and passes that are interrupted."""

    @initialize(
        tells_uids=st.booleans(), moves_in_two_steps=st.booleans(), marks=st.booleans(), only=st.booleans()
    )
    def open(self, tells_uids: bool, moves_in_two_steps: bool, marks: bool, only: bool) -> None:
        # In memory where there is such a folder: nothing here need survive a power cut.
        self.folder = tempfile.TemporaryDirectory(dir=_MEMORY if Path(_MEMORY).is_dir() else None)
        self.bench = Bench(Path(self.folder.name), adds_keywords=marks, only_moves=only)
        interruption = Interruption()
        self.bench.account = Account(tells_uids, moves_in_two_steps, interruption)
        self.bench.classifier = WordClassifier(interruption)
        self.expected: dict[bytes, Expected] = {}
        self.only_moves = only
        assert self.bench.run()

    def teardown(self) -> None:
        self.bench.restart()
        self.folder.cleanup()

    @rule(kind=st.sampled_from(sorted(WORDS)))
    def deliver(self, kind: str) -> None:
        raw = f"Subject: {WORDS[kind]} {len(self.expected)}\n\n{WORDS[kind]}\n".encode()
        self.expected[raw] = Expected(kind)
        self.bench.account.deliver(raw)

    @precondition(lambda self: self._settled())
    @rule(data=st.data(), to=st.sampled_from(sorted(ROLES)))
    def move_by_hand(self, data: st.DataObject, to: str) -> None:
        raw = data.draw(st.sampled_from(self._settled()))
        expected = self.expected[raw]
        if to == expected.folder:
            return
        uid, keywords = self._locate(raw, expected.folder)
        self.bench.account.move_by_hand(expected.folder, uid, to)
        if expected.folder != "Trash":  # which is not watched
            expected.last_watched = expected.folder
        if to != "Trash":
            role = ROLES[expected.last_watched] if expected.last_watched else None
            lesson = find_lesson(role, ROLES[to], keywords, keywords, only_moves=self.only_moves)
            expected.lessons += [lesson] if lesson else []
        expected.folder, expected.is_settled = to, False

    @precondition(lambda self: any(not one.is_settled for one in self.expected.values()))
    @rule(data=st.data(), to=st.sampled_from(["Archive", "Junk"]))
    def move_before_it_is_sorted(self, data: st.DataObject, to: str) -> None:
        new = [raw for raw, one in self.expected.items() if not one.is_settled and not one.lessons]
        new = [raw for raw in new if self.bench.account.find(raw) == ["INBOX"]]
        if not new:
            return
        raw = data.draw(st.sampled_from(new))
        expected = self.expected[raw]
        uid, _ = self._locate(raw, "INBOX")
        self.bench.account.move_by_hand("INBOX", uid, to)
        expected.folder = to
        expected.optional = "spam" if to == "Junk" else None

    @precondition(lambda self: self._settled("INBOX", "Archive", "Work"))
    @rule(data=st.data(), keyword=st.sampled_from(["$Junk", "NonJunk", "\\Answered", "\\Seen"]))
    def mark_by_hand(self, data: st.DataObject, keyword: str) -> None:
        raw = data.draw(st.sampled_from(self._settled("INBOX", "Archive", "Work")))
        expected = self.expected[raw]
        uid, keywords = self._locate(raw, expected.folder)
        message = self.bench.account.folders[expected.folder][uid]
        message.keywords = keywords | {keyword}
        role = ROLES[expected.folder]
        if lesson := find_lesson(role, role, keywords, message.keywords):
            expected.lessons.append(lesson)
        expected.is_settled = False

    @rule()
    def run(self) -> None:
        self.bench.now += 100
        self.bench.account.interruption.calls_left = None
        assert self.bench.run()
        for raw, expected in self.expected.items():
            assert self.bench.account.find(raw) == [expected.folder]
            lessons = [label for one, label in self.bench.lessons if one == raw]
            assert expected.allows(lessons), (raw, expected, lessons)
            expected.lessons, expected.optional, expected.is_settled = lessons, None, True

    @rule(steps=st.integers(0, 40), error=st.sampled_from([KilledError, MailboxError]))
    def run_interrupted(self, steps: int, error: type[BaseException]) -> None:
        self.bench.account.interruption.calls_left = steps
        self.bench.account.interruption.error = error
        try:
            self.bench.run()
        except (KilledError, MailboxError):  # MailboxError: in the classifier, which never raises it
            self.bench.restart()
        self.bench.account.interruption.calls_left = None

    @rule()
    def restart(self) -> None:
        self.bench.restart()

    @invariant()
    def nothing_is_lost(self) -> None:
        for raw in getattr(self, "expected", {}):
            assert 1 <= len(self.bench.account.find(raw)) <= 1 + self.bench.account.moves_in_two_steps

    def _settled(self, *folders: str) -> list[bytes]:
        return [
            raw
            for raw, one in self.expected.items()
            if one.is_settled and (not folders or one.folder in folders)
        ]

    def _locate(self, raw: bytes, folder: str) -> tuple[str, frozenset[str]]:
        ((uid, keywords),) = (
            (uid, one.keywords) for uid, one in self.bench.account.folders[folder].items() if one.raw == raw
        )
        return uid, keywords


KilledWatcher.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)


TestKilledWatcher = KilledWatcher.TestCase
