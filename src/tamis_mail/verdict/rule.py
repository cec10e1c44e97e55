"""counts → log-odds: how the views of a message are weighed. Constants are from experiments/0005-mail-views.

A feature that s of Ns spam messages have and h of Nh others weighs log P(feature | spam) - log P(feature |
ham), each probability the posterior mean of a Beta prior worth `prior` messages: centred on the feature's
overall rate where `pooled`, on one half where not. A view's score is the mean of its weights: features of
one view repeat each other, so their sum would claim too much. To the mean belong `reluctance` features that
nobody saw, so that a view with few features tells little; they weigh `doubt`, and every feature that is
there weighs `tilt` more than its counts say (a message with hardly any headers is more often ham than
counts tell, one with all of them less often). The log-odds are the views' scores, each times its scale, and
all times m / (m + patience), m the smaller class's messages: who has seen little claims little. What a view
has whatever its features are counts by k / (k + acquaintance), k the grams and headers of the message
that were ever seen: of a message of which nothing is known, nothing is said.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from math import log
from typing import Protocol

from tamis_mail.labels import GUESS_UNITS, GUESSED_LABELS, SPAM, Label
from tamis_mail.schema import parse_rule

__all__ = ["RULE", "Rule", "RuleError", "Side", "View", "questions", "sides"]


@dataclass(frozen=True, slots=True)
class View:
    """How much a view counts, and how its features are weighed."""

    scale: float
    prior: float
    pooled: bool
    reluctance: float
    tilt: float = 0.0
    doubt: float = 0.0

    def weigh(self, spam: float, ham: float, spams: float, hams: float) -> float:
        """What its counts say of a feature that `spam` of `spams` and `ham` of `hams` messages have."""
        if spam + ham <= 0:
            return 0.0
        rate = (spam + ham) / (spams + hams) if self.pooled else 0.5
        worth = self.prior if self.pooled else 2 * self.prior
        return log((spam + worth * rate) / (spams + worth)) - log((ham + worth * rate) / (hams + worth))

    def intercept(self, features: int) -> float:
        """The part of the score that so many features have whatever they are."""
        return (features * self.tilt + self.reluctance * self.doubt) / (features + self.reluctance)


@dataclass(frozen=True, slots=True)
class Rule:
    """All that turns counts into a verdict."""

    views: tuple[View, View, View, View]
    patience: float
    acquaintance: float
    spam: float  # the probability from which a message is called spam
    ham: float  # the probability up to which it is called ham
    guessed: float  # the weight of a message whose label was guessed, against one whose label is known

    @classmethod
    def of(cls, store: "Settings") -> "Rule":
        """The rule that was tuned for a store, or the default."""
        text = store.setting("rule")
        if not text:
            return RULE
        try:
            fields = parse_rule(text)
        except ValueError as error:
            raise RuleError(
                f"the rule that was tuned for this store cannot be used ({error}): "
                "tamis tune --reset goes back to the default"
            ) from error
        one, two, three, four = (View(**view) for view in fields.pop("views"))
        return cls((one, two, three, four), **fields)

    def to_json(self) -> str:
        """As `of` reads it."""
        return str(import_module("json").dumps(asdict(self)))

    def with_scales(self, scales: Sequence[float]) -> "Rule":
        """With other scales of the views."""
        one, two, three, four = (replace(view, scale=s) for view, s in zip(self.views, scales, strict=True))
        return replace(self, views=(one, two, three, four))


class RuleError(Exception):
    """A tuned rule that makes no sense."""


class Settings(Protocol):
    """What a rule is read from: a store, as far as this page need know."""

    def setting(self, name: str, /) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a question: its columns of counts, the worth of a unit in each, its messages by view."""

    columns: tuple[tuple[int, float], ...]
    messages: tuple[float, float, float, float]

    def count(self, counts: Sequence[int]) -> float:
        return sum(worth * counts[column] for column, worth in self.columns)


def questions(names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Spam or one of the others? And, if these are several, each of them or one of the rest?"""
    yield SPAM, [*names]
    if len(names) > 1:
        for name in names:
            yield name, [rest for rest in names if rest != name]


@dataclass(frozen=True, slots=True)
class OneVersusRest:
    """The question whether mail that is not spam is of one label, or of one of all the others."""

    name: str
    own: Side
    rest: tuple[float, float, float, float]  # messages of the others, by view


def one_versus_rest(
    labels: Sequence[Label], names: Sequence[str], unit: int
) -> tuple[Side, list[OneVersusRest]]:
    """All known labels as one side, and a contest for each, if there are several.

    What the others have is what all have less a label's own, so that the work is linear in their number.
    Units are powers of two: the differences are exact.
    """
    all_labels = _side(labels, set(names), "", unit, 0.0)
    if len(names) < 2:
        return all_labels, []
    by_name = {label.name: label for label in labels}
    comparisons = []
    for name in names:
        own = _side([by_name[name]], {name}, "", unit, 0.0)
        one, two, three, four = (a - b for a, b in zip(all_labels.messages, own.messages, strict=True))
        comparisons.append(OneVersusRest(name, own, (one, two, three, four)))
    return all_labels, comparisons


def sides(
    labels: Sequence[Label], chosen: str, against: Sequence[str], unit: int, guessed: float
) -> tuple[Side, Side]:
    """A label on one side, others on the other; guessed mail is on a side if the question is spam."""
    guesses = GUESSED_LABELS if chosen == SPAM else ("", "")
    return (
        _side(labels, {chosen}, guesses[0], unit, guessed),
        _side(labels, set(against), guesses[1], unit, guessed),
    )


def _side(labels: Sequence[Label], names: set[str], guess: str, unit: int, guessed: float) -> Side:
    columns, weight, imported = [], 0.0, 0.0
    for label in labels:
        if label.name in names:
            worth = 1 / unit
        elif label.name == guess:
            worth = guessed / (unit * GUESS_UNITS)
        else:
            continue
        columns.append((label.id, worth))
        weight += worth * label.weight
        imported += worth * label.lent
    return Side(tuple(columns), (weight, weight + imported, weight + imported, weight))


RULE = Rule(
    views=(
        View(scale=1.6, prior=0.01, pooled=True, reluctance=100, tilt=1.0625, doubt=-1.9375),  # grams
        View(scale=1.0, prior=0.01, pooled=True, reluctance=10),  # headers
        View(scale=6.0, prior=0.1, pooled=False, reluctance=10),  # words
        View(scale=1.7, prior=0.3, pooled=True, reluctance=100),  # pairs
    ),
    patience=2,
    acquaintance=10,
    spam=0.95,
    ham=0.1,
    guessed=1.0,
)
