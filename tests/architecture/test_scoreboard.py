"""The scoreboard says what the raw results say, leaves nothing out, and explains every lost row."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from benchmarks.cases import discover
from benchmarks.mail_answer import Answer
from benchmarks.mail_record import describe_filter, share_interval
from benchmarks.mail_scores import calibration_plot, compare_filters, missed_measures
from benchmarks.raw_results import Comparison, Limit, Run, Table, compare, read_runs, write_run
from benchmarks.scoreboard import PAGE, PLOTS, Explanations, main, make_page, make_plots

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
NONE = Explanations([])


def run_of(*comparisons: Comparison, **other: Any) -> Run:
    return Run("Some cases", "python -m cases", "2026-01-02", {"cpu": "a CPU"}, "", comparisons, **other)


WON = compare("fast", "a job", ours=[1.0, 1.0, 1.0], peer=[2.0, 3.0, 4.0], wanted=2.5)
LOST = compare("slow", "a job", ours=[2.0, 2.0, 2.0], peer=[1.0, 1.0, 1.5])
TIED = compare("even", "a job", ours=[1.0, 1.0, 1.0], peer=[0.5, 1.0, 2.0])
STREAM = {
    "name": "mail, random",
    "messages": 100,
    "spam": 40,
    "wanted": {"1-ROCA %": 0.5, "Brier": 0.2},
    "filters": [
        {
            "filter": "tamis",
            "figures": {"1-ROCA %": [1.0, 0.5, 1.5], "Brier": [0.1, 0.05, 0.15]},
            "failed": 0,
        },
        {"filter": "peer", "figures": {"1-ROCA %": [0.1, 0.05, 0.2], "Brier": [0.5, 0.4, 0.6]}, "failed": 1},
    ],
}


def test_the_committed_page_and_plots_are_made_from_the_committed_results(tmp_path: Path) -> None:
    page = tmp_path / "scoreboard.md"
    assert main(["--page", str(page)]) == 0
    assert page.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8"), "run make scoreboard"
    made, committed = (
        {path.name: path.read_bytes() for path in (folder / PLOTS).glob("*")}
        for folder in (tmp_path, PAGE.parent)
    )
    assert made == committed, "run make scoreboard"


def test_every_case_is_on_the_page_measured_or_not() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert not [case.name for case in discover() if f"`{case.name}`" not in text]


def test_every_comparison_of_every_file_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for run in read_runs(RESULTS):
        names = [row.case for row in run.comparisons] + [row.case for row in run.limits]
        assert not [name for name in names if name not in text]


def test_every_wanted_ratio_of_a_file_is_that_of_its_case() -> None:
    wanted = {case.name: case.wanted for case in discover()}
    rows = [row for run in read_runs(RESULTS) for row in run.comparisons if row.case in wanted]
    assert rows
    assert not [row.case for row in rows if row.wanted != wanted[row.case]]


def test_a_row_is_won_or_lost_by_its_quartiles_and_misses_by_its_median() -> None:
    assert [row.result for row in (WON, LOST, TIED)] == ["won", "lost", "tied"]
    assert (WON.ratio, WON.quartiles, WON.is_missed) == (3.0, (2.5, 3.5), False)
    assert replace(WON, wanted=3.1).is_missed
    assert not LOST.is_missed
    assert compare("rate", "", ours=[6.0], peer=[2.0], is_more_better=True).ratio == 3.0


@pytest.mark.parametrize(
    ("run", "key"),
    [
        (run_of(LOST), "slow"),
        (run_of(replace(LOST, phase="warm")), "slow, warm"),
        (run_of(replace(WON, wanted=9.0)), "fast"),
        (run_of(limits=(Limit("memory", "peak", 3.0, "MB", 2.0),)), "memory"),
        (run_of(stream=STREAM), "mail, random: 1-ROCA %, peer; mail, random: 1-ROCA %, wanted"),
    ],
)
def test_a_lost_or_missed_row_without_an_explanation_stops_the_page(run: Run, key: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"without an explanation: {key}: add each")):
        make_page([run], NONE, [])
    page = make_page([run], Explanations([([one], "It is so.") for one in key.split("; ")]), [])
    assert "1. It is so." in page


def test_a_page_that_is_stopped_leaves_the_old_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "some.json", "Some", command="x", comparisons=[LOST])
    (tmp_path / "explanations.toml").touch()
    page = tmp_path / "page.md"
    page.write_text("old", encoding="utf-8")
    assert main(["--results", str(tmp_path), "--page", str(page)]) == 1
    assert "scoreboard: lost or missed without an explanation: slow" in capsys.readouterr().err
    assert page.read_text(encoding="utf-8") == "old"


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    limit, table = Limit("memory", "peak", 3.0, "MB", 4.0), Table("Odd", ("a", "b"), (("1", "2"),))
    write_run(
        tmp_path / "some.json",
        "Some",
        command="x",
        comparisons=[WON, replace(LOST, phase="warm")],
        limits=[limit],
        stream=STREAM,
        tables=[table],
        versions={"peer": "1.0"},
    )
    (run,) = read_runs(tmp_path)
    assert run.comparisons == (WON, replace(LOST, phase="warm"))
    assert (run.limits, run.stream, run.tables) == ((limit,), STREAM, (table,))
    assert (run.name, run.machine["versions"]["peer"]) == ("some", "1.0")


def test_a_file_that_holds_no_results_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text('{"title": "Odd"}', encoding="utf-8")
    with pytest.raises(SystemExit, match="not a file of results"):
        read_runs(tmp_path)


def test_first_and_warm_calls_stand_side_by_side() -> None:
    rows = [replace(WON, phase="first call"), replace(WON, phase="warm", ours=0.5)]
    lines = make_page([run_of(*rows)], NONE, []).splitlines()
    (line,) = [line for line in lines if line.startswith("| fast |")]
    assert line.count("won") == 2
    assert "| 1 s |" in line
    assert "| 500 ms |" in line


def test_cases_without_figures_are_listed() -> None:
    assert "Not measured: `absent`." in make_page([run_of(WON)], NONE, ["fast", "absent"])


# ── mail ──


def test_a_filter_wins_where_neither_figure_lies_in_the_interval_of_the_other() -> None:
    results = {row.measure: row.result for row in compare_filters(STREAM)}
    assert results == {"1-ROCA %": "lost", "Brier": "won"}
    assert missed_measures(STREAM) == ["mail, random: 1-ROCA %, wanted"]
    near = json.loads(json.dumps(STREAM))
    near["filters"][1]["figures"]["1-ROCA %"] = [0.6, 0.3, 0.9]
    assert compare_filters(near)[0].result == "tied"


def test_a_filter_that_was_unsure_of_every_message_is_shown_and_not_beaten() -> None:
    silent = json.loads(json.dumps(STREAM))
    silent["filters"][1]["calibration"] = [[100, 0.5, 0.4]]
    assert compare_filters(silent) == []
    explanations = Explanations([(["*"], "Few messages.")])
    assert "peer: unsure of every message" in make_page([run_of(stream=silent)], explanations, [])


@pytest.mark.parametrize(("some", "count"), [(0, 50), (1, 50), (3, 8), (3, 3)])
def test_the_interval_of_a_share_is_wilsons(some: int, count: int) -> None:
    expected = binomtest(some, count).proportion_ci(0.95, method="wilson")
    percents = [100 * some / count, 100 * expected.low, 100 * expected.high]
    assert share_interval(percents[0], count) == pytest.approx(percents, abs=1e-2)


def test_the_figures_of_a_filter_count_its_calibration_by_bins() -> None:
    said = ((0.05, "ham"), (0.05, "ham"), (0.15, "ham"), (0.95, "spam"), (0.96, "ham"))
    answers = [Answer(probability, probability, label) for probability, label in said]
    figures = describe_filter("tamis", answers, np.array([False, True, False, True, True]), 1.5)
    first, second, last = figures["calibration"]
    assert first == [2, pytest.approx(0.05), 0.5]
    assert second == [1, pytest.approx(0.15), 0.0]
    assert last == [2, pytest.approx(0.955), 1.0]
    assert figures["figures"]["spam not called spam %"][0] == pytest.approx(200 / 3)
    plot = calibration_plot({**STREAM, "filters": [figures]})
    assert plot.count("<circle") == 3
    assert make_plots([run_of(stream={**STREAM, "filters": [figures]}, name="mail")]).keys() == {"mail.svg"}
