"""a study, and the letters again → the messages it was wrong about, and what misled it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tamis_mail import features, tokens
from tamis_mail.labels import HAM, SPAM
from tamis_mail.mailbox import Letter
from tamis_mail.message import canonical, digest, parse
from tamis_mail.reporting.corpus import Corpus
from tamis_mail.reporting.study import Study
from tamis_mail.verdict import Evidence, Verdict, judge
from tamis_mail.verdict.judging import AS_SUCH

__all__ = ["Miss", "is_readable", "misses", "subject_of"]

_MOST = 20  # messages that are shown
_TOP = 6  # tokens of each


@dataclass(frozen=True)
class Miss:
    """A message that was thought likelier to be what it is not."""

    name: str
    subject: str
    is_spam: bool
    called: str
    probability: float
    log_odds: float
    views: tuple[tuple[str, float], ...]  # what each view adds to the log-odds
    evidence: tuple[Evidence, ...]  # the strongest that can be read, runs of bytes left out

    @property
    def label(self) -> str:
        return SPAM if self.is_spam else HAM


def misses(
    study: Study, corpus: Corpus, letters: Iterable[tuple[Letter, bool]], most: int = _MOST
) -> list[Miss]:
    """The worst first. Letters are read again, up to the last that is asked for."""
    is_spam = corpus.is_spam[study.judged]
    wrong = np.flatnonzero((study.log_odds > 0) != is_spam)
    worst = wrong[np.argsort(-np.abs(study.log_odds[wrong]), kind="stable")][:most]
    asked = study.judged[worst].tolist()
    found = _read_again(asked, corpus, letters)
    verdicts: dict[int, tuple[Letter, Verdict]] = {}
    for learned, judged in study.parts:
        here = [number for number in asked if number in found and number in judged]
        if here:
            known = corpus.count(learned)
            labels = known.labels()
            for number in here:
                keys, rows = corpus.bag(number)
                counts = dict(zip(keys.tolist(), known.features[rows].tolist(), strict=True))
                read = tokens.read(parse(canonical(found[number].raw)))
                verdict = judge(counts, labels, study.rule, 1, lambda read=read: features.name_features(read))  # type: ignore[misc]
                verdicts[number] = found[number], verdict
    return [_miss(*verdicts[number], bool(corpus.is_spam[number])) for number in asked if number in verdicts]


def subject_of(raw: bytes) -> str:
    """The subject on one line, without anything that could move a cursor."""
    values = [value for name, value in parse(canonical(raw)).headers if name == "subject"]
    text = " ".join((values or [""])[0].split())
    return "".join(c if c.isprintable() else "·" for c in text)


def is_readable(one: Evidence) -> bool:
    """Whether a person can make something of it; a run of five bytes is none."""
    return one.view != features.VIEWS[features.GRAMS] or one.token == AS_SUCH


def _read_again(
    asked: Sequence[int], corpus: Corpus, letters: Iterable[tuple[Letter, bool]]
) -> dict[int, Letter]:
    """The letters of messages; one that has changed in the meantime is passed over."""
    waiting = {int(corpus.places[number]): number for number in asked}
    found = {}
    for place, (letter, _) in enumerate(letters) if waiting else ():
        number = waiting.pop(place, None)
        if number is not None and digest(canonical(letter.raw)) == corpus.digests[number]:
            found[number] = letter
        if not waiting:
            break
    return found


def _miss(letter: Letter, verdict: Verdict, is_spam: bool) -> Miss:
    evidence = verdict.evidence
    views = dict.fromkeys(features.VIEWS, 0.0)
    for one in evidence:
        views[one.view] += one.contribution
    readable = [one for one in evidence if is_readable(one) and one.contribution]
    return Miss(
        letter.name,
        subject_of(letter.raw),
        is_spam,
        verdict.label,
        verdict.probability,
        verdict.log_odds,
        tuple(views.items()),
        tuple(readable[:_TOP]),
    )
