"""The benchmark harness measures what it says: against a clock that only the cases move."""

import gc
import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.cases import discover
from benchmarks.harness import AnyCase, Case, DisagreementError, Timing, run, table


@dataclass
class FakeClock:
    """Time passes when somebody works, and only then."""

    now: float = 0.0
    log: list[str] = field(default_factory=list)

    def __call__(self) -> float:
        self.log.append("|")
        return self.now

    def work(self, who: str, seconds: float) -> int:
        self.log.append(who)
        self.now += seconds
        return 42


def three_times_faster(clock: FakeClock) -> AnyCase:
    return Case(
        name="fake",
        what="work that moves a fake clock, against work that moves it thrice as far",
        setup=lambda: clock,
        ours=lambda clock: clock.work("A", 0.25),
        peer=lambda clock: clock.work("B", 0.75),
        agree=lambda ours, peer: ours == peer,
    )


def instant(name: str, *, peer: int) -> AnyCase:
    return Case(name, f"1 against {peer}", lambda: None, lambda _: 1, lambda _: peer, lambda a, b: a == b)


def test_the_ratio_is_the_peers_time_over_ours() -> None:
    clock = FakeClock()
    timing = run(three_times_faster(clock), repeats=5, sample_seconds=1.0, clock=clock)
    assert timing.ours == (0.25,) * 5
    assert timing.peer == (0.75,) * 5
    assert timing.quartiles == (3.0, 3.0, 3.0)


def test_the_two_sides_take_turns_in_samples_that_last_long_enough() -> None:
    clock = FakeClock()
    run(three_times_faster(clock), repeats=3, sample_seconds=1.0, clock=clock)
    samples = "".join(clock.log).split("|")[1:]
    assert [sample for sample in samples if sample][-6:] == ["AAAA", "BB"] * 3


def test_of_a_slow_case_few_pairs_are_taken_and_none_to_find_how_long_it_is() -> None:
    clock = FakeClock()
    case = replace(three_times_faster(clock), repeats=2)
    timing = run(case, repeats=9, sample_seconds=0.01, clock=clock)
    assert timing.ours == (0.25,) * 2
    assert "".join(clock.log).replace("|", "") == "AB" * 3


def test_a_peer_that_does_a_share_of_the_job_is_timed_for_all_of_it() -> None:
    clock = FakeClock()
    case = replace(three_times_faster(clock), peer_share=0.01)
    assert run(case, repeats=1, sample_seconds=0.01, clock=clock).peer == pytest.approx((75.0,))


def test_a_slow_pair_moves_the_quartiles_and_not_the_median() -> None:
    timing = Timing("case", "", ours=(1.0, 1.0, 1.0, 1.0, 1.0), peer=(2.0, 2.0, 2.0, 9.0, 9.0))
    assert timing.quartiles == (2.0, 2.0, 9.0)


def test_the_collector_is_off_while_timing_and_on_again_after() -> None:
    states: list[bool] = []

    def watch(_: None) -> None:
        states.append(gc.isenabled())

    clock = iter(range(1000))
    case = Case("watch", "", lambda: None, watch, watch, lambda ours, peer: ours is peer)
    run(case, repeats=2, clock=lambda: float(next(clock)))
    assert gc.isenabled()
    assert states[:2] == [True, True]
    assert not any(states[2:])


def test_sides_that_disagree_are_not_timed() -> None:
    with pytest.raises(DisagreementError, match="liar: ours and the peer give different answers"):
        run(instant("liar", peer=2))


def test_a_disagreement_is_reported_and_the_rest_still_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "deep" / "figures.json"
    cases = [instant("honest", peer=1), instant("liar", peer=2)]
    assert main(["--repeats", "1", "--output", str(path)], cases) == 1
    printed = capsys.readouterr()
    assert "liar: ours and the peer give different answers" in printed.err
    assert printed.out.splitlines()[1].startswith("honest ")
    figures = json.loads(path.read_text(encoding="utf-8"))
    assert [row["case"] for row in figures["comparisons"]] == ["honest"]
    assert figures["comparisons"][0]["ratio"] > 0
    assert {"cpu", "cores", "python", "versions"} <= figures["machine"].keys()


def test_names_choose_cases(capsys: pytest.CaptureFixture[str]) -> None:
    cases = [instant("moments-full", peer=1), instant("moments-diagonal", peer=1), instant("tally", peer=1)]
    assert main(["--list", "moments*"], cases) == 0
    assert capsys.readouterr().out == "moments-full: 1 against 1\nmoments-diagonal: 1 against 1\n"


@pytest.mark.parametrize("arguments", [["nobody"], ["--repeats", "0"]])
def test_what_makes_no_sense_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments, [instant("somebody", peer=1)])
    assert stopped.value.code == 2
    assert arguments[-1] in capsys.readouterr().err


def test_the_table_is_aligned() -> None:
    timings = [Timing("a", "", (0.5,), (1.0,)), Timing("longer", "", (2e-6,), (5e-10,))]
    assert table(timings).splitlines() == [
        "case      ours    peer  peer/ours    quartiles",
        "a       500 ms     1 s       2.00  2.00 – 2.00",
        "longer    2 µs  0.5 ns       0.00  0.00 – 0.00",
    ]


def test_the_real_cases_can_be_listed() -> None:
    cases = discover()
    assert all(case.name and case.what for case in cases)
