"""a study and its messages → the misclassified messages with their evidence."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tamis_mail import features, tokens
from tamis_mail.labels import HAM, SPAM
from tamis_mail.mailbox import RawMessage
from tamis_mail.mailbox.raw_message import path_bytes
from tamis_mail.message import canonical, digest, parse
from tamis_mail.reporting.corpus import Corpus
from tamis_mail.reporting.study import Study
from tamis_mail.verdict import Evidence, Verdict, judge
from tamis_mail.verdict.judging import HEADER_LENGTH, INTERCEPT_VIEW

_MOST = 20  # messages that are shown
_TOP = 6  # tokens of each


@dataclass(frozen=True)
class Miss:
    """A message whose more probable label is wrong."""

    name: str
    path_bytes: Mapping[str, str]  # for JSON: the path, if its name cannot be shown as it is
    subject: str
    is_spam: bool
    called: str
    probability: float
    log_odds: float
    # Contributions of the views and the intercept; the sum is `log_odds`.
    views: tuple[tuple[str, float], ...]
    evidence: tuple[Evidence, ...]  # the strongest readable one: no n-grams of bytes, and not the intercept

    @property
    def label(self) -> str:
        return SPAM if self.is_spam else HAM


def misses(
    study: Study, corpus: Corpus, messages: Iterable[tuple[RawMessage, bool]], limit: int = _MOST
) -> list[Miss]:
    """Return the misses, the worst first. Messages are read again, up to the last one that is needed."""
    is_spam = corpus.is_spam[study.judged]
    wrong = np.flatnonzero((study.log_odds > 0) != is_spam)
    worst = wrong[np.argsort(-np.abs(study.log_odds[wrong]), kind="stable")][:limit]
    numbers = study.judged[worst].tolist()
    raw_messages = _read_again(numbers, corpus, messages)
    verdicts: dict[int, tuple[RawMessage, Verdict]] = {}
    for training, test in study.parts:
        in_fold = [number for number in numbers if number in raw_messages and number in test]
        if in_fold:
            trained = corpus.train(training, study.rule)
            counts_of_all = trained.statistic.total.value.T
            for number in in_fold:
                keys, rows = corpus.features_of(number)
                counts = dict(zip(keys.tolist(), counts_of_all[rows].tolist(), strict=True))
                message = parse(canonical(raw_messages[number].raw))
                read = tokens.read(message, corpus.token_version)
                coefficients = {}
                if trained.coefficients is not None:
                    coefficients = dict(zip(keys.tolist(), trained.coefficients[rows].tolist(), strict=True))
                verdict = judge(
                    counts,
                    trained.labels,
                    trained.rule,
                    1,
                    lambda read=read: features.name_features(read),  # type: ignore[misc]
                    coefficients=coefficients,
                )
                verdicts[number] = raw_messages[number], verdict
    return [
        _miss(*verdicts[number], bool(corpus.is_spam[number]), corpus.token_version)
        for number in numbers
        if number in verdicts
    ]


def subject_of(raw: bytes) -> str:
    """Return the subject as printable text on one line."""
    values = [value for name, value in parse(canonical(raw)).headers if name == "subject"]
    text = " ".join((values or [""])[0].split())
    return "".join(c if c.isprintable() else "·" for c in text)


def is_readable(one: Evidence) -> bool:
    """Whether a person can find it in the message; n-grams of bytes and the intercept are not readable."""
    if one.view == INTERCEPT_VIEW:
        return False
    return one.view != features.VIEWS[features.GRAMS] or one.token == HEADER_LENGTH


def _read_again(
    numbers: Sequence[int], corpus: Corpus, messages: Iterable[tuple[RawMessage, bool]]
) -> dict[int, RawMessage]:
    """Read messages again by their numbers; one that has changed in the meantime is skipped."""
    waiting = {int(corpus.places[number]): number for number in numbers}
    raw_messages = {}
    for place, (message, _) in enumerate(messages) if waiting else ():
        number = waiting.pop(place, None)
        if number is not None and digest(canonical(message.raw)) == corpus.digests[number]:
            raw_messages[number] = message
        if not waiting:
            break
    return raw_messages


def _miss(message: RawMessage, verdict: Verdict, is_spam: bool, token_version: int) -> Miss:
    evidence = verdict.evidence
    views = dict.fromkeys(features.VIEWS_OF[token_version], 0.0)
    for one in evidence:
        views[one.view] = views.get(one.view, 0.0) + one.contribution
    readable = [one for one in evidence if is_readable(one) and one.contribution]
    return Miss(
        message.name,
        path_bytes(message),
        subject_of(message.raw),
        is_spam,
        verdict.label,
        verdict.probability,
        verdict.log_odds,
        tuple(views.items()),
        tuple(readable[:_TOP]),
    )
