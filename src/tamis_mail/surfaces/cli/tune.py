"""`tamis tune`: fit the weights of the evidence to the remembered messages, or to labelled mail.

A store remembers the learned messages whose features it holds.
"""

import json
import os
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from textwrap import wrap
from typing import TextIO

from tamis_mail.features import VIEWS_OF
from tamis_mail.labels import GUESSED_LABELS, SPAM
from tamis_mail.mailbox.raw_message import printable
from tamis_mail.reporting.corpus import read
from tamis_mail.reporting.estimates import list_estimates
from tamis_mail.reporting.tuning import Offer, Tuning, tune, with_thresholds
from tamis_mail.settings import default_path
from tamis_mail.sieve import Sieve
from tamis_mail.sieve.weights import can_fit_tokens, fit_messages
from tamis_mail.store import Store, has_store
from tamis_mail.surfaces.cli.labelled_mail import ReadingProgress, add_mail_options, open_mail
from tamis_mail.surfaces.cli.layout import can_show
from tamis_mail.surfaces.cli.parser import Parser, add_quiet_option, add_store_option
from tamis_mail.surfaces.cli.streams import ERROR_STATUS, text_width
from tamis_mail.tokens import VERSION
from tamis_mail.verdict import RULE, RULES, Rule
from tamis_mail.verdict.judging import INTERCEPT_VIEW
from tamis_mail.verdict.rule import MIN_FITTED_MESSAGES, RuleError

Estimates = list[tuple[float, float]]  # value and standard deviation: of each scale, then of the intercept


def configure(parser: Parser) -> None:
    parser.description = (
        "Fit the weights of words, pairs of words, header fields, relations and n-grams of bytes now. Each "
        "message is judged by all others, and the weights are fitted to the scores (logistic regression, "
        "with a prior around the default).\n\n"
        "Without any mail named, the weights are fitted to the messages that your store remembers. The store "
        "does that by itself from time to time, when it learns, and whenever it forgets.\n\n"
        "With mail named, the weights are fitted to that mail. If cross-validation shows an improvement, "
        "they become the starting point (the prior) of your store, and its weights are fitted again from "
        "there; if not, nothing changes. Learned counts are not changed either way."
    )
    add_mail_options(parser)
    add = parser.add_argument
    add(
        "--thresholds",
        action="store_true",
        help="also use the suggested thresholds (at most one ham in a thousand judged as spam, and "
        "one spam in a hundred judged as ham), unless they are worse than the present ones on mail that was "
        "not used to choose them",
    )
    add("--dry-run", action="store_true", help="show what would change, and change nothing")
    add("--reset", action="store_true", help="use the default rule again, and fit the weights from there")
    add("--seed", type=int, default=0, metavar="N", help="seed of the random folds (default: 0)")
    add("--json", action="store_true", help="print one JSON object instead of text")
    add_store_option(parser)
    add_quiet_option(parser)
    parser.examples = [
        ("tamis tune", "fit to the messages that were learned"),
        ("tamis tune --spam ~/Mail/Junk --ham ~/Mail/Inbox --dry-run", "would other mail help?"),
        ("tamis tune ~/Maildir", "use it"),
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
    if options.seed < 0:
        options.parser.error(f"got --seed {options.seed}, expected a whole number from 0")
    if not has_mail:
        return _fit_to_messages(out, path, options)
    if not options.dry_run and not has_store(path):
        raise ValueError(
            f"there is no store yet ({path}) for the rule: start with tamis learn --help, or use --dry-run"
        )
    # The rule with the present weights, and with those before they were fitted to the store's messages.
    before = prior = RULE
    token_version = VERSION
    if has_store(path):
        with Store(path, create=False, readonly=True) as store:
            before, prior = Rule.of(store), Rule.read_prior(store)
            token_version = store.token_version()
    mail = open_mail(options)
    with ReadingProgress("tune", mail, quiet=options.quiet) as reading:
        corpus = read(mail, token_version=token_version, on_message=reading)
        tuning = tune(corpus, before, options.seed, prior=prior)
    after = tuning.after if tuning.is_better else prior
    if options.thresholds:
        after = with_thresholds(after, tuning.safe_thresholds)
    is_saved = after != prior and not options.dry_run
    if is_saved:
        with Sieve.open(path, create=False) as sieve:
            sieve.write_rule(after)
    if options.json:
        out.write(json.dumps(_as_dict(tuning, prior, after, is_saved=is_saved)) + "\n")
    elif not options.quiet:
        lines = _describe_tuning(out, tuning, options, has_changed=after != prior, is_saved=is_saved)
        out.writelines(f"{line.rstrip()}\n" for line in lines)
    return ERROR_STATUS if reading.unread else 0  # `unread` lists the files that could not be read


def _fit_to_messages(out: TextIO, path: str | os.PathLike[str], options: Namespace) -> int:
    """Fit the weights to the messages that the store remembers."""
    if not has_store(path):
        options.parser.error(
            f"no mail was named, and there is no store yet ({printable(str(path))}): start with tamis learn, "
            "or name mail (--spam PATH and --ham PATH, or a folder of both) with --dry-run"
        )
    if options.thresholds:
        options.parser.error(
            "no mail was named, and --thresholds needs mail to judge: name --spam PATH and --ham PATH, or a "
            "folder of both"
        )
    with Sieve.open(path, create=False, readonly=options.dry_run) as sieve:
        store = sieve.store
        if not can_fit_tokens(store.token_version()):
            options.parser.error(
                "no mail was named, and the store counts older tokens, whose weights are not fitted to its "
                "messages: name --spam PATH and --ham PATH, or a folder of both"
            )
        before = _read_estimates(store)
        after: Estimates | None = None
        if not options.dry_run:
            after = _read_estimates(store) if sieve.fit_weights() else None
        elif (fit := fit_messages(store)) is not None:
            values = [*fit.scale_fit.scales.tolist(), fit.scale_fit.intercept]
            after = list(zip(values, fit.scale_fit.deviations.tolist(), strict=True))
        labels = [label for label in store.labels() if label.name not in GUESSED_LABELS]
    spams = sum(label.messages for label in labels if label.name == SPAM)
    others = sum(label.messages for label in labels) - spams
    if after is None:
        raise ValueError(
            f"the store {path} remembers {spams:,} spam and {others:,} other messages, expected at least "
            f"{MIN_FITTED_MESSAGES} of each to fit weights to: learn more (tamis learn)"
        )
    names = [*VIEWS_OF[VERSION], INTERCEPT_VIEW]
    if options.json:
        fields = {
            "kept": not options.dry_run,
            "messages": spams + others,
            "before": _name_estimates(names, before),
            "after": _name_estimates(names, after),
        }
        out.write(json.dumps(fields) + "\n")
    elif not options.quiet:
        verb = "would be" if options.dry_run else "are now"
        sentence = (
            f"the weights {verb} fitted to the {spams + others:,} messages that the store remembers "
            f"({spams:,} spam, {others:,} others)"
        )
        lines = [*_describe_estimates(out, names, before, after), "", *wrap(sentence, text_width())]
        out.writelines(f"{line.rstrip()}\n" for line in lines)
    return 0


def _read_estimates(store: Store) -> Estimates:
    """Read the weights of a store: the fitted ones, or those of the prior."""
    return [(estimate.value, estimate.deviation) for estimate in list_estimates(store)]


def _name_estimates(names: Sequence[str], estimates: Estimates) -> dict[str, dict[str, float]]:
    return {
        name: {"value": value, "deviation": deviation}
        for name, (value, deviation) in zip(names, estimates, strict=True)
    }


def _describe_estimates(out: TextIO, names: Sequence[str], before: Estimates, after: Estimates) -> list[str]:
    """Return a table of weights with their standard deviations."""
    plus_minus = "±" if can_show(out, "±") else "+-"
    lines = [f"{'scale of':<10}{'before':<15}{'after':<15}"]
    for name, *pairs in zip(names, before, after, strict=True):
        cells = (f"{value:<6.3g} {plus_minus} {deviation:.2g}" for value, deviation in pairs)
        lines.append(f"{name:<10}" + "".join(f"{cell:<15}" for cell in cells))
    return lines


def _reset(out: TextIO, path: str | os.PathLike[str], options: Namespace) -> int:
    is_tuned = False
    if has_store(path):
        with Sieve.open(path, create=False, readonly=options.dry_run) as sieve:
            is_tuned = _is_tuned(sieve.store)
            if not options.dry_run:
                sieve.write_rule(None)
    if not options.quiet:
        text = "the store uses the default again" if is_tuned else "the store already uses the default"
        out.write(("would be: " if is_tuned and options.dry_run else "") + text + "\n")
    return 0


def _is_tuned(store: Store) -> bool:
    """Whether the rule of a store, without weights that are fitted to its messages, is not the default."""
    try:
        return Rule.read_prior(store) != RULES[store.token_version()]
    except RuleError:  # it is damaged
        return True


def _describe_tuning(
    out: TextIO, tuning: Tuning, options: Namespace, *, has_changed: bool, is_saved: bool
) -> list[str]:
    """Return a table of scales, one of measures, the suggested thresholds, and what has changed."""
    width = text_width()
    plus_minus = "±" if can_show(out, "±") else "+-"
    lines = [f"{'scale of':<10}{'before':>8}{'fitted':>8}"]
    names = [*VIEWS_OF[tuning.before.token_version]]
    present = [view.scale for view in tuning.before.views]
    fitted = tuning.fit.scales.tolist()
    if can_fit_tokens(tuning.before.token_version):
        names.append(INTERCEPT_VIEW)
        present.append(tuning.before.intercept)
        fitted.append(tuning.fit.intercept)
    deviations = tuning.fit.deviations.tolist()[: len(names)]
    lines += [
        f"{name:<10}{before:>8.3g}{value:>8.3g} {plus_minus} {deviation:.2g}"
        for name, before, value, deviation in zip(names, present, fitted, deviations, strict=True)
    ]
    measures_before, measures_after = tuning.measures_before, tuning.measures_after
    rows = [
        ("log-loss", f"{measures_before.log_loss:.4f}", f"{measures_after.log_loss:.4f}"),
        ("Brier score", f"{measures_before.brier:.4f}", f"{measures_after.brier:.4f}"),
        ("ham called spam", f"{measures_before.ham_called_spam:,}", f"{measures_after.ham_called_spam:,}"),
        ("spam missed", f"{measures_before.spam_called_ham:,}", f"{measures_after.spam_called_ham:,}"),
        ("unsure", f"{measures_before.unsure:,}", f"{measures_after.unsure:,}"),
    ]
    lines += [
        "",
        f"{'':<16}{'before':>8}{'after':>8}   of {measures_before.spam:,} spam, {measures_before.ham:,} ham"[
            :width
        ],
    ]
    lines += [f"{name:<16}{old:>8}{new:>8}" for name, old, new in rows]
    lines.append("")
    for line in _describe_thresholds(tuning.offers, is_accepted=options.thresholds):
        lines += wrap(line if can_show(out, "→") else line.replace("→", "to"), width)
    change = _describe_change(tuning, has_changed=has_changed, is_saved=is_saved, is_dry_run=options.dry_run)
    lines += wrap(change.replace("±", plus_minus), width)
    return lines


def _describe_thresholds(offers: tuple[Offer, Offer], *, is_accepted: bool) -> list[str]:
    """Describe the offers, which are a suggested threshold of spam and one of ham, each in one line.

    >>> spam = Offer(now=0.97, suggested=0.9, wrong=(1, 1), missed=(9, 5), tolerated=2)
    >>> ham = Offer(now=0.1, suggested=0.15, wrong=(3, 9), missed=(20, 12), tolerated=5)
    >>> first, second = _describe_thresholds((spam, ham), is_accepted=False)
    >>> first
    'spam threshold: 0.97 now; at most one ham in a thousand judged as spam from 0.9; --thresholds uses it'
    >>> print(*second.partition("it ")[::2], sep="\\n")
    ham threshold: stays at 0.1; 0.15 is worse on mail that was not used to choose
    (spam called ham 3 → 9, ham not called so 20 → 12)
    """
    spam, ham = offers
    words = (
        (spam, "spam", "ham", "one ham in a thousand judged as spam", "from"),
        (ham, "ham", "spam", "one spam in a hundred judged as ham", "up to"),
    )
    end = "" if is_accepted else "; --thresholds uses it"
    lines = []
    for offer, kind, other, share, bound in words:
        if offer.suggested is None:
            text = f"too little {other} to estimate {share}"
        elif offer.is_safe:
            text = f"{offer.now:g} now; at most {share} {bound} {offer.suggested:g}{end}"
        else:
            (wrong_now, wrong), (missed_now, missed) = offer.wrong, offer.missed
            text = (
                f"stays at {offer.now:g}; {offer.suggested:g} is worse on mail that was not used to choose "
                f"it ({other} called {kind} {wrong_now:,} → {wrong:,}, {kind} not called so {missed_now:,} → "
                f"{missed:,})"
            )
        lines.append(f"{kind} threshold: {text}")
    return lines


def _describe_change(tuning: Tuning, *, has_changed: bool, is_saved: bool, is_dry_run: bool) -> str:
    """Describe the change in one line."""
    verb = "falls" if tuning.gain >= 0 else "rises"
    gain = (
        f"log-loss {verb} by {abs(tuning.gain):.4f} ± {tuning.standard_error:.4f} on mail that was not fitted"
    )
    if not tuning.is_better:
        gain = f"no better than chance ({gain}): scales stay"
    if not has_changed:
        return f"nothing changed: {gain}"
    return f"{'changed' if is_saved else 'would change' if is_dry_run else 'unchanged'}: {gain}"


def _as_dict(tuning: Tuning, prior: Rule, after: Rule, *, is_saved: bool) -> dict[str, object]:
    names = VIEWS_OF[after.token_version]
    kinds = ("spam", "ham")
    return {
        "is_better": tuning.is_better,
        "kept": is_saved,
        "gain": tuning.gain,
        "standard_error": tuning.standard_error,
        "scales": dict(zip(names, tuning.fit.scales.tolist(), strict=True)),
        "intercept": tuning.fit.intercept,
        "deviations": dict(zip([*names, INTERCEPT_VIEW], tuning.fit.deviations.tolist(), strict=True)),
        "thresholds": {kind: offer.suggested for kind, offer in zip(kinds, tuning.offers, strict=True)},
        "safe_thresholds": dict(zip(kinds, tuning.safe_thresholds, strict=True)),
        "before": {
            "rule": prior.as_dict(),
            "scales": {name: view.scale for name, view in zip(names, tuning.before.views, strict=True)},
            "intercept": tuning.before.intercept,
            **asdict(tuning.measures_before),
        },
        "after": {"rule": after.as_dict(), **asdict(tuning.measures_after)},
    }
