"""`tamis report`: evaluate the filter on labelled mail, in the terminal and on a page."""

import json
import math
from argparse import ArgumentTypeError, Namespace
from pathlib import Path
from textwrap import wrap
from typing import TextIO

from tamis_mail.mailbox.raw_message import printable
from tamis_mail.reporting.misses import Miss
from tamis_mail.reporting.page import page, refuse_unless_writable, write
from tamis_mail.reporting.report import Report, report
from tamis_mail.surfaces.cli.labelled_mail import ReadingProgress, add_mail_options, open_mail
from tamis_mail.surfaces.cli.layout import can_show, clip, make_displayable, pad
from tamis_mail.surfaces.cli.parser import Parser, add_quiet_option
from tamis_mail.surfaces.cli.streams import ERROR_STATUS, text_width
from tamis_mail.surfaces.cli.version import version

_DEFAULT_PAGE = "tamis-report.html"
_SHOWN = 8  # misses (misclassified messages) that are printed
_TOKENS = 4  # tokens of each miss that are printed


def configure(parser: Parser) -> None:
    parser.description = (
        "Evaluate how well mail is classified, by cross-validation: the mail is divided into ten folds, and "
        "each is judged by the other nine. Counts can be subtracted, so that the mail is read only once. "
        "The weights of the evidence are fitted to the messages that are learned, as in a store. Your store "
        "is not changed. Without any mail named, the sample mailbox is used.\n\n"
        "With --split, some messages are learned, others serve to choose the smoothing, and a third set, "
        "which was not used before, is judged; the rest is ignored.\n\n"
        "A miss is a message whose more probable label is wrong: spam with a probability of spam "
        "of at most one half, ham with more. Verdicts are more cautious: between the thresholds mail is "
        "unsure.\n\n"
        "A page with charts is written, too; it contains subjects and words of the mail."
    )
    add_mail_options(parser)
    add = parser.add_argument
    add(
        "--split",
        type=_parse_split,
        metavar="A/B/C",
        help="sizes of training, validation and test set, such as 400/50/50 (scaled down for less mail)",
    )
    add("--folds", type=int, metavar="K", help="number of folds of cross-validation (default: 10)")
    add("--seed", type=int, default=0, metavar="N", help="seed of the random order (default: 0)")
    add("--html", metavar="FILE", help=f"path of the page (default: {_DEFAULT_PAGE}; with --json none)")
    add("--no-html", action="store_true", help="write no page")
    add("--json", action="store_true", help="print one JSON object instead of text")
    add_quiet_option(parser)
    parser.examples = [
        ("tamis report", "try it on the sample mailbox"),
        ("tamis report ~/Maildir", "your mail, where a folder Junk is spam"),
        ("tamis report --spam Junk --ham Inbox Archive --folds 5", "by five folds"),
        ("tamis report --split 400/50/50", "learn 400 messages, judge 50 others"),
        ("tamis report --json ~/Maildir | jq .measures", "for programs"),
    ]


def run(out: TextIO, options: Namespace) -> int:
    if options.no_html and options.html:
        options.parser.error("got --html and --no-html, expected one of them")
    if options.folds is not None and options.split is not None:
        options.parser.error("got --folds and --split, expected one of them")
    if options.folds is not None and options.folds < 2:
        options.parser.error(f"got --folds {options.folds}, expected 2 or more: try --folds 10")
    if options.seed < 0:
        options.parser.error(f"got --seed {options.seed}, expected a whole number from 0")
    writes_page = not options.no_html and bool(options.html or not options.json)
    target = (options.html or _DEFAULT_PAGE) if writes_page else None  # path of the page
    if target:
        refuse_unless_writable(target)
    mail = open_mail(options)
    with ReadingProgress("report", mail, quiet=options.quiet) as reading:
        result = report(mail, sizes=options.split, folds=options.folds, seed=options.seed, on_message=reading)
    if target:
        write(page(result, version()), target)
    if options.json:
        out.write(json.dumps(result.as_dict()) + "\n")
    elif not options.quiet:
        out.writelines(f"{line.rstrip()}\n" for line in _Page(out, result).lines(target))
    return ERROR_STATUS if reading.unread else 0  # `unread` lists the files that could not be read


def _parse_split(text: str) -> tuple[int, int, int]:
    try:
        train, validation, test = (int(part) for part in text.split("/"))
    except ValueError:
        train = validation = test = 0
    if min(train, validation, test) < 1:
        raise ArgumentTypeError(f"got {text!r}, expected three numbers of messages from 1, such as 400/50/50")
    return train, validation, test


class _Page:
    """A report, formatted for the width and the charset of the terminal."""

    def __init__(self, out: TextIO, report: Report) -> None:
        self._out = out
        self._report = report
        self._width = text_width()
        self._dots = "…" if can_show(out, "…") else "..."
        self._times = "×" if can_show(out, "×") else "x"
        self._bars = "█" if can_show(out, "█") else "#"

    def lines(self, target: str | None) -> list[str]:
        report = self._report
        lines = self._wrap(f"{report.name}: {report.spam:,} spam, {report.ham:,} ham")
        lines += self._wrap(report.describe_split())
        if smoothing := report.describe_smoothing():
            lines += self._wrap(f"smoothing: {smoothing}".replace("×", self._times))
        lines += self._list_omissions()
        lines += [
            "",
            *self._format_measures(),
            "",
            *self._format_curve(),
            "",
            *self._format_calibration(),
            "",
            *self._format_misses(),
        ]
        if target:
            lines += ["", "charts: " + make_displayable(self._out, printable(str(Path(target).resolve())))]
        return lines

    def _wrap(self, text: str) -> list[str]:
        return wrap(make_displayable(self._out, text), self._width, break_on_hyphens=False)

    def _list_omissions(self) -> list[str]:
        """Say which messages were not judged; `study` holds the verdicts on those that were."""
        report = self._report
        lines = []
        if report.duplicates:
            lines += self._wrap(f"{report.duplicates:,} duplicates count once")
        if report.disputed:  # messages that were given under both labels
            lines += self._wrap(f"{report.disputed:,} that are among spam and among ham were left out")
        if report.study.unused:
            lines += self._wrap(f"not needed: {report.study.unused:,}; without --split all are judged")
        return lines

    def _format_measures(self) -> list[str]:
        measures = self._report.study.measures
        rows = [
            ("accuracy", format_percent(measures.accuracy), f"{measures.right:,} of {measures.messages:,}"),
            ("misses", f"{measures.misses:,}", ""),
            ("ham called spam", f"{measures.ham_called_spam:,}", f"of {measures.ham:,}"),
            ("spam called ham", f"{measures.spam_called_ham:,}", f"of {measures.spam:,}"),
            ("unsure", f"{measures.unsure:,}", ""),
            ("ROC area", _format_value(measures.roc_area), ""),
            ("log-loss", _format_value(measures.log_loss), ""),
            ("Brier score", _format_value(measures.brier), ""),
            ("calib. error", _format_value(measures.calibration_error), ""),
        ]
        return [f"{name:<15} {value:>7}  {note}" for name, value, note in rows]

    def _format_curve(self) -> list[str]:
        lines = [f"{'learned':>7} {'ROC area':>9} {'accuracy':>9}"]
        return lines + [
            f"{point.learned:>7,} {_format_value(point.roc_area):>9} {format_percent(point.accuracy):>9}"
            for point in self._report.study.curve
        ]

    def _format_calibration(self) -> list[str]:
        lines = [f"{'predict':>7} {'messages':>9} {'was spam':>9}"]
        bar_width = min(20, self._width - 29)  # the columns before the bar are 29 wide
        for one in self._report.bins:
            bar = self._bars * round(bar_width * one.observed)
            lines.append(f"{one.predicted:>7.3f} {one.messages:>9,} {format_percent(one.observed):>9}  {bar}")
        return lines

    def _format_misses(self) -> list[str]:
        report = self._report
        total = report.study.measures.misses
        if not total:
            return ["no misses"]
        worst = f"; the worst {_SHOWN}:" if total > _SHOWN else ":"
        lines = self._wrap(f"{total:,} misses, whose more probable label is wrong{worst}")
        for miss in report.misses[:_SHOWN]:
            lines += self._format_miss(miss)
        return lines

    def _format_miss(self, miss: Miss) -> list[str]:
        subject = clip(
            make_displayable(self._out, miss.subject or "(no subject)"), self._width - 2, self._dots
        )
        lines = [f"  {subject}"]
        lines.append(f"    {miss.label}, called {miss.called} (p {miss.probability:.3f})")
        token_width = max(8, min(30, self._width - 22))  # the other columns are up to 22 wide
        for one in miss.evidence[:_TOKENS]:
            token = pad(make_displayable(self._out, one.token), token_width, self._dots)
            lines.append(f"    {token} {one.contribution:>+6.2f}  {one.view}")
        return lines


def format_percent(fraction: float) -> str:
    """Format a fraction as a percentage: 98.4 %."""
    return f"{100 * fraction:.1f} %"


def _format_value(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"
