"""labelled mail → a report: a study, its misses and its measures, ready to be printed or drawn."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.links import sigmoid
from tamis_mail.features import VIEWS_OF
from tamis_mail.mailbox import RawMessage
from tamis_mail.reporting.corpus import Corpus, read
from tamis_mail.reporting.mail import LabelledMail
from tamis_mail.reporting.measures import Bin, bins, roc_curve
from tamis_mail.reporting.misses import Miss, find_misses
from tamis_mail.reporting.study import Study, study_folds, study_split

SIZES = (400, 50, 50)  # numbers of messages to learn, to choose the smoothing with, and to judge
_FOLDS = 10


@dataclass(frozen=True)
class Report:
    """The evaluation of a mailbox."""

    name: str
    messages: int
    spam: int
    duplicates: int
    disputed: int  # messages that were given both as spam and as ham, and are left out
    seed: int
    folds: int | None  # None if the messages were split into three sets
    study: Study
    is_spam: NDArray[np.bool_]  # (judged,)
    misses: tuple[Miss, ...]

    @property
    def ham(self) -> int:
        return self.messages - self.spam

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """(judged,): the probability of spam."""
        return sigmoid(self.study.log_odds)

    @property
    def roc(self) -> list[tuple[float, float]]:
        return roc_curve(self.study.log_odds, self.is_spam)

    @property
    def bins(self) -> list[Bin]:
        return bins(self.probabilities, self.is_spam)

    def describe_split(self) -> str:
        """Describe how many messages were learned, validated and judged."""
        study = self.study
        if self.folds:
            return f"{self.folds} folds: each is judged by the others, {study.learned:,} learned messages"
        return (
            f"{study.learned:,} learned, {study.validated:,} choose the smoothing, "
            f"{study.measures.messages:,} judged"
        )

    def describe_smoothing(self) -> str:
        """Describe the smoothing that validation chose; empty if there was no validation."""
        if not self.study.tried:
            return ""
        prior, scale = self.study.factors
        loss = next(loss for *factors, loss in self.study.tried if factors == [prior, scale])
        if prior == scale == 1:
            return f"the default, log-loss {loss:.4f} on the validation set"
        return f"priors × {prior:g}, scales × {scale:g}, log-loss {loss:.4f} on the validation set"

    def as_dict(self) -> dict[str, Any]:
        """Return the report for JSON; NaN and infinity become None."""
        study, measures = self.study, self.study.measures
        report = {
            "mail": {
                "name": self.name,
                "messages": self.messages,
                "spam": self.spam,
                "ham": self.ham,
                "duplicates": self.duplicates,
                "disputed": self.disputed,
            },
            "split": {
                "way": study.way,  # "split" or "folds"
                "folds": self.folds,
                "seed": self.seed,
                "learned": study.learned,
                "validated": study.validated,
                "judged": measures.messages,
                "unused": study.unused,
            },
            "measures": {**asdict(measures), "ham": measures.ham, "accuracy": measures.accuracy},
            "rule": study.rule.as_dict(),
            "fitted": [
                {
                    "intercept": rule.intercept,
                    "scales": {
                        name: view.scale
                        for name, view in zip(VIEWS_OF[rule.token_version], rule.views, strict=True)
                    },
                }
                for rule in study.fitted
            ],
            "smoothings": [
                {"prior": prior, "scale": scale, "log_loss": loss} for prior, scale, loss in study.tried
            ],
            # The learning curve.
            "curve": [asdict(point) for point in study.curve],
            "calibration": [
                {
                    "low": one.low,
                    "high": one.high,
                    "messages": one.messages,
                    "spam": one.spam,
                    "said": one.predicted,
                    "came_true": one.observed,
                }
                for one in self.bins
            ],
            "roc": [{"ham": ham, "spam": spam} for ham, spam in self.roc],
            "misses": [
                {
                    "name": miss.name,
                    **miss.path_field,
                    "subject": miss.subject,
                    "label": miss.label,
                    "called": miss.called,
                    "probability": miss.probability,
                    "log_odds": miss.log_odds,
                    "views": dict(miss.views),
                    "evidence": [asdict(one) for one in miss.evidence],
                }
                for miss in self.misses
            ],
        }
        finite: dict[str, Any] = _replace_nan(report)
        return finite


def report(
    mail: LabelledMail,
    *,
    sizes: tuple[int, int, int] | None = None,
    folds: int | None = None,
    seed: int = 0,
    on_message: Callable[[RawMessage], None] = lambda _: None,
) -> Report:
    """Read mail, judge it by cross-validation or by a split, and explain the misses.

    `folds` is the number of folds; without it, `sizes` are those of a split as in SIZES. If neither is given,
    there are ten folds, or fewer for few messages. `on_message` is called with each message when it is read.
    """
    corpus: Corpus = read(mail, on_message=on_message)
    if sizes is None and folds is None:
        folds = max(2, min(_FOLDS, len(corpus)))
    study = study_folds(corpus, folds, seed) if folds else study_split(corpus, sizes or SIZES, seed)
    return Report(
        mail.name,
        len(corpus),
        int(corpus.is_spam.sum()),
        corpus.duplicates,
        corpus.disputed,
        seed,
        folds,
        study,
        corpus.is_spam[study.judged],
        tuple(find_misses(study, corpus, mail)),
    )


def _replace_nan(value: Any) -> Any:
    """Replace NaN and infinity, which JSON does not have, by None, and tuples by lists."""
    if isinstance(value, dict):
        return {name: _replace_nan(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
