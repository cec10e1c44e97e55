"""`tamis status`: what has been learned, in a few lines."""

import time
from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module
from typing import TextIO

from tamis_mail.features import VIEWS_OF
from tamis_mail.labels import GUESSED_LABELS
from tamis_mail.mailbox.raw_message import printable
from tamis_mail.reporting.wording import VIEW_TITLES, format_size
from tamis_mail.settings import default_path
from tamis_mail.store import Store, has_store
from tamis_mail.store.maintenance import Status
from tamis_mail.store.maintenance import status as read_status
from tamis_mail.surfaces.cli.parser import Parser, add_store_option
from tamis_mail.tokens import VERSION
from tamis_mail.verdict.rule import RuleError, Weights

_FEW = 50  # if there is less spam, or less wanted mail, the user is advised to learn more of it


def configure(parser: Parser) -> None:
    parser.description = (
        "Show what has been learned: labels, messages, time, sources, the weights that were fitted to the "
        "messages, and the size of the store."
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_store_option(parser)
    parser.examples = [("tamis status", "as text"), ("tamis status --json | jq .messages", "for programs")]


def run(out: TextIO, options: Namespace) -> int:
    path = options.store or default_path()
    if not has_store(path):
        if options.json:
            out.write('{"store": null, "messages": 0, "labels": {}}\n')
            return 0
        out.write(f"Nothing has been learned yet: there is no store at {printable(str(path))}.\n")
        out.write("Begin with:  tamis learn --spam ~/Mail/Junk --ham ~/Mail/Inbox\n")
        return 0
    with Store(path, create=False, readonly=True) as store:
        status = read_status(store)
        weights = _read_weights(store)
        views = VIEWS_OF[store.token_version()] if weights else ()
    if options.json:
        out.write(_as_json(status, str(path), weights, views))
    else:
        out.write(_as_text(status, str(path), _describe_weights(weights, views)))
    return 0


def _read_weights(store: Store) -> "Weights | RuleError | None":
    """Read the fitted weights; return the error if they are damaged."""
    try:
        return Weights.of(store)
    except RuleError as error:
        return error


def _describe_weights(weights: "Weights | RuleError | None", views: Sequence[str]) -> list[str]:
    """Describe the fitted weights in one line; return no line if there are none.

    >>> scales, deviations, centres = (1.6, 0.52, 4.1), (1.0, 0.1, 0.2, 0.3), (0.0, 0.0, 0.0)
    >>> weights = Weights(
    ...     messages=1234, shelf_bits=3, intercept=0.2, scales=scales, deviations=deviations, centres=centres
    ... )
    >>> _describe_weights(weights, ("grams", "headers", "words"))
    ['weights   fitted to 1,234 messages: words count most (scale 4.1), header fields least (0.52)']
    """
    if weights is None:
        return []
    if isinstance(weights, RuleError):
        return [f"weights   {printable(str(weights))}"]
    scales = dict(zip(views, weights.scales, strict=True))
    most, least = max(scales, key=scales.__getitem__), min(scales, key=scales.__getitem__)
    extremes = (
        f"{VIEW_TITLES[most]} count most (scale {scales[most]:.2g}), "
        f"{VIEW_TITLES[least]} least ({scales[least]:.2g})"
    )
    return [f"weights   fitted to {weights.messages:,} {_plural(weights.messages)}: {extremes}"]


def _weights_as_dict(weights: "Weights | RuleError | None", views: Sequence[str]) -> dict[str, object] | None:
    if weights is None or isinstance(weights, RuleError):
        return None
    return {
        "messages": weights.messages,
        "intercept": weights.intercept,
        "scales": dict(zip(views, weights.scales, strict=True)),
        "centres": dict(zip(views, weights.centres, strict=True)),
        # Standard deviations of the posterior of the intercept and of the scales.
        "deviations": dict(zip(("intercept", *views), weights.deviations, strict=True)),
    }


def _as_json(status: Status, path: str, weights: "Weights | RuleError | None", views: Sequence[str]) -> str:
    fields = {
        "store": path,
        "messages": status.messages,
        "labels": {label.name: {"messages": label.messages, "lent": label.lent} for label in status.labels},
        "features": status.entries,
        "bytes": status.bytes,
        "decays": status.decays,
        "prunings": status.prunings,
        "token_versions": status.versions,
        "last": status.last,
        "sources": dict(status.sources),
        "periods": {"spam": status.spam_period, "wanted": status.wanted_period},
        "allowed": status.people.allowed,
        "blocked": status.people.blocked,
        "sent": status.people.sent,
        "correspondents": status.people.correspondents,
        "imported": dict(zip(("spam", "ham"), status.word_list, strict=True)) if status.word_list else None,
        "weights": _weights_as_dict(weights, views),
    }
    return str(import_module("json").dumps(fields)) + "\n"


def _as_text(status: Status, path: str, weights: Sequence[str]) -> str:
    lines = [f"store     {printable(path)} ({format_size(status.bytes)})"]
    for label in status.labels:
        # Each decay doubles the weight of one message.
        imported = f", and {label.lent // (1 << status.decays):,} of another filter" if label.lent else ""
        if label.messages or label.lent:
            note = " (guessed)" if label.name in GUESSED_LABELS else ""
            lines.append(
                f"{printable(label.name):<9} {label.messages:,} {_plural(label.messages)}{imported}{note}"
            )
    if status.word_list:  # the words that bogofilter has counted, and the numbers of its messages
        spam, ham = status.word_list
        lines.append(f"imported  word list of another filter: {spam:,} spam and {ham:,} ham messages")
    lines.append(f"features  {status.entries:,}")
    if status.last is not None:
        lines.append("learned   last on " + time.strftime("%Y-%m-%d %H:%M", time.localtime(status.last)))
    lines += weights
    people = status.people
    if people.allowed or people.blocked:
        lines.append(f"senders   {people.allowed:,} allowed, {people.blocked:,} blocked")
    if people.sent:
        lines.append(
            f"people    {people.correspondents:,} to whom you write, "
            f"from {people.sent:,} sent {_plural(people.sent)}"
        )
    if status.decays or status.prunings:
        lines.append(
            f"aging     decayed {_format_times(status.decays)}, pruned {_format_times(status.prunings)}"
        )
    if status.versions not in ([], [VERSION]):
        versions = " and ".join(map(str, status.versions))
        lines.append(f"tokens    version {versions}; a new store has version {VERSION}")
    for number, (name, count) in enumerate(status.sources):
        lines.append(f"{'from' if not number else '':<9} {printable(name) or '(no source)'}: {count:,}")
    return (
        "\n".join([*lines, *_advise_on_labels(status), *_advise_on_age(status), *_advise_on_tokens(status)])
        + "\n"
    )


def _advise_on_labels(status: Status) -> list[str]:
    """Advise what to learn next."""
    learned = {
        label.name: label.messages + label.lent for label in status.labels if label.name not in GUESSED_LABELS
    }
    spam = learned.pop("spam", 0)
    wanted = sum(learned.values())
    if status.word_list:
        spam, wanted = spam + status.word_list[0], wanted + status.word_list[1]
    if not spam or not wanted:
        missing = "--spam" if not spam else "--ham"
        return [
            f"advice    every message is unsure until spam and ham are learned: tamis learn {missing} PATH"
        ]
    if min(spam, wanted) < _FEW:
        scarce = "spam and ham" if max(spam, wanted) < _FEW else "spam" if spam < wanted else "ham"
        return [f"advice    learn more {scarce}: a few dozen messages help a lot"]
    return []


def _advise_on_age(status: Status) -> list[str]:
    """Warn if spam and wanted mail are of different times, so that age alone distinguishes them."""
    spam, wanted = status.spam_period, status.wanted_period
    if spam is None or wanted is None or (spam[0] <= wanted[1] and wanted[0] <= spam[1]):
        return []
    if wanted[1] < spam[0]:
        danger = "mail that is merely new may look like spam"
        advice = (
            "recent wanted mail (tamis learn --ham PATH), or only recent mail into a new store (--since 2y)"
        )
    else:
        danger = "mail that is merely old may look like spam, and new spam like wanted mail"
        advice = "recent spam (tamis learn --spam PATH)"
    periods = f"the wanted mail is of {_format_period(wanted)} and the spam of {_format_period(spam)}"
    return [f"advice    {periods}, so {danger}: learn {advice}"]


def _advise_on_tokens(status: Status) -> list[str]:
    if any(version < VERSION for version in status.versions):
        return ["advice    to use the tokens of this version, learn the mail again: tamis store upgrade"]
    return []


def _format_period(period: tuple[int, int]) -> str:
    """Format a period by its years, or by its months if it lies within one year.

    >>> _format_period((1_030_115_422, 1_267_000_000)), _format_period((1_030_115_422, 1_040_000_000))
    ('2002–2010', '2002-08–2002-12')
    """
    form = "%Y" if time.gmtime(period[0]).tm_year != time.gmtime(period[1]).tm_year else "%Y-%m"
    first, last = (time.strftime(form, time.gmtime(second)) for second in period)
    return first if first == last else f"{first}–{last}"


def _plural(number: int) -> str:
    return "message" if number == 1 else "messages"


def _format_times(number: int) -> str:
    return "once" if number == 1 else f"{number} times" if number else "never"
