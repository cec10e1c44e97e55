"""The check of shell commands in the docs notices wrong commands, unknown programs and other output."""

import pytest

from tests.shell_blocks import (
    EXECUTED,
    NOT_RUN,
    PROGRAMS,
    Command,
    Home,
    check_understood,
    read_commands,
    split_programs,
)


def test_commands_of_a_console_come_with_their_output() -> None:
    block = "$ tamis sort < message\nspam 1.0000\n$ tamis learn \\\n>   --spam a\n$ tamis status\n\n"
    assert list(read_commands("console", block)) == [
        Command("tamis sort < message", "spam 1.0000\n"),
        Command("tamis learn --spam a", None),
        Command("tamis status", None),
    ]
    assert [one.text for one in read_commands("sh", "# a remark\ntamis status  # why\n")] == [
        "tamis status  # why"
    ]


def test_redirections_keywords_and_remarks_are_not_arguments() -> None:
    programs = split_programs(
        'X=1 tamis sort < message > "a b" | grep spam && eval "$(tamis completion bash)"  # x'
    )
    assert [words for words in programs if words] == [
        ["tamis", "completion", "bash"],
        ["tamis", "sort"],
        ["grep", "spam"],
        ["eval", "VALUE"],
    ]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("tamis sort --frobnicate", "tamis does not understand"),
        ("cat x | tamis lern", "tamis does not understand"),
        ("frobnicate x", "frobnicate has no reason"),
    ],
)
def test_wrong_commands_are_noticed(command: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_understood(Command(command, None))


def test_other_output_and_other_status_are_noticed() -> None:
    home = Home()
    home.run(Command("ls Mail", "Inbox\nJunk\n"))
    with pytest.raises(AssertionError, match="expected:\nJunk\n\ngot:\nInbox"):
        home.run(Command("ls Mail", "Junk\n"))
    with pytest.raises(AssertionError, match="exit 3"):
        home.run(Command("exit 3", None))


def test_reasons_are_given() -> None:
    assert {"README.md", "first-filter.md"} == EXECUTED
    assert all(reason for reason in [*NOT_RUN.values(), *PROGRAMS.values()])
