"""`tamis tune`: fit the scales of the views to labelled mail, and keep them in the store."""

import json
import os
from argparse import Namespace
from dataclasses import asdict
from textwrap import wrap
from typing import TextIO

from tamis_mail.features import VIEWS_OF
from tamis_mail.files import is_there
from tamis_mail.reporting.corpus import read
from tamis_mail.reporting.tuning import Tuning, tune, with_thresholds
from tamis_mail.settings import default_path
from tamis_mail.store import Store
from tamis_mail.surfaces.cli.labelled_mail import ReadingProgress, add_mail_options, open_mail
from tamis_mail.surfaces.cli.layout import can_show
from tamis_mail.surfaces.cli.parser import Parser, add_quiet_option, add_store_option
from tamis_mail.surfaces.cli.streams import text_width
from tamis_mail.tokens import VERSION
from tamis_mail.verdict import RULE, RULES, Rule
from tamis_mail.verdict.rule import RuleError

__all__ = ["configure", "run"]


def configure(parser: Parser) -> None:
    """Add the options of `tamis tune`."""
    parser.description = (
        "Fit the weights of words, pairs of words, header fields, relations and n-grams of bytes to your own "
        "mail. Each message is judged by all others, and the scales are fitted to the scores (logistic "
        "regression, with a prior around the default). If cross-validation shows an improvement, your store "
        "uses the new scales from now on; if not, nothing changes. Learned counts are not changed either way."
    )
    add_mail_options(parser)
    add = parser.add_argument
    add(
        "--thresholds",
        action="store_true",
        help="also use the suggested thresholds: at most one ham in a thousand judged as spam, and "
        "one spam in a hundred judged as ham",
    )
    add("--dry-run", action="store_true", help="show what would change, and change nothing")
    add("--reset", action="store_true", help="go back to the default")
    add("--seed", type=int, default=0, metavar="N", help="seed of the random folds (default: 0)")
    add("--json", action="store_true", help="print one JSON object instead of text")
    add_store_option(parser)
    add_quiet_option(parser)
    parser.examples = [
        ("tamis tune --spam ~/Mail/Junk --ham ~/Mail/Inbox --dry-run", "would it help?"),
        ("tamis tune ~/Maildir", "do it"),
        ("tamis tune --reset", "undo it"),
    ]


def run(out: TextIO, options: Namespace) -> int:
    """Tune the rule and print the result."""
    path = options.store or default_path()
    has_mail = options.root or options.spam or options.ham
    if options.reset:
        if has_mail:
            options.parser.error("got mail and --reset, expected one or the other")
        return _reset(out, path, options)
    if not has_mail:
        options.parser.error("no mail was named, expected --spam PATH and --ham PATH, or a folder of both")
    if options.seed < 0:
        options.parser.error(f"got --seed {options.seed}, expected a whole number from 0")
    if not options.dry_run and not is_there(path):
        raise ValueError(
            f"there is no store yet ({path}) for the rule: start with tamis learn --help, or use --dry-run"
        )
    before, token_version = RULE, VERSION
    if is_there(path):
        with Store(path, create=False, readonly=True) as store:
            before, token_version = Rule.of(store), store.token_version()
    mail = open_mail(options)
    with ReadingProgress("tune", mail, quiet=options.quiet) as reading:
        tuning = tune(read(mail, token_version=token_version, seen=reading), before, options.seed)
    after = tuning.after if tuning.is_better else tuning.before
    if options.thresholds:
        after = with_thresholds(after, tuning.offered)
    is_saved = after != before and not options.dry_run
    if is_saved:
        with Store(path, create=False) as store, store.transaction() as writer:
            writer.write_setting("rule", after.to_json())
    if options.json:
        out.write(json.dumps(_as_dict(tuning, after, is_saved)) + "\n")
    elif not options.quiet:
        out.writelines(f"{line.rstrip()}\n" for line in _lines(out, tuning, after, is_saved, options))
    return 3 if reading.unread else 0


def _reset(out: TextIO, path: str | os.PathLike[str], options: Namespace) -> int:
    is_tuned = False
    if is_there(path):
        with Store(path, create=False, readonly=options.dry_run) as store:
            is_tuned = _is_tuned(store)
            if is_tuned and not options.dry_run:
                with store.transaction() as writer:
                    writer.write_setting("rule", "")
    if not options.quiet:
        text = "the store uses the default again" if is_tuned else "the store already uses the default"
        out.write(("would be: " if is_tuned and options.dry_run else "") + text + "\n")
    return 0


def _is_tuned(store: Store) -> bool:
    try:
        return Rule.of(store) != RULES[store.token_version()]
    except RuleError:
        return True


def _lines(out: TextIO, tuning: Tuning, after: Rule, is_saved: bool, options: Namespace) -> list[str]:
    width = text_width()
    plus_minus = "±" if can_show(out, "±") else "+-"
    lines = [f"{'scale of':<10}{'before':>8}{'fitted':>8}"]
    fitted = zip(
        VIEWS_OF[after.token_version],
        tuning.before.views,
        tuning.fit.scales,
        tuning.fit.deviations,
        strict=True,
    )
    lines += [
        f"{name:<10}{view.scale:>8.3g}{scale:>8.3g} {plus_minus} {deviation:.2g}"
        for name, view, scale, deviation in fitted
    ]
    was, would_be = tuning.was, tuning.would_be
    rows = [
        ("log-loss", f"{was.log_loss:.4f}", f"{would_be.log_loss:.4f}"),
        ("Brier score", f"{was.brier:.4f}", f"{would_be.brier:.4f}"),
        ("ham called spam", f"{was.ham_called_spam:,}", f"{would_be.ham_called_spam:,}"),
        ("spam missed", f"{was.spam_called_ham:,}", f"{would_be.spam_called_ham:,}"),
        ("unsure", f"{was.unsure:,}", f"{would_be.unsure:,}"),
    ]
    lines += ["", f"{'':<16}{'before':>8}{'after':>8}   of {was.spam:,} spam, {was.ham:,} ham"[:width]]
    lines += [f"{name:<16}{old:>8}{new:>8}" for name, old, new in rows]
    lines.append("")
    for line in _describe_thresholds(tuning, options.thresholds):
        lines += wrap(line, width)
    lines += wrap(_describe_change(tuning, after, is_saved, options.dry_run).replace("±", plus_minus), width)
    return lines


def _describe_thresholds(tuning: Tuning, is_accepted: bool) -> list[str]:
    """Describe the suggested thresholds."""
    spam, ham = tuning.offered
    rule = tuning.before
    end = "" if is_accepted else "; --thresholds uses them"
    lines = [
        "spam threshold: too little ham to estimate one in a thousand judged as spam"
        if spam is None
        else f"spam threshold: {rule.spam:g} now; at most one ham in a thousand judged as spam from {spam:g}",
        "ham threshold: too little spam to estimate one in a hundred judged as ham"
        if ham is None
        else f"ham threshold: {rule.ham:g} now; at most one spam in a hundred judged as ham up to {ham:g}",
    ]
    return [*lines[:-1], lines[-1] + end] if spam is not None or ham is not None else lines


def _describe_change(tuning: Tuning, after: Rule, is_saved: bool, is_dry_run: bool) -> str:
    """Describe the change in one line."""
    gain = f"log-loss falls by {tuning.gain:.4f} ± {tuning.chance:.4f} on mail that was not fitted"
    if not tuning.is_better:
        gain = (
            f"no better than chance (log-loss falls by {tuning.gain:.4f} ± {tuning.chance:.4f}): scales stay"
        )
    if after == tuning.before:
        return f"nothing changed: {gain}"
    return f"{'changed' if is_saved else 'would change' if is_dry_run else 'unchanged'}: {gain}"


def _as_dict(tuning: Tuning, after: Rule, is_saved: bool) -> dict[str, object]:
    return {
        "is_better": tuning.is_better,
        "kept": is_saved,
        "gain": tuning.gain,
        "standard_error": tuning.chance,
        "scales": dict(zip(VIEWS_OF[after.token_version], tuning.fit.scales.tolist(), strict=True)),
        "deviations": dict(zip(VIEWS_OF[after.token_version], tuning.fit.deviations.tolist(), strict=True)),
        "thresholds": dict(zip(("spam", "ham"), tuning.offered, strict=True)),
        "before": {"rule": tuning.before.as_dict(), **asdict(tuning.was)},
        "after": {"rule": after.as_dict(), **asdict(tuning.would_be)},
    }
