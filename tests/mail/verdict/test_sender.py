"""What the user's lists and letters make of a verdict."""

import math
from collections.abc import Mapping

import pytest

from tamis_mail.labels import Label
from tamis_mail.message.addresses import Senders
from tamis_mail.verdict import RULE, Judgement, Verdict, judge, judge_sender, with_sender, with_standing
from tamis_mail.verdict.judging import decide, sigmoid
from tamis_mail.verdict.sender import KNOWN_SENDER, Standing

ANN, EVE = "ann@mail.example.org", "eve@evil.example"


def senders(*addresses: str, is_clear: bool = True, fails_dmarc: bool = False) -> Senders:
    return Senders(addresses, is_clear, fails_dmarc)


def standing(one: Senders, listed: Mapping[str, bool]) -> tuple[str | None, str | None]:
    found = judge_sender(one, listed, {})
    assert (found.label == "ham") == (found.reason or "").startswith("allowed: ")
    assert (found.label == "spam") == (found.reason or "").startswith("blocked: ")
    return found.reason, found.remark


def test_the_most_specific_entry_decides() -> None:
    assert standing(senders(ANN), {}) == (None, None)
    assert standing(senders(ANN), {ANN: True}) == (f"allowed: {ANN}", None)
    assert standing(senders(ANN), {"@example.org": True}) == ("allowed: example.org", None)
    assert standing(senders(ANN), {"@org": False, "@example.org": True})[0] == "allowed: example.org"
    assert standing(senders(ANN), {"@mail.example.org": False, "@example.org": True})[0] == (
        "blocked: mail.example.org"
    )
    assert standing(senders(ANN), {"@mail.example.org": False, ANN: True})[0] == f"allowed: {ANN}"
    assert standing(senders(ANN), {"@mail.example.org": True, ANN: False})[0] == f"blocked: {ANN}"
    assert standing(senders("x@badexample.org"), {"@example.org": True}) == (None, None)
    assert standing(senders(f"{ANN}@evil.example"), {ANN: True, "@mail.example.org": True}) == (None, None)


def test_all_senders_must_be_allowed_and_one_that_is_blocked_suffices() -> None:
    both = senders(ANN, EVE)
    reason, remark = standing(both, {ANN: True})
    assert reason is None
    assert remark == f"{ANN} is allowed, but From has other senders, too: the evidence decides."
    assert standing(both, {ANN: True, EVE: True}) == (f"allowed: {ANN}", None)
    assert standing(both, {EVE: False}) == (f"blocked: {EVE}", None)
    assert standing(both, {ANN: True, EVE: False}) == (f"blocked: {EVE}", None)


@pytest.mark.parametrize(
    ("doubtful", "words"),
    [
        (senders(ANN, fails_dmarc=True), "but the message failed DMARC: the evidence decides"),
        (senders(ANN, is_clear=False), "but From is malformed: the evidence decides"),
    ],
)
def test_a_sender_who_may_be_forged_is_not_allowed_and_is_still_blocked(
    doubtful: Senders, words: str
) -> None:
    reason, remark = standing(doubtful, {ANN: True})
    assert reason is None
    assert remark is not None
    assert words in remark
    assert standing(doubtful, {ANN: False}) == (f"blocked: {ANN}", None)
    found = judge_sender(doubtful, {}, {ANN: (3, 0)})
    assert found.evidence is None
    assert found.remark is not None
    assert found.remark.startswith(f"you wrote to {ANN}, but ")


def contribution(one: Senders, correspondents: Mapping[str, tuple[int, int]]) -> float:
    evidence = judge_sender(one, {}, correspondents).evidence
    return 0.0 if evidence is None else evidence.contribution


def test_a_sender_is_known_by_the_number_of_messages_sent_to_them() -> None:
    assert contribution(senders(ANN), {ANN: (1, 0)}) == KNOWN_SENDER / 2 == -1.5
    assert contribution(senders(ANN), {ANN: (5, 0)}) == -2.5
    assert contribution(senders(ANN), {ANN: (10**9, 0)}) > KNOWN_SENDER
    assert contribution(senders(ANN), {}) == 0
    evidence = judge_sender(senders(ANN), {}, {ANN: (5, 0)}).evidence
    assert evidence is not None
    assert (evidence.token, evidence.spam, evidence.ham) == (f"(you wrote to {ANN})", 0, 5)


def test_ones_own_address_is_not_known_and_all_senders_must_be() -> None:
    assert contribution(senders(ANN), {ANN: (5, 1)}) == 0
    assert contribution(senders(ANN, EVE), {ANN: (5, 0)}) == 0
    assert contribution(senders(ANN, EVE), {ANN: (5, 0), EVE: (1, 0)}) == -1.5
    assert contribution(senders(ANN, EVE), {ANN: (5, 0), EVE: (1, 1)}) == 0
    assert contribution(senders(), {}) == 0


def judgement(log_odds: float, *others: str) -> Judgement:
    return decide(log_odds, others or ["ham"], {name: float(n) for n, name in enumerate(others)}, RULE)


@pytest.mark.parametrize("log_odds", [-800.0, -50.0, -3.0, 0.0, 1.5, 5.0, 45.0, 800.0])
@pytest.mark.parametrize("others", [("ham",), ("ham", "lists", "work")])
def test_a_list_changes_the_label_only(log_odds: float, others: tuple[str, ...]) -> None:
    before = judgement(log_odds, *others)
    for label, reason in (("ham", "allowed: x"), ("spam", "blocked: x")):
        after = with_standing(before, Standing(label, reason), RULE)
        assert after.listed == reason
        assert (after.label == "spam") == (label == "spam")
        assert after.label in ("spam", *others)
        assert (after.probability, after.log_odds) == (before.probability, before.log_odds)
        assert after.probabilities == before.probabilities
    allowed = with_standing(before, Standing("ham", "allowed: x"), RULE)
    assert allowed.label == others[-1] or log_odds > 40  # the likeliest; all are zero to a float then


@pytest.mark.parametrize("log_odds", [-800.0, -50.0, -3.0, 0.0, 1.5, 4.0, 5.0, 45.0, 800.0])
@pytest.mark.parametrize("others", [("ham",), ("ham", "lists", "work")])
def test_a_known_sender_changes_the_log_odds_and_what_follows_from_them(
    log_odds: float, others: tuple[str, ...]
) -> None:
    known = judge_sender(senders(ANN), {}, {ANN: (2, 0)})
    after = with_standing(judgement(log_odds, *others), known, RULE)
    direct = judgement(log_odds - 2.0, *others)
    assert (after.log_odds, after.label) == (direct.log_odds, direct.label)
    assert after.probability == direct.probability == sigmoid(log_odds - 2.0)
    assert after.probabilities.keys() == direct.probabilities.keys()
    for name, probability in direct.probabilities.items():
        assert math.isclose(after.probabilities[name], probability, rel_tol=1e-9, abs_tol=1e-12)


def test_the_evidence_still_sums_to_the_log_odds() -> None:
    labels = [Label(0, "spam", 9, 9, 0, 99), Label(1, "ham", 9, 9, 0, 99)]
    plain = judge({0: [3, 1], 9: [0, 4]}, labels, RULE, 1, lambda: {0: "a", 9: "b"})
    for listed in ({}, {ANN: True}):
        verdict = with_sender(plain, judge_sender(senders(ANN), listed, {ANN: (1, 0)}), RULE)
        assert verdict.log_odds == plain.log_odds - 1.5
        assert math.isclose(sum(one.contribution for one in verdict.evidence), verdict.log_odds)
        strengths = [abs(one.contribution) for one in verdict.evidence]
        assert strengths == sorted(strengths, reverse=True)
    assert with_sender(plain, Standing(), RULE) is plain
    assert isinstance(plain, Verdict)
    assert (plain.listed, plain.remark) == (None, None)


def test_an_allowed_sender_of_a_store_without_labels_is_ham() -> None:
    assert (
        with_standing(Judgement("unsure", 0.5, 0.0, {}), Standing("ham", "allowed: x"), RULE).label == "ham"
    )
