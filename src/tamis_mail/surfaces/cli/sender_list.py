"""The lists of allowed and of blocked senders, as `tamis allow` and `tamis block` change and print them."""

import re
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple, TextIO

from tamis_mail.files import IrregularFileError, open_regular
from tamis_mail.mailbox.raw_message import printable
from tamis_mail.settings import default_path
from tamis_mail.store import Store, has_store, people
from tamis_mail.surfaces.cli.parser import Parser, add_quiet_option, add_store_option

_MAX_BYTES = 50_000_000  # of a file of entries: two million of 25 bytes each
_MAX_LINES = 20  # if there are more changes, they are counted, and not listed
_COMMENT = re.compile(r"(?:^|\s)#.*")  # in an address, # is not the start of a comment


class SenderList(NamedTuple):
    """One of the two lists, and the words for it."""

    is_allowed: bool
    command: str  # the command that changes it
    state: str  # the adjective for its entries


ALLOWED = SenderList(is_allowed=True, command="allow", state="allowed")
BLOCKED = SenderList(is_allowed=False, command="block", state="blocked")


def configure_list(parser: Parser, sender_list: SenderList) -> None:
    """Add the options of `tamis allow` or `tamis block`, whichever changes this list."""
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"an address or a domain to {sender_list.command}"
    )
    parser.add_argument(
        "--from", dest="file", metavar="FILE", help="read names from a file, one per line (-: standard input)"
    )
    parser.add_argument("--remove", action="store_true", help="remove the names from the list")
    parser.add_argument("--list", action="store_true", help=f"list the {sender_list.state} senders")
    add_store_option(parser)
    add_quiet_option(parser)


def change_list(out: TextIO, options: Namespace, sender_list: SenderList) -> int:
    """Add, remove or list entries, as the options say."""
    has_entries = bool(options.names) or options.file is not None
    if options.list and (has_entries or options.remove):
        options.parser.error("--list shows the whole list: leave the names, --from and --remove out")
    if options.remove and not has_entries:
        options.parser.error("--remove needs a NAME, or --from FILE with several")
    path = options.store or default_path()
    if not has_entries:
        return _print_list(out, path, sender_list, quiet=options.quiet)
    entries = [_parse_entry(text, prefix="") for text in options.names]
    if options.file is not None:
        entries += _read_file(options.file)
    if options.remove and not has_store(path):
        raise ValueError(
            f"there is no store at {printable(str(path))}, so nobody is {sender_list.state}: check --store"
        )
    with Store(path) as store:
        change = people.remove_entries if options.remove else people.add_entries
        before = change(store, entries, is_allowed=sender_list.is_allowed)
        correspondents = people.look_up(store, entries).correspondents
    if not options.quiet:
        out.writelines(
            f"{line}\n" for line in _describe_changes(before, sender_list, is_removal=options.remove)
        )
        # Of each address: the numbers of sent messages to it and from it.
        for address, (_, n_sent_from) in correspondents.items():
            if n_sent_from and sender_list.is_allowed and not options.remove:
                sys.stderr.write(
                    f"tamis allow: you write from {printable(address)}, and spam often forges the address of "
                    "its recipient: allow it only if your mail server checks DMARC\n"
                )
    return 0


def _print_list(out: TextIO, path: object, sender_list: SenderList, *, quiet: bool) -> int:
    entries: list[str] = []
    if has_store(str(path)):
        with Store(str(path), create=False, readonly=True) as store:
            entries = people.list_entries(store, is_allowed=sender_list.is_allowed)
    out.writelines(f"{printable(_format_entry(entry))}{_format_comment(entry)}\n" for entry in entries)
    if not entries and not quiet:
        sys.stderr.write(
            f"tamis {sender_list.command}: nobody is {sender_list.state} yet: add a sender with "
            f"tamis {sender_list.command} ann@example.org\n"
        )
    return 0


def _format_entry(entry: str) -> str:
    """Format an entry as users write it.

    A domain loses its @; a top-level domain gets a dot instead: @top → .top.
    """
    if not entry.startswith("@"):
        return entry
    domain = entry.removeprefix("@")
    is_top_level = "." not in domain and not domain.startswith("[")  # [ begins an IP address
    return f".{domain}" if is_top_level else domain


def _format_comment(entry: str) -> str:
    """Return the Unicode form of a domain with punycode (xn--…), as a comment that `--from` ignores.

    Return "" if the domain has no punycode, or none that can be decoded.
    """
    domain = entry.rpartition("@")[2]
    if "xn--" not in domain:
        return ""
    labels = []
    for label in domain.split("."):
        try:
            text = label.removeprefix("xn--").encode().decode("punycode") if label[:4] == "xn--" else label
        except UnicodeError:
            return ""
        labels.append(text)
    return f"  # {printable('.'.join(labels))}"


def _parse_entry(text: str, prefix: str) -> str:
    try:
        return people.parse_entry(text)
    except ValueError as error:
        raise ValueError(f"{prefix}{error}; nothing was changed") from None


def _read_file(name: str) -> list[str]:
    """Read the entries of a file; the error of an invalid entry names its line."""
    shown = "standard input" if name == "-" else printable(name)  # the name in error messages
    if name == "-":
        data = sys.stdin.buffer.read(_MAX_BYTES + 1) if sys.stdin is not None else b""
    else:
        try:
            with open_regular(name) as file:
                data = file.read(_MAX_BYTES + 1)
        except IrregularFileError as error:
            raise ValueError(f"{shown} {error.strerror}: give a text file, or - and redirect it") from error
    if len(data) > _MAX_BYTES:
        raise ValueError(f"{shown} has more than {_MAX_BYTES // 10**6} MB, expected one name per line")
    entries = [_parse_entry(line, f"{shown}, line {number}: ") for number, line in _list_lines(data, shown)]
    if not entries:
        raise ValueError(f"{shown} has no names, expected one per line; nothing was changed")
    return entries


def _list_lines(data: bytes, shown: str) -> Iterator[tuple[int, str]]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{shown} is not text in UTF-8, expected one name per line") from None
    for number, line in enumerate(text.split("\n"), 1):
        entry = _COMMENT.sub("", line).strip()
        if entry:
            yield number, entry


def _describe_changes(
    before: dict[str, bool | None], sender_list: SenderList, *, is_removal: bool
) -> Iterator[str]:
    """Describe the changes: one line each, or, if there are many, one for all.

    `before` says of each entry whether it was allowed (True), blocked (False) or on neither list (None).
    """
    opposite = BLOCKED if sender_list.is_allowed else ALLOWED
    # The state of an entry before the change → the words for the outcome.
    if is_removal:
        words = {
            sender_list.is_allowed: f"no longer {sender_list.state}",
            opposite.is_allowed: f"{opposite.state}, not {sender_list.state} "
            f"(see tamis {opposite.command} --remove)",
            None: f"was not {sender_list.state}",
        }
    else:
        words = {
            sender_list.is_allowed: f"{sender_list.state} already",
            opposite.is_allowed: f"{sender_list.state} (it was {opposite.state} before)",
            None: sender_list.state,
        }
    if len(before) <= _MAX_LINES:
        yield from (f"{printable(_format_entry(entry))}: {words[state]}" for entry, state in before.items())
    else:
        numbers = Counter(words[state] for state in before.values())
        yield "; ".join(f"{number:,} {description}" for description, number in numbers.items())
