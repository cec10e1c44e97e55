"""The options of the usual `tamis sort`, read without argparse."""

import itertools

import pytest

from tamis_mail.surfaces.cli import command_line
from tamis_mail.surfaces.cli.plain_options import read_plain_options

WORDS = [
    ["-p"],
    ["--passthrough"],
    ["-e"],
    ["-pe"],
    ["-qpe"],
    ["--exit-zero"],
    ["--json"],
    ["--no-log"],
    ["-q"],
    ["--quiet"],
    ["--store", "mail.tamis"],
    ["--store=mail.tamis"],
    ["--store", "a=b"],
    ["--dialect", "bogofilter"],
    ["--dialect=spamassassin"],
]


@pytest.mark.parametrize("size", range(3))
def test_the_options_are_those_of_the_parser(size: int) -> None:
    for words in itertools.product(WORDS, repeat=size):
        line = ["sort", *itertools.chain(*words)]
        plain = read_plain_options(line)
        options = vars(command_line("sort").parse_args(line))
        del options["parser"]
        if options["passthrough"] and options["json"]:
            assert plain is None, line
        else:
            assert plain is not None, line
            assert vars(plain) == options, line


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["learn", "-q"],
        ["sort", "inbox"],
        ["sort", "-"],
        ["sort", "--"],
        ["sort", "-x"],
        ["sort", "-px"],
        ["sort", "-h"],
        ["sort", "--help"],
        ["sort", "--undo"],
        ["sort", "--move", "Junk"],
        ["sort", "--store"],
        ["sort", "--store", "-q"],
        ["sort", "--store="],
        ["sort", "--dialect", "other"],
        ["sort", "--passthrough=yes"],
        ["sort", "--pass"],
        ["sort", "-p=1"],
        ["sort", ""],
    ],
)
def test_other_words_are_left_to_the_parser(words: list[str]) -> None:
    assert read_plain_options(words) is None
