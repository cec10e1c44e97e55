"""`tamis demo`: learn, sort, explain and forget a mailbox, or a sample, in the terminal.

Everything happens in a temporary folder: no mail and no store of the user is changed.
"""

import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from textwrap import wrap
from typing import TextIO

from tamis.progress import Line
from tamis_mail import sample
from tamis_mail.mailbox.raw_message import printable
from tamis_mail.message import canonical, digest
from tamis_mail.reporting.mail import open_labelled
from tamis_mail.reporting.misses import is_readable, subject_of
from tamis_mail.reporting.wording import VIEW_TITLES, describe_verdict
from tamis_mail.sieve import Sieve
from tamis_mail.surfaces.cli.layout import can_show, clip, make_displayable, pad
from tamis_mail.surfaces.cli.parser import Parser
from tamis_mail.surfaces.cli.report import format_percent
from tamis_mail.surfaces.cli.streams import terminal_width
from tamis_mail.verdict import Verdict

_MAX_READ = 1000  # messages of each folder that are read
_MAX_USED = 350  # messages of each class that are used
_MIN_MESSAGES = 5  # of each class
_MISSES = 4  # misclassified messages that are printed
_TOKENS = 4  # tokens for spam, and as many against it, that are printed
_HELD_OUT = 5  # one message in so many is held out
_OTHER_COLUMNS = 23  # columns of a line of evidence besides the token and its bar

LabelledMessage = tuple[bytes, bool]  # a raw message, and whether it is spam


def configure(parser: Parser) -> None:
    parser.description = (
        "Demonstrate tamis: learn most of a mailbox, sort the rest, explain a verdict, and forget a "
        "message. The mailbox is a sample, or your own. Nothing is stored, and your mail is only read."
    )
    add = parser.add_argument
    add(
        "--mailbox",
        metavar="FOLDER",
        help="your own mail, in a folder whose subfolders are named by their content, as Junk is",
    )
    add("--web", action="store_true", help="open a page that shows the mailbox in the browser instead")
    add("--no-open", action="store_true", help="with --web: print the address only")
    add(
        "--statistics",
        action="store_true",
        help="show textbook examples of the statistics behind tamis instead",
    )
    parser.examples = [
        ("tamis demo", "on a sample mailbox"),
        ("tamis demo --mailbox ~/Maildir", "on your own mail"),
        ("tamis demo --web", "on a page in the browser"),
    ]


def run(out: TextIO, options: Namespace) -> int:
    if options.statistics:
        if options.mailbox or options.web:
            other = "--mailbox" if options.mailbox else "--web"
            options.parser.error(f"got --statistics and {other}, expected one of them")
        import_module("tamis_mail.surfaces.cli.textbook_examples").show(out)
        return 0
    with TemporaryDirectory(prefix="tamis-demo-") as folder:
        root = options.mailbox
        if root is None:
            root = str(Path(folder, "mailbox"))
            with _announce("making a sample mailbox"):
                sample.write(root)
        with _announce("reading mail"):
            training, test = _split_messages(_read_messages(root))
        if options.web:
            _serve_page(out, Path(folder, "demo.tamis"), training, root, opens_browser=not options.no_open)
            return 0
        with Sieve.open(Path(folder, "demo.tamis")) as sieve:
            _Demonstration(out, sieve, training, test, options.mailbox).run()
    return 0


def _serve_page(
    out: TextIO, store: Path, training: Sequence[LabelledMessage], root: str, *, opens_browser: bool
) -> None:
    """Learn the training messages, and serve the page on all messages of the mailbox until a signal comes."""
    with _announce(f"learning {len(training)} messages"), Sieve.open(store) as sieve:
        # The page shows the source of each learned message; the demonstration in the terminal does not.
        for label in ("spam", "ham"):
            sieve.learn_many(_select(training, label), label, source=root, processes=1)
    serve_page = import_module("tamis_mail.surfaces.web.command").serve_page
    serve_page(out, store, mail=[root], opens_browser=opens_browser)


@contextmanager
def _announce(activity: str) -> Iterator[None]:
    """Show the current activity on a terminal while it lasts."""
    line = Line(sys.stderr)
    if line.is_terminal:
        line.draw(f"demo: {activity} ...", time.monotonic())
    try:
        yield
    finally:
        if line.is_terminal:
            line.draw("", time.monotonic())  # clears the line


def _read_messages(root: str) -> list[LabelledMessage]:
    """Read up to _MAX_USED messages of each class below a folder, without duplicates.

    The names of subfolders, such as Junk and Inbox, say whether they have spam or ham.
    """
    rng = Random(0)
    by_label: dict[bool, dict[bytes, bytes]] = {True: {}, False: {}}  # by whether it is spam, and by digest
    advice_on_error = "name a folder that has both, or try tamis report --spam PATH --ham PATH"
    for mailbox in open_labelled(root=root, advice=advice_on_error).parts:
        for message, is_spam in islice(mailbox.messages(), _MAX_READ):
            message_digest = digest(canonical(message.raw))
            if message_digest in by_label[not is_spam]:
                continue
            messages = by_label[is_spam]
            messages[message_digest] = message.raw
            if len(messages) > _MAX_USED:  # a random one makes room, so that not only the first are used
                del messages[rng.choice(list(messages))]
    if min(map(len, by_label.values())) < _MIN_MESSAGES:
        raise ValueError(
            f"{printable(root)} has {len(by_label[True])} spam and {len(by_label[False])} ham, expected "
            f"at least {_MIN_MESSAGES} of each: name a folder with more mail, or try tamis demo without one"
        )
    sampled = [(raw, is_spam) for is_spam, messages in by_label.items() for raw in messages.values()]
    rng.shuffle(sampled)
    # Sorted by class, so that `_split_messages` holds out the same fraction of each.
    return sorted(sampled, key=lambda message: message[1])


def _split_messages(
    messages: Sequence[LabelledMessage],
) -> tuple[list[LabelledMessage], list[LabelledMessage]]:
    """Return the messages to learn, and the messages that are held out."""
    training = [message for number, message in enumerate(messages) if number % _HELD_OUT]
    return training, [message for number, message in enumerate(messages) if not number % _HELD_OUT]


def _select(messages: Sequence[LabelledMessage], label: str) -> list[bytes]:
    return [raw for raw, is_spam in messages if is_spam == (label == "spam")]


class _Demonstration:
    """The demonstration, formatted for the width and the charset of the terminal."""

    def __init__(
        self,
        out: TextIO,
        sieve: Sieve,
        training: Sequence[LabelledMessage],
        test: Sequence[LabelledMessage],
        mailbox: str | None,
    ) -> None:
        self._out = out
        self._sieve = sieve
        self._training = training
        self._test = test
        self._mailbox = mailbox
        self._width = min(terminal_width(), 76)
        self._dots = "…" if can_show(out, "…") else "..."
        self._bar = "█" if can_show(out, "█") else "#"

    def run(self) -> None:
        self._learn()
        verdicts = self._sort()
        self._explain(verdicts)
        self._forget(verdicts)
        self._suggest()

    def _print(self, text: str = "", indent: str = "") -> None:
        lines = wrap(
            text,
            self._width,
            initial_indent=indent,
            subsequent_indent=indent or "   ",
            break_on_hyphens=False,
        )
        self._out.writelines(f"{line}\n" for line in lines or [""])

    def _judge(self) -> list[Verdict]:
        return list(self._sieve.sort_many((raw for raw, _ in self._test), processes=1))

    def _learn(self) -> None:
        # `printable` escapes control characters and undecodable bytes of a path; `make_displayable` also
        # escapes what the charset of the terminal cannot show.
        mailbox = (
            make_displayable(self._out, printable(self._mailbox)) if self._mailbox else "a sample mailbox"
        )
        by_label = {label: _select(self._training, label) for label in ("spam", "ham")}
        self._print(f"1. Learn {len(by_label['spam'])} spam and {len(by_label['ham'])} ham of {mailbox}.")
        with _announce(f"learning {len(self._training)} messages"):
            for label, messages in by_label.items():
                self._sieve.learn_many(messages, label, processes=1)
        self._print()

    def _sort(self) -> list[Verdict]:
        with _announce(f"sorting {len(self._test)} messages"):
            verdicts = self._judge()
        self._print(f"2. Sort {len(self._test)} other messages, which were not learned:")
        self._print()
        verdict_counts = Counter(
            (verdict.label, is_spam) for verdict, (_, is_spam) in zip(verdicts, self._test, strict=True)
        )
        self._print(f"{'':<14}{'spam':>6}{'ham':>6}", "   ")
        for label in ("spam", "unsure", "ham"):
            name = label if label == "unsure" else f"called {label}"
            self._print(f"{name:<14}{verdict_counts[label, True]:>6}{verdict_counts[label, False]:>6}", "   ")
        # As in `tamis report`, a message is a miss if its more probable label is wrong, unsure or not.
        wrong = [
            (verdict, raw, is_spam)
            for verdict, (raw, is_spam) in zip(verdicts, self._test, strict=True)
            if (verdict.log_odds > 0) != is_spam
        ]
        self._print()
        right = format_percent(1 - len(wrong) / len(self._test))
        self._print(f"Accuracy {right}" + (". Misses:" if wrong else ", no misses."), "   ")
        worst = sorted(wrong, key=lambda miss: -abs(miss[0].log_odds))
        for verdict, raw, is_spam in worst[:_MISSES]:
            self._out.write(f"     {self._format_subject(raw, self._width - 5)}\n")
            self._print(
                f"{'spam' if is_spam else 'ham'}, probability of spam {verdict.probability:.2f}", " " * 7
            )
        if len(wrong) > _MISSES:
            self._print(f"and {len(wrong) - _MISSES} more", "     ")
        self._print()
        return verdicts

    def _format_subject(self, raw: bytes, width: int) -> str:
        return clip(make_displayable(self._out, subject_of(raw) or "(no subject)"), width, self._dots)

    def _explain(self, verdicts: Sequence[Verdict]) -> None:
        judged_spam = [
            (verdict, raw) for verdict, (raw, is_spam) in zip(verdicts, self._test, strict=True) if is_spam
        ]
        # A subject in ASCII is preferred, because every terminal can show it.
        verdict, raw = max(judged_spam, key=lambda pair: (subject_of(pair[1]).isascii(), pair[0].log_odds))
        self._print("3. Explain a verdict:")
        self._print()
        self._out.write(f"   {self._format_subject(raw, self._width - 3)}\n")
        words = describe_verdict(verdict.label, verdict.probability)
        self._print(f"{words} (probability of spam {verdict.probability:.4f})", "   ")
        self._print()
        evidence = verdict.evidence  # the strongest first
        column_width = max(8, min(28, self._width - _OTHER_COLUMNS))
        # Each item of evidence has one of these views, so that the totals add up to the log-odds.
        for view, title in VIEW_TITLES.items():
            total = sum(item.contribution for item in evidence if item.view == view)
            self._out.write(f"   {pad(title, column_width)} {total:>+6.2f}\n")
        self._out.write(f"   {pad('log-odds of spam', column_width)} {verdict.log_odds:>+6.2f}\n")
        self._print()
        readable = [item for item in evidence if is_readable(item)]  # tokens that a person can find
        for_spam = [item for item in readable if item.contribution > 0][:_TOKENS]
        against = [item for item in readable if item.contribution < 0][:_TOKENS]
        longest = max((abs(item.contribution) for item in (*for_spam, *against)), default=1.0)
        bar_width = max(0, min(12, self._width - _OTHER_COLUMNS - column_width))
        for item in (*for_spam, *against):
            token = pad(make_displayable(self._out, item.token), column_width, self._dots)
            bar = self._bar * round(bar_width * abs(item.contribution) / longest)
            line = f"   {token} {item.contribution:>+6.2f} {item.view:<8} {bar}"
            self._out.write(line.rstrip() + "\n")
        self._print()

    def _forget(self, before: Sequence[Verdict]) -> None:
        raw, is_spam = self._test[0]
        label = "spam" if is_spam else "ham"
        with _announce("forgetting"):
            self._sieve.learn(raw, label)
            after_learning = self._judge()
            self._sieve.forget(raw)
            after_forgetting = self._judge()
        changed = _count_differences(before, after_learning)
        different = _count_differences(before, after_forgetting)
        self._print(
            f"4. Learn one more {label}: {changed} of {len(before)} probabilities move. Then forget it:"
        )
        self._print(
            "all are as before, to the bit, as if it had never been learned."
            if not different
            else f"{different} are NOT as before.",
            "   ",
        )
        self._print()

    def _suggest(self) -> None:
        self._print("What to type next:")
        steps = [
            ("tamis learn --spam JUNK --ham INBOX", "begin with your own mail"),
            ("tamis sort < message", "is it spam?"),
            ("tamis report", "more numbers, and pictures"),
            ("tamis demo --statistics", "what it is made of"),
            ("tamis demo --web", "the same, on a page in the browser"),
        ]
        if not self._mailbox:
            steps.insert(0, ("tamis demo --mailbox ~/Maildir", "this, on your own mail"))
        command_width, purpose_width = (max(map(len, texts)) for texts in zip(*steps, strict=True))
        is_wide = self._width >= 3 + command_width + 2 + purpose_width
        for command, purpose in steps:
            if is_wide:
                self._out.write(f"   {command:<{command_width}}  {purpose}\n")
            else:
                self._out.write(f"  {command}\n      {purpose}\n")


def _count_differences(left: Sequence[Verdict], right: Sequence[Verdict]) -> int:
    return sum(a.log_odds != b.log_odds for a, b in zip(left, right, strict=True))
