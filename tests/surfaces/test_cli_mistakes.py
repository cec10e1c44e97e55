"""What people get wrong, or do not expect: each is told in a line, and nothing is learned in silence."""

import base64
import gzip
import json
import os
import random
import re
import sys
from pathlib import Path

import pytest

from tamis_mail import framing
from tests.surfaces.terminal import HAM, NEW_HAM, SPAM, Type, learn_some, write_mail


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "store.tamis"
    monkeypatch.setenv("TAMIS_STORE", str(path))
    return path


def write_tree(root: Path, **folders: list[bytes]) -> Path:
    for name, messages in folders.items():
        folder = root / name.replace("_", "/").replace("DOT", ".")
        folder.mkdir(parents=True, exist_ok=True)
        for number, raw in enumerate(messages):
            (folder / f"{number}.eml").write_bytes(raw)
    return root


@pytest.mark.parametrize("name", ["mail.mbox.gz", "folder"])
def test_of_a_packed_file_that_is_cut_off_nothing_is_learned(
    typed: Type, tmp_path: Path, name: str, store: Path
) -> None:
    _, ham = write_mail(tmp_path / "mail")
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
        (path / "whole.eml").write_bytes(NEW_HAM)
    target = path / "cut.mbox.gz" if name == "folder" else path
    target.write_bytes(gzip.compress(ham.read_bytes())[:-20])
    answer = typed("learn", "--ham", path)
    assert answer.status == 3
    assert "is cut off" in answer.err
    assert answer.err.count("\n") == 1
    assert store.exists() == (name == "folder")
    if name == "folder":
        assert answer.text.startswith(f"{path}: 1 learned")


def test_a_tree_of_ham_is_learned_without_its_junk_which_is_named(typed: Type, tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "tree", Inbox=HAM[:3], Junk=SPAM[:2], Trash=SPAM[2:4], Work=HAM[3:5])
    answer = typed("learn", "--ham", tree)
    assert (answer.status, answer.text) == (0, f"{tree}: 5 learned, 0 moved, 0 known (ham)\n")
    assert "left out, tree/Junk: its name says spam; name it to include it\n" in answer.err
    assert "tree/Trash: its name says neither spam nor ham" in answer.err
    assert typed("learn", "--ham", tree / "Junk").text.endswith(
        "junk: 2 learned, 0 moved, 0 known (ham)\n".replace("junk", "Junk")
    )
    assert typed("learn", "-q", "--ham", tree).err == ""
    assert typed("learn", "--spam", tree).err.count("tree/Inbox: its name says ham") == 1


def test_a_maildir_is_learned_and_forgotten_with_its_subfolders(typed: Type, tmp_path: Path) -> None:
    box = write_tree(
        tmp_path / "Maildir", cur=HAM[:6], new=[], DOTArchive_cur=HAM[6:9], DOTArchive_new=[],
        DOTJunk_cur=SPAM[:6], DOTJunk_new=[],
    )  # fmt: skip
    answer = typed("learn", "--ham", box, "--spam", box / ".Junk")
    assert answer.text.splitlines() == [
        f"{box}: 9 learned, 0 moved, 0 known (ham)",
        f"{box / '.Junk'}: 6 learned, 0 moved, 0 known (spam)",
    ]
    assert f"{box} was read with its subfolders Maildir/.Archive\n" in answer.err
    alone = typed("learn", "--ham", box)
    assert alone.text == f"{box}: 0 learned, 0 moved, 9 known (ham)\n"
    assert "left out, Maildir/.Junk: its name says spam" in alone.err
    report = json.loads(typed("report", "--json", box).text)
    assert (report["mail"]["ham"], report["mail"]["spam"]) == (9, 6)
    by_option = json.loads(typed("report", "--json", "--ham", box, "--spam", box / ".Junk").text)
    assert by_option["mail"]["ham"] == 9
    assert typed("forget", box).text == f"{box}: 15 forgotten, 0 unknown\n"


@pytest.mark.parametrize(
    ("raw", "described"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(50), "a picture (PNG)"),
        (b"\x7fELF" + bytes(50), "a program"),
        (random.Random(3).randbytes(2000), "binary data"),
        (b"PK\x03\x04" + bytes(50), "an archive (zip)"),
    ],
)
def test_what_is_no_mail_is_refused_in_one_line(
    typed: Type, tmp_path: Path, raw: bytes, described: str, store: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(raw)
    for words in (["learn", "--spam"], ["sort"], ["relabel", "ham"], ["report", "--ham", path, "--spam"]):
        answer = typed(*words, path)
        assert answer.status == 3
        assert f"{path} is {described}, not mail: " in answer.err
        assert answer.err.count("\n") == 1
    assert not store.exists()


def test_options_may_stand_anywhere(typed: Type, tmp_path: Path, store: Path) -> None:
    _, ham = write_mail(tmp_path / "mail")
    other = tmp_path / "other.tamis"
    assert (
        typed("learn", "--ham", "--store", other, ham).text == f"{ham}: 12 learned, 0 moved, 0 known (ham)\n"
    )
    assert typed("relabel", "work", "-q", ham).status == 0
    assert typed("relabel", "ham", "--store", other, ham, "-q").text == ""
    assert typed("relabel", ham, "--quiet").status == 2
    assert typed("forget", ham, f"--store={other}", "-q").status == 0
    assert (
        typed(
            "learn", "--label", "work", "-q", ham, "--spam", "--store", other, tmp_path / "mail" / "junk"
        ).status
        == 0
    )
    assert typed("sort", ham, "--json", "--store", store).status == 0
    assert typed("status", "--store").status == 2


@pytest.mark.parametrize("extra", [[], ["more"]])
def test_a_path_is_no_label(typed: Type, tmp_path: Path, extra: list[str], store: Path) -> None:
    _, ham = write_mail(tmp_path / "mail")
    answer = typed("relabel", ham, *[tmp_path / "mail" for _ in extra], stdin=NEW_HAM)
    assert answer.status == 2
    assert f"tamis relabel ham {ham}" in answer.err
    assert not store.exists()


def test_a_folder_named_as_a_label_is_no_mistake(
    typed: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write_tree(tmp_path, work=HAM[:2], spam=SPAM[:2]))
    assert typed("relabel", "work", "work").text == "work: 2 learned, 0 moved, 0 known (work)\n"
    assert typed("relabel", "spam", stdin=SPAM[0]).status == 0
    assert typed("relabel", "work", stdin=HAM[0]).status == 2


def test_words_of_an_import_leave_the_file_to_be_imported(typed: Type, tmp_path: Path) -> None:
    _, ham = write_mail(tmp_path / "mail")
    answer = typed("store", "import", "--format", "spamassassin", "--words", ham, tmp_path / "missing")
    assert answer.status == 3
    assert f"{tmp_path / 'missing'}" in answer.err
    assert "expected a message" not in answer.err  # it is not taken for mail whose words are tried


def test_the_demo_advises_what_it_has(typed: Type, tmp_path: Path) -> None:
    answer = typed("demo", "--mailbox", write_tree(tmp_path / "mail", Inbox=HAM))
    assert answer.status == 3
    options = set(re.findall(r"--\w+", answer.err.partition("tamis report")[0]))
    assert options <= {"--mailbox", "--statistics", "--help"}


@pytest.mark.skipif(sys.platform == "darwin", reason="names of files are UTF-8 there")
def test_names_that_are_no_text_can_be_mapped_back_from_json(typed: Type, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"fol\xffder")
    names = [b"a", b"b\xff", b"c\\xff", b"d\n\x1b[2J", "é\u202e".encode()]
    folder.mkdir()
    for name in names:
        (folder / os.fsdecode(name)).write_bytes(HAM[0])
    for command in ("sort", "explain"):
        if command == "explain":
            assert typed("learn", "--ham", folder).status == 0
        answer = typed(command, "--json", folder)
        answer.text.encode("utf-8")  # no lone surrogate
        found = [json.loads(line) for line in answer.text.splitlines()]
        assert [base64.b64decode(one["path_bytes"]) for one in found] == sorted(
            os.fsencode(folder) + b"/" + name for name in names
        )
    plain = tmp_path / "plain"
    plain.write_bytes(HAM[0])
    assert "path_bytes" not in json.loads(typed("sort", "--json", plain).text)


def test_a_message_above_the_limit_is_told(
    typed: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn_some(typed, tmp_path, monkeypatch)
    monkeypatch.setattr(framing, "LARGEST", 1000)  # the limit is 50 MB, which would take long
    folder = tmp_path / "large"
    folder.mkdir()
    (folder / "1.eml").write_bytes(b"Subject: x\n\n" + b"word " * 300)
    (folder / "2.eml").write_bytes(b"Subject: y\r\n" + b"a\r\n" * 330)  # small, if lines end in LF
    for words in (["learn", "--ham"], ["sort"], ["sort", "--json"]):
        answer = typed(*words, folder)
        assert answer.status == 0
        assert (
            answer.err == f"tamis {words[0]}: large/1.eml is larger than 50 MB: only its first 50 MB count\n"
        )
    one, other = [json.loads(line) for line in typed("sort", "--json", "-q", folder).text.splitlines()]
    assert one["cut"] is True
    assert "cut" not in other
    raw = (folder / "1.eml").read_bytes()
    assert "larger than 50 MB" in typed("sort", "-p", stdin=raw).err
    assert typed("sort", "-p", stdin=raw).out.endswith(raw)
    assert "larger than 50 MB" in typed("learn", "--ham", stdin=raw).err
    assert json.loads(typed("explain", "--json", stdin=raw).text)["cut"] is True


def test_forgetting_leaves_fewer_features(typed: Type, tmp_path: Path) -> None:
    spam, ham = write_mail(tmp_path / "mail")

    def features() -> int:
        return int(json.loads(typed("status", "--json").text)["features"])

    assert typed("learn", "--spam", spam).status == 0
    only_spam = features()
    assert typed("learn", "--ham", ham).status == 0
    both = features()
    assert both > only_spam
    assert typed("forget", spam / "00.eml").status == 0
    assert features() < both
    assert typed("forget", ham).status == 0
    assert features() < only_spam


def test_unlabelled_mail_is_guessed_once_however_often_it_is_named(
    typed: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn_some(typed, tmp_path, monkeypatch)
    more = [raw.replace(b"on day", b"on another day") for raw in HAM] * 3
    new = [raw.replace(b"ends today", b"ends tomorrow") for raw in SPAM] + more
    folder = write_tree(tmp_path / "all", mail=[raw + str(n).encode() for n, raw in enumerate(new)])
    first = typed("learn", "--unlabelled", folder).text
    assert int(re.findall(r"(\d+) guessed", first)[0]) > 0
    assert ": 0 guessed" in typed("learn", "--unlabelled", folder).text


@pytest.mark.parametrize("command", [["learn", "--spam"], ["relabel", "spam"], ["explain"], ["sort", "-"]])
def test_standard_input_that_is_no_mail_is_refused_as_a_file_is(
    typed: Type, tmp_path: Path, command: list[str]
) -> None:
    picture = b"\x89PNG\r\n\x1a\n" + bytes(100)
    store = tmp_path / "new.tamis"
    named = typed(*command, "--store", store, stdin=picture)
    assert named.status == 3
    assert "standard input is a picture (PNG), not mail" in named.err
    assert not store.exists()


@pytest.mark.skipif(sys.platform == "darwin", reason="names of files are UTF-8 there")
def test_misses_of_a_report_can_be_mapped_back_to_their_files(typed: Type, tmp_path: Path) -> None:
    spam, ham = tmp_path / "spam", tmp_path / os.fsdecode(b"ham\xff")
    for folder, mail in ((spam, SPAM), (ham, HAM)):
        folder.mkdir()
        for number, raw in enumerate(mail):
            (folder / str(number)).write_bytes(raw)
    (ham / "missed").write_bytes(SPAM[0].replace(b"offer 0", b"offer 99"))
    answer = typed("report", "--json", "--spam", spam, "--ham", ham)
    missed = [miss for miss in json.loads(answer.text)["misses"] if miss["name"].endswith("missed")]
    assert [base64.b64decode(miss["path_bytes"]) for miss in missed] == [os.fsencode(ham / "missed")]
