"""`tamis log`, `tamis undo` and `tamis digest`, as people use them, with mistakes and with hostile mail."""

import email
import email.policy
import json
import sqlite3
import time
from contextlib import closing
from email.message import EmailMessage
from pathlib import Path

import pytest

from tamis_mail.surfaces.cli.layout import width_of
from tests.surfaces.terminal import HAM, NEW_HAM, NEW_SPAM, SPAM, Answer, Type, learn_some, spawn

EVIL = (
    b"From: =?utf-8?q?Evil=1B]0;owned=07_=E2=80=AEtxt?= <evil@shop.example>\nTo: me@home.example\n"
    b"Subject: =?utf-8?q?Cheap=0D=0ABcc:_victim@home.example=0A=0Apills=1B[2J_=E2=80=AE?=\n"
    b" =?utf-8?b?" + b"4oCo" * 3 + b"?= cheap pills " + b"offer " * 60 + b"\n\nBuy cheap pills now!\n"
)


@pytest.fixture
def store(typed: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store that has learned some mail: events 1 to 12 are spam, 13 to 24 ham."""
    return learn_some(typed, tmp_path, monkeypatch)


def log_of(store: Path) -> Path:
    return store.with_name(f"{store.name}.log")


def events(typed: Type, *words: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in typed("log", "--json", "--limit", "0", *words).text.splitlines()]


def refused(answer: Answer, status: int = 3) -> str:
    """The one line of an error."""
    assert (answer.status, answer.out) == (status, b"")
    assert answer.err.count("\n") == 1
    return answer.err


# What is logged.


def test_a_verdict_is_logged_with_sender_and_subject(typed: Type, store: Path) -> None:
    before = int(time.time())
    assert typed("sort", stdin=NEW_SPAM).status == 0
    event = events(typed)[0]
    assert before <= event.pop("time") <= time.time()  # type: ignore[operator]
    assert 0.9 < event.pop("probability") <= 1  # type: ignore[operator]
    assert len(str(event.pop("digest"))) == 32
    assert event == {
        "event": 25,
        "action": "verdict",
        "label": "spam",
        "before": None,
        "from": "x@shop.example",
        "subject": "Cheap pills",
        "source": "stdin",
        "undoes": None,
        "undone_by": None,
    }


def test_a_mailbox_is_logged_with_the_places_of_its_messages(typed: Type, store: Path) -> None:
    mail = store.parent / "mail"
    typed("sort", mail / "junk")
    typed("sort", mail / "inbox.mbox")
    found = events(typed, "--ham", "--spam", "--unsure")
    assert len(found) == 24
    assert found[-1]["source"] == str(mail / "junk" / "00.eml")
    assert found[0]["source"] == f"{mail / 'inbox.mbox'}#12"
    assert {event["label"] for event in found} == {"spam", "ham"}


def test_learning_moving_and_forgetting_are_logged(typed: Type, store: Path) -> None:
    typed("relabel", "ham", stdin=SPAM[0])
    typed("learn", "--spam", stdin=NEW_SPAM)
    typed("learn", "--spam", stdin=NEW_SPAM)  # known: nothing has changed
    typed("forget", stdin=HAM[0])
    found = [(each["action"], each["label"], each["before"]) for each in events(typed, "--learned")[:3]]
    assert found == [("forgotten", None, "ham"), ("learned", "spam", None), ("moved", "ham", "spam")]
    assert len(events(typed)) == 27


@pytest.mark.parametrize("words", [["sort"], ["learn", "--spam"], ["relabel", "ham"], ["forget"]])
def test_no_log_logs_nothing(typed: Type, store: Path, words: list[str]) -> None:
    assert typed(*words, "--no-log", stdin=SPAM[3]).status == 0
    assert len(events(typed)) == 24


def test_the_log_can_be_switched_off_and_on_and_deleted(typed: Type, store: Path) -> None:
    answer = typed("log", "--off")
    assert answer.text == "nothing is logged from now on; tamis log --clear deletes what was logged\n"
    typed("sort", stdin=NEW_SPAM)
    typed("relabel", "ham", stdin=SPAM[0])
    assert len(events(typed)) == 24
    assert typed("log", "--clear").text == f"the log {log_of(store)} is deleted\n"
    assert not log_of(store).exists()
    assert typed("log", "--clear").text == "there was no log\n"
    assert typed("log").text == "the log of this store is switched off: tamis log --on\n"
    assert "switched off" in typed("digest").text
    assert typed("log", "--on").text == "verdicts and what is learned are logged from now on\n"
    assert typed("log").text.startswith("nothing has been logged yet")
    typed("sort", stdin=NEW_SPAM)
    assert len(events(typed)) == 1
    assert typed("store", "check").status == 0


@pytest.mark.parametrize("words", [["--on", "--off"], ["--clear", "--spam"], ["--off", "--limit", "0"]])
def test_a_switch_is_given_alone(typed: Type, store: Path, words: list[str]) -> None:
    assert "is given alone" in refused(typed("log", *words), 2)
    assert log_of(store).exists()


# A log that cannot be written.


def break_log(path: Path, kind: str) -> None:
    if kind == "foreign":
        path.write_bytes(b"my own notes\n")
    elif kind == "folder":
        path.unlink()
        path.mkdir()
    else:
        data = path.read_bytes()
        path.write_bytes(data[:100] + b"\xff" * (len(data) - 100))


@pytest.mark.parametrize("kind", ["foreign", "folder", "damaged"])
def test_a_log_that_cannot_be_written_is_one_line_and_the_verdict_is_delivered(
    typed: Type, store: Path, kind: str
) -> None:
    expected = typed("sort", "-p", stdin=NEW_SPAM)
    break_log(log_of(store), kind)
    answer = typed("sort", "-p", stdin=NEW_SPAM)
    assert (answer.status, answer.out) == (expected.status, expected.out)
    assert answer.err.startswith("tamis sort: not logged: ")
    assert answer.err.count("\n") == 1
    if kind == "damaged":
        assert typed("sort", stdin=NEW_SPAM).err == ""  # a new log has begun
        assert len(events(typed)) == 2
    else:
        assert typed("sort", "-q", stdin=NEW_SPAM).err == ""
        answer = typed("learn", "--spam", store.parent / "mail" / "inbox.mbox")
        assert (answer.status, answer.err.count("not logged")) == (0, 1)
        assert "12 moved" in answer.text
        for command in (["log"], ["undo", "1"], ["digest"]):
            assert str(log_of(store)) in refused(typed(*command))


def test_a_log_that_is_locked_delays_a_verdict_by_a_second_at_most(typed: Type, store: Path) -> None:
    with closing(sqlite3.connect(log_of(store), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        answer = typed("sort", stdin=NEW_SPAM)
    assert answer.status == 0
    assert "another process that is writing" in answer.err


def test_without_a_store_there_is_no_log(
    typed: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAMIS_STORE", str(tmp_path / "none" / "mail.tamis"))
    assert typed("sort", stdin=NEW_SPAM).status == 2
    for command in (["log"], ["log", "--off"], ["undo", "1"], ["digest"]):
        assert "there is no store at" in refused(typed(*command))
    assert not (tmp_path / "none").exists()


def test_a_message_that_is_moved_is_logged_with_its_new_place(
    typed: Type, store: Path, tmp_path: Path
) -> None:
    for name in ("new", "cur", "tmp"):
        (tmp_path / "Maildir" / name).mkdir(parents=True)
    (tmp_path / "Maildir" / "new" / "1.host").write_bytes(NEW_SPAM)
    (tmp_path / "Maildir" / "new" / "2.host").write_bytes(NEW_HAM)
    assert typed("sort", "--move", ".Junk", "--dry-run", tmp_path / "Maildir").status == 0
    assert len(events(typed)) == 24
    assert typed("sort", "--move", ".Junk", tmp_path / "Maildir").status == 0
    places = {str(event["label"]): Path(str(event["source"])) for event in events(typed)[:2]}
    assert places["spam"].is_file()
    assert places["spam"].parents[1] == tmp_path / "Maildir" / ".Junk"
    assert places["ham"] == tmp_path / "Maildir" / "new" / "2.host"
    assert f"tamis relabel ham {places['spam']}" in typed("digest").text


def test_mail_whose_labels_are_guessed_from_folders_is_logged(
    typed: Type, store: Path, tmp_path: Path
) -> None:
    for folder, raw in (("Junk", NEW_SPAM), ("Inbox", NEW_HAM)):
        (tmp_path / "box" / folder).mkdir(parents=True)
        (tmp_path / "box" / folder / "1.eml").write_bytes(raw)
    assert typed("learn", tmp_path / "box").status == 0
    assert {event["label"] for event in events(typed)[:2]} == {"spam", "ham"}
    assert len(events(typed)) == 26


# The list.


def test_many_messages_of_one_mailbox_are_one_line(typed: Type, store: Path) -> None:
    typed("sort", stdin=NEW_HAM)
    lines = typed("log").text.splitlines()
    assert len(lines) == 3
    assert lines[0].split()[0] == "25"
    assert lines[0].endswith("friend3@home.example     Lunch")
    assert lines[1].split()[0] == "13-24"
    assert "learned ham     12 messages of /" in lines[1]
    assert lines[2].split()[0] == "1-12"
    assert len(typed("log", "--each", "--limit", "0").text.splitlines()) == 25
    assert len(typed("log", "--limit", "1").text.splitlines()) == 1


@pytest.mark.parametrize("columns", [24, 40, 71, 72, 80, 200])
def test_the_list_fits_the_window(
    typed: Type, store: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    typed("sort", stdin=EVIL)
    typed("relabel", "ham", stdin=EVIL)
    typed("undo", "26", "--from", "-", stdin=EVIL)
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = typed("log", "--each", "--limit", "0").text.splitlines()
    assert len(lines) >= 27
    assert max(map(width_of, lines)) <= columns


def test_the_list_is_readable_in_ascii(typed: Type, store: Path) -> None:
    typed("relabel", "ham", stdin=SPAM[0])
    text = typed("log", encoding="ascii").text
    assert "spam -> ham" in text
    assert text.isascii()


def test_times_and_kinds_are_selected(typed: Type, store: Path) -> None:
    typed("sort", stdin=NEW_SPAM)
    typed("sort", stdin=NEW_HAM)
    assert [event["label"] for event in events(typed, "--spam")] == ["spam"]
    assert [event["label"] for event in events(typed, "--ham")] == ["ham"]
    assert events(typed, "--unsure") == []
    assert len(events(typed, "--learned")) == 24
    assert len(events(typed, "--since", "1h")) == 26
    with closing(sqlite3.connect(log_of(store))) as connection, connection:
        connection.execute("UPDATE event SET time = time - 7200 WHERE number <= 25")
    assert [event["event"] for event in events(typed, "--since", "1h")] == [26]
    assert typed("log", "--unsure").text == "there is no such event in the log\n"


@pytest.mark.parametrize("since", ["soon", "", "3", "0h", "h", "2026-13-01", "-1d", "²h", "\x1b[2J"])
@pytest.mark.parametrize("command", ["log", "digest"])
def test_a_time_that_cannot_be_read_is_a_usage_error(
    typed: Type, store: Path, command: str, since: str
) -> None:
    line = refused(typed(command, f"--since={since}"), 2)
    assert "expected 12h, 3d, 2w, 6m, 1y, today, yesterday, or a date such as 2026-11-01" in line
    assert "\x1b" not in line


def test_a_limit_below_zero_is_a_usage_error(typed: Type, store: Path) -> None:
    assert "expected a whole number from 0" in refused(typed("log", "--limit=-1"), 2)


# Undo.


def test_undo_finds_the_message_in_its_mailbox(typed: Type, store: Path) -> None:
    answer = typed("undo", "3")
    assert (answer.status, answer.err) == (0, "")
    assert answer.text == "event 3 is undone: the message, which was spam, is forgotten (event 25)\n"
    assert "11 messages" in typed("status").text
    assert typed("undo", "25").text == "event 25 is undone: the message is learned as spam again (event 26)\n"
    assert events(typed, "--learned")[1]["undone_by"] == 26
    assert "(undone by 26)" in typed("log").text
    line = refused(typed("undo", "25"))
    assert (
        line == "tamis undo: event 25 was undone already, by event 26: to have it back, run tamis undo 26\n"
    )


def test_a_whole_command_is_undone_by_its_range(typed: Type, store: Path) -> None:
    typed("relabel", "ham", store.parent / "mail" / "junk")
    answer = typed("undo", "25-36")
    assert answer.text == "12 events are undone: 12 moved back (events 37-48)\n"
    assert typed("learn", "--spam", store.parent / "mail" / "junk").text.endswith("12 known (spam)\n")
    assert typed("undo", "37-48", "-q").out == b""
    assert "there is nothing to undo" in refused(typed("undo", "37-48"))


def test_undo_works_in_batches(typed: Type, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tamis_mail.surfaces.cli.undo._BATCH", 5)
    assert typed("undo", "1-24").text == "24 events are undone: 24 forgotten (events 25-48)\n"
    (store.parent / "mail" / "junk" / "07.eml").unlink()
    before = typed("store", "export").out
    assert "is no longer in" in refused(typed("undo", "25-48"))
    assert typed("store", "export").out == before  # nothing was undone, although most messages are there


def test_a_message_that_has_gone_is_forgotten_by_its_stored_features(typed: Type, store: Path) -> None:
    before = typed("store", "export").out
    typed("learn", "--spam", stdin=NEW_SPAM)
    assert typed("undo", "25").text.endswith("which was spam, is forgotten (event 26)\n")
    assert typed("store", "export").out == before
    (store.parent / "mail" / "junk").rename(store.parent / "elsewhere")
    typed("relabel", "ham", stdin=SPAM[2])
    assert typed("undo", "27").text.endswith("the message is spam again, and no longer ham (event 28)\n")
    assert typed("store", "export").out == before


def test_a_forgotten_message_that_has_gone_can_be_named(typed: Type, store: Path, tmp_path: Path) -> None:
    junk = store.parent / "mail" / "junk"
    typed("forget", junk / "02.eml", junk / "03.eml")
    junk.rename(tmp_path / "moved")
    line = refused(typed("undo", "25"))
    assert line == (
        f"tamis undo: to undo event 25, its message is needed, which is no longer in {junk / '02.eml'}: name "
        "the mail that has it, as in tamis undo 25 --from PATH\n"
    )
    assert "is not in the mail that was named" in refused(typed("undo", "25", "--from", "-", stdin=NEW_HAM))
    assert "does not exist" in refused(typed("undo", "25", "--from", tmp_path / "mooved"))
    assert typed("undo", "25", "--from", tmp_path / "moved").status == 0
    assert typed("undo", "26", "--from", "-", stdin=SPAM[3]).status == 0


def test_a_message_without_stored_features_is_searched(typed: Type, store: Path) -> None:
    with closing(sqlite3.connect(store)) as connection, connection:  # as an old version of tamis has left it
        connection.execute("DELETE FROM message")
        connection.execute("DELETE FROM bundle")
    assert typed("undo", "3").status == 0
    (store.parent / "mail" / "junk").rename(store.parent / "elsewhere")
    assert "is no longer in" in refused(typed("undo", "4"))
    assert typed("undo", "4", "--from", store.parent / "elsewhere").status == 0
    assert typed("store", "check").status == 0


def test_a_message_that_was_read_meanwhile_is_found(typed: Type, store: Path, tmp_path: Path) -> None:
    for name in ("new", "cur", "tmp"):
        (tmp_path / "Maildir" / name).mkdir(parents=True)
    message = tmp_path / "Maildir" / "new" / "1.host"
    message.write_bytes(NEW_SPAM)
    typed("learn", "--spam", tmp_path / "Maildir")
    typed("forget", tmp_path / "Maildir")
    message.rename(tmp_path / "Maildir" / "cur" / "1.host:2,S")
    assert typed("undo", "26").status == 0


def test_what_came_from_standard_input_must_be_given_again(typed: Type, store: Path) -> None:
    typed("learn", "--spam", stdin=NEW_SPAM)
    typed("forget", stdin=NEW_SPAM)
    assert "came from standard input, and is not kept" in refused(typed("undo", "26"))
    assert typed("undo", "26", "--from", "-", stdin=NEW_SPAM).status == 0


def test_a_forgotten_message_is_learned_again_from_its_file(typed: Type, store: Path) -> None:
    before = typed("store", "export").out
    path = store.parent / "mail" / "junk" / "05.eml"
    typed("forget", path)
    assert typed("undo", "25").text == "event 25 is undone: the message is learned as spam again (event 26)\n"
    assert typed("store", "export").out == before
    assert "forgotten later" in refused(typed("undo", "6"))


def test_forgetting_leaves_no_sender_no_subject_and_no_path_of_the_message(typed: Type, store: Path) -> None:
    path = store.parent / "mail" / "junk" / "05.eml"
    typed("sort", path)
    assert b"Cheap pills 5" in log_of(store).read_bytes()
    typed("forget", path)
    assert b"Cheap pills 5" not in log_of(store).read_bytes()
    assert b"offers5@" not in log_of(store).read_bytes()
    assert "(forgotten later)" in typed("log").text
    typed("forget", "--no-log", store.parent / "mail" / "junk" / "06.eml")
    assert len(events(typed)) == 26
    assert b"06.eml" not in log_of(store).read_bytes()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["x"], "expected the number of an event"),
        (["1.5"], "expected the number of an event"),
        (["-3"], ""),
        (["9-3"], "expected the smaller number first: 3-9"),
        ([], "required: N"),
        (["9" * 30], "expected the number of an event"),
    ],
)
def test_what_is_no_number_is_a_usage_error(typed: Type, store: Path, words: list[str], reason: str) -> None:
    assert reason in refused(typed("undo", *words), 2)


@pytest.mark.parametrize(
    ("number", "reason"),
    [("99", "there is no event 99"), ("0", "there is no event 0"), ("25", "event 25 is a verdict")],
)
def test_what_cannot_be_undone_is_one_line(typed: Type, store: Path, number: str, reason: str) -> None:
    typed("sort", stdin=NEW_SPAM)
    assert reason in refused(typed("undo", number))


# The digest.


def test_the_digest_lists_the_most_doubtful_first(typed: Type, store: Path) -> None:
    for raw in (NEW_SPAM, NEW_HAM, b"Subject: Hm\n\npills lunch\n"):
        typed("sort", stdin=raw)
    with closing(sqlite3.connect(log_of(store))) as connection, connection:
        for number, (label, probability) in enumerate(
            [("spam", 0.999), ("ham", 0.01), ("unsure", 0.3), ("spam", 0.96), ("unsure", 0.55)]
        ):
            connection.execute(
                "INSERT INTO event SELECT ?, time, action, ?, ?, '', ?, sender, ?, source, 0, 0, 0, '', 0, 0 "
                "FROM event WHERE number = 25",
                (100 + number, bytes([number]) * 16, label, probability, f"the number {number}"),
            )
        connection.execute("DELETE FROM event WHERE number BETWEEN 25 AND 99")
    text = typed("digest").text
    places = [text.index(f"the number {number}") for number in (4, 2, 3, 0)]
    assert places == sorted(places)
    assert "the number 1" not in text
    assert text.startswith("5 messages were judged since ")
    assert "2 called spam, 2 unsure." in text
    assert "Unsure (2), most doubtful first\n" in text
    assert "tamis relabel ham < message" in text


def test_the_digest_names_the_command_that_corrects_a_message(
    typed: Type, store: Path, tmp_path: Path
) -> None:
    path = tmp_path / "it's new" / "cur" / "1.eml"
    path.parent.mkdir(parents=True)
    path.write_bytes(NEW_SPAM)
    typed("sort", path)
    text = typed("digest").text
    commands = [line.strip() for line in text.splitlines() if line.strip().startswith("tamis relabel ham '")]
    assert commands == [f"""tamis relabel ham '{str(path).replace("'", "'" + '"' + "'" + '"' + "'")}'"""]
    path.rename(path.with_name("1.eml:2,S"))  # a mail program has shown it
    (line,) = [line for line in typed("digest").text.splitlines() if "1.eml" in line]
    assert "1.eml:2,S" in line
    typed("sort", store.parent / "mail" / "inbox.mbox")
    assert "inbox.mbox" not in typed("digest").text  # all ham


def test_a_message_that_was_learned_since_is_counted_only(typed: Type, store: Path) -> None:
    typed("sort", stdin=NEW_SPAM)
    typed("relabel", "ham", stdin=NEW_SPAM)
    text = typed("digest").text
    assert text.startswith("There is nothing to check: 1 message was judged since ")
    assert text.endswith("\n1 more was called spam or unsure, and learned later.\n")
    typed("sort", stdin=NEW_SPAM)  # it is judged again
    assert "more was called" not in typed("digest").text


def test_a_message_that_was_judged_twice_is_listed_once(typed: Type, store: Path) -> None:
    for _ in range(3):
        typed("sort", stdin=NEW_SPAM)
    text = typed("digest").text
    assert text.startswith("1 message was judged")
    assert text.count("x@shop.example") == 1


def test_a_digest_of_nothing_says_so(typed: Type, store: Path) -> None:
    assert typed("digest").text.startswith("There is nothing to check: 0 messages were judged since ")
    message = email.message_from_bytes(typed("digest", "--mail", "me@home.example").out)
    assert str(message["Subject"]).startswith("tamis: 0 spam, 0 unsure since ")


def test_the_digest_begins_yesterday(typed: Type, store: Path) -> None:
    typed("sort", stdin=NEW_SPAM)
    with closing(sqlite3.connect(log_of(store))) as connection, connection:
        connection.execute("UPDATE event SET time = time - 3 * 86400")
    assert "There is nothing to check" in typed("digest").text
    assert "1 called spam" in typed("digest", "--since", "4d").text


def test_the_digest_is_a_mail(typed: Type, store: Path) -> None:
    typed("sort", stdin=EVIL)
    typed("sort", stdin="Subject: 限时优惠 ü cheap pills\n\nBuy cheap pills now!\n".encode())
    answer = typed("digest", "--mail", "me@home.example")
    assert answer.status == 0
    assert answer.out.isascii()
    assert max(map(len, answer.out.split(b"\n"))) <= 78
    message = email.message_from_bytes(answer.out, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    assert message.defects == []
    assert sorted(name.lower() for name in message) == sorted(
        ["from", "to", "subject", "date", "message-id", "auto-submitted", "mime-version", "content-type",
         "content-transfer-encoding"]
    )  # fmt: skip
    assert message["From"] == message["To"] == "me@home.example"
    assert message["Message-ID"].endswith("@home.example>")
    assert abs(message["Date"].datetime.timestamp() - time.time()) < 60
    text = message.get_content()
    assert "限时优惠 ü cheap pills" in text
    assert "Cheap Bcc: victim@home.example pills" in text
    assert "\nBcc" not in text
    assert all(c == "\n" or c.isprintable() for c in text)


@pytest.mark.parametrize(
    "address",
    ["", "me@home.example\nBcc: you@home.example", "a b", "a@b, c@d", "Me <me@home.example>", "a@", "@b",
     "ü@b", "a@b\r", "-", "me@home.example\x1b[2J"],
)  # fmt: skip
def test_an_address_that_is_no_plain_address_is_a_usage_error(typed: Type, store: Path, address: str) -> None:
    line = refused(typed("digest", f"--mail={address}"), 2)
    assert "expected one plain address, such as me@home.example" in line
    assert line[:-1].isprintable()


@pytest.mark.parametrize("words", [["log"], ["log", "--each"], ["log", "--json"], ["digest"]])
def test_hostile_mail_reaches_no_terminal(typed: Type, store: Path, words: list[str]) -> None:
    typed("sort", stdin=EVIL)
    typed("learn", "--spam", stdin=EVIL)
    if words == ["digest"]:
        typed("sort", stdin=EVIL)
    text = typed(*words).text
    assert "Bcc" in text
    assert all(c == "\n" or c.isprintable() for c in text)


def test_the_log_is_read_by_a_process_of_its_own(store: Path) -> None:
    assert spawn("sort", stdin=NEW_SPAM).status == 0
    answer = spawn("log", "--spam")
    assert (answer.status, answer.err) == (0, "")
    assert "Cheap pills" in answer.text
