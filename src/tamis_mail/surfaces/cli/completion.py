"""`tamis completion`: write a completion script for bash, zsh or fish.

The words of the scripts are explained in the manuals: bash(1), "Programmable Completion"; zshcompsys(1); and
the page `complete` of fish.
"""

from argparse import Namespace
from collections.abc import Sequence
from typing import TextIO

from tamis_mail.surfaces.cli import command_line
from tamis_mail.surfaces.cli.parser import Parser
from tamis_mail.surfaces.cli.parser_model import Command, Option, list_commands


def configure(parser: Parser) -> None:
    parser.description = "Write a shell script that completes the commands, options and paths of tamis."
    parser.add_argument("shell", choices=tuple(SHELLS), metavar="SHELL", help="bash, zsh or fish")
    parser.examples = [
        ('eval "$(tamis completion bash)"', "in ~/.bashrc"),
        ("tamis completion zsh > ~/.zfunc/_tamis", "in a folder of $fpath"),
        ("tamis completion fish > ~/.config/fish/completions/tamis.fish", "for fish"),
    ]


def run(out: TextIO, options: Namespace) -> int:
    out.write(script(options.shell))
    return 0


def script(shell: str) -> str:
    return SHELLS[shell](list(list_commands(command_line())))


def _write_bash(all_commands: Sequence[Command]) -> str:
    """Write a function that bash calls to complete the word number COMP_CWORD of the line, COMP_WORDS.

    It finds the command in the words before, and then which `words`, and whether names of files, can follow.
    Of these, `compgen` lists what begins with the current word, and bash offers what is in COMPREPLY. With
    `compopt -o filenames`, bash quotes names of files and adds a slash to folders.
    """
    command_cases = []
    for command in all_commands:
        words = [*command.subcommands, *(name for option in command.options for name in option.names)]
        words += [choice for argument in command.arguments for choice in argument.choices]
        words += _list_topics(command, all_commands)
        command_name = " ".join(command.words[1:])  # without "tamis"
        takes_files = any(argument.is_path for argument in command.arguments)
        command_cases.append(
            f"        '{command_name}') words='{' '.join(words)}' files={int(takes_files)} ;;"
        )
    options = [option for command in all_commands for option in command.options]
    choices_by_option = sorted(
        {(name, option.choices) for option in options if option.choices for name in option.names}
    )
    path_options = sorted({name for option in options if option.is_path for name in option.names})
    # After an option with choices only these are offered; after one with a path, files besides the words.
    value_cases = [
        f"        {name}) words='{' '.join(choices)}' files=0 ;;" for name, choices in choices_by_option
    ]
    value_cases.append(f"        {'|'.join(path_options)}) files=1 ;;")
    # The commands that are followed by another word of the command, such as `store` by `merge`.
    groups = " ".join(command.words[-1] for command in all_commands[1:] if command.subcommands)
    return "\n".join(
        [
            "# bash completion for tamis; written by `tamis completion bash`",
            "_tamis() {",
            "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}",
            "    local command= words= files=0 place word",
            "    for ((place = 1; place < COMP_CWORD; place++)); do",
            "        word=${COMP_WORDS[place]}",
            "        [[ $word == -* ]] && continue",
            "        if [[ -z $command ]]; then",
            "            command=$word",
            f'        elif [[ " {groups} " == *" $command "* ]]; then',
            '            command="$command $word"',
            "        fi",
            "    done",
            '    case "$command" in',
            *command_cases,
            "    esac",
            '    case "$previous" in',
            *value_cases,
            "    esac",
            '    COMPREPLY=($(compgen -W "$words" -- "$current"))',
            "    if ((files)) && [[ $current != -* ]]; then",
            "        compopt -o filenames 2>/dev/null",
            "        local IFS=$'\\n'",
            '        COMPREPLY+=($(compgen -f -- "$current"))',
            "    fi",
            "}",
            "complete -F _tamis tamis",
            "",
        ]
    )


def _list_topics(command: Command, all_commands: Sequence[Command]) -> list[str]:
    """Return the words that can follow `tamis help`; none for other commands."""
    tamis = all_commands[0]
    return list(tamis.subcommands) if command.words[1:] == ("help",) else []


def _write_zsh(all_commands: Sequence[Command]) -> str:
    """Write a function for each command, which calls zsh's `_arguments` with a specification per argument.

    A specification has the forms of `_format_zsh_option` or, for positional arguments, `:message:action`;
    a `*` before it stands for all arguments that follow. The action `->command` sets $state to "command", for
    the code after `_arguments`, which returns 0 if it has completed the word itself. `*::` lets the function
    of the subcommand, $line[1], see only the words from there on. With -C, actions of the form `->` also
    change $curcontext, by which zsh finds the user's settings. `_describe` offers names with descriptions.
    The first line registers the script if it is a file in $fpath, which zsh runs as the function `_tamis`;
    if it was run in another way, `compdef` in the last line does so.
    """
    lines = ["#compdef tamis", "# zsh completion for tamis; written by `tamis completion zsh`", ""]
    summaries = {command.words: command.summary for command in all_commands}
    for command in all_commands:
        arguments = [_format_zsh_option(option) for option in command.options]
        if command.subcommands:
            arguments += ["'1: :->command'", "'*:: :->rest'"]
        for argument in command.arguments:
            prefix = "*" if argument.is_repeatable else ""
            choices = argument.choices or tuple(_list_topics(command, all_commands))
            arguments.append(
                _quote(f"{prefix}:{argument.value_names[-1].lower()}:{_format_zsh_action(argument, choices)}")
            )
        lines += [f"{_name_function(command.words)}() {{", *_ZSH_LOCALS]
        lines += [
            "    _arguments -C \\",
            *(f"        {argument} \\" for argument in arguments),
            "        && return 0",
        ]
        if command.subcommands:
            lines += ["    case $state in", "        command)", "            local -a known=("]
            lines += [
                f"                {_quote(name + ':' + summaries[(*command.words, name)])}"
                for name in command.subcommands
            ]
            lines += [
                "            )",
                "            _describe command known ;;",
                "        rest)",
                "            case $line[1] in",
            ]
            lines += [
                f"                {name}) {_name_function((*command.words, name))} ;;"
                for name in command.subcommands
            ]
            lines += ["            esac ;;", "    esac"]
        lines += ["}", ""]
    return "\n".join(
        [*lines, 'if [[ $funcstack[1] == _tamis ]]; then _tamis "$@"; else compdef _tamis tamis; fi', ""]
    )


# The variables that `_arguments` sets (`curcontext` because of -C), which must be local to each function.
_ZSH_LOCALS = ['    local curcontext="$curcontext" context state state_descr line', "    typeset -A opt_args"]


def _format_zsh_option(option: Option) -> str:
    """Write `--name[help]:message:action`, without message and action for an option without a value.

    For several names, those in parentheses before the specification are not offered after one was typed.
    """
    # Brackets and colons separate the parts of a specification.
    text = option.help.replace("[", "(").replace("]", ")").replace(":", ";")
    value = ""
    if option.value_names:
        value = f":{option.value_names[-1].lower()}:{_format_zsh_action(option, option.choices)}"
    if option.is_repeatable:  # `_arguments` reads values until the next word that matches the pattern -*
        value = f":*-*{value}"
    if len(option.names) > 1:
        names = " ".join(option.names)
        return f"{_quote(f'({names})')}{{{','.join(option.names)}}}{_quote(f'[{text}]{value}')}"
    # With a star, the option is offered again after it was typed.
    return _quote(f"{'*' if option.is_repeatable else ''}{option.names[0]}[{text}]{value}")


def _format_zsh_action(option: Option, choices: Sequence[str]) -> str:
    """Write what zsh offers for a value: these choices, files or, by a space, nothing."""
    return f"({' '.join(choices)})" if choices else "_files" if option.is_path else " "


def _name_function(words: Sequence[str]) -> str:
    return "_" + "_".join(words)


def _write_fish(all_commands: Sequence[Command]) -> str:
    """Write calls of fish's `complete`, each for one word that it offers.

    -c names the command. The word is an argument (-a), a long option (-l) or a short one (-s); -d is its
    description, and it is offered only where the condition (-n) holds. -f turns off names of files, and -F
    offers them.
    """
    summaries = {command.words: command.summary for command in all_commands}
    lines = ["# fish completion for tamis; written by `tamis completion fish`", "complete -c tamis -f"]
    for command in all_commands:
        condition = _format_fish_condition(command)
        lines += [
            f"complete -c tamis -n {condition} -a {name} -d {_quote(summaries[(*command.words, name)])}"
            for name in command.subcommands
        ]
        for option in command.options:
            parts = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
            if option.is_path:
                parts.append("-r -F")  # a value is required, and files are suggested
            elif option.value_names:
                parts.append("-x")  # a value is required, and files are not suggested
            if option.choices:
                parts.append(f"-a {_quote(' '.join(option.choices))}")
            lines.append(f"complete -c tamis -n {condition} {' '.join(parts)} -d {_quote(option.help)}")
        for argument in command.arguments:
            choices = argument.choices or tuple(_list_topics(command, all_commands))
            values = f"-a {_quote(' '.join(choices))}" if choices else "-F" if argument.is_path else ""
            if values:
                lines.append(f"complete -c tamis -n {condition} {values}")
    return "\n".join([*lines, ""])


def _format_fish_condition(command: Command) -> str:
    """Write the condition that the line has all words of this command, and no subcommand after them.

    The functions of this condition are fish's own.
    """
    if len(command.words) == 1:
        return "__fish_use_subcommand"
    tests = [f"__fish_seen_subcommand_from {word}" for word in command.words[1:]]
    if command.subcommands:
        tests.append(f"not __fish_seen_subcommand_from {' '.join(command.subcommands)}")
    return _quote("; and ".join(tests))


def _quote(text: str) -> str:
    """Quote a text for a shell: in single quotes, with each single quote in it as '\\''."""
    return "'" + text.replace("'", "'\\''") + "'"


SHELLS = {"bash": _write_bash, "zsh": _write_zsh, "fish": _write_fish}
