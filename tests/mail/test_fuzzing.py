"""The fuzzer makes the same messages from the same seed, and finds what is wrong."""

from pathlib import Path

import pytest

from benchmarks.fuzz_mail import MUTATORS, Fuzzer, find_faults
from benchmarks.hostile_mail import CASES
from tamis_mail import Sieve
from tamis_mail.verdict import header_fields

CORPUS = [
    b"Subject: hello\nFrom: ann@a.example\n\nAt noon, as always?\n",
    b'Content-Type: multipart/mixed; boundary="b"\n\n--b\nContent-Type: text/html\n\n<p>x</p>\n--b--\n',
    b"",
]


def test_the_same_seed_makes_the_same_messages() -> None:
    one, other = Fuzzer(CORPUS, 3), Fuzzer(CORPUS, 3)
    made = [one.message(number) for number in range(200)]
    assert made == [other.message(number) for number in range(200)]
    assert len({raw for raw, _ in made}) > 150
    names = {name for _, used in made for name in used.split()}
    assert names == {mutate.__name__ for mutate in MUTATORS}


def test_messages_that_were_made_have_no_faults(tmp_path: Path) -> None:
    fuzzer = Fuzzer(CORPUS, 4)
    with Sieve.open(tmp_path / "mail.tamis") as sieve:
        verdict = sieve.sort(CORPUS[0])
        for number in range(100):
            raw, names = fuzzer.message(number)
            assert not [*find_faults(raw, verdict, sieve if number % 20 == 0 else None)], (number, names)


def test_a_planted_fault_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Sieve.open(tmp_path / "mail.tamis") as sieve:
        verdict = sieve.sort(CORPUS[0])
    monkeypatch.setattr(header_fields, "remove_verdict", lambda raw: raw)
    assert any("added and removed" in fault for fault in find_faults(CORPUS[0], verdict, None))


@pytest.mark.parametrize("size", [100, 3000])
def test_a_hostile_message_has_about_the_size_that_was_asked_for(size: int) -> None:
    for name, make in CASES.items():
        assert size // 3 <= len(make(size)) <= 300_000 + 4 * size, name
