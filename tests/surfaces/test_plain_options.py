"""The options of the usual `tamis sort` and `tamis learn`, read without argparse."""

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


LEARN_WORDS = [
    ["--spam", "a"],
    ["--ham", "b", "c"],
    ["--mbox"],
    ["--no-log"],
    ["-q"],
    ["--quiet"],
    ["d"],
    ["--store", "mail.tamis"],
    ["--store=mail.tamis"],
]


@pytest.mark.parametrize("size", range(4))
def test_the_options_of_learn_are_those_of_the_parser(size: int) -> None:
    for words in itertools.product(LEARN_WORDS, repeat=size):
        line = ["learn", "--ham", "x", *itertools.chain(*words)]
        options = vars(command_line("learn").parse_args(line))
        del options["parser"]
        plain = read_plain_options(line)
        assert plain is not None, line
        assert vars(plain) == options, line


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["learn", "-q"],
        ["learn", "--spam"],
        ["learn", "--spam", "a", "--ham"],
        ["learn", "--spam", "-"],
        ["learn", "--spam", ""],
        ["learn", "--spam=a"],
        ["learn", "--spa", "a"],
        ["learn", "--spam", "a", "-qq"],
        ["learn", "--spam", "a", "--quiet=yes"],
        ["learn", "--spam", "a", "--", "b"],
        ["learn", "--spam", "a", "-h"],
        ["learn", "--spam", "a", "--help"],
        ["learn", "--spam", "a", "--store"],
        ["learn", "--spam", "a", "--store", "-q"],
        ["learn", "--spam", "a", "--since", "2y"],
        ["learn", "--spam", "a", "--label", "work", "b"],
        ["learn", "--spam", "a", "--sent", "b"],
        ["learn", "--spam", "a", "--unlabelled", "b"],
        ["learn", "a"],
        ["learn", "a", "--spam", "b"],
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
