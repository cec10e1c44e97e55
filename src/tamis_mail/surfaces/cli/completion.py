"""`tamis completion`: write a completion script for bash, zsh or fish."""

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
    cases = []
    for command in all_commands:
        words = [*command.subcommands, *(name for option in command.options for name in option.names)]
        words += [choice for argument in command.arguments for choice in argument.choices]
        words += _list_topics(command, all_commands)
        key = " ".join(command.words[1:])
        files = any(argument.is_path for argument in command.arguments)
        cases.append(f"        '{key}') words='{' '.join(words)}' files={int(files)} ;;")
    options = [option for command in all_commands for option in command.options]
    choices = sorted(
        {(name, option.choices) for option in options if option.choices for name in option.names}
    )
    paths = sorted({name for option in options if option.is_path for name in option.names})
    value_cases = [f"        {name}) words='{' '.join(values)}' files=0 ;;" for name, values in choices]
    value_cases.append(f"        {'|'.join(paths)}) files=1 ;;")
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
            *cases,
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
    return list(all_commands[0].subcommands) if command.words[1:] == ("help",) else []


def _write_zsh(all_commands: Sequence[Command]) -> str:
    lines = ["#compdef tamis", "# zsh completion for tamis; written by `tamis completion zsh`", ""]
    summaries = {command.words: command.summary for command in all_commands}
    for command in all_commands:
        arguments = [_format_zsh_option(option) for option in command.options]
        if command.subcommands:
            arguments += ["'1: :->command'", "'*:: :->rest'"]
        for argument in command.arguments:
            prefix = "*" if argument.repeated else ""
            choices = argument.choices or tuple(_list_topics(command, all_commands))
            arguments.append(
                _quote(f"{prefix}:{argument.values[-1].lower()}:{_format_zsh_values(argument, choices)}")
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


_ZSH_LOCALS = ['    local curcontext="$curcontext" context state state_descr line', "    typeset -A opt_args"]


def _format_zsh_option(option: Option) -> str:
    text = option.help.replace("[", "(").replace("]", ")").replace(":", ";")
    value = (
        f":{option.values[-1].lower()}:{_format_zsh_values(option, option.choices)}" if option.values else ""
    )
    if option.repeated:  # `_arguments` reads values until the next word that matches the pattern -*
        value = f":*-*{value}"
    if len(option.names) > 1:
        names = " ".join(option.names)
        return f"{_quote(f'({names})')}{{{','.join(option.names)}}}{_quote(f'[{text}]{value}')}"
    return _quote(f"{'*' if option.repeated else ''}{option.names[0]}[{text}]{value}")


def _format_zsh_values(option: Option, choices: Sequence[str]) -> str:
    return f"({' '.join(choices)})" if choices else "_files" if option.is_path else " "


def _name_function(words: Sequence[str]) -> str:
    return "_" + "_".join(words)


def _write_fish(all_commands: Sequence[Command]) -> str:
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
            elif option.values:
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
    if len(command.words) == 1:
        return "__fish_use_subcommand"
    tests = [f"__fish_seen_subcommand_from {word}" for word in command.words[1:]]
    if command.subcommands:
        tests.append(f"not __fish_seen_subcommand_from {' '.join(command.subcommands)}")
    return _quote("; and ".join(tests))


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


SHELLS = {"bash": _write_bash, "zsh": _write_zsh, "fish": _write_fish}
