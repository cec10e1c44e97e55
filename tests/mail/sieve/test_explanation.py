"""The strongest evidence, which daemons show, is that of `Verdict.evidence`."""

import random
from pathlib import Path

import pytest

from tamis_mail import Sieve, sample
from tamis_mail.verdict import Evidence

ROUNDING = 1e-9


@pytest.fixture(scope="module")
def mail() -> list[tuple[bytes, str]]:
    pairs: list[tuple[bytes, str]] = [(one.raw, one.label) for one in sample.messages()]
    random.Random(1).shuffle(pairs)
    return pairs


@pytest.fixture(scope="module", params=[0, 8, 200])
def sieve(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, mail: list[tuple[bytes, str]]
) -> Sieve:
    """A filter that has learned nothing, too little to fit weights, or enough; and some senders."""
    path: Path = tmp_path_factory.mktemp("strongest") / "store"
    sieve = Sieve.open(path)
    for label in ("spam", "ham"):
        sieve.learn_many([raw for raw, own in mail[: request.param] if own == label], label)
    return sieve


def as_numbers(evidence: tuple[Evidence, ...]) -> dict[tuple[str, str], tuple[float, float, float]]:
    return {(one.view, one.token): (one.contribution, one.spam, one.ham) for one in evidence}


def test_the_strongest_evidence_is_the_beginning_of_all_evidence(
    sieve: Sieve, mail: list[tuple[bytes, str]]
) -> None:
    messages = [raw for raw, _ in mail[150:250]] + [b"", b"\n", b"Subject: x\n\n" + b"pills " * 50]
    for raw, verdict in zip(messages, sieve.sort_batch(messages, with_strongest=True), strict=True):
        evidence = sieve.sort(raw).evidence
        every, strongest = as_numbers(evidence), as_numbers(verdict.strongest)
        for key, numbers in strongest.items():
            assert numbers == pytest.approx(every[key], rel=ROUNDING, abs=1e-12)
        for kept in (evidence, [one for one in evidence if one.view != "grams"]):
            nonzero = [one for one in kept if abs(one.contribution) > ROUNDING]
            floor = abs(nonzero[:20][-1].contribution) if nonzero else 0.0
            wanted = [one for one in nonzero if abs(one.contribution) > floor * (1 + ROUNDING)]
            assert {(one.view, one.token) for one in wanted[:20]} <= strongest.keys()
        sizes = [abs(one.contribution) for one in verdict.strongest]
        assert sizes == sorted(sizes, reverse=True)


def test_without_being_asked_for_the_strongest_evidence_is_all_evidence(
    sieve: Sieve, mail: list[tuple[bytes, str]]
) -> None:
    raw = mail[0][0]
    (verdict,) = sieve.sort_batch([raw])
    assert verdict.strongest == verdict.evidence == sieve.sort(raw).evidence
