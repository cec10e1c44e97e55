"""`tamis store`: backup, restore, export, import, merge, copy, prune, decay, compact, upgrade and check.

The programs `bogoutil` of bogofilter and `sa-learn` of SpamAssassin write what these filters have counted as
text.
"""

import os
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from gzip import GzipFile
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, TextIO, cast

from tamis.progress import Line
from tamis_mail.files import IrregularFileError, open_regular, replace_file
from tamis_mail.mailbox import Source, SourceError
from tamis_mail.mailbox.raw_message import printable
from tamis_mail.reporting.wording import format_size
from tamis_mail.settings import default_path
from tamis_mail.store import Store, StoreError, exchange, import_foreign, maintenance, people, saving
from tamis_mail.surfaces.cli.parser import Parser, add_quiet_option, add_store_option
from tamis_mail.surfaces.cli.sources import SourceReader, Task, open_sources, run_tasks
from tamis_mail.surfaces.cli.streams import ERROR_STATUS

if TYPE_CHECKING:
    from tamis_mail.sieve import Sieve
    from tamis_mail.sieve.upgrading import Upgrade

_MAX_CONTRADICTIONS = 10  # senders that `merge` names: one store allows and the other one blocks them
# Maximum ratio of unpacked to packed size. Exports compress to a fifth, the most regular to a fiftieth, and
# zeros to a thousandth.
_MAX_RATIO = 200

# How good verdicts are after an import, as measured by experiments/0011-bogofilter-import.
_EXPECTATIONS = {
    "bogofilter": "expect verdicts about as good as bogofilter's: more spam is called spam, and about 1 in "
    "1,000 wanted messages more; about 100 of your own messages of each kind improve them (tamis learn)",
    "spamassassin": "expect fewer spam messages to be found than by SpamAssassin, since only words of the "
    "body could be used, until you learn your own mail of both kinds (tamis learn)",
}

ACTIONS = {
    "backup": "write the store to one file, safe while others read and write",
    "restore": "restore the store from a backup",
    "export": "write the contents of the store as text",
    "import": "read an export, or counts of bogofilter or SpamAssassin",
    "merge": "add the contents of another store",
    "copy": "copy a store to another file, or to a server that several hosts share",
    "prune": "drop features of little weight, to save space",
    "decay": "halve the weight of everything learned so far",
    "compact": "return unused space to the disk",
    "upgrade": "learn the mail of an older store again, under the present tokens",
    "check": "look for damage; exit with 3 if there is any",
}


def configure(parser: Parser) -> None:
    parser.description = "Maintain the store, the file that holds everything learned."
    parser.examples = [
        ("tamis store backup ~/backups/mail.tamis", "save it"),
        ("tamis store merge ~/laptop.tamis", "join two"),
        ("bogoutil -d wordlist.db | tamis store import --format bogofilter", "move from bogofilter"),
    ]
    group = parser.add_subparsers(
        dest="action", metavar="ACTION", title="actions", required=True, prog=parser.prog
    )
    for name, summary in ACTIONS.items():
        subparser = group.add_parser(
            name, help=summary, summary=summary, description=f"{summary[0].upper()}{summary[1:]}."
        )
        _CONFIGURE[name](subparser)
        if name != "copy":
            add_store_option(subparser)
        add_quiet_option(subparser)


def run(out: TextIO, options: Namespace) -> int:
    lines, status = _RUN[options.action](options)
    if not options.quiet or status:
        out.writelines(f"{printable(line)}\n" for line in lines)
    return status


Outcome = tuple[list[str], int]  # lines of output, exit status


def _make_configuration(command: str, purpose: str, file_help: str = "") -> Callable[[Parser], None]:
    """Return a function that adds one example to a parser and, if it has a help, the argument FILE."""

    def configure_action(parser: Parser) -> None:
        if file_help:
            parser.add_argument("file", metavar="FILE", help=file_help)
        parser.examples = [(command, purpose)]

    return configure_action


def _configure_export(parser: Parser) -> None:
    parser.add_argument(
        "file",
        nargs="?",
        default="-",
        metavar="FILE",
        help="output file (default: standard output); .gz is compressed",
    )
    parser.examples = [
        ("tamis store export mail.txt.gz", "compressed"),
        ("tamis store export | head", "look at it"),
    ]


def _configure_import(parser: Parser) -> None:
    parser.description = (
        "Read an export into an empty store; or add the counts of another filter to a store. Such counts "
        "cannot be forgotten message by message. bogofilter's word list is kept apart: mail is judged by it, "
        "too, and it counts less the more of your own mail you learn. SpamAssassin stores hashes, not words: "
        "give mail (--words) whose words are tried."
    )
    parser.add_argument(
        "file",
        nargs="?",
        default="-",
        metavar="FILE",
        help="input file (default: standard input); .gz is unpacked",
    )
    parser.add_argument(
        "--format",
        choices=("tamis", "bogofilter", "spamassassin"),
        default="tamis",
        metavar="FORMAT",
        help="an export (tamis, the default), bogoutil -d (bogofilter) or sa-learn --backup (spamassassin)",
    )
    parser.add_argument(
        "--words",
        action="append",
        metavar="PATH",
        default=[],
        help="mail whose words SpamAssassin may have counted; may be given several times",
    )
    parser.examples = [
        ("tamis store import mail.txt.gz", "an export"),
        ("bogoutil -d ~/.bogofilter/wordlist.db | tamis store import --format bogofilter", "from bogofilter"),
        ("sa-learn --backup | tamis store import --format spamassassin --words ~/Mail", "from SpamAssassin"),
    ]


def _configure_merge(parser: Parser) -> None:
    parser.description = (
        "Add the contents of another store. A message that both stores have learned counts once; if they "
        "gave it different labels, the label that was learned later is kept. Merging again changes nothing."
    )
    parser.add_argument("file", metavar="STORE", help="the other store, which is not changed")
    parser.examples = [("tamis store merge ~/laptop.tamis", "combine two machines")]


def _configure_copy(parser: Parser) -> None:
    parser.description = (
        "Copy everything that a store holds to another one, which must be empty. Either is a file, or the "
        "address of a store on a server: postgresql://user@host/database?store=name, or "
        "redis://host:6379/0?store=name. Counts, weights and lists are the same afterwards, to the bit; the "
        "log of events is not copied."
    )
    parser.add_argument("source", metavar="FROM", help="the store, which is not changed")
    parser.add_argument("target", metavar="TO", help="the new store")
    parser.add_argument("--replace", action="store_true", help="replace all that the other store has learned")
    parser.examples = [
        ("tamis store copy ~/mail.tamis redis://mail.example.org/0?store=site", "move to a server"),
        ("tamis store copy postgresql://mail@db/mail?store=site copy.tamis", "get it back in a file"),
    ]


def _configure_prune(parser: Parser) -> None:
    parser.description = (
        "Drop words and pairs of words that were seen once, or more often before decays, as long as all of "
        "them together change the log-odds of any message by at most a bound. With --halvings, drop all "
        "features whose weight is at most that of one message after that many decays: that saves the most "
        "space, and verdicts may change. Pruned features return only by learning again."
    )
    parser.add_argument(
        "--bound",
        type=float,
        default=0.5,
        metavar="X",
        help="maximum change of the log-odds of a message (default: 0.5)",
    )
    parser.add_argument(
        "--halvings",
        type=int,
        metavar="N",
        help="drop weights up to that of one message after N decays (0: all that were seen once)",
    )
    parser.examples = [
        ("tamis store prune", "without noticeable change of verdicts"),
        ("tamis store decay && tamis store prune --halvings 1", "drop what was seen once, before the decay"),
    ]


def _configure_upgrade(parser: Parser) -> None:
    parser.description = (
        "Learn the mail of an older store again, so that it counts the tokens of this tamis. An older store "
        "works as before until then.\n\n"
        "All remembered messages are looked for in the mailboxes that they were learned from, and in the "
        "given PATHs. Labels, weights and times stay. If a message is not found, the store stays as it is. "
        "Counts of another filter and the results of tamis tune belong to the old tokens and are dropped. "
        "The old store is kept beside the new one, as a backup. A tamis that does not know the new tokens "
        "refuses the new store: upgrade tamis first wherever the store is used."
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="mail, where mailboxes have moved")
    parser.add_argument(
        "--partial",
        action="store_true",
        help="drop messages that are not found, and counts of another filter",
    )
    parser.examples = [
        ("tamis store upgrade", "from the mailboxes that were learned"),
        ("tamis store upgrade ~/Mail ~/old-archive.mbox", "mailboxes have moved"),
    ]


def _configure_decay(parser: Parser) -> None:
    parser.description = (
        "Halve the weight of everything learned so far, so that newer mail counts more. Messages can "
        "still be forgotten exactly."
    )
    parser.examples = [("tamis store decay", "as from cron, twice a year")]


_CONFIGURE: dict[str, Callable[[Parser], None]] = {
    "backup": _make_configuration(
        "tamis store backup ~/backups/mail.tamis", "replaces an older backup", "output file"
    ),
    "restore": _make_configuration(
        "tamis store restore ~/backups/mail.tamis", "checked before use", "a file that backup wrote"
    ),
    "export": _configure_export,
    "import": _configure_import,
    "merge": _configure_merge,
    "copy": _configure_copy,
    "prune": _configure_prune,
    "decay": _configure_decay,
    "compact": _make_configuration("tamis store compact", "after forgetting much mail"),
    "upgrade": _configure_upgrade,
    "check": _make_configuration(
        "tamis store check && tamis store backup ~/backups/mail.tamis", "before a backup"
    ),
}


def _backup(options: Namespace) -> Outcome:
    with _open_store(options) as store:
        saving.backup(store, options.file)
    size = format_size(Path(options.file).stat().st_size)
    return [f"{_store_name(options)} is saved in {printable(options.file)} ({size})"], 0


def _restore(options: Namespace) -> Outcome:
    path = options.store or default_path()
    saving.restore(options.file, path)
    return [f"{_store_name(options)} is restored from {printable(options.file)}"], 0


def _export(options: Namespace) -> Outcome:
    with _open_store(options, readonly=True) as store:
        if options.file == "-":
            exchange.export(store, sys.stdout.buffer)
            return [], 0
        path = Path(options.file)
        with replace_file(path) as file:
            if path.suffix == ".gz":
                with import_module("gzip").GzipFile("", "wb", fileobj=file) as packed:
                    exchange.export(store, packed)
            else:
                exchange.export(store, file)
    size = format_size(path.stat().st_size)
    return [f"{_store_name(options)} is written as text to {printable(options.file)} ({size})"], 0


def _import(options: Namespace) -> Outcome:
    if options.words and options.format != "spamassassin":
        options.parser.error("--words is for --format spamassassin: leave it out")
    if options.format == "spamassassin" and not options.words:
        options.parser.error(
            "SpamAssassin stores hashes, not words: give mail whose words are tried, --words PATH"
        )
    path = Path(options.file)
    sources = open_sources(options.words) if options.words else []
    with (
        _open_text(None if options.file == "-" else path) as file,
        Store(options.store or default_path()) as store,
    ):
        if options.format == "tamis":
            messages = exchange.load(store, file)
            _fit_weights(store)
            return [f"{messages:,} messages were imported into {_store_name(options)}"], 0
        if options.format == "bogofilter":
            summary = import_foreign.load_bogofilter(store, file)
        else:
            words = (word for source in sources for message in source for word in message.raw.lower().split())
            summary = import_foreign.load_spamassassin(store, file, words)
            _fit_weights(store)
    malformed_note = [f"{summary.malformed:,} lines were skipped"] if summary.malformed else []
    return [
        f"{summary.spam:,} spam and {summary.ham:,} ham messages added to {_store_name(options)}",
        f"{summary.matched:,} of {summary.tokens:,} tokens could be used",
        *malformed_note,
        _EXPECTATIONS[options.format],
    ], 0


def _merge(options: Namespace) -> Outcome:
    with (
        Store(options.file, create=False, readonly=True) as other,
        Store(options.store or default_path()) as store,
        _show_progress("merge", options) as progress,
    ):
        contradictions = people.find_contradictions(store, other)
        summary = maintenance.merge(store, other, progress)
        _fit_weights(store)
    lines = [f"{summary.added:,} messages of {printable(options.file)} added to {_store_name(options)}"]
    if summary.shared:
        lines.append(f"{summary.shared:,} messages were in both stores, and count once")
    if summary.differing:
        lines.append(
            f"{summary.differing:,} of them had different labels: the label that was learned later is kept"
        )
    return [*lines, *_describe_contradictions(contradictions, printable(options.file))], 0


def _copy(options: Namespace) -> Outcome:
    source_name, target_name = (_read_location(text) for text in (options.source, options.target))
    copying = import_module("tamis_mail.store.copying")
    with (
        Store(source_name, create=False, readonly=True) as source,
        Store(target_name) as target,
        _show_progress("copy", options) as progress,
    ):
        messages = copying.copy(source, target, progress, replace=options.replace)
    return [f"{messages:,} messages of {printable(source.name)} copied to {printable(target.name)}"], 0


def _read_location(text: str) -> str:
    """Return a path or an address; sqlite: may be written before a path."""
    if not text.startswith("sqlite:"):
        return text
    path = text.removeprefix("sqlite:")
    return path.removeprefix("//")


def _describe_contradictions(contradictions: Sequence[tuple[str, bool]], other: str) -> list[str]:
    """Describe the senders that one store allows and the other one blocks."""
    lines = [
        f"{printable(entry.removeprefix('@'))} stays {'allowed' if is_allowed else 'blocked'}, "
        f"and is {'blocked' if is_allowed else 'allowed'} in {other}"
        for entry, is_allowed in contradictions[:_MAX_CONTRADICTIONS]
    ]
    if len(contradictions) > _MAX_CONTRADICTIONS:
        lines.append(f"and {len(contradictions) - _MAX_CONTRADICTIONS:,} other senders likewise")
    return lines


def _prune(options: Namespace) -> Outcome:
    if options.halvings is not None and options.halvings < 0:
        options.parser.error(f"--halvings {options.halvings} is invalid, expected 0 or more")
    if not options.bound > 0:
        options.parser.error(f"--bound {options.bound} is invalid, expected log-odds above 0, such as 0.5")
    with _open_store(options) as store, _show_progress("prune", options) as progress:
        if options.halvings is None:
            result = import_module("tamis_mail.sieve.pruning").prune(store, options.bound, progress)
        else:
            result = maintenance.prune(store, options.halvings, progress)
            if result.dropped:
                _fit_weights(store)
    return [
        f"{result.dropped:,} features dropped, {result.kept:,} kept",
        (
            f"{_store_name(options)} was {format_size(result.bytes_before)} and is "
            f"{format_size(result.bytes_after)}"
        ),
    ], 0


def _decay(options: Namespace) -> Outcome:
    with _open_store(options) as store:
        decays = maintenance.decay(store)
        _fit_weights(store)
    return [
        f"everything learned so far counts half; the store was decayed {decays} time{'s' * (decays != 1)}"
    ], 0


def _compact(options: Namespace) -> Outcome:
    with _open_store(options) as store, _show_progress("compact", options) as progress:
        bytes_after = maintenance.compact(store, progress)
    return [f"{_store_name(options)} is now {format_size(bytes_after)}"], 0


def _upgrade(options: Namespace) -> Outcome:
    upgrading = import_module("tamis_mail.sieve.upgrading")
    sources = open_sources(options.paths) if options.paths else []
    with _open_store(options) as store:
        if not upgrading.is_upgradable(store):
            return [f"{_store_name(options)} counts the present tokens: there is nothing to do"], 0
        imported = sum(label.lent for label in store.labels())  # counts of another filter
        if imported and not options.partial:
            raise StoreError(
                f"the store {_store_name(options)} has counts of another filter, which cannot be learned "
                "again: give --partial to drop them, then import them again, or keep the store as it is"
            )
        backup = Path(f"{store.path.resolve()}.before-upgrade")
        if fault := saving.find_backup_fault(store, backup):
            raise StoreError(
                f"the old store would be kept as {printable(str(backup))}, which {fault}: move that away, "
                "then run the command again"
            )
        had_rule = bool(store.setting("rule"))  # `tamis tune` has written one
        prunings = store.prunings()
        with upgrading.begin_upgrade(store) as upgrade:
            known_sources, are_all_readable = _open_known_sources(upgrade.list_sources(), options.paths)
            sources += known_sources
            tasks = (
                Task(source, partial(_relearn, upgrade), ("learned", "known", "unknown"))
                for source in sources
                if not upgrade.is_complete()
            )
            _, status = run_tasks(
                sys.stdout,
                "store upgrade",
                options,
                tasks,
                so_far="the store is unchanged, messages found so far",
            )
            missing = upgrade.count_missing()
            messages = upgrade.messages - missing.total()
            if missing and not (options.partial and messages):
                raise StoreError(
                    _describe_missing(
                        missing, upgrade.messages, _store_name(options), is_partial=options.partial
                    )
                )
            try:
                upgrade.finish(backup)
            except KeyboardInterrupt:
                state = (
                    "is unchanged; run again to go on" if upgrading.is_upgradable(store) else "is upgraded"
                )
                raise KeyboardInterrupt(f"interrupted; the store {state}") from None
    lines = [
        (
            f"{_store_name(options)} has learned {messages:,} messages again; "
            f"the old store is {printable(str(backup))}"
        )
    ]
    if missing:
        lines.append(f"{missing.total():,} messages were not found, and are dropped")
    if imported:
        lines.append("the counts of another filter are dropped: import them again (tamis store import)")
    if had_rule:
        lines.append("the weights and thresholds that tamis tune had set are dropped: run tamis tune again")
    if prunings:
        lines.append(
            "the features that had been pruned are back: prune again to save space (tamis store prune)"
        )
    # Mail that could not be read is an error only if messages are missing.
    return lines, ERROR_STATUS if missing and (status or not are_all_readable) else 0


def _relearn(upgrade: "Upgrade", reader: SourceReader) -> Counter[str]:
    return upgrade.learn(reader.contents(), reader.advance)


def _open_known_sources(names: Sequence[str], paths: Sequence[str]) -> tuple[list[Source], bool]:
    """Open the mailboxes that the journal names, if they are still there and not among the given paths.

    Return also whether all of these can be read; for each that cannot, the reason is printed.
    """
    given = [os.path.realpath(path) for path in paths]
    sources = []
    are_all_readable = True
    for name in names:
        real_path = os.path.realpath(name)
        is_given = any(real_path == path or real_path.startswith(path + os.sep) for path in given)
        if Path(name).is_absolute() and not is_given:
            try:
                sources += open_sources([name])
            except SourceError as error:  # its messages are reported as missing
                if os.path.lexists(name):
                    are_all_readable = False
                    sys.stderr.write(f"tamis store upgrade: {printable(str(error))}\n")
    return sources, are_all_readable


def _describe_missing(missing: Counter[str], messages: int, path: str, *, is_partial: bool = False) -> str:
    """Describe in one line which messages were not found, and what to do.

    >>> _describe_missing(Counter({"/mail/a": 2, "stdin": 1}), 9, "x").partition(":")[0]
    '3 of 9 messages were not found (2 of /mail/a, 1 of stdin), so the store x stays as it is'
    >>> _describe_missing(Counter({"imap": 2}), 2, "x", is_partial=True).partition(": ")[2]
    'give the paths where they are now (save mail of an account as files first)'
    """
    parts = [f"{number:,} of {printable(name) or 'no name'}" for name, number in missing.most_common(3)]
    if len(missing) > len(parts):
        parts.append(f"others of {len(missing) - len(parts):,} more")
    account = " (save mail of an account as files first)" if "imap" in missing else ""
    partial = "" if is_partial else ", or --partial to drop them"  # it does not drop all messages of a store
    return (
        f"{missing.total():,} of {messages:,} messages were not found ({', '.join(parts)}), so the store "
        f"{path} stays as it is: give the paths where they are now{account}{partial}"
    )


def _check(options: Namespace) -> Outcome:
    with _open_store(options, readonly=True) as store, _show_progress("check", options) as progress:
        faults = maintenance.check(store, progress)
    if faults:
        advice = "restore a backup (tamis store restore), or learn your mail again into a new store"
        return [f"{_store_name(options)} is damaged: {advice}", *(f"  {fault}" for fault in faults)], 3
    return [f"{_store_name(options)} is sound"], 0


_RUN: dict[str, Callable[[Namespace], Outcome]] = {
    "backup": _backup,
    "restore": _restore,
    "export": _export,
    "import": _import,
    "merge": _merge,
    "copy": _copy,
    "prune": _prune,
    "decay": _decay,
    "compact": _compact,
    "upgrade": _upgrade,
    "check": _check,
}


def _fit_weights(store: Store) -> None:
    """Fit the weights to the messages whose features the store holds now, in a transaction of their own."""
    sieve: Sieve = import_module("tamis_mail.sieve").Sieve(store)
    sieve.fit_weights()


def _open_store(options: Namespace, *, readonly: bool = False) -> Store:
    return Store(options.store or default_path(), create=False, readonly=readonly)


def _store_name(options: Namespace) -> str:
    return printable(str(options.store or default_path()))


@contextmanager
def _open_text(path: Path | None) -> Iterator[IO[bytes]]:
    """Open a file, unpacked if its name ends in .gz, or standard input."""
    if path is None:
        yield sys.stdin.buffer
        return
    try:
        file = open_regular(path)
    except IrregularFileError as error:
        raise StoreError(
            f"{printable(str(path))} {error.strerror}: to read from a pipe, give - and redirect it to stdin"
        ) from error
    with file:
        if path.suffix == ".gz":
            with UnpackedExport(file) as unpacked:
                yield cast(IO[bytes], unpacked)
        else:
            yield file


class UnpackedExport(GzipFile):
    """Reads the lines of a compressed export; refuses one that unpacks to far more than an export does.

    That is more than _MAX_RATIO times the bytes that were read so far, plus 1 MB.
    """

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(fileobj=file)
        self._packed = file
        self._length = 0  # bytes of the lines that were read

    def readline(self, size: int | None = -1) -> bytes:
        line = super().readline(size)
        self._length += len(line)
        if self._length > _MAX_RATIO * self._packed.tell() + (1 << 20):
            raise StoreError(
                f"{printable(self._packed.name)} unpacks to more than {_MAX_RATIO} times its size, unlike an "
                "export: check the file; nothing was loaded"
            )
        return line


@contextmanager
def _show_progress(action: str, options: Namespace) -> Iterator[Callable[[float], None] | None]:
    """Yield a function that draws a progress bar, given the fraction that is done; None if none is shown."""
    line = Line(sys.stderr)
    if not line.is_terminal or options.quiet:
        yield None
        return

    def draw(fraction: float) -> None:
        if line.is_due(now := time.monotonic()):
            line.draw(f"{action} [{'#' * round(20 * fraction):<20}] {fraction * 100:3.0f} %", now)

    try:
        yield draw
    finally:
        line.draw("", 0.0)
