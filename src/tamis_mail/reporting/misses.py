"""a study (`reporting.study`) and its messages → the misclassified messages with their evidence."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

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

_MAX_MISSES = 20  # messages that are shown
_MAX_TOKENS = 6  # tokens of each of them that are shown


@dataclass(frozen=True)
class Miss:
    """A message whose more probable label is wrong."""

    name: str
    path_field: Mapping[str, str]  # for JSON, from `path_bytes`: empty if the name shows the path as it is
    subject: str
    is_spam: bool
    called: str  # the label of the verdict
    probability: float
    log_odds: float
    # Contributions of the views and the intercept; the sum is `log_odds`.
    views: tuple[tuple[str, float], ...]
    evidence: tuple[Evidence, ...]  # the strongest that `is_readable`

    @property
    def label(self) -> str:
        return SPAM if self.is_spam else HAM


def find_misses(study: Study, corpus: Corpus, messages: Iterable[tuple[RawMessage, bool]]) -> list[Miss]:
    """Return at most _MAX_MISSES misses, the worst first, without those that cannot be read again.

    `messages` are those of the corpus, in the same order; they are read up to the last one that is needed.
    """
    is_spam = corpus.is_spam[study.judged]
    wrong = np.flatnonzero((study.log_odds > 0) != is_spam)
    worst = wrong[np.argsort(-np.abs(study.log_odds[wrong]), kind="stable")][:_MAX_MISSES]
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
                message_tokens = tokens.read(message, corpus.token_version)
                coefficients = {}
                if trained.coefficients is not None:
                    coefficients = dict(zip(keys.tolist(), trained.coefficients[rows].tolist(), strict=True))
                verdict = judge(
                    counts,
                    trained.labels,
                    trained.rule,
                    unit=1,
                    names=partial(features.name_features, message_tokens),
                    coefficients=coefficients,
                )
                verdicts[number] = raw_messages[number], verdict
    return [
        _describe_miss(*verdicts[number], bool(corpus.is_spam[number]), corpus.token_version)
        for number in numbers
        if number in verdicts
    ]


def subject_of(raw: bytes) -> str:
    """Return the subject as printable text on one line."""
    values = [value for name, value in parse(canonical(raw)).headers if name == "subject"]
    text = " ".join((values or [""])[0].split())
    return "".join(c if c.isprintable() else "·" for c in text)


def is_readable(evidence: Evidence) -> bool:
    """Whether a person can find the token in the message: not an n-gram of bytes, and not the intercept.

    The length of the headers is readable, although it has the view of the n-grams (tokens of version 1).
    """
    if evidence.view == INTERCEPT_VIEW:
        return False
    return evidence.view != features.VIEWS[features.GRAMS] or evidence.token == HEADER_LENGTH


def _read_again(
    numbers: Sequence[int], corpus: Corpus, messages: Iterable[tuple[RawMessage, bool]]
) -> dict[int, RawMessage]:
    """Read messages again by their numbers; one that has changed in the meantime is skipped."""
    wanted = {int(corpus.positions[number]): number for number in numbers}
    raw_messages = {}
    for position, (message, _) in enumerate(messages) if wanted else ():
        number = wanted.pop(position, None)
        if number is not None and digest(canonical(message.raw)) == corpus.digests[number]:
            raw_messages[number] = message
        if not wanted:
            break
    return raw_messages


def _describe_miss(message: RawMessage, verdict: Verdict, is_spam: bool, token_version: int) -> Miss:
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
        tuple(readable[:_MAX_TOKENS]),
    )
