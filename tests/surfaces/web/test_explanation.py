"""The explanation of a verdict says what the verdict is made of."""

from itertools import pairwise

import pytest

from tamis_mail.message import canonical, parse
from tamis_mail.reporting.similarity import find_similar
from tamis_mail.sample import messages
from tamis_mail.sieve import Sieve
from tamis_mail.store import Store
from tamis_mail.surfaces.web.explanation import Tinter, find_changes, list_steps, read_parts
from tamis_mail.verdict import Evidence, Judgement, Verdict
from tamis_mail.verdict.rule import RULE


def make_verdict(*evidence: Evidence, label: str = "spam") -> Verdict:
    log_odds = sum(one.contribution for one in evidence)
    return Verdict(Judgement(label, 0.5, log_odds, {}), lambda: evidence)


def piece(token: str, contribution: float, view: str = "words") -> Evidence:
    return Evidence(token, view, contribution, 1.0, 1.0)


@pytest.fixture(scope="module")
def sieve(tmp_path_factory: pytest.TempPathFactory) -> Sieve:
    opened = Sieve.open(tmp_path_factory.mktemp("explanation") / "mail.tamis")
    for label in ("spam", "ham"):
        raws = [one.raw for one in messages() if one.label == label][:60]
        opened.learn_many(raws, label, processes=1)
    return opened


def test_the_waterfall_leads_from_zero_to_the_log_odds_without_a_gap(sieve: Sieve) -> None:
    for one in [*messages()][::50]:
        verdict = sieve.sort(one.raw)
        *steps, total = list_steps(verdict, verdict.evidence)
        assert steps[0].start == 0
        for before, after in pairwise(steps):
            assert after.start == before.end
        assert steps[-1].end == pytest.approx(verdict.log_odds)
        assert total.end == verdict.log_odds
        for step in (*steps, total):
            assert -1e-9 <= step.left <= step.left + step.width <= 100.5


def test_words_are_tinted_by_their_own_evidence() -> None:
    tinter = Tinter([piece("offer", 2.0), piece("lunch", -1.0), piece("subject:lunch", -2.0, "headers")])
    spans = tinter.tint("An OFFER for lunch, offer!")
    assert "".join(span.text for span in spans) == "An OFFER for lunch, offer!"
    assert [(span.text, span.tint) for span in spans if span.tint] == [("OFFER", 5), ("lunch", -3)]
    assert [span.tint for span in tinter.tint("Lunch", "subject")] == [-5]
    assert [span.css_class for span in tinter.tint("Lunch", "subject")] == ["against-5"]


def test_no_character_of_a_text_is_lost_by_tinting(sieve: Sieve) -> None:
    for one in [*messages()][::25]:
        message = parse(canonical(one.raw))
        tinter = Tinter(sieve.sort(one.raw).evidence)
        for part, shown in zip(message.parts, read_parts(message, tinter), strict=False):
            if (
                part.kind == "text/plain"
                and part.text.isascii()
                and part.text.replace("\n", "").isprintable()
            ):
                assert "".join(span.text for span in shown.spans) == part.text


def test_what_would_change_the_verdict_suffices_and_is_minimal() -> None:
    evidence = (piece("a", 3.0), piece("b", 2.0), piece("c", 1.0), piece("d", -1.0))
    verdict = make_verdict(*evidence)
    (change,) = find_changes(verdict, evidence, RULE)
    assert (change.label, change.tokens, change.is_enough) == ("unsure", ["a"], True)  # 5 - 3 < 3.48
    unsure = make_verdict(piece("x", 2.0), piece("y", -3.0), label="unsure")
    to_spam, to_ham = find_changes(unsure, unsure.evidence, RULE)
    assert (to_spam.tokens, to_spam.is_enough) == (["y"], False)
    assert (to_ham.tokens, to_ham.is_enough) == (["x"], True)


def test_the_same_text_is_most_similar_and_the_message_itself_is_left_out(sieve: Sieve) -> None:
    store: Store = sieve.store
    learned = store.message_features()
    for digest in learned.digests[::10]:
        keys = store.find_features(digest)
        assert keys is not None
        (first, *_) = find_similar(learned, keys, store.token_version())
        assert first.digest == digest
        assert first.similarity == pytest.approx(1.0)
        others = find_similar(learned, keys, store.token_version(), own_digest=digest)
        assert digest not in {one.digest for one in others}
        assert all(one.similarity < 1 for one in others)
