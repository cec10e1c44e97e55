"""`tamis learn FOLDER` and `--since`: what is taken for what is said first, and old mail is left out."""

import calendar
import re
import time
from argparse import ArgumentTypeError
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from tamis_mail.store import Store
from tamis_mail.surfaces.cli.since import DateFilter, parse_since
from tests.surfaces.terminal import HAM, SPAM, Type

DAY = 86_400


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "mail.tamis"
    monkeypatch.setenv("TAMIS_STORE", str(path))
    return path


@pytest.fixture
def berlin() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        yield
    time.tzset()


def fill(folder: Path, messages: list[bytes]) -> Path:
    for name in ("cur", "new", "tmp"):
        (folder / name).mkdir(parents=True)
    for number, raw in enumerate(messages):
        (folder / "cur" / f"{number}:2,S").write_bytes(raw)
    return folder


def dated(messages: list[bytes], days: float) -> list[bytes]:
    date = formatdate(time.time() - days * DAY).encode()
    return [b"Received: by here; " + date + b"\n" + raw for raw in messages]


def labels(path: Path) -> dict[str, int]:
    with Store(path, create=False, readonly=True) as store:
        return {label.name: label.messages for label in store.labels() if label.messages}


def test_folders_are_learned_by_their_names(typed: Type, tmp_path: Path, store: Path) -> None:
    root = fill(tmp_path / "anybody", HAM[:5])
    fill(root / ".Junk", SPAM[:6])
    fill(root / ".Archive", HAM[5:6])
    fill(root / ".Spam", [])
    for name in (".Sent", ".Trash", ".Work"):
        fill(root / name, HAM[6:8])
    answer = typed("learn", root)
    assert (answer.status, answer.err) == (0, "")
    assert answer.text.splitlines() == [
        f"{root}: 5 messages, taken for ham as an inbox",
        f"{root}/.Archive: 1 message, taken for ham by its name",
        f"{root}/.Junk: 6 messages, taken for spam by its name",
        f"left out, {root}/.Sent, {root}/.Trash: its name says that it is not incoming mail",
        f"left out, {root}/.Work: its name says neither spam nor ham",
        f"{root}: 5 learned, 0 moved, 0 known (ham)",
        f"{root}/.Archive: 1 learned, 0 moved, 0 known (ham)",
        f"{root}/.Junk: 6 learned, 0 moved, 0 known (spam)",
    ]
    assert labels(store) == {"spam": 6, "ham": 6}
    quiet = typed("learn", "-q", root)
    assert (quiet.status, quiet.out, quiet.err) == (0, b"", "")


def test_several_folders_may_be_named(typed: Type, tmp_path: Path, store: Path) -> None:
    junk, archive = fill(tmp_path / "Junk", SPAM), fill(tmp_path / "Archive", HAM)
    answer = typed("learn", junk, archive, tmp_path / "Junk")
    assert (answer.status, labels(store)) == (0, {"spam": 12, "ham": 12})
    assert len(answer.text.splitlines()) == 4


def test_an_mbox_and_plain_folders_are_counted(typed: Type, tmp_path: Path, store: Path) -> None:
    mail = tmp_path / "mail"
    (mail / "spam").mkdir(parents=True)
    for number, raw in enumerate(SPAM):
        (mail / "spam" / f"{number}.eml").write_bytes(raw)
    (mail / "inbox").write_bytes(b"".join(b"From me Mon Jan  5 10:00:00 2026\n" + raw + b"\n" for raw in HAM))
    (mail / "lists").mkdir()
    (mail / "lists" / "1.eml").write_bytes(HAM[0])
    answer = typed("learn", mail)
    assert answer.text.splitlines()[:3] == [
        f"{mail}/inbox: 12 messages, taken for ham by its name",
        f"{mail}/spam: 12 messages, taken for spam by its name",
        f"left out, {mail}/lists: its name says neither spam nor ham",
    ]
    assert labels(store) == {"spam": 12, "ham": 12}


@pytest.mark.parametrize(
    ("words", "status", "fault"),
    [
        ([], 2, "no label was given, expected --spam, --ham or --label NAME, or a PATH with folders"),
        (["-"], 2, "standard input has no name from which a label could be guessed"),
        (["spam", "Junk"], 2, "got spam, which is a label, expected a PATH: write --spam"),
        (["Junk", "--ham", "Inbox"], 2, "Junk was given without a label, and other mail with one"),
        (["Jnuk"], 3, "did you mean Junk?"),
        (
            ["Junk"],
            3,
            "Junk has spam (Junk) and no mail in a folder whose name says ham, expected both, so nothing",
        ),
        (["Junk", "Empty/Inbox"], 3, "no mail in a folder whose name says ham"),
        (["Inbox"], 3, "name the spam, with tamis learn --ham Inbox --spam PATH"),
        (["Sent"], 3, "Sent has no mail in a folder whose name says spam or ham"),
        (["Inbox/cur/0:2,S"], 3, "has no mail in a folder whose name says spam or ham"),
        (["Empty"], 3, "Empty is a folder without any file that could be a message"),
        (["Junk", "Old", "--since", "1y"], 3, "no mail since "),
        (["--since", "2x", "Junk"], 2, "got '2x', expected a number of days, weeks, months or years"),
        (["--since", "2999-01-01", "Junk"], 2, "got 2999-01-01, which lies in the future"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_learned(
    typed: Type,
    tmp_path: Path,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    status: int,
    fault: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    fill(tmp_path / "Junk", dated(SPAM, 3))
    fill(tmp_path / "Old" / "Inbox", dated(HAM, 1000))
    for name in ("Inbox", "Sent"):
        fill(tmp_path / name, HAM)
    fill(tmp_path / "Empty" / "Inbox", [])
    answer = typed("learn", *words)
    assert (answer.status, answer.out) == (status, b"")
    assert fault in answer.err
    assert len(answer.err.splitlines()) == 1
    assert not store.exists()


def test_old_and_undated_messages_are_left_out_and_counted(typed: Type, tmp_path: Path, store: Path) -> None:
    root = fill(tmp_path / "Maildir", dated(HAM[:4], 3) + dated(HAM[4:9], 100) + HAM[9:])
    fill(root / ".Junk", dated(SPAM[:2], 29))
    fill(root / ".Spam", dated(SPAM[2:4], 32))
    day = time.strftime("%Y-%m-%d", time.localtime(time.time() - 30 * DAY))
    answer = typed("learn", "--since", "30d", root)
    assert (answer.status, answer.err) == (0, "")
    assert answer.text.splitlines() == [
        f"{root}: 4 of 12 messages since {day}, taken for ham by its name",
        f"{root}/.Junk: 2 of 2 messages since {day}, taken for spam by its name",
        f"{root}/.Spam: 0 of 2 messages since {day}, taken for spam by its name",
        f"{root}: 4 learned, 0 moved, 0 known (ham)",
        f"{root}/.Junk: 2 learned, 0 moved, 0 known (spam)",
        f"{root}/.Spam: 0 learned, 0 moved, 0 known (spam)",
        f"left out: 7 older than {day}, 3 without a readable date",
    ]
    assert labels(store) == {"spam": 2, "ham": 4}


def test_since_works_with_every_label(typed: Type, tmp_path: Path, store: Path) -> None:
    new, old = fill(tmp_path / "a", dated(HAM, 1)), fill(tmp_path / "b", dated(SPAM, 50))
    answer = typed("learn", "--label", "work", new, "--since", "6w", "--spam", old)
    assert answer.status == 0
    assert answer.text.splitlines()[-1].startswith("left out: 12 older than ")
    assert labels(store) == {"work": 12}
    typed("learn", "--spam", old)
    guessed = typed("learn", "--since", "2d", "--unlabelled", old)
    assert guessed.text.splitlines()[0].endswith("0 guessed, 0 unsure, 0 known (unlabelled)")
    one = typed("learn", "--since", "1w", "--ham", stdin=dated(HAM, 9)[0])
    assert one.text.startswith("stdin: 0 learned, 0 moved, 0 known (ham)\nleft out: 1 older than ")
    assert (one.status, one.err) == (0, "")


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("text", "since"),
    [
        ("1d", "2026-03-30 10:11:12"),
        ("2w", "2026-03-17 09:11:12"),  # an hour is lost: two weeks are 336 hours
        ("1m", "2026-02-28 10:11:12"),
        ("13m", "2025-02-28 10:11:12"),
        ("2y", "2024-03-31 10:11:12"),
        ("2024-02-29", "2024-02-29 00:00:00"),
    ],
)
def test_a_period_is_one_of_the_calendar(text: str, since: str) -> None:
    now = time.mktime(time.strptime("2026-03-31 10:11:12", "%Y-%m-%d %H:%M:%S"))
    moment = time.localtime(parse_since(text, now))
    assert time.strftime("%Y-%m-%d %H:%M:%S", moment) == since


@pytest.mark.usefixtures("berlin")
def test_a_period_of_years_before_the_first_mail_is_all_mail() -> None:
    assert parse_since("99999y") == parse_since("9999999999999d") == parse_since("1969-07-20") == 0


@pytest.mark.parametrize(
    "text", ["", "y", "0d", "00y", "2Y", "1.5y", "-1d", "２y", "2024", "2024-1-1", "2023-02-29", "2024-13-01"]
)
def test_another_period_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=f"got {re.escape(repr(text))}, expected a number of days"):
        parse_since(text)


def test_a_message_of_the_very_second_is_new_enough() -> None:
    second = calendar.timegm((2024, 1, 31, 12, 0, 0))
    raw = b"Date: Wed, 31 Jan 2024 12:00:00 +0000\n\n"
    assert list(DateFilter(second).select([raw])) == [raw]
    assert list(DateFilter(second + 1).select([raw])) == []
