"""A path may hold anything but a slash and a zero: no command lets such a name act on the terminal."""

import os
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.surfaces.terminal import HAM, SPAM, Type

NAME = os.fsdecode(b"a\x1b]0;owned\x07\x1b[2J\r\x9bb\xff\n" + "\u202ec\x85\u2028".encode())
pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="names of files are UTF-8 there")


def folder_of(root: Path, kinds: dict[str, list[bytes]]) -> Path:
    for name, messages in kinds.items():
        (root / name).mkdir(parents=True)
        for number, raw in enumerate(messages):
            (root / name / f"{NAME}{number}").write_bytes(raw)
    return root


def commands(tree: Path, missing: Path, other: Path) -> Iterator[list[str | Path]]:
    """Each command, with paths that are there, that are not, and that are none of its own."""
    spam, ham = tree / "Junk", tree / "Inbox"
    store = tree.parent / f"{NAME}.tamis"
    yield ["learn", "--spam", spam, "--ham", tree, "--store", store]
    for given in (tree, spam, missing, other):
        yield ["learn", "--ham", given, "--store", store]
        yield ["learn", given, "--since", "2y", "--store", store]
        yield ["learn", given, "--since", NAME]
        yield ["learn", "--unlabelled", given, "--store", store]
        yield ["relabel", "work", given, "--store", store]
        yield ["relabel", given]
        yield ["sort", given, "--store", store]
        yield ["sort", "--json", given, "--store", store]
        yield ["sort", "--dialect", "bogofilter", given, "--store", store]
        yield ["sort", "--move", given, given / "Maildir", "--store", store]
        yield ["sort", "--move", given / NAME, tree / "Maildir", "--store", store]
        yield ["explain", given, "--store", store]
        yield ["report", "--no-html", given]
        yield ["report", "--html", given / "page.html", "--spam", spam, "--ham", ham]
        yield ["tune", "--spam", spam, "--ham", given, "--store", store]
        yield ["demo", "--mailbox", given]
        yield ["forget", given, "--store", store]
        for words in (["status"], ["sort", ham], ["explain", ham], ["learn", "--ham", ham], ["forget", ham]):
            yield [*words, "--store", given]
        for words in (["check"], ["decay"], ["prune"], ["compact"], ["backup", tree / "backup"]):
            yield ["store", *words, "--store", given]
        for verb in ("backup", "restore", "merge", "export", "import"):
            yield ["store", verb, given, "--store", store]
        yield ["store", "import", "--format", "spamassassin", "--words", given, given, "--store", store]
        yield ["store", "import", "--format", "bogofilter", given, "--store", store]
    yield ["status", "--store", store]
    yield ["status", "--json", "--store", store]
    for verb in ("check", "decay", "compact"):
        yield ["store", verb, "--store", store]
    yield [str(missing)]
    yield ["help", str(missing)]
    yield ["completion", str(missing)]
    yield ["sort", f"--{NAME}"]
    yield ["store", str(missing)]
    yield ["learn", "--label", NAME, ham]


def test_no_command_lets_a_path_act_on_the_terminal(
    typed: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAMIS_STORE", str(tmp_path / f"{NAME}default"))
    tree = folder_of(tmp_path / NAME, {"Junk": SPAM, "Inbox": HAM})
    for name in ("Maildir/cur", "Maildir/new"):
        folder_of(tree, {name: SPAM})
    (tree / "Inbox" / f"{NAME}.gz").write_bytes(b"\x1f\x8b\x08 damaged")
    (tree / "Inbox" / f"{NAME}.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tree / "Inbox" / f"{NAME}link").symlink_to("/etc/hostname")
    other = tmp_path / f"{NAME}other"
    other.write_bytes(b"\x7fELF")
    for words in commands(tree, tmp_path / f"{NAME}missing", other):
        answer = typed(*words)
        said = answer.out.decode("utf-8") + answer.err
        hidden = {c for c in said if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
        assert not hidden, (words[:2], hidden, said)
        assert answer.err.count("\n") <= 8, answer.err
