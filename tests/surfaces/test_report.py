"""`tamis report` and `tamis tune`, as a user types them."""

import json
from pathlib import Path

import pytest

from tamis_mail.reporting.wording import VIEW_TITLES
from tamis_mail.sample import messages
from tamis_mail.sieve import Sieve
from tamis_mail.surfaces.cli import main
from tamis_mail.verdict import RULE, Rule
from tamis_mail.verdict.rule import Weights


@pytest.fixture
def mailbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A part of the sample, in a folder of folders, and a place to work in."""
    for number, one in enumerate(list(messages())[:150]):
        folder = tmp_path / "mail" / ("Junk" if one.label == "spam" else "Inbox")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.eml").write_bytes(one.raw)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TAMIS_STORE", str(tmp_path / "store.tamis"))
    return tmp_path / "mail"


def test_it_tells_and_draws(mailbox: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(mailbox), "--split", "400/50/50", "--no-html"]) == 0
    assert "120 learned, 15 choose the smoothing, 15 judged" in capsys.readouterr().out
    assert main(["report", str(mailbox)]) == 0
    text = capsys.readouterr().out
    for said in (
        "10 folds: each is judged by the others, 135 learned messages",
        "accuracy",
        "ROC area",
        "learned  ROC area",
    ):
        assert said in text
    assert text.rstrip().endswith(f"charts: {Path('tamis-report.html').resolve()}")
    assert Path("tamis-report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert not Path("store.tamis").exists()


def test_programs_are_told_the_same(mailbox: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--spam", str(mailbox / "Junk"), "--ham", str(mailbox / "Inbox"), "--folds", "5"]
    assert main(["report", "--json", *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert not Path("tamis-report.html").exists()
    measures = found["measures"]
    assert measures["messages"] == measures["spam"] + measures["ham"] == found["mail"]["messages"] == 150
    assert len(found["misses"]) == min(20, measures["messages"] - measures["right"])
    for miss in found["misses"]:
        assert sum(miss["views"].values()) == pytest.approx(miss["log_odds"])
        assert (miss["log_odds"] > 0) != (miss["label"] == "spam")
    assert sum(one["messages"] for one in found["calibration"]) == 150
    assert main(["report", "--no-html", *arguments]) == 0
    assert f"{100 * measures['accuracy']:.1f} %" in capsys.readouterr().out
    assert not Path("tamis-report.html").exists()


def test_another_seed_is_another_split_and_the_same_seed_the_same(
    mailbox: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for seed in ("1", "1", "2"):
        assert main(["report", "--json", "--seed", seed, str(mailbox)]) == 0
        found.append(capsys.readouterr().out)
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("columns", ["40", "80"])
def test_it_fits_the_terminal(
    mailbox: Path, columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["report", "--no-html", "--folds", "3", "--spam", "mail/Junk", "--ham", "mail/Inbox"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= int(columns)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--split", "400/50"], 2, "expected three numbers of messages from 1, such as 400/50/50"),
        (["--folds", "1"], 2, "got --folds 1, expected 2 or more"),
        (["--seed", "-1"], 2, "expected a whole number from 0"),
        (["--html", "a", "--no-html"], 2, "expected one of them"),
        (["--html", "missing/a.html"], 3, "is in a folder that does not exist"),
        (["--spam", "mail/Junk"], 3, "only --spam was given"),
        (["missing"], 3, "missing does not exist"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    mailbox: Path, arguments: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        found = main(["report", *arguments])
    except SystemExit as stopped:
        found = int(stopped.code or 0)
    answer = capsys.readouterr()
    assert (found, answer.out, answer.err.count("\n")) == (status, "", 1)
    assert said in answer.err
    assert not Path("tamis-report.html").exists()


def test_a_hostile_subject_moves_no_cursor(mailbox: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, path in enumerate(sorted((mailbox / "Inbox").iterdir())[:40]):
        path.write_bytes(b"Subject: \x1b[31m<script>\x07\r\n" + path.read_bytes())
        if number % 2:
            path.rename(mailbox / "Junk" / path.name)
    assert main(["report", "--folds", "4", str(mailbox)]) == 0
    text = capsys.readouterr().out
    assert "<script>" in text
    assert "\x1b" not in text
    assert "<script" not in Path("tamis-report.html").read_text(encoding="utf-8")


def setting(capsys: pytest.CaptureFixture[str], mailbox: Path) -> dict[str, object]:
    """The rule that is in force, as a further dry run tells it."""
    assert main(["tune", "--dry-run", "--json", str(mailbox)]) == 0
    rule: dict[str, object] = json.loads(capsys.readouterr().out)["before"]["rule"]
    return rule


def test_tuning_is_kept_in_the_store_and_taken_back(
    mailbox: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["tune", str(mailbox)]) == 3
    assert "there is no store yet" in capsys.readouterr().err
    assert main(["learn", "--spam", "mail/Junk", "--ham", "mail/Inbox"]) == 0
    capsys.readouterr()
    default = setting(capsys, mailbox)
    assert default == json.loads(RULE.to_json())
    assert main(["tune", "--thresholds", "--dry-run", str(mailbox)]) == 0
    assert "log-loss" in capsys.readouterr().out
    assert setting(capsys, mailbox) == default
    assert main(["tune", "--thresholds", "--json", str(mailbox)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kept"] is (found["after"]["rule"] != default)
    assert setting(capsys, mailbox) == found["after"]["rule"]
    assert main(["tune", "--reset"]) == 0
    assert "uses the default" in capsys.readouterr().out
    assert setting(capsys, mailbox) == default
    assert main(["tune", "--reset"]) == 0
    assert "already" in capsys.readouterr().out


def test_what_does_not_help_is_not_kept(
    mailbox: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["learn", "--spam", "mail/Junk", "--ham", "mail/Inbox"]) == 0
    monkeypatch.setattr("tamis_mail.reporting.tuning.Tuning.is_better", False)
    capsys.readouterr()
    assert main(["tune", str(mailbox)]) == 0
    assert "nothing changed: no better than chance" in " ".join(capsys.readouterr().out.split())
    assert setting(capsys, mailbox) == json.loads(RULE.to_json())


def test_without_mail_the_weights_are_fitted_to_the_remembered_messages(
    mailbox: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["learn", "--spam", "mail/Junk", "--ham", "mail/Inbox"]) == 0
    with Sieve.open(create=False) as sieve, sieve.store.transaction() as writer:
        writer.drop_weights()
    capsys.readouterr()
    assert main(["tune", "--dry-run", "--json"]) == 0
    dry = json.loads(capsys.readouterr().out)
    assert main(["tune", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (dry["kept"], found["kept"], found["messages"]) == (False, True, 150)
    assert (dry["before"], dry["after"]) == (found["before"], found["after"])
    assert found["before"]["words"] == {"value": 3.0, "deviation": 1.5}
    with Sieve.open(create=False) as sieve:
        weights = Weights.of(sieve.store)
    assert weights is not None
    assert [one["value"] for one in found["after"].values()] == [*weights.scales, weights.intercept]
    assert main(["tune"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "the weights are now fitted to the 150 messages that the store remembers" in text


def test_tuning_by_mail_moves_the_prior_and_fits_again(
    mailbox: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["learn", "--spam", "mail/Junk", "--ham", "mail/Inbox"]) == 0
    with Sieve.open(create=False) as sieve:
        before = sieve.store.setting("weights")
    monkeypatch.setattr("tamis_mail.reporting.tuning.Tuning.is_better", True)
    assert main(["tune", str(mailbox)]) == 0
    assert "changed: log-loss" in capsys.readouterr().out
    with Sieve.open(create=False) as sieve:
        after, prior = sieve.store.setting("weights"), Rule.read_prior(sieve.store)
        assert prior.with_scales([view.scale for view in RULE.views]) != prior
        assert prior.intercept != 0
        assert after != before
        sieve.fit_weights()
        assert sieve.store.setting("weights") == after
    assert main(["tune", "--reset"]) == 0
    with Sieve.open(create=False) as sieve:
        assert Rule.read_prior(sieve.store) == RULE
        sieve.fit_weights()
        reset = sieve.store.setting("weights")
    assert main(["tune", "--reset"]) == 0
    with Sieve.open(create=False) as sieve:
        assert sieve.store.setting("weights") == reset != after


def test_status_tells_to_how_many_messages_weights_were_fitted(
    mailbox: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["learn", "--quiet", "--ham", "mail/Inbox"]) == 0
    assert main(["status"]) == 0
    assert "weights" not in capsys.readouterr().out
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["weights"] is None
    assert main(["learn", "--quiet", "--spam", "mail/Junk"]) == 0
    with Sieve.open(create=False) as sieve:
        weights = Weights.of(sieve.store)
    assert weights is not None
    assert main(["status", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["weights"]
    assert found["messages"] == weights.messages == 150
    assert (found["intercept"], [*found["scales"].values()]) == (weights.intercept, [*weights.scales])
    assert [*found["deviations"].values()] == [*weights.deviations]
    strongest = max(found["scales"], key=found["scales"].get)
    assert main(["status"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("weights")]
    assert line.startswith(f"weights   fitted to 150 messages: {VIEW_TITLES[strongest]} count most (scale ")
    with Sieve.open(create=False) as sieve, sieve.store.transaction() as writer:
        writer.write_setting("weights", "1 2 3")
    assert main(["status"]) == 0
    assert "tamis tune fits them again" in capsys.readouterr().out
    assert main(["tune", "--quiet"]) == 0
    assert main(["status"]) == 0
    assert f"{line}\n" in capsys.readouterr().out


def test_too_few_messages_to_fit_are_told_in_one_line(
    mailbox: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["learn", "--ham", "mail/Inbox"]) == 0
    capsys.readouterr()
    assert main(["tune"]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert "remembers 0 spam and" in line
    assert "expected at least 5 of each" in line
    with pytest.raises(SystemExit):
        main(["tune", "--thresholds"])
    assert "--thresholds needs mail to judge" in capsys.readouterr().err


@pytest.mark.parametrize("columns", ["40", "80"])
def test_the_tables_of_tune_fit_the_terminal(
    mailbox: Path, columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["learn", "--quiet", "--spam", "mail/Junk", "--ham", "mail/Inbox"]) == 0
    for arguments in ([], [str(mailbox)], ["--thresholds", str(mailbox)]):
        assert main(["tune", *arguments]) == 0
        assert max(map(len, capsys.readouterr().out.splitlines())) <= int(columns)


def test_tuning_by_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["tune"])
    assert stopped.value.code == 2
    assert "no mail was named" in capsys.readouterr().err


def test_every_message_is_judged_unless_a_split_is_asked_for(
    mailbox: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--json", str(mailbox)]) == 0
    split = json.loads(capsys.readouterr().out)["split"]
    assert (split["way"], split["folds"], split["judged"], split["unused"]) == ("folds", 10, 150, 0)
    assert main(["report", "--json", "--split", "20/10/10", str(mailbox)]) == 0
    split = json.loads(capsys.readouterr().out)["split"]
    assert (split["way"], split["judged"], split["unused"]) == ("split", 10, 110)
    with pytest.raises(SystemExit):
        main(["report", "--split", "20/10/10", "--folds", "3", str(mailbox)])


def test_a_report_means_one_thing_by_a_miss(mailbox: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--json", str(mailbox)]) == 0
    found = json.loads(capsys.readouterr().out)
    misses = found["measures"]["messages"] - found["measures"]["right"]
    assert misses > 0
    assert len(found["misses"]) == min(20, misses)
    assert main(["report", str(mailbox)]) == 0
    pages = (capsys.readouterr().out, Path("tamis-report.html").read_text(encoding="utf-8"))
    for text in pages:
        assert "spam missed" not in text
        assert "more probable label is wrong" in " ".join(text.split())
    assert f"\nmisses          {misses:>7}" in pages[0]
    assert f"\n{misses} misses, " in pages[0]
    assert f"<dt>misses</dt><dd>{misses}</dd>" in pages[1]
