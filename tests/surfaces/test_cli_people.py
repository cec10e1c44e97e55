"""`tamis allow`, `tamis block`, `tamis learn --sent`: who decides, who is known, what people get wrong."""

import json
import os
import tempfile
from pathlib import Path

import pytest

from tamis_mail import Sieve
from tests.mail.strangers import as_nobody
from tests.surfaces.terminal import HAM, NEW_HAM, NEW_SPAM, Answer, Type, learn_some


@pytest.fixture(autouse=True)
def store(tmp_path: Path, typed: Type, monkeypatch: pytest.MonkeyPatch) -> Path:
    return learn_some(typed, tmp_path, monkeypatch)


def refused(answer: Answer, status: int = 3) -> bool:
    return answer.status == status and len(answer.err.splitlines()) == 1 and "unexpected" not in answer.err


def write_sent(folder: Path, number: int = 3) -> Path:
    """A folder of sent mail to friend3 and to x@shop.example."""
    folder.mkdir()
    for n in range(number):
        fields = "From: Me <me@home.example>\nTo: Friend <friend3@home.example>\nCc: me@home.example\n"
        (folder / f"{n}.eml").write_text(f"{fields}\nnumber {n}\n")
    (folder / "shop.eml").write_text("From: me@home.example\nTo: x@shop.example\n\nStop!\n")
    return folder


def test_an_allowed_sender_is_ham_and_a_blocked_one_is_spam_whatever_the_evidence(typed: Type) -> None:
    assert typed("sort", stdin=NEW_SPAM).text.startswith("spam 0.9")
    assert typed("allow", "x@shop.example").text == "x@shop.example: allowed\n"
    answer = typed("sort", stdin=NEW_SPAM)
    assert (answer.status, answer.err) == (1, "")
    assert answer.text.startswith("ham 0.9")
    assert answer.text.endswith("\t(allowed: x@shop.example)\n")
    assert typed("block", "Home.Example").text == "home.example: blocked\n"
    answer = typed("sort", stdin=NEW_HAM)
    assert answer.status == 0
    assert answer.text.startswith("spam 0.0")
    assert answer.text.endswith("\t(blocked: home.example)\n")
    moved = typed("block", "x@shop.example", "home.example")
    assert moved.text == "x@shop.example: blocked (it was allowed before)\nhome.example: blocked already\n"
    assert typed("sort", stdin=NEW_SPAM).text.endswith("\t(blocked: x@shop.example)\n")
    assert typed("block", "--remove", "x@shop.example", "y@shop.example").text == (
        "x@shop.example: no longer blocked\ny@shop.example: was not blocked\n"
    )
    assert typed("sort", stdin=NEW_SPAM).text.count("\t") == 0
    wrong = typed("allow", "--remove", "home.example").text
    assert wrong == "home.example: blocked, not allowed (see tamis block --remove)\n"


def test_one_message_and_many_agree(typed: Type, tmp_path: Path, store: Path) -> None:
    typed("allow", "shop.example")
    typed("block", "friend3@home.example")
    typed("learn", "--sent", write_sent(tmp_path / "Sent"))
    typed("allow", "--remove", "shop.example")
    mail = [NEW_SPAM, NEW_HAM, *HAM, NEW_SPAM.replace(b"x@shop", b"offers1@shop")] * 20
    with Sieve.open(store) as sieve:
        alone = [sieve.sort(raw) for raw in mail]
        for processes in (1, 2):
            for one, other in zip(alone, sieve.sort_many(mail, processes=processes), strict=True):
                assert (one.label, one.listed, one.remark) == (other.label, other.listed, other.remark)
                assert one.log_odds == pytest.approx(other.log_odds, abs=1e-9)
                assert one.evidence == other.evidence
                assert sum(e.contribution for e in one.evidence) == pytest.approx(one.log_odds, abs=1e-9)
    assert any(one.listed for one in alone)
    assert any(e.view == "people" for one in alone for e in one.evidence)


def test_mailboxes_json_and_explain_name_the_entry(typed: Type, tmp_path: Path) -> None:
    typed("allow", "shop.example")
    path = tmp_path / "one two.eml"
    path.write_bytes(NEW_SPAM)
    line = typed("sort", path).text
    assert line.startswith("ham    0.9")
    assert line.rstrip("\n").split("\t") == [line.partition("\t")[0], "(allowed: shop.example)"]
    assert line.partition("\t")[0].endswith("one two.eml")
    fields = json.loads(typed("sort", "--json", path).text)
    assert (fields["label"], fields["listed"]) == ("ham", "allowed: shop.example")
    assert fields["probability"] > 0.9
    text = typed("explain", path).text
    assert text.startswith("not spam: ham, whatever the evidence (allowed: shop.example;")
    explained = json.loads(typed("explain", "--json", path).text)
    assert (explained["label"], explained["listed"]) == ("ham", "allowed: shop.example")
    assert "listed" not in json.loads(typed("sort", "--json", stdin=NEW_HAM).text)


def test_the_header_agrees_with_the_lists(typed: Type) -> None:
    typed("allow", "shop.example")
    passed = typed("sort", "-p", "-e", stdin=NEW_SPAM).text
    assert "X-Spam-Flag" not in passed
    assert passed.startswith("X-Spam-Level:\nX-Spam-Evidence: 'allowed: shop.example';")
    assert "X-Spam-Status: No, score=0.00 required=3.48 tests=tamis,allowed version=" in passed
    assert typed("sort", "--undo", stdin=passed.encode()).out == NEW_SPAM
    typed("block", "home.example")
    passed = typed("sort", "-p", "-e", stdin=NEW_HAM).text
    assert passed.startswith("X-Spam-Flag: YES\nX-Spam-Level: ***\nX-Spam-Evidence: 'blocked: home.example';")
    assert "X-Spam-Status: Yes, score=3.48 required=3.48 tests=tamis,blocked version=" in passed
    assert typed("sort", "--undo", stdin=passed.encode()).out == NEW_HAM
    assert typed("sort", "-p", "-e", "--dialect", "bogofilter", stdin=NEW_HAM).text.startswith(
        "X-Bogosity: Spam,"
    )


@pytest.mark.parametrize(
    "header",
    [
        b"Authentication-Results: mx.home.example; dmarc=fail\nFrom: x@shop.example\n",
        b'From: "x@shop.example" <y@evil.example>\n',
        b"From: x@shop.example\nFrom: y@evil.example\n",
        b"From: x@shop.example, y@evil.example\n",
        b"From: =?utf-8?q?x=40shop=2Eexample?= <y@evil.example>\n",
        b"From: <x@shop.example> <y@evil.example>\n",
        b"From: <x@shop.example> eve\n",
        b"From: x@shop.example (y@evil.example\n",
    ],
)
def test_a_forged_sender_is_judged_by_the_evidence(typed: Type, header: bytes) -> None:
    typed("allow", "x@shop.example")
    raw = NEW_SPAM.replace(b"From: x@shop.example\n", header)
    assert typed("sort", stdin=raw).text.startswith("spam 0.9")
    text = typed("explain", stdin=raw).text
    assert ("x@shop.example is allowed, but" in text) == (b"evil.example>" not in header or b"> <" in header)
    typed("block", "y@evil.example", "x@shop.example")
    assert "(blocked: " in typed("sort", stdin=raw).text


def test_the_whole_reason_fits_every_terminal(typed: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    long = "a" * 60 + "@shop.example"
    typed("allow", long)
    monkeypatch.setenv("COLUMNS", "40")
    raw = b"From: " + long.encode() + b"\n\nx"
    assert long.removesuffix("@shop.example")[:30] in typed("explain", stdin=raw).text
    typed("allow", "m\u00fcller@shop.example")
    raw = "From: m\u00fcller@shop.example\n\nx".encode()
    assert "m\\xfcller@shop.example" in typed("explain", stdin=raw, encoding="ascii").text


def test_lists_are_listed_in_a_form_that_is_read_again(typed: Type, tmp_path: Path) -> None:
    assert typed("allow").out == typed("block", "--list").out == b""
    assert "nobody is allowed yet" in typed("allow").err
    assert typed("allow", "-q").err == ""
    names = ["example.org", "ann@example.org", ".top", "xn--mnchen-3ya.example  # m\u00fcnchen.example"]
    typed("allow", "ann@example.org", "m\u00fcnchen.example", ".top", "Example.org")
    text = typed("allow").text
    assert sorted(text.splitlines()) == sorted(names)
    assert typed("allow", "--list").text == text
    (tmp_path / "list.txt").write_text(f"\ufeff# friends\r\n\r\n{text}", encoding="utf-8")
    answer = typed("allow", "--from", tmp_path / "list.txt", "--store", tmp_path / "new.tamis")
    assert (answer.status, answer.err) == (0, "")
    assert typed("allow", "--store", tmp_path / "new.tamis").text == text
    many = "".join(f"a{n}@x.example\n" for n in range(40)).encode()
    assert typed("block", "--from", "-", stdin=many).text == "40 blocked\n"
    assert typed("block", "--from", "-", "b@x.example", stdin=many).text == "1 blocked; 40 blocked already\n"
    assert typed("block", "--from", "-", "--remove", "-q", stdin=many).text == ""
    assert typed("block").text == "b@x.example\n"


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["allow", "list"], 3, "'list' is no address and no domain, expected ann@example.org or example.org"),
        (["allow", "Mail/Inbox"], 3, "'Mail/Inbox' is a path, expected an address or a domain"),
        (["block", "a@x.example", "*.x.example"], 3, "leave *. out; nothing was changed"),
        (["block", "a@x.example, b@x.example"], 3, "is not one address"),
        (["allow", "\x1b[31m"], 3, "'\\x1b[31m' is no address"),
        (["allow", "--remove"], 2, "--remove needs a NAME"),
        (["allow", "--list", "a@x.example"], 2, "--list shows the whole list"),
        (["block", "--from", "nowhere.txt"], 3, "nowhere.txt: No such file"),
        (["block", "--from", "."], 3, "expected a file"),
        (["block", "--from", "-"], 3, "standard input has no names"),
        (["allow", "--frobnicate"], 2, "unrecognized arguments"),
        (["learn", "--sent", "nowhere"], 3, "nowhere does not exist"),
        (["learn", "--sent"], 2, "expected at least one argument"),
        (["learn"], 2, "or --sent PATH"),
        (["learn", "--spam", "-", "--sent", "-"], 2, "standard input is used twice"),
    ],
)
def test_a_mistake_is_said_in_one_line_and_changes_nothing(
    typed: Type, words: list[str], status: int, said: str
) -> None:
    before = typed("store", "export").out
    answer = typed(*words)
    assert refused(answer, status)
    assert said in answer.err
    assert answer.err.rstrip("\n").isprintable()
    assert typed("store", "export").out == before


def test_a_comment_in_a_file_begins_a_line_or_follows_a_blank(typed: Type) -> None:
    lines = b"# friends\n\t# more\na#b@x.example\nc@x.example # Cy\r\n#d@x.example\ny.example\t#e#f\n"
    answer = typed("allow", "--from", "-", stdin=lines)
    assert (answer.status, answer.err) == (0, "")
    assert sorted(typed("allow").text.splitlines()) == ["a#b@x.example", "c@x.example", "y.example"]
    assert "line 1: 'x.example#note'" in typed("block", "--from", "-", stdin=b"x.example#note\n").err


def test_a_file_with_a_mistake_names_the_line_and_changes_nothing(typed: Type, tmp_path: Path) -> None:
    path = tmp_path / "names.txt"
    for data, said in (
        (b"a@x.example\nnonsense\n", "names.txt, line 2: 'nonsense'"),
        (b"a@x.example\n\xff\xfe\n", "is not text in UTF-8"),
        (b"# nothing\n", "has no names"),
    ):
        path.write_bytes(data)
        answer = typed("block", "--from", path, "b@x.example")
        assert refused(answer)
        assert said in answer.err
    os.mkfifo(tmp_path / "fifo")
    assert refused(typed("block", "--from", tmp_path / "fifo"))
    assert typed("block").out == b""


def test_no_store_is_made_by_looking(typed: Type, tmp_path: Path) -> None:
    path = tmp_path / "none.tamis"
    assert typed("allow", "--store", path).status == 0
    assert refused(typed("allow", "--remove", "a@x.example", "--store", path))
    assert not path.exists()
    assert typed("allow", "a@x.example", "--store", path).status == 0
    assert typed("sort", "--store", path, stdin=b"From: a@x.example\n\n").status == 1
    assert "1 allowed, 0 blocked" in typed("status", "--store", path).text


def test_a_store_without_permission_is_not_changed_and_said_so(typed: Type) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "mail.tamis"
        Path(name).chmod(0o755)
        typed("allow", "a@x.example", "--store", path)
        path.chmod(0o444)
        Path(name).chmod(0o555)
        answers = as_nobody(
            lambda: [typed("block", "b@x.example", "--store", path), typed("allow", "--store", path)]
        )
        Path(name).chmod(0o755)
        assert isinstance(answers, list), answers
        assert refused(answers[0])
        assert "cannot be written" in answers[0].err
        assert answers[1].text == "a@x.example\n"


def test_people_to_whom_one_writes_are_known(
    typed: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")  # wide enough for the whole address
    sent = write_sent(tmp_path / "Sent")
    exported = typed("store", "export").out
    before = json.loads(typed("sort", "--json", stdin=NEW_HAM).text)
    spam_before = json.loads(typed("sort", "--json", stdin=NEW_SPAM).text)
    answer = typed("learn", "--sent", sent)
    assert (answer.status, answer.err) == (0, "")
    assert answer.text == f"{sent}: 4 learned, 0 known, 0 ignored (sent)\nyou write to 2 people\n"
    again = typed("learn", "--sent", sent).text
    assert again == f"{sent}: 0 learned, 4 known, 0 ignored (sent)\nyou write to 2 people\n"
    status = json.loads(typed("status", "--json").text)
    assert (status["sent"], status["correspondents"], status["messages"]) == (4, 2, 24)
    assert "people    2 to whom you write, from 4 sent messages\n" in typed("status").text
    after = json.loads(typed("explain", "--json", "--all", stdin=NEW_HAM).text)
    assert after["log_odds"] == pytest.approx(before["log_odds"] - 3 * 3 / 4)
    assert after["views"]["people"] == -2.25
    assert sum(after["views"].values()) == pytest.approx(after["log_odds"])
    text = typed("explain", stdin=NEW_HAM).text
    assert "people you know     +0.00    -2.25    -2.25\n" in text
    assert "(you wrote to friend3@home.example)" in text
    own = NEW_HAM.replace(b"friend3@home.example", b"me@home.example")
    assert "people" not in json.loads(typed("explain", "--json", stdin=own).text)["views"]
    spam = json.loads(typed("sort", "--json", stdin=NEW_SPAM).text)
    assert spam["log_odds"] == pytest.approx(spam_before["log_odds"] - 1.5)
    assert spam["label"] != "ham"  # one message to a sender does not let spam through
    assert typed("forget", sent).text == f"{sent}: 4 forgotten, 0 unknown\n"
    assert typed("store", "export").out == exported


def test_a_sent_message_may_be_learned_as_ham_too_and_is_forgotten_with_both(
    typed: Type, tmp_path: Path
) -> None:
    exported = typed("store", "export").out
    sent = write_sent(tmp_path / "Sent")
    answer = typed("learn", "--ham", sent, "--sent", sent)
    assert answer.text.splitlines()[:2] == [
        f"{sent}: 4 learned, 0 moved, 0 known (ham)",
        f"{sent}: 4 learned, 0 known, 0 ignored (sent)",
    ]
    assert typed("forget", sent).text == f"{sent}: 4 forgotten, 0 unknown\n"
    assert typed("store", "export").out == exported


def test_received_mail_is_not_learned_as_sent(typed: Type, tmp_path: Path) -> None:
    inbox = tmp_path / "Inbox"
    inbox.mkdir()
    for n in range(30):
        (inbox / f"{n}.eml").write_text(f"From: a@host{n}.example\nTo: me@home.example\n\n{n}\n")
    before = typed("store", "export").out
    answer = typed("learn", "--sent", inbox)
    assert refused(answer)
    assert "has mail from 30 domains, expected mail that you sent" in answer.err
    assert typed("store", "export").out == before
    aliases = tmp_path / "Aliases"
    aliases.mkdir()
    for n in range(30):  # one address per shop, at a domain of one's own
        (aliases / f"{n}.eml").write_text(f"From: shop{n}@home.example\nTo: a@host{n}.example\n\n{n}\n")
    assert "30 learned" in typed("learn", "--sent", aliases).text


def test_since_leaves_old_sent_mail_out(typed: Type, tmp_path: Path) -> None:
    folder = tmp_path / "Sent"
    folder.mkdir()
    for name, date in (("old", "Mon, 5 Jan 2009"), ("new", "Mon, 5 Jan 2026")):
        raw = f"From: me@home.example\nTo: {name}@x.example\nDate: {date} 10:00:00 +0000\n\nhello\n"
        (folder / f"{name}.eml").write_text(raw)
    answer = typed("learn", "--since", "2020-01-01", "--sent", folder)
    assert answer.text.splitlines() == [
        f"{folder}: 1 learned, 0 known, 0 ignored (sent)",
        "left out: 1 older than 2020-01-01, 0 without a readable date",
        "you write to 1 person",
    ]


def test_a_remark_warns_of_allowing_ones_own_address(typed: Type, tmp_path: Path) -> None:
    typed("learn", "--sent", write_sent(tmp_path / "Sent"))
    answer = typed("allow", "me@home.example", "friend3@home.example")
    assert (answer.status, answer.text.count("\n"), answer.err.count("\n")) == (0, 2, 1)
    assert "you write from me@home.example, and spam often forges" in answer.err
    assert typed("allow", "--remove", "me@home.example").err == ""
    assert typed("block", "me@home.example").err == ""


def test_mail_without_recipients_and_automatic_replies_are_ignored(typed: Type, tmp_path: Path) -> None:
    folder = tmp_path / "Sent"
    folder.mkdir()
    (folder / "1.eml").write_text("From: me@home.example\nSubject: a draft\n\nx\n")
    (folder / "2.eml").write_text(
        "From: me@home.example\nTo: x@y.example\nAuto-Submitted: auto-replied\n\nx\n"
    )
    assert typed("learn", "--sent", folder).text == (
        f"{folder}: 0 learned, 0 known, 2 ignored (sent)\nyou write to 0 people\n"
    )
    one = typed("learn", "--sent", "-", stdin=b"From: me@home.example\nTo: x@y.example\n\nhello")
    assert one.text == "stdin: 1 learned, 0 known, 0 ignored (sent)\nyou write to 1 person\n"
    assert (
        typed("learn", "-q", "--sent", "-", stdin=b"From: me@home.example\nTo: x@y.example\n\nhello").text
        == ""
    )


def test_a_merge_says_where_lists_contradict_each_other(typed: Type, tmp_path: Path) -> None:
    other = tmp_path / "other.tamis"
    typed("allow", "ann@example.org", "example.net")
    typed("block", "ann@example.org", "example.com", "--store", other)
    answer = typed("store", "merge", other)
    assert answer.text.splitlines()[1:] == [f"ann@example.org stays allowed, and is blocked in {other}"]
    assert typed("allow").text == "example.net\nann@example.org\n"
    assert typed("block").text == "example.com\n"
    for n in range(12):
        typed("allow", "-q", f"a{n}@x.example")
        typed("block", "-q", f"a{n}@x.example", "--store", other)
    assert typed("store", "merge", other).text.splitlines()[-1] == "and 3 other senders likewise"
