"""`tamis explain`: sums that add up, words that are not drowned, nothing that a terminal would obey."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tamis_mail.reporting.gram_spans import join_grams
from tamis_mail.store import Store
from tamis_mail.verdict import RULE, Evidence
from tests.surfaces.terminal import NEW_HAM, NEW_SPAM, SPAM, Type, learn_some, spawn


@pytest.fixture(autouse=True)
def store(tmp_path: Path, typed: Type, monkeypatch: pytest.MonkeyPatch) -> Path:
    return learn_some(typed, tmp_path, monkeypatch)


def test_it_says_what_and_why(typed: Type) -> None:
    answer = typed("explain", stdin=NEW_SPAM)
    assert (answer.status, answer.err) == (0, "")
    first, *rest = answer.text.splitlines()
    assert re.match(r".* spam \(probability of spam 0\.\d{4}\)", first)
    assert any(line.startswith("pills ") for line in rest)
    assert answer.text.index("\nfor spam") < answer.text.index("\nagainst spam")
    assert sum(" grams " in line for line in rest) <= 6
    assert "not spam: ham" in typed("explain", stdin=NEW_HAM).text


def test_the_sums_add_up(typed: Type) -> None:
    lines = typed("explain", stdin=NEW_SPAM).text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.split() == ["for", "against", "sum"])
    stop = next(number for number, line in enumerate(lines) if line.startswith("log-odds"))
    parts = [float(line.split()[-1]) for line in lines[start + 1 : stop]]
    assert sum(parts) == pytest.approx(float(lines[stop].split()[-1]), abs=0.03)
    found = json.loads(typed("explain", "--json", "--all", stdin=NEW_SPAM).text)
    assert sum(one["contribution"] for one in found["evidence"]) == pytest.approx(found["log_odds"])
    assert sum(found["views"].values()) == pytest.approx(found["log_odds"])


@pytest.mark.parametrize("columns", ["40", "80"])
def test_the_intercept_has_a_row_of_its_own_before_the_evidence(
    typed: Type, monkeypatch: pytest.MonkeyPatch, columns: str, store: Path
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    with Store(store) as opened, opened.transaction() as writer:
        writer.drop_weights()
        writer.write_setting("rule", replace(RULE, intercept=-1.0).to_json())
    lines = typed("explain", "--all", stdin=NEW_SPAM).text.splitlines()
    (row,) = [line for line in lines if line.startswith("before evidence ")]
    assert row.endswith(f"{-12 / 14:+.2f}")  # times 12 / (12 + patience), since 12 of each kind were learned
    assert lines[lines.index(row) - 1].split()[-1] == "sum"
    assert not any("before any" in line for line in lines)
    found = json.loads(typed("explain", "--json", "--all", stdin=NEW_SPAM).text)
    assert found["views"]["intercept"] == pytest.approx(-12 / 14)
    assert sum(found["views"].values()) == pytest.approx(found["log_odds"])


def test_all_is_more(typed: Type) -> None:
    few, everything = (typed("explain", *words, stdin=SPAM[0]).text for words in ([], ["--all"]))
    assert len(everything.splitlines()) > len(few.splitlines())
    few, everything = (
        json.loads(typed("explain", "--json", *words, stdin=NEW_SPAM).text)["evidence"]
        for words in ([], ["--all"])
    )
    assert len(everything) > len(few)


def test_a_message_that_was_learned_is_said_to_be(typed: Type) -> None:
    assert "It was learned as spam on 2" in typed("explain", stdin=SPAM[0]).text
    assert "It was learned" not in typed("explain", stdin=NEW_SPAM).text


@pytest.mark.parametrize("columns", ["24", "40", "60", "80", "200"])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_it_fits_any_terminal(
    typed: Type, monkeypatch: pytest.MonkeyPatch, columns: str, encoding: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    raw = NEW_SPAM + "限时优惠 дешевые таблетки ünsubscribe".encode() + b"\x1b[31m\x07" + "\u202e".encode()
    answer = typed("explain", "--all", stdin=raw, encoding=encoding)
    assert answer.status == 0
    text = answer.out.decode(encoding)
    assert max(map(len, text.splitlines())) <= max(int(columns), 40)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)


def test_it_speaks_c(tmp_path: Path) -> None:
    answer = spawn(
        "explain", stdin=NEW_SPAM, LC_ALL="C", LANG="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", COLUMNS="80"
    )
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.isascii()
    assert b" ####" in answer.out


def test_each_message_of_a_mailbox_has_its_name(typed: Type, tmp_path: Path) -> None:
    answer = typed("explain", tmp_path / "mail" / "inbox.mbox")
    assert answer.status == 0
    assert [f"inbox.mbox#{n}" in answer.text for n in (1, 12)] == [True, True]
    assert len(typed("explain", "--json", tmp_path / "mail" / "inbox.mbox").text.splitlines()) == 12


def test_without_a_store_there_is_nothing_to_explain(typed: Type, tmp_path: Path) -> None:
    answer = typed("explain", "--store", tmp_path / "none", stdin=NEW_SPAM)
    assert (answer.status, answer.out) == (3, b"")
    assert len(answer.err.splitlines()) == 1


def test_grams_that_overlap_are_one_strand() -> None:
    def gram(token: str, weight: float) -> Evidence:
        return Evidence(token, "grams", weight, 3, 0)

    grams = [
        gram("chea", 0.2),
        gram("heap", 0.3),
        gram("eap ", 0.1),
        gram("pill", 0.4),
        gram("lunc", -0.5),
        gram("\ufffd", 0.1),
    ]
    found = join_grams("cheap pills for lunch", grams)
    assert [(one.token, round(one.contribution, 9)) for one in found] == [
        ("cheap ", 0.6),
        ("lunc", -0.5),
        ("pill", 0.4),
        ("\ufffd", 0.1),
    ]
    assert sum(one.contribution for one in found) == pytest.approx(sum(one.contribution for one in grams))
