"""A store that was made by an older tamis, which had older tokens, judges and learns as it did there.

`version-1.store.txt` and `version-2.store.txt` are exports of such stores. With version 1, the log-odds are
those of that tamis, to the bit. With version 2, weights are fitted to the messages anew, by sums whose
rounding depends on the processor: the log-odds are those of the present fit to nine digits, and those of that
tamis, whose fit ended elsewhere near the minimum, to a third of a percent.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tamis_mail import Sieve
from tamis_mail.sample import messages
from tamis_mail.sieve.upgrading import begin_upgrade, is_upgradable
from tamis_mail.store import Store, StoreError, exchange, maintenance
from tamis_mail.tokens import VERSION
from tamis_mail.verdict import RULES, Rule
from tests.surfaces.terminal import Type, type_in

EXPORT = Path(__file__).parent / "version-1.store.txt"
LUNCH = b"From: Ann <ann@home.example>\nSubject: Lunch?\n\nAt noon, as always? See you there."
WATCHES = (
    b"From: Shop <x@watch.example>\nSubject: Cheap watches!!\nContent-Type: text/html\n\n"
    b"<p>Buy now at <a href='http://watch.example/buy'>the shop</a> <i hidden>noon</i>"
)
LEARNED = [
    LUNCH,
    b"From: Bob <bob@work.example>\nSubject: Minutes\n\nThe minutes of the meeting are attached.",
    WATCHES,
    b"From: Pills <y@pills.example>\nSubject: Cheap pills\n\nBuy cheap pills now: http://pills.example/",
]
LOG_ODDS = {
    LUNCH: -4.739698086006074,
    b"From: Shop <x@watch.example>\nSubject: Watches for you\n\nBuy a watch now": 0.7536276767356233,
    b"Subject: Meeting\n\nSee you at the meeting, Bob": -1.8355001119873007,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Store(tmp_path / "old.tamis") as store, EXPORT.open("rb") as file:
        assert exchange.load(store, file) == len(LEARNED)
    return tmp_path / "old.tamis"


@pytest.fixture
def sieve(path: Path) -> Iterator[Sieve]:
    with Sieve.open(path, create=False) as sieve:
        yield sieve


def test_verdicts_are_the_same_to_the_bit(sieve: Sieve) -> None:
    assert [sieve.sort(raw).log_odds for raw in LOG_ODDS] == list(LOG_ODDS.values())
    together = sieve.sort_many(LOG_ODDS, processes=1)
    assert [verdict.log_odds for verdict in together] == pytest.approx(list(LOG_ODDS.values()), rel=1e-12)


def test_forgetting_all_messages_leaves_no_count_and_then_the_store_is_a_new_one(sieve: Sieve) -> None:
    assert [sieve.forget(raw).action for raw in LEARNED] == ["forgotten"] * len(LEARNED)
    assert not any(table.counts.any() for table in sieve.store.count_slices())
    assert maintenance.check(sieve.store) == []
    assert sieve.store.token_version() == VERSION


def test_an_old_store_takes_in_a_new_one_only_if_that_is_empty(sieve: Sieve, tmp_path: Path) -> None:
    with Sieve.open(tmp_path / "new.tamis") as new:
        assert maintenance.merge(sieve.store, new.store).added == 0
        new.learn(next(iter(messages())).raw, "ham")
        with pytest.raises(StoreError, match=rf"counts tokens of version {VERSION}, .*of version 1, which"):
            maintenance.merge(sieve.store, new.store)
    with Sieve.open(tmp_path / "empty.tamis") as empty:
        assert maintenance.merge(empty.store, sieve.store).added == len(LEARNED)
        assert empty.store.token_version() == 1
        assert empty.sort(LUNCH).log_odds == LOG_ODDS[LUNCH]


@pytest.fixture
def typed(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Type:
    monkeypatch.setenv("TAMIS_STORE", str(path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lunch.eml").write_bytes(LUNCH)
    for one in [*messages()][::4]:
        folder = tmp_path / "mail" / one.label
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{len(list(folder.iterdir()))}.eml").write_bytes(one.raw)
    return type_in(monkeypatch)


def test_every_command_uses_the_version_of_the_store(typed: Type, path: Path) -> None:
    assert json.loads(typed("explain", "--json", "lunch.eml").out)["log_odds"] == LOG_ODDS[LUNCH]
    assert b"relations" not in typed("explain", "lunch.eml").out
    assert b"tokens    version 1; a new store has version 3\n" in typed("status").out
    assert json.loads(typed("status", "--json").out)["token_versions"] == [1]
    assert typed("learn", "--spam", "mail/spam", "--ham", "mail/ham").status == 0
    tuned = json.loads(typed("tune", "--json", "--spam", "mail/spam", "--ham", "mail/ham").out)
    assert list(tuned["scales"]) == ["grams", "headers", "words", "pairs"]
    assert len(tuned["after"]["rule"]["views"]) == 4
    assert typed("tune", "--reset").status == 0
    assert json.loads(typed("explain", "--json", "lunch.eml").out)["label"] == "ham"
    assert typed("store", "check").status == 0
    with Store(path) as store:
        assert maintenance.versions(store) == [1]
        assert RULES[store.token_version()] is RULES[1]


def test_a_store_of_a_later_version_is_refused_in_one_line(typed: Type, path: Path) -> None:
    with Store(path) as store:
        store.connection.execute("UPDATE journal SET version = 4")
    for command in (["sort", "lunch.eml"], ["explain", "lunch.eml"], ["learn", "--ham", "mail/ham"]):
        answer = typed(*command)
        assert answer.status == 3
        (line,) = answer.err.splitlines()
        assert "counts tokens of version 4, and this tamis knows 1, 2 and 3" in line
    assert typed("status").status == 0


SECOND_EXPORT = Path(__file__).parent / "version-2.store.txt"
SECOND_LOG_ODDS = dict(
    zip(LOG_ODDS, (-6.215684544943833, -2.1489681480991765, -4.509949014400743), strict=True)
)
SECOND_LOG_ODDS_THEN = (-6.207357405318004, -2.1462127574116807, -4.503700064741259)


def write_letter(number: int) -> tuple[bytes, str]:
    """Return a message that the store of version 2 has learned, and its label."""
    if number % 2:
        site = f"watch{number // 5}.example"
        return (
            f"From: Shop <x{number}@{site}>\nReply-To: y@pills.example\nSubject: Cheap watches {number}\n"
            f"Content-Type: text/html\n\n<p>Buy cheap pills {number} now at "
            f"<a href='http://{site}/buy'>the shop</a> <i hidden>noon</i>"
        ).encode(), "spam"
    return (
        f"From: Ann <ann{number // 4}@home.example>\nSubject: Minutes of day {number}\n\n"
        f"The minutes of the meeting of team {number // 3} are attached. See you at noon."
    ).encode(), "ham"


@pytest.fixture
def second_path(tmp_path: Path) -> Path:
    with Store(tmp_path / "second.tamis") as store, SECOND_EXPORT.open("rb") as file:
        assert exchange.load(store, file) == 12
    return tmp_path / "second.tamis"


def test_a_store_of_version_2_judges_as_before(second_path: Path) -> None:
    with Sieve.open(second_path, create=False) as sieve:
        assert sieve.store.token_version() == 2
        assert sieve.fit_weights()
        found = [sieve.sort(raw).log_odds for raw in SECOND_LOG_ODDS]
        assert found == pytest.approx(list(SECOND_LOG_ODDS.values()), rel=1e-9)
        assert found == pytest.approx(SECOND_LOG_ODDS_THEN, rel=3e-3)
        together = [verdict.log_odds for verdict in sieve.sort_many(SECOND_LOG_ODDS, processes=1)]
        assert together == pytest.approx(found, rel=1e-9)


def test_a_store_of_version_2_learns_and_forgets_by_its_own_tokens(second_path: Path) -> None:
    mail = [one.raw for one in messages()][:160]
    with Sieve.open(second_path, create=False) as sieve:
        assert sieve.learn_many(mail, "ham", processes=2) == {"learned": len(mail)}
        assert maintenance.versions(sieve.store) == [2]
        assert maintenance.check(sieve.store) == []
        assert sieve.forget_many(mail, processes=2) == {"forgotten": len(mail)}
        letters = [write_letter(number) for number in range(12)]
        assert [sieve.forget(raw).action for raw, _ in letters] == ["forgotten"] * 12
        assert not any(table.counts.any() for table in sieve.store.count_slices())
        assert maintenance.check(sieve.store) == []


def test_a_store_of_version_2_is_upgraded_to_the_newest(second_path: Path, tmp_path: Path) -> None:
    with Store(second_path) as store:
        assert is_upgradable(store)
        with begin_upgrade(store) as upgrade:
            assert upgrade.learn(write_letter(number)[0] for number in range(12)) == {"learned": 12}
            assert upgrade.is_complete()
            upgrade.finish(tmp_path / "backup.tamis")
        assert not is_upgradable(store)
        assert maintenance.versions(store) == [VERSION]
        upgraded = Rule.of(store)
    with Sieve.open(tmp_path / "new.tamis") as new:
        for number in range(12):
            new.learn(*write_letter(number))
        assert new.fit_weights()
        assert Rule.of(new.store) == upgraded


def test_status_says_how_to_use_the_newest_tokens(second_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAMIS_STORE", str(second_path))
    answer = type_in(monkeypatch)("status").out
    assert b"tokens    version 2; a new store has version 3\n" in answer
    assert b"tamis store upgrade" in answer
