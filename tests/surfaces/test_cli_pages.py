"""Help, manual page, reference and completions say what the parser says."""

import shutil
import subprocess
from pathlib import Path

import pytest

import tamis
from tamis_mail.surfaces.cli import COMMANDS, command_line
from tamis_mail.surfaces.cli.completion import SHELLS, script
from tamis_mail.surfaces.cli.pages import manual, markdown
from tamis_mail.surfaces.cli.parser_model import Command, list_commands
from tests.surfaces.terminal import Type, spawn

ROOT = Path(__file__).parents[2]
FOUND = list(list_commands(command_line()))


def named(command: Command) -> str:
    return " ".join(command.words)


@pytest.mark.parametrize("command", FOUND, ids=named)
def test_every_command_has_help_with_examples(typed: Type, command: Command) -> None:
    answer = typed(*command.words[1:], "--help")
    assert (answer.status, answer.err) == (0, "")
    if command.words[1:] != ("demo",):
        assert command.examples
    for example, purpose in command.examples:
        assert example in answer.text
        assert purpose in answer.text
    assert typed("help", *command.words[1:]).out == answer.out


@pytest.mark.parametrize("command", FOUND, ids=named)
def test_examples_are_understood(command: Command) -> None:
    for example, _ in command.examples:
        for piece in example.replace("&&", "|").split("|"):
            words = (
                piece.partition("<")[0].partition(">")[0].replace('eval "$(', "").replace(')"', "").split()
            )
            if words[0] == "tamis":
                command_line().parse_args(words[1:])


@pytest.mark.parametrize("command", FOUND, ids=named)
def test_help_fits_a_narrow_terminal(typed: Type, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    text = typed(*command.words[1:], "--help").text
    kept = {word for example, purpose in command.examples for word in (example, purpose)}
    long = [line for line in text.splitlines() if len(line) > 40 and line.strip() not in kept]
    assert long == []


def test_the_usage_shows_an_option_that_must_be_given_without_brackets() -> None:
    (lmtp,) = (command for command in FOUND if command.words == ("tamis", "serve", "lmtp"))
    assert " --next ADDRESS [--next-protocol" in lmtp.synopsis


def test_help_on_what_there_is_not(typed: Type) -> None:
    for words in (["frobnicate"], ["sort", "more"]):
        answer = typed("help", *words)
        assert (answer.status, answer.out) == (2, b"")
        assert len(answer.err.splitlines()) == 1


def test_the_pages_are_up_to_date() -> None:
    hint = "run .venv/bin/python tools/manpage"
    assert (ROOT / "src/tamis_mail/surfaces/cli/tamis.1").read_text(encoding="utf-8") == manual(
        tamis.__version__
    ), hint
    assert (ROOT / "docs/reference/commands.md").read_text(encoding="utf-8") == markdown(), hint
    for shell, name in (("bash", "tamis.bash"), ("zsh", "_tamis"), ("fish", "tamis.fish")):
        assert (ROOT / "packaging/completions" / name).read_text(encoding="utf-8") == script(shell), hint


def test_the_pages_name_every_option() -> None:
    page, text = manual("1").replace("\\-", "-"), markdown()
    for command in FOUND:
        for option in command.options:
            if "--help" not in option.names and len(command.words) > 1:
                assert option.names[-1] in page
                assert option.names[-1] in text


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_pages_say_the_default_values() -> None:
    for page in (markdown(), manual("0"), *map(script, ("bash", "zsh", "fish"))):
        assert "%(" not in page
    assert "(default: spamassassin)" in markdown()


def test_the_manual_page_is_sound_roff() -> None:
    result = subprocess.run(
        ["groff", "-man", "-Tascii", "-ww", "-z"],
        input=manual("1"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stderr == ""


def complete_in_bash(line: str, folder: Path) -> list[str]:
    """What bash offers for the last word of a line."""
    words = line.split(" ")
    asked = (
        f"{script('bash')}\ncd '{folder}'\nCOMP_WORDS=({' '.join(repr(word) for word in words)})\n"
        f"COMP_CWORD={len(words) - 1}\n_tamis\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    result = subprocess.run(["bash", "--norc", "-c", asked], capture_output=True, text=True, check=True)
    assert result.stderr == ""
    return result.stdout.split("\n")[:-1]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes(tmp_path: Path) -> None:
    (tmp_path / "in box.mbox").touch()
    assert set(COMMANDS) <= set(complete_in_bash("tamis ", tmp_path))
    assert complete_in_bash("tamis le", tmp_path) == ["learn"]
    assert complete_in_bash("tamis learn --unl", tmp_path) == ["--unlabelled"]
    assert complete_in_bash("tamis learn --spam in", tmp_path) == ["in box.mbox"]
    assert complete_in_bash("tamis sort in", tmp_path) == ["in box.mbox"]
    assert complete_in_bash("tamis sort --dialect ", tmp_path) == ["spamassassin", "bogofilter"]
    assert complete_in_bash("tamis store me", tmp_path) == ["merge"]
    assert complete_in_bash("tamis store import --form", tmp_path) == ["--format"]
    assert complete_in_bash("tamis store import --format bo", tmp_path) == ["bogofilter"]
    assert complete_in_bash("tamis completion z", tmp_path) == ["zsh"]
    assert complete_in_bash("tamis help st", tmp_path) == ["status", "store"]


@pytest.mark.skipif(
    shutil.which("zsh") is None, reason="zsh is not installed: its script is only read as text"
)
def test_zsh_accepts_its_script() -> None:
    subprocess.run(["zsh", "-f", "-n"], input=script("zsh"), text=True, check=True)
    asked = f"autoload -Uz compinit && compinit -u -D\n{script('zsh')}\nprint $_comps[tamis]"
    result = subprocess.run(["zsh", "-f", "-c", asked], capture_output=True, text=True, check=True)
    assert result.stdout == "_tamis\n"


@pytest.mark.skipif(
    shutil.which("fish") is None, reason="fish is not installed: its script is only read as text"
)
def test_fish_completes() -> None:
    asked = f"{script('fish')}\ncomplete -C 'tamis le'"
    result = subprocess.run(["fish", "--no-config", "-c", asked], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("learn\t")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_names_every_command_and_option(typed: Type, shell: str) -> None:
    text = typed("completion", shell).text
    assert text == script(shell)
    for command in FOUND:
        assert command.words[-1] in text
        for option in command.options:
            name = option.names[-1]
            assert (f"-l {name[2:]}" if shell == "fish" else name) in text


def test_an_unknown_shell_is_status_2() -> None:
    assert spawn("completion", "csh").status == 2
