"""The parser of the commands → the manual page and the reference; `tools/manpage` writes both."""

from collections.abc import Iterable, Sequence

from tamis_mail.surfaces.cli import command_line
from tamis_mail.surfaces.cli.parser_model import Option, list_commands

_STATUSES = [
    ("0", "success (`sort`: the message is spam)"),
    ("1", "`sort` only: the message is ham, or of another label that is not spam"),
    ("2", "usage error; for `sort`, unsure (its usage errors give 3)"),
    ("3", "any other error (`sort`: any error); one line on stderr describes it"),
    ("130", "interrupted by Ctrl-C; completed work is kept; run the command again to finish"),
]
_VARIABLES = [
    ("TAMIS_STORE", "path of the store, unless `--store` is given"),
    ("XDG_DATA_HOME", "folder of the default store, `tamis/mail.tamis` (default: `~/.local/share`)"),
    ("TAMIS_DEBUG", "if set, an error is shown with its traceback"),
    ("COLUMNS", "width of the output, instead of the terminal's"),
]


def markdown() -> str:
    """Return the page for the documentation."""
    all_commands = list(list_commands(command_line()))
    lines = [
        "# Commands",
        "",
        "<!-- Written by tools/manpage from the parser of the command; do not edit. -->",
        "",
        _mark_code(all_commands[0].description + " " + all_commands[0].epilog),
        "",
        "| command | |",
        "|---|---|",
        *(
            f"| [`{' '.join(c.words)}`](#{'-'.join(c.words)}) | {_mark_code(c.summary)} |"
            for c in all_commands[1:]
        ),
        "",
    ]
    for command in all_commands[1:]:
        is_top_level = len(command.words) == 2  # "tamis" and one more word
        lines += [f"{'##' if is_top_level else '###'} {' '.join(command.words)}", ""]
        lines += ["```text", command.synopsis, "```", ""]
        lines += [_mark_code(command.description), ""]
        options = [
            option for option in (*command.arguments, *command.options) if "--help" not in option.names
        ]
        if options:
            lines += _make_table(
                (f"`{_escape_cell(_format_signature(option))}`", _mark_code(option.help))
                for option in options
            )
        if command.examples:
            lines += [
                "```console",
                *(f"$ {example}" for example in _align_examples(command.examples)),
                "```",
                "",
            ]
    lines += ["## Exit status", "", *_make_table(_STATUSES)]
    lines += ["## Environment", "", *_make_table((f"`{name}`", text) for name, text in _VARIABLES)]
    return "\n".join(lines)


def _make_table(rows: Iterable[tuple[str, str]]) -> list[str]:
    return ["| | |", "|---|---|", *(f"| {first} | {second} |" for first, second in rows), ""]


def manual(version: str) -> str:
    """Return the manual page, in the `man` macros of roff.

    `.TH` begins the page, `.SH` a section, `.SS` a subsection, `.PP` a paragraph, and `.TP` an item with an
    indented text. `.B` and `.BR` set bold type; `.I` and `\\fI`, up to `\\fR`, italics.
    """
    all_commands = list(list_commands(command_line()))
    lines = [
        '.\\" Written by tools/manpage from the parser of the command; do not edit.',
        f'.TH TAMIS 1 "" "tamis {version}" "User Commands"',
        ".SH NAME",
        "tamis \\- a personal spam filter that learns, explains and forgets",
        ".SH SYNOPSIS",
        ".B tamis",
        ".I COMMAND",
        "[\\fIOPTION\\fR ...]",
        ".SH DESCRIPTION",
        _escape_roff(all_commands[0].description),
        ".PP",
        _escape_roff(all_commands[0].epilog),
        ".SH COMMANDS",
    ]
    for command in all_commands[1:]:
        lines += [f".SS {_escape_roff(' '.join(command.words))}", _escape_roff(command.synopsis)]
        for paragraph in command.description.split("\n\n"):
            lines += [".PP", _escape_roff(paragraph)]
        for option in (*command.arguments, *command.options):
            if "--help" not in option.names:
                lines += _make_item(_format_signature(option), option.help)
        lines += [".PP", "Examples:"] if command.examples else []
        for example, purpose in command.examples:
            lines += _make_item(example, purpose)
    lines.append(".SH EXIT STATUS")
    for code, text in _STATUSES:
        lines += _make_item(code, text.replace("`", ""))
    lines.append(".SH ENVIRONMENT")
    for name, text in _VARIABLES:
        lines += _make_item(name, text.replace("`", ""))
    lines += [".SH SEE ALSO", ".BR procmail (1),", ".BR bogofilter (1),", ".BR spamassassin (1)", ""]
    return "\n".join(lines)


def _make_item(term: str, text: str) -> list[str]:
    """Return a term in bold and, indented below it, a text."""
    return [".TP", f".B {_escape_roff(term)}", _escape_roff(text)]


def _format_signature(option: Option) -> str:
    """Format the names of an option and its values, such as `-o, --output FILE`."""
    values = ["|".join(option.choices)] if option.choices else list(option.value_names)
    if option.is_repeatable:
        values[-1] += "..."
    return " ".join([", ".join(option.names), *values]).strip()


def _align_examples(examples: Sequence[tuple[str, str]]) -> list[str]:
    width = max(len(command) for command, _ in examples)
    return [f"{command:<{width}}  # {purpose}" for command, purpose in examples]


def _mark_code(text: str) -> str:
    """Format help for Markdown: options and variables become code."""
    words = []
    for word in text.replace("|", "\\|").split(" "):
        bare = word.strip(".,;:()")
        is_code = bare.startswith(("--", "$", "~/", "X-")) and "\n" not in word
        words.append(word.replace(bare, f"`{bare}`") if is_code else word)
    return " ".join(words)


def _escape_cell(text: str) -> str:
    return text.replace("|", "\\|")


def _escape_roff(text: str) -> str:
    """Escape text for roff: `\\e` is a backslash, `\\-` a minus, `\\(ti` ~, and `\\(ga` a grave accent.

    A line that begins with a dot or an apostrophe would be a macro, so `\\&` (nothing) is put before it.
    """
    text = (
        text.replace("\\", "\\e")
        .replace("-", "\\-")
        .replace("…", "...")
        .replace("~", "\\(ti")
        .replace("`", "\\(ga")
    )
    lines = text.split("\n")
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in lines)
