"""`tamis store`: saved, restored, written out, read in, joined, lighter, smaller, sound."""

import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from tamis_mail.store import Store, saving
from tamis_mail.surfaces.cli.store import ACTIONS
from tamis_mail.tokens import VERSION
from tamis_mail.verdict.rule import Rule
from tests.surfaces.terminal import HAM, NEW_HAM, NEW_SPAM, SPAM, Type, learn_some


@pytest.fixture(autouse=True)
def store(tmp_path: Path, typed: Type, monkeypatch: pytest.MonkeyPatch) -> Path:
    return learn_some(typed, tmp_path, monkeypatch)


def test_a_backup_brings_back_what_was(typed: Type, tmp_path: Path) -> None:
    before = typed("store", "export").out
    saved = typed("store", "backup", tmp_path / "saved.tamis")
    assert (saved.status, saved.err) == (0, "")
    typed("forget", tmp_path / "mail")
    assert typed("store", "export").out != before
    restored = typed("store", "restore", tmp_path / "saved.tamis")
    assert (restored.status, restored.err) == (0, "")
    assert typed("store", "export").out == before


@pytest.mark.parametrize("name", ["all.txt", "all.txt.gz"])
def test_an_export_is_read_into_an_empty_store(typed: Type, tmp_path: Path, name: str) -> None:
    plain = typed("store", "export").out
    answer = typed("store", "export", tmp_path / name)
    assert (answer.status, answer.err) == (0, "")
    written = (tmp_path / name).read_bytes()
    assert (gzip.decompress(written) if name.endswith(".gz") else written) == plain
    other = tmp_path / "other.tamis"
    assert "24 messages" in typed("store", "import", tmp_path / name, "--store", other).text
    assert typed("store", "export", "--store", other).out == plain
    again = typed("store", "import", tmp_path / name, "--store", other)
    assert again.status == 3
    assert len(again.err.splitlines()) == 1
    third = tmp_path / "third.tamis"
    assert typed("store", "import", "--store", third, stdin=plain).status == 0
    assert {path.name for path in tmp_path.iterdir() if ".part" in path.name} == set()


def test_words_of_other_filters_are_lent(typed: Type, tmp_path: Path) -> None:
    dump = b".MSG_COUNT 100 200 20260101\ncheap 50 1 20260101\nlunch 0 90 20260101\n"
    other = tmp_path / "other.tamis"
    answer = typed("store", "import", "--format", "bogofilter", "--store", other, stdin=dump)
    assert (answer.status, answer.err) == (0, "")
    assert "100 spam and 200 ham" in answer.text
    assert "expect verdicts about as good as bogofilter's" in answer.text
    status = typed("status", "--store", other).text
    assert "imported  word list of another filter: 100 spam and 200 ham messages\n" in status
    assert "advice" not in status
    assert typed("sort", "--store", other, stdin=b"Subject: x\n\ncheap").text.startswith("unsure")
    assert "imported" in typed("explain", "--store", other, stdin=b"Subject: x\n\ncheap").text
    missing = typed("store", "import", "--format", "spamassassin", stdin=b"")
    assert missing.status == 2
    assert "--words" in missing.err
    assert typed("store", "import", "--words", tmp_path, stdin=b"").status == 2
    backup = b"v\t3\tdb_version\nv\t100\tnum_spam\nv\t200\tnum_nonspam\nt\t5\t0\t1700000000\t0123456789\n"
    lent = typed(
        "store",
        "import",
        "--format",
        "spamassassin",
        "--words",
        tmp_path / "mail",
        "--store",
        tmp_path / "sa",
        stdin=backup,
    )
    assert (lent.status, lent.err) == (0, "")
    assert "expect fewer spam messages to be found than by SpamAssassin" in lent.text


def test_two_stores_are_merged(typed: Type, tmp_path: Path, store: Path) -> None:
    other = tmp_path / "other.tamis"
    typed("learn", "--spam", "--store", other, stdin=NEW_SPAM)
    answer = typed("store", "merge", other)
    assert (answer.status, answer.err) == (0, "")
    assert answer.text.startswith(f"1 messages of {other} added to {store}")
    assert "spam      13 messages" in typed("status").text
    assert typed("store", "merge", store).status == 3
    assert typed("store", "merge", tmp_path / "none.tamis").status == 3


def test_upkeep_leaves_a_sound_store(typed: Type) -> None:
    for words in (["decay"], ["prune"], ["prune", "--halvings", "0"], ["compact"], ["check"]):
        answer = typed("store", *words)
        assert (answer.status, answer.err) == (0, ""), words
        assert answer.text
    assert "decayed once" in typed("status").text
    assert typed("store", "prune", "--halvings", "-1").status == 2
    assert typed("store", "prune", "--halvings", "x").status == 2
    assert typed("forget", stdin=SPAM[0]).text == "stdin: 1 forgotten, 0 unknown\n"
    assert typed("store", "check", "--quiet").out == b""


def test_damage_is_found_and_is_status_3(typed: Type, store: Path) -> None:
    typed("learn", "--ham", stdin=NEW_HAM)
    data = bytearray(store.read_bytes())
    data[len(data) // 2 :] = b"\xff" * (len(data) - len(data) // 2)
    store.write_bytes(data)
    answer = typed("store", "check", "--quiet")
    assert answer.status == 3
    assert "damaged" in answer.text + answer.err


@pytest.mark.parametrize("action", ACTIONS)
def test_a_store_that_is_not_there_is_one_line(typed: Type, tmp_path: Path, action: str) -> None:
    missing = str(tmp_path / "none" / "none.tamis")
    file = [str(tmp_path / "file")] if action in ("backup", "copy", "restore", "merge", "import") else []
    words = [missing, *file] if action == "copy" else [*file, "--store", missing]
    answer = typed("store", action, *words)
    assert answer.status == 3
    assert answer.err.startswith("tamis store: ")
    assert len(answer.err.splitlines()) == 1


def test_an_action_is_needed(typed: Type) -> None:
    answer = typed("store")
    assert answer.status == 2
    assert len(answer.err.splitlines()) == 1


def dated(year: int, number: int) -> bytes:
    return b"Date: 3 May %d 10:00:00 +0000\nSubject: note %d\n\nof %d" % (year, number, year)


@pytest.mark.parametrize(
    ("wanted", "spam", "advice"),
    [
        (2004, 2026, "so mail that is merely new may look like spam: learn recent wanted mail"),
        (2026, 2004, "so mail that is merely old may look like spam, and new spam like wanted mail"),
        (2026, 2026, ""),
    ],
)
def test_status_warns_if_spam_and_wanted_mail_are_of_different_times(
    typed: Type, tmp_path: Path, wanted: int, spam: int, advice: str
) -> None:
    for kind, year in (("ham", wanted), ("spam", spam)):
        (tmp_path / kind).mkdir()
        for number in range(12):
            (tmp_path / kind / f"{number}.eml").write_bytes(dated(year, number) + kind.encode())
    place = ["--store", tmp_path / "dated"]
    typed("learn", "--ham", tmp_path / "ham", "--spam", tmp_path / "spam", *place)
    lines = [line for line in typed("status", *place).text.splitlines() if "mail is of" in line]
    if advice:
        assert len(lines) == 1
        assert f"the wanted mail is of {wanted}-05 and the spam of {spam}-05, {advice}" in lines[0]
    else:
        assert lines == []
    assert '"periods": {"spam": [' in typed("status", "--json", *place).text


@pytest.fixture
def older(store: Path) -> Path:
    """The store, as a tamis of older tokens wrote it."""
    with Store(store) as opened, opened.transaction():
        opened.connection.execute("UPDATE journal SET version = ?", (VERSION - 1,))
        opened.connection.execute("DELETE FROM message")
        opened.connection.execute("DELETE FROM bundle")
    return store


def test_an_older_store_is_upgraded_from_its_mailboxes(typed: Type, older: Path) -> None:
    status = typed("status").text
    assert f"tokens    version {VERSION - 1}; a new store has version {VERSION}" in status
    assert "learn the mail again: tamis store upgrade" in status
    answer = typed("store", "upgrade")
    assert (answer.status, answer.err) == (0, "")
    assert f"has learned 24 messages again; the old store is {older}.before-upgrade" in answer.text
    assert "tamis store upgrade" not in typed("status").text
    assert typed("store", "check").status == 0
    assert typed("store", "upgrade").text == f"{older} counts the present tokens: there is nothing to do\n"
    assert typed("store", "check", "--store", f"{older}.before-upgrade").status == 0


def test_an_upgrade_says_which_mail_is_missing_and_what_to_do(
    typed: Type, older: Path, tmp_path: Path
) -> None:
    before = typed("store", "export").out
    (tmp_path / "mail").rename(tmp_path / "moved")
    answer = typed("store", "upgrade")
    assert answer.status == 3
    assert len(answer.err.splitlines()) == 1
    assert "24 of 24 messages were not found" in answer.err
    assert "give the paths where they are now, or --partial" in answer.err
    assert typed("store", "export").out == before
    assert not Path(f"{older}.before-upgrade").exists()
    assert typed("store", "upgrade", tmp_path / "nowhere").status == 3
    answer = typed("store", "upgrade", "--partial", tmp_path / "moved" / "junk")
    assert answer.status == 0
    assert "has learned 12 messages again" in answer.text
    assert "12 messages were not found, and are dropped" in answer.text
    assert typed("store", "check").status == 0


def test_an_upgrade_that_finds_no_message_keeps_the_store_even_if_partial(
    typed: Type, older: Path, tmp_path: Path
) -> None:
    before = typed("store", "export").out
    (tmp_path / "mail").rename(tmp_path / "moved")
    answer = typed("store", "upgrade", "--partial")
    assert (answer.status, len(answer.err.splitlines())) == (3, 1)
    assert "24 of 24 messages were not found" in answer.err
    assert "--partial" not in answer.err
    assert typed("store", "export").out == before


def test_an_upgrade_says_which_mailbox_cannot_be_read(typed: Type, older: Path, tmp_path: Path) -> None:
    (tmp_path / "mail" / "junk").rename(tmp_path / "moved")
    os.mkfifo(tmp_path / "mail" / "junk")
    answer = typed("store", "upgrade")
    assert (answer.status, len(answer.err.splitlines())) == (3, 2)
    reason, missing = answer.err.splitlines()
    assert reason.startswith(f"tamis store upgrade: {tmp_path / 'mail' / 'junk'} ")
    assert "12 of 24 messages were not found" in missing
    answer = typed("store", "upgrade", "--partial")
    assert answer.status == 3
    assert "12 messages were not found, and are dropped" in answer.text


def test_an_upgrade_asks_for_room_for_the_old_store_before_it_reads_mail(typed: Type, older: Path) -> None:
    Path(f"{older}.before-upgrade").write_text("a note")
    answer = typed("store", "upgrade")
    assert (answer.status, answer.text, len(answer.err.splitlines())) == (3, "", 1)
    assert f"{older}.before-upgrade, which is not a backup of a store: move that away" in answer.err
    assert Path(f"{older}.before-upgrade").read_text() == "a note"


@pytest.mark.parametrize("is_replaced", [False, True])
def test_an_upgrade_interrupted_at_its_end_says_which_store_is_there(
    typed: Type, older: Path, monkeypatch: pytest.MonkeyPatch, is_replaced: bool
) -> None:
    replace_contents = saving.replace_contents

    def interrupt(*arguments: Any) -> None:
        if is_replaced:
            replace_contents(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(saving, "replace_contents", interrupt)
    answer = typed("store", "upgrade")
    assert answer.status == 130
    state = "upgraded" if is_replaced else "unchanged; run again to go on"
    assert f"interrupted; the store is {state}" in answer.err
    assert ("tamis store upgrade" in typed("status").text) == (not is_replaced)


def test_an_upgrade_says_that_a_tuned_rule_and_prunings_are_gone(typed: Type, older: Path) -> None:
    with Store(older) as opened, opened.transaction() as writer:
        writer.write_setting("era", 1)
        writer.write_setting("rule", Rule.read_prior(opened).to_json())
    answer = typed("store", "upgrade")
    assert answer.status == 0
    assert "run tamis tune again" in answer.text
    assert "prune again to save space" in answer.text


def test_stores_of_different_tokens_are_not_merged(typed: Type, older: Path, tmp_path: Path) -> None:
    newer = tmp_path / "newer.tamis"
    typed("learn", "--ham", "--store", newer, stdin=HAM[0])
    for own, other in ((older, newer), (newer, older)):
        answer = typed("store", "merge", "--store", own, other)
        assert (answer.status, len(answer.err.splitlines())) == (3, 1)
        versions = {older: VERSION - 1, newer: VERSION}
        told = (
            f"{other} counts tokens of version {versions[other]}, and {own} of version {versions[own]}, which"
        )
        assert told in answer.err
        assert f"learn the mail of {older} again (tamis store upgrade)" in answer.err


def test_an_upgrade_drops_imported_counts_only_if_told_to(typed: Type, older: Path) -> None:
    with Store(older) as opened, opened.transaction() as writer:
        writer.add_imported("ham", 9)
    answer = typed("store", "upgrade")
    assert (answer.status, len(answer.err.splitlines())) == (3, 1)
    assert "give --partial to drop them, then import them again" in answer.err
    answer = typed("store", "upgrade", "--partial")
    assert answer.status == 0
    assert "import them again" in answer.text


def test_a_merge_says_how_many_messages_were_in_both_stores(typed: Type, tmp_path: Path) -> None:
    other = tmp_path / "other.tamis"
    typed("store", "backup", other)
    typed("relabel", "work", stdin=SPAM[0])
    with Store(other) as opened:
        opened.connection.execute("UPDATE journal SET time = 0")
    answer = typed("store", "merge", other)
    assert (answer.status, answer.err) == (0, "")
    assert answer.text.splitlines()[1:] == [
        "24 messages were in both stores, and count once",
        "1 of them had different labels: the label that was learned later is kept",
    ]
    assert "work      1 message" in typed("status").text
    assert typed("store", "check").status == 0
