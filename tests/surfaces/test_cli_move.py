"""`tamis sort --move`: spam leaves the inbox, all other mail stays, and no message is lost or doubled."""

import errno
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from tamis_mail.mailbox import maildir
from tests.surfaces.terminal import COMMAND, HAM, SPAM, Type, learn_some, spawn

UNSURE = b"Subject: pills\n\nlunch pills\n"


@pytest.fixture
def inbox(tmp_path: Path, typed: Type, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Maildir with read spam, unread ham and a message that the store knows nothing about."""
    learn_some(typed, tmp_path, monkeypatch)
    root = make_maildir(tmp_path / "Maildir")
    for number, (spam, ham) in enumerate(zip(SPAM[:3], HAM[:3], strict=True)):
        (root / "cur" / f"{number}.host:2,S").write_bytes(spam)
        (root / "new" / f"9{number}.host").write_bytes(ham)
    (root / "new" / "50.host").write_bytes(SPAM[5])
    (root / "new" / "60.host").write_bytes(UNSURE)
    return root


def make_maildir(root: Path) -> Path:
    for name in ("cur", "new", "tmp"):
        (root / name).mkdir(parents=True)
    return root


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


STAYING = ["new/60.host", "new/90.host", "new/91.host", "new/92.host"]
SPAM_FILES = ["cur/0.host:2,S", "cur/1.host:2,S", "cur/2.host:2,S", "new/50.host"]


def test_spam_is_moved_and_listed(typed: Type, inbox: Path, tmp_path: Path) -> None:
    junk = tmp_path / "Junk"
    answer = typed("sort", "--move", f"{junk}/", inbox)
    assert answer.status == 0
    *lines, last = answer.text.splitlines()
    assert [line.split()[0] for line in lines] == ["spam"] * 4
    assert sorted(line.split()[2] for line in lines) == SPAM_FILES
    assert last == f"{inbox}: 4 moved to {junk} (spam), 4 stayed"
    assert answer.err == f"tamis sort: created the Maildir {junk}\n"
    assert (files(inbox), files(junk)) == (STAYING, SPAM_FILES)
    again = typed("sort", "--move", junk, inbox)
    assert (again.status, again.text, again.err) == (0, f"{inbox}: 0 moved to {junk} (spam), 4 stayed\n", "")


def test_what_is_unsure_has_its_own_folder(typed: Type, inbox: Path) -> None:
    work = make_maildir(inbox / ".Work")
    (work / "cur" / "1.host").write_bytes(SPAM[7])
    answer = typed("sort", "--move", ".Junk", "--unsure", ".Unsure", inbox)
    assert answer.status == 0
    assert answer.text.splitlines()[-1] == (
        f"{inbox}: 4 moved to {inbox}/.Junk (spam), 1 moved to {inbox}/.Unsure (unsure), 3 stayed"
    )
    assert sorted(answer.err.splitlines()) == [
        f"tamis sort: created the Maildir {inbox}/.Junk",
        f"tamis sort: created the Maildir {inbox}/.Unsure",
        "tamis sort: subfolders were not sorted: .Work; name one to sort it",
    ]
    assert files(inbox / ".Junk") == [*SPAM_FILES[:3], "maildirfolder", "new/50.host"]
    assert files(inbox / ".Unsure") == ["maildirfolder", "new/60.host"]
    assert files(work) == ["cur/1.host"]
    assert typed("sort", "--move", inbox / ".Junk", work).text.splitlines()[-1].startswith(f"{work}: 1 moved")


def test_a_dry_run_moves_nothing(typed: Type, inbox: Path, tmp_path: Path) -> None:
    before = files(tmp_path)
    answer = typed("sort", "--dry-run", "--move", tmp_path / "Junk", inbox)
    assert (answer.status, answer.err) == (0, "")
    assert answer.text.splitlines()[-1] == (
        f"{inbox}: 4 would be moved to {tmp_path}/Junk (spam), 4 would stay"
    )
    assert len(answer.text.splitlines()) == 5
    assert files(tmp_path) == before
    assert not (tmp_path / "Junk").exists()


def test_json_has_an_object_for_each_message(typed: Type, inbox: Path, tmp_path: Path) -> None:
    strange = "7\x1b.host"
    (inbox / "cur" / strange).write_bytes(SPAM[8])
    answer = typed("sort", "--json", "--move", tmp_path / "Junk", inbox)
    objects = {line["name"]: line for line in map(json.loads, answer.text.splitlines())}
    assert len(objects) == 9
    assert {name: line["moved_to"] for name, line in objects.items() if line["label"] != "spam"} == (
        dict.fromkeys(STAYING)
    )
    for name in SPAM_FILES:
        assert objects[name]["moved_to"] == f"{tmp_path}/Junk/{name}"
    assert objects[r"cur/7\x1b.host"]["moved_to_bytes"]
    dry_run = typed("sort", "--json", "--dry-run", "--move", tmp_path / "Other", inbox).text.splitlines()
    assert all(json.loads(line)["dry_run"] for line in dry_run)
    assert typed("sort", "-q", "--move", tmp_path / "Junk", inbox).out == b""


def test_a_message_that_vanishes_is_skipped_with_a_line(
    typed: Type, inbox: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = maildir.MaildirTarget.take

    def race(self: maildir.MaildirTarget, path: str) -> str:
        if Path(path).name == "50.host":
            Path(path).rename(inbox / "cur" / "50.host:2,S")  # a mail program marks it as read
        return take(self, path)

    monkeypatch.setattr(maildir.MaildirTarget, "take", race)
    answer = typed("sort", "--move", tmp_path / "Junk", inbox)
    assert answer.status == 0
    assert answer.text.splitlines()[-1].endswith(
        "3 moved to " + f"{tmp_path}/Junk (spam), 4 stayed, 1 vanished"
    )
    assert "new/50.host was not moved: another program has moved, renamed or deleted it" in answer.err
    assert (inbox / "cur" / "50.host:2,S").exists()


def test_a_link_stays_where_it_is(typed: Type, inbox: Path, tmp_path: Path) -> None:
    (inbox / "cur" / "link").symlink_to("0.host:2,S")
    answer = typed("sort", "--move", tmp_path / "Junk", inbox)
    assert "cur/link is a link, and was left where it is" in answer.err
    assert files(tmp_path / "Junk") == SPAM_FILES


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--move", "Junk"], "--move needs a Maildir to move to and one to sort"),
        (["--move", "Junk", "-"], "--move needs a Maildir to move to and one to sort"),
        (["--move", "", "Maildir"], "--move needs a Maildir to move to and one to sort"),
        (["--unsure", "Junk", "Maildir"], "--unsure was given without --move"),
        (["--dry-run", "Maildir"], "--dry-run was given without --move"),
        (["-p", "--move", "Junk"], "leave --move out"),
        (["--move", "Junk", "mail/inbox.mbox"], "is an mbox, which is one file of all its messages"),
        (["--move", "Junk", "mail/junk"], "is a folder without cur and new, expected a Maildir"),
        (["--move", "Junk", "mail/junk/00.eml"], "is a single message, expected a Maildir"),
        (["--move", "Junk", "Maildri"], "did you mean Maildir?"),
        (["--move", "Junk", "."], "is a folder of Maildirs, expected one Maildir to move mail from"),
        (["--move", "Maildri/.Junk", "Maildir"], "did you mean "),
        (["--move", "mail/inbox.mbox", "Maildir"], "is a file, expected a Maildir"),
        (["--move", "mail", "Maildir"], "is a folder of something else, expected a Maildir"),
        (["--move", "./Maildir/", "Maildir"], "is the folder to sort and the folder to move to"),
        (["--move", "Junk", "--unsure", "Maildir", "Maildir"], "name another one after --move or --unsure"),
        (["--move", "Junk", "Maildir", "--store", "none.tamis"], "has not learned anything yet"),
        (["--move", "Junk", "Maildir", "--store", "half.tamis"], "has not learned wanted mail yet"),
        (["--move", "Junk", "Maildir", "--store", "other.tamis"], "has not learned spam yet"),
    ],
)
def test_a_mistake_is_one_line_and_moves_nothing(
    typed: Type, inbox: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], fault: str
) -> None:
    monkeypatch.chdir(tmp_path)
    typed("learn", "--store", "half.tamis", "--spam", stdin=SPAM[0])
    typed("learn", "--store", "other.tamis", "--ham", stdin=HAM[0])
    before = files(tmp_path)
    answer = typed("sort", *words)
    assert answer.status == 3
    assert fault in answer.err
    assert len(answer.err.splitlines()) == 1
    assert files(tmp_path) == before
    assert inbox.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_one_line(typed: Type, inbox: Path, tmp_path: Path) -> None:
    (inbox / "cur").chmod(0o500)
    answer = typed("sort", "--move", tmp_path / "Junk", inbox)
    dry_run = typed("sort", "--dry-run", "--move", tmp_path / "Junk", inbox)
    (inbox / "cur").chmod(0o700)
    assert answer.status == 3
    assert "has messages that cannot be moved (no permission to write in cur)" in answer.err
    assert not (tmp_path / "Junk").exists()
    assert dry_run.status == 0


def test_an_error_in_the_middle_says_how_many_were_moved(
    typed: Type, inbox: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def fill_disk(self: Path, target: Path) -> Path:
        if self.name == "50.host":
            raise OSError(errno.ENOSPC, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fill_disk)
    answer = typed("sort", "--move", tmp_path / "Junk", inbox)
    assert answer.status == 3
    assert answer.err.splitlines()[-1] == (
        f"tamis sort: new/50.host of {inbox} could not be moved to {tmp_path}/Junk (No space left on "
        "device), 3 were moved before it: check permissions and free space, and run it again"
    )
    assert files(tmp_path / "Junk") == SPAM_FILES[:3]
    assert (inbox / "new" / "50.host").exists()


def test_a_reader_who_stops_does_not_stop_the_moves(inbox: Path, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command: list[str | Path] = [COMMAND, "sort", "-q", "--json", "--move", tmp_path / "Junk", inbox]
    pipe = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (pipe.returncode, pipe.stderr) == (0, b"")
    assert files(tmp_path / "Junk") == SPAM_FILES


def test_kills_at_random_moments_lose_and_double_nothing(tmp_path: Path, inbox: Path) -> None:
    for number in range(400):
        raw = SPAM[number % 12] if number % 2 else HAM[number % 12]
        unique = raw + f"Message {number}\n".encode()
        (inbox / ("cur" if number % 3 else "new") / f"1{number}.host").write_bytes(unique)
    expected = Counter(path.read_bytes() for path in inbox.rglob("*") if path.is_file())
    junk = tmp_path / "Junk"
    dice = random.Random(18)
    start = time.monotonic()
    assert spawn("sort", "--dry-run", "--move", junk, inbox).status == 0
    seconds = time.monotonic() - start
    for _ in range(8):
        command: list[str | Path] = [COMMAND, "sort", "-q", "--move", junk, inbox]
        with subprocess.Popen(command, start_new_session=True) as process:
            time.sleep(dice.uniform(0.3, 1.0) * seconds)
            os.killpg(process.pid, signal.SIGKILL)
        places = [path for root in (inbox, junk) for path in root.rglob("*") if path.is_file()]
        assert Counter(path.read_bytes() for path in places) == expected
    assert spawn("sort", "-q", "--move", junk, inbox).status == 0
    assert len(files(junk)) > 200
    everything = [path for root in (inbox, junk) for path in root.rglob("*") if path.is_file()]
    assert Counter(path.read_bytes() for path in everything) == expected
