"""An imported word list in a store: its effect on verdicts, and the effect of other operations on it."""

import io
import shutil
import subprocess
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from tamis_mail.features.word_list import word_key
from tamis_mail.sample import Sample, messages
from tamis_mail.sieve import Sieve
from tamis_mail.store import Store, StoreError, exchange, maintenance, saving
from tamis_mail.store.import_foreign import load_bogofilter

WORDS = b".MSG_COUNT 100 200 0\ncheap 50 1 0\nsubj:watches 40 0 0\nlunch 0 90 0\nfrom:office.example 0 70 0\n"
SPAM = b"From: a@shop.example\nSubject: watches\n\ncheap watches"
HAM = b"From: b@office.example\nSubject: noon\n\nlunch today"


@pytest.fixture
def sieve(tmp_path: Path) -> Iterator[Sieve]:
    with Sieve.open(tmp_path / "store") as sieve:
        load_bogofilter(sieve.store, io.BytesIO(WORDS))
        yield sieve


def test_a_store_that_has_learned_nothing_judges_by_its_word_list(sieve: Sieve) -> None:
    assert sieve.sort(SPAM).log_odds > 2
    assert sieve.sort(HAM).log_odds < -2
    assert sieve.sort(b"Subject: new\n\nnothing known").log_odds == 0


def test_the_evidence_sums_to_the_log_odds(sieve: Sieve) -> None:
    sieve.learn(SPAM, "spam")
    sieve.learn(HAM, "ham")
    verdict = sieve.sort(b"Subject: watches\n\ncheap lunch and watches")
    assert {one.view for one in verdict.evidence} >= {"imported", "words", "headers"}
    assert sum(one.contribution for one in verdict.evidence) == pytest.approx(verdict.log_odds, abs=1e-9)
    imported = {one.token: (one.spam, one.ham) for one in verdict.evidence if one.view == "imported"}
    assert imported == {"subj:watches": (40, 0), "cheap": (50, 1), "lunch": (0, 90)}


def test_one_message_is_judged_as_many(sieve: Sieve) -> None:
    mail = [one.raw for one in islice(messages(), 30)]
    sieve.learn_many(mail[:5], "spam", processes=1)
    sieve.learn_many(mail[5:10], "ham", processes=1)
    many = [verdict.log_odds for verdict in sieve.sort_many([SPAM, HAM, *mail], processes=1)]
    assert many == pytest.approx([sieve.sort(raw).log_odds for raw in (SPAM, HAM, *mail)], abs=1e-9)


def test_learning_and_forgetting_restore_the_verdict(sieve: Sieve) -> None:
    before = sieve.sort(SPAM).judgement
    sieve.learn(SPAM, "ham")
    sieve.learn(HAM, "spam")
    assert sieve.sort(SPAM).judgement != before
    sieve.forget(SPAM)
    sieve.forget(HAM)
    assert sieve.sort(SPAM).judgement == before
    assert sieve.store.word_list_totals() == (100, 200)


def test_exports_and_backups_carry_the_word_list(sieve: Sieve, tmp_path: Path) -> None:
    file = io.BytesIO()
    exchange.export(sieve.store, file)
    with Sieve.open(tmp_path / "loaded") as loaded:
        exchange.load(loaded.store, io.BytesIO(file.getvalue()))
        assert loaded.sort(SPAM).judgement == sieve.sort(SPAM).judgement
    saving.backup(sieve.store, tmp_path / "backup")
    with Sieve.open(tmp_path / "backup") as backup:
        assert backup.sort(SPAM).judgement == sieve.sort(SPAM).judgement


def test_a_word_list_is_merged_into_a_store_without_one(sieve: Sieve, tmp_path: Path) -> None:
    with Sieve.open(tmp_path / "other") as other:
        other.learn(SPAM, "spam")
        maintenance.merge(other.store, sieve.store)
        assert other.store.word_list_totals() == (100, 200)
        assert maintenance.check(other.store) == []
    with Store(tmp_path / "third") as third:
        load_bogofilter(third, [b".MSG_COUNT 1 1 0\n", b"other 1 0 0\n"])
        with pytest.raises(StoreError, match="both have a word list of another filter"):
            maintenance.merge(third, sieve.store)
        assert third.word_counts([word_key(b"cheap")]) == {}


def test_a_damaged_word_list_is_reported(sieve: Sieve) -> None:
    sieve.store.connection.execute("UPDATE word_list SET spam = -3 WHERE key = ?", (word_key(b"cheap"),))
    with pytest.raises(StoreError, match=r"word_list\.spam is -3"):
        sieve.sort(SPAM)
    assert any("word_list" in fault for fault in maintenance.check(sieve.store))


def _call(folder: Path, option: str, mail: list[Sample]) -> None:
    for one in mail:
        subprocess.run(["bogofilter", "-d", folder, option], input=one.raw, check=True)


@pytest.mark.skipif(shutil.which("bogofilter") is None, reason="bogofilter is not installed")
def test_the_list_of_bogofilter_itself_separates_spam_from_ham(tmp_path: Path) -> None:
    mail = list(islice(messages(), 240))
    spam, ham = ([one for one in mail if one.label == label] for label in ("spam", "ham"))
    _call(tmp_path, "-s", spam[::2])
    _call(tmp_path, "-n", ham[::2])
    dump = subprocess.run(
        ["bogoutil", "-d", tmp_path / "wordlist.db"], capture_output=True, check=True
    ).stdout
    with Sieve.open(tmp_path / "store") as sieve:
        load_bogofilter(sieve.store, io.BytesIO(dump))
        spams, hams = ([sieve.sort(one.raw).log_odds for one in kind[1::2]] for kind in (spam, ham))
    wins = [s > h for s in spams for h in hams]
    assert sum(wins) > 0.9 * len(wins)
