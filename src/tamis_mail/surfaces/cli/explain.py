"""`tamis explain`: print the verdict on a message, the sums of the views, and the strongest tokens."""

import sys
import time
from argparse import Namespace
from dataclasses import asdict
from importlib import import_module
from typing import TextIO

from tamis_mail.framing import exceeds_limit
from tamis_mail.mailbox import RawMessage
from tamis_mail.message import canonical, digest
from tamis_mail.reporting.evidence import select_strongest, sum_views
from tamis_mail.reporting.gram_spans import join_grams
from tamis_mail.reporting.wording import VIEW_TITLES, describe_verdict
from tamis_mail.settings import default_path
from tamis_mail.sieve import Sieve
from tamis_mail.store import has_store
from tamis_mail.surfaces.cli.layout import can_show, clip, make_displayable, pad, replace_hidden
from tamis_mail.surfaces.cli.parser import Parser, add_store_option
from tamis_mail.surfaces.cli.sources import describe_oversize, open_sources, path_bytes
from tamis_mail.surfaces.cli.streams import ERROR_STATUS, text_width
from tamis_mail.verdict import Verdict
from tamis_mail.verdict.judging import INTERCEPT_VIEW

_MAX_TOKENS = 10  # tokens that are shown for spam, and as many against it
# Overlapping n-grams are joined to spans; more than so many on each side would leave little space for other
# tokens.
_MAX_SPANS = 3
_HEAD = 4000  # bytes at the start of a message in which n-grams are searched; the tokenizer uses fewer
_WIDE = 56  # in a terminal of fewer columns, tables have fewer columns
_WITH_BARS = 72  # in a terminal of fewer columns, contributions are not drawn as bars


def configure(parser: Parser) -> None:
    parser.description = (
        "Show the verdict on a message and its evidence: how much words, header fields, pairs of words, "
        "relations (do links, signatures and addresses agree with From?) and n-grams of bytes add to the "
        "log-odds of spam, and the strongest tokens for and against spam, with the numbers of learned spam "
        "and ham messages that have them. The column 'sum' adds up to the log-odds. Without a PATH, one "
        "message is read from standard input."
    )
    parser.add_argument(
        "path",
        nargs="?",
        default="-",
        metavar="PATH",
        help="a message or a mailbox (default: standard input)",
    )
    parser.add_argument("--all", action="store_true", help="show all tokens, not only the strongest")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object per message, each on its own line"
    )
    add_store_option(parser)
    parser.examples = [
        ("tamis explain < message", "why?"),
        ("tamis explain --all message.eml | less", "everything"),
        ("tamis explain --json message.eml | jq .views", "for programs"),
    ]


def run(out: TextIO, options: Namespace) -> int:
    """Explain each message of a source."""
    (source,) = open_sources([options.path])
    path = options.store or default_path()
    if not has_store(path):
        raise ValueError(
            f"nothing has been learned yet ({path}), so nothing is explained: start with tamis learn --help"
        )
    with Sieve.open(path, create=False, readonly=True) as sieve:
        for number, message in enumerate(source):
            if exceeds_limit(message.raw):
                sys.stderr.write(f"tamis explain: {describe_oversize(message.name)}\n")
            canonical_bytes = canonical(message.raw)
            # `sort` takes the canonical form again, which changes nothing.
            verdict = sieve.sort(canonical_bytes)
            if options.json:
                out.write(_as_json(verdict, message, everything=options.all) + "\n")
                continue
            name = "" if source.kind in ("stdin", "message") else message.name
            if name and number:
                out.write("\n")
            page = _Page(out, verdict, canonical_bytes, None if options.all else _MAX_TOKENS)
            out.writelines(
                line.rstrip() + "\n" for line in page.lines(name, _note_if_learned(sieve, canonical_bytes))
            )
    return ERROR_STATUS if source.unread else 0  # some mail could not be read; it was reported


def _note_if_learned(sieve: Sieve, canonical_bytes: bytes) -> str:
    """Return a note if a message was learned, because then it is evidence for its own label."""
    entry = sieve.store.find_entry(digest(canonical_bytes))
    if entry is None:
        return ""
    when = time.strftime("%Y-%m-%d", time.localtime(entry.time))
    return (
        f"It was learned as {replace_hidden(entry.label)} on {when}, and counts here as evidence for itself."
    )


def _format_headline(verdict: Verdict) -> str:
    """Describe the verdict, and the entry of a list that decided it."""
    if verdict.listed is None:
        words = describe_verdict(replace_hidden(verdict.label), verdict.probability)
        return f"{words} (probability of spam {verdict.probability:.4f})"
    words = "spam" if verdict.label == "spam" else f"not spam: {replace_hidden(verdict.label)}"
    return (
        f"{words}, whatever the evidence ({replace_hidden(verdict.listed)}; "
        f"probability of spam by the evidence {verdict.probability:.4f})"
    )


def _as_json(verdict: Verdict, message: RawMessage, *, everything: bool) -> str:
    evidence = verdict.evidence
    strongest = (
        evidence
        if everything
        else [one for sign in (1, -1) for one in select_strongest(evidence, sign, 2 * _MAX_TOKENS)]
    )
    fields = {
        "name": message.name,
        **path_bytes(message),  # the path in base64, if `name` is ambiguous
        **({"cut": True} if exceeds_limit(message.raw) else {}),
        **({"listed": verdict.listed} if verdict.listed else {}),
        **({"remark": verdict.remark} if verdict.remark else {}),
        "label": verdict.label,
        "probability": verdict.probability,
        "log_odds": verdict.log_odds,
        "probabilities": dict(verdict.probabilities),
        "views": sum_views(evidence),
        "evidence": [asdict(one) for one in strongest],
    }
    return str(import_module("json").dumps(fields))


class _Page:
    """The explanation of one verdict, formatted for the width and the charset of the terminal."""

    def __init__(self, out: TextIO, verdict: Verdict, canonical_bytes: bytes, limit: int | None) -> None:
        self._verdict = verdict
        self._limit = limit
        self._width = text_width()
        self._bar = "█" if can_show(out, "█") else "#"
        self._dots = "…" if can_show(out, "…") else "..."
        self._out = out
        evidence = verdict.evidence
        head = canonical_bytes[:_HEAD].decode("utf-8", "replace")
        head = "".join(c if c.isprintable() else "·" for c in head)
        self._evidence = evidence
        # The intercept is not a token of the message: it has a row of its own among the sums.
        self._tokens = [one for one in evidence if one.view not in ("grams", INTERCEPT_VIEW)]
        self._grams = join_grams(head, [one for one in evidence if one.view == "grams"])

    def lines(self, name: str, note: str) -> list[str]:
        """Return all lines; a name and a note that are not empty are shown, too."""
        verdict = self._verdict
        lines = [self._clip(name)] if name else []
        lines += _wrap(make_displayable(self._out, _format_headline(verdict)), self._width)
        lines += _wrap(make_displayable(self._out, verdict.remark or ""), self._width)
        other_labels = {label: p for label, p in verdict.probabilities.items() if label != "spam"}
        if len(other_labels) > 1:
            ranked = sorted(other_labels.items(), key=lambda one: -one[1])
            lines += _wrap(
                "probabilities of the other labels: "
                + ", ".join(f"{replace_hidden(label)} {p:.3f}" for label, p in ranked[:5]),
                self._width,
            )
        lines += _wrap(note, self._width)
        return [
            *lines,
            "",
            *self._format_sums(),
            *self._format_side("for spam", 1),
            *self._format_side("against spam", -1),
        ]

    def _format_sums(self) -> list[str]:
        """Return a table of the contributions of each view: for spam, against it, and their sum."""
        is_wide = self._width >= _WIDE
        number = 9 if is_wide else 8  # width of a column
        title = max(map(len, VIEW_TITLES.values()))  # width of the first column
        head = f"{'for':>{number}}{'against':>{number}}" if is_wide else ""
        lines = [f"{'':<{title}}{head}{'sum':>{number}}"]
        for view in sum_views(self._evidence):
            contributions = [one.contribution for one in self._evidence if one.view == view]
            parts = (sum(c for c in contributions if c > 0), sum(c for c in contributions if c < 0))
            cells = "".join(f"{part:>+{number}.2f}" for part in parts) if is_wide else ""
            lines.append(f"{VIEW_TITLES.get(view, view):<{title}}{cells}{sum(parts):>+{number}.2f}")
        gap = " " * 2 * number if is_wide else ""
        return [*lines, f"{'log-odds':<{title}}{gap}{self._verdict.log_odds:>+{number}.2f}"]

    def _format_side(self, title: str, sign: int) -> list[str]:
        """Return a table of the strongest evidence for spam (`sign` 1) or against it (-1)."""
        max_spans = None if self._limit is None else _MAX_SPANS
        evidence = [
            *select_strongest(self._tokens, sign, self._limit),
            *select_strongest(self._grams, sign, max_spans),
        ]
        if not evidence:
            return ["", f"{title}: nothing"]
        largest = max(abs(one.contribution) for one in evidence)
        # widths of columns: spam, ham and contribution together, then the view, the bar and the token
        numbers = 7 + 7 + 8
        view = 10 if self._width >= _WIDE else 0
        bar = 12 if self._width >= _WITH_BARS else 0
        token = max(8, self._width - numbers - view - (bar + 1 if bar else 0) - 1)

        def format_row(text: str, view_name: str) -> str:
            view_cell = f"{clip(view_name, view - 1, self._dots):<{view}}" if view else ""
            return f"{pad(text, token, self._dots)} {view_cell}"

        lines = ["", f"{format_row(title, 'view')}{'spam':>7}{'ham':>7}{'weight':>8}"]
        for one in evidence:
            line = format_row(make_displayable(self._out, one.token), one.view)
            line += f"{_format_count(one.spam):>7}{_format_count(one.ham):>7}{one.contribution:>+8.3f}"
            if bar:
                line += " " + self._bar * max(1, round(bar * abs(one.contribution) / largest))
            lines.append(line)
        return lines

    def _clip(self, text: str) -> str:
        return clip(make_displayable(self._out, text), self._width, self._dots)


def _format_count(number: float) -> str:
    return f"{number:.0f}" if abs(number - round(number)) < 0.05 else f"{number:.1f}"


def _wrap(text: str, width: int) -> list[str]:
    lines: list[str] = import_module("textwrap").wrap(text, width)
    return lines
