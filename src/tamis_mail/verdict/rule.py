"""The rule by which counts become log-odds: naive Bayes for each view (kind of features: words, headers, …).

The constants are from experiments 0005, 0010 and 0013.

A feature that s of Ns spam messages have and h of Nh others has the weight log P(feature | spam) - log
P(feature | ham). Each probability is the posterior mean under a Beta prior: if `pooled`, a Beta with `prior`
pseudo-messages in all and the feature's overall rate as its mean; else a Beta with `prior` pseudo-messages
with the feature and `prior` without. The score of a view is the mean of the weights of the message's
features, because features of one view are correlated and their sum would be overconfident. The mean includes
`reluctance` pseudo-features, so that a view with few features has little influence.

The score of each view is multiplied by its scale and by 1 / (1 + patience (1 / Ns + 1 / Nh)), with the Ns and
Nh of the view, because the logarithm of a ratio of two rates is known with a variance of about 1 / s + 1 / h.
The intercept has the same factor, with the numbers of learned messages. The log-odds are the sum of these
products and of what the coefficients of single features add.

Once there are MIN_FITTED_MESSAGES of spam and as many of other mail, the scales and the intercept of a store
are fitted to its messages (`fitting`), and so are the centres of the views and the coefficients of single
features. The centre of a view is subtracted from the weight of each known feature: where most words are those
of wanted mail, a word that both classes have equally suggests spam. A feature that was never seen has the
weight 0, and a view without features has the score 0. A feature with the coefficient b adds b / √n, where n
is the number of the message's features of that view.

Version 1 of the tokens has constants in place of the fit, and the factor m / (m + patience), where m is the
number of messages of the smaller class. The pseudo-features have the weight `doubt` instead of 0, and `tilt`
is added to the weight of each feature of the message, known or not: few headers suggest ham and many suggest
spam, beyond what the counts say. The sum of what `tilt` and `doubt` add (`View.offset`) is multiplied by
k / (k + acquaintance), where k is the number of known grams and headers of the message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from math import log

from tamis_mail.features import HEADERS, RELATIONS, VIEWS, VIEWS_OF, WORDS, view_mask
from tamis_mail.labels import GUESS_UNITS, GUESSED_LABELS, SPAM, Label
from tamis_mail.records import record, replace
from tamis_mail.schema import parse_rule, parse_weights
from tamis_mail.tokens import VERSION

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Settings(Protocol):
        """The methods of a store by which a rule is read."""

        def setting(self, name: str, /) -> str | None: ...

        def token_version(self) -> int: ...


# The views whose features can have coefficients of their own. These coefficients are the layer, which is
# fitted after the scales.
LAYER_VIEWS = (HEADERS, WORDS, RELATIONS)
MIN_FITTED_MESSAGES = 5  # of spam, and of other mail; with fewer, nothing is fitted


@record(frozen=True, slots=True)
class View:
    """The scale of a view and the parameters of its weights."""

    scale: float  # the factor of the score in the log-odds
    prior: float  # pseudo-messages of the Beta prior of each feature
    pooled: bool  # whether the mean of this prior is the feature's overall rate; otherwise it is 1/2
    reluctance: float  # pseudo-features that the mean of the weights includes
    tilt: float = 0.0  # added to the weight of each feature
    doubt: float = 0.0  # the weight of a pseudo-feature
    # Subtracted from the weight of each known feature when spam is compared with other mail.
    centre: float = 0.0

    def weigh(self, spam: float, ham: float, spams: float, hams: float) -> float:
        """Return the weight of a feature that `spam` of `spams` and `ham` of `hams` messages have.

        The centre is not subtracted.
        """
        if spam + ham <= 0:
            return 0.0
        rate = (spam + ham) / (spams + hams) if self.pooled else 0.5
        pseudo = self.prior if self.pooled else 2 * self.prior  # pseudo-messages of the Beta prior
        return log((spam + pseudo * rate) / (spams + pseudo)) - log((ham + pseudo * rate) / (hams + pseudo))

    def offset(self, features: int) -> float:
        """Return what `tilt` and `doubt` add to the score, which depends on the number of features alone."""
        return (features * self.tilt + self.reluctance * self.doubt) / (features + self.reluctance)


@record(frozen=True, slots=True)
class Rule:
    """The parameters of the verdict, except the coefficients of features and imported word lists."""

    views: tuple[View, ...]  # one for each of `features.VIEWS_OF[token_version]`
    patience: float  # how much the log-odds shrink if few messages were learned
    acquaintance: float  # number of known grams and headers with which `View.offset` counts half
    spam: float  # minimum probability of a verdict of spam
    ham: float  # maximum probability of a verdict of ham
    guessed: float  # weight of a message with a guessed label, relative to a labelled one
    intercept: float = 0.0  # log-odds of spam before any evidence
    token_version: int = VERSION

    @classmethod
    def of(cls, store: Settings) -> Rule:
        """Read the rule of a store: tuned or default, with the fitted scales, centres and intercept."""
        rule = cls.read_prior(store)
        weights = Weights.of(store)
        return rule if weights is None else rule.with_weights(weights)

    @classmethod
    def read_prior(cls, store: Settings) -> Rule:
        """Read the rule without fitted weights: the one tuned for the store, or the default for its tokens.

        Its scales and its intercept are the means of the Gaussian prior under which those of the store are
        fitted to its messages.
        """
        text, version = store.setting("rule"), store.token_version()
        if not text:
            return RULES[version]
        try:
            fields = parse_rule(text, version)
        except ValueError as error:
            raise RuleError(
                f"the rule that was tuned for this store cannot be used ({error}): "
                "tamis tune --reset goes back to the default"
            ) from error
        views = tuple(View(**view) for view in fields.pop("views"))
        return cls(views, **fields, token_version=version)

    def with_weights(self, weights: Weights) -> Rule:
        """Return the rule with fitted scales, centres and intercept."""
        rule = self.with_scales(weights.scales).with_centres(weights.centres)
        return replace(rule, intercept=weights.intercept)

    def to_json(self) -> str:
        """Write the rule in the form that `read_prior` reads, without the version of the tokens."""
        return str(import_module("json").dumps(self.as_dict()))

    def as_dict(self) -> dict[str, Any]:
        """Return the parameters, without the version of the tokens."""
        fields: dict[str, Any] = import_module("dataclasses").asdict(self)
        del fields["token_version"]
        return fields

    def with_scales(self, scales: Sequence[float]) -> Rule:
        """Return the rule with other scales of the views."""
        views = (replace(view, scale=scale) for view, scale in zip(self.views, scales, strict=True))
        return replace(self, views=tuple(views))

    def with_centres(self, centres: Sequence[float]) -> Rule:
        """Return the rule with other centres of the views."""
        views = (replace(view, centre=centre) for view, centre in zip(self.views, centres, strict=True))
        return replace(self, views=tuple(views))

    def drop_centres(self) -> Rule:
        """Return the rule with all centres 0.

        Labels other than spam are compared by it, because centres are fitted to spam against the rest; and so
        are spam and the rest before the centres are fitted.
        """
        return self.with_centres([0.0] * len(self.views))


@record(frozen=True, slots=True)
class Weights:
    """The parameters fitted to the messages of a store (`fitting`), without the coefficients of features."""

    messages: int  # the number of learned messages at the time of the fit
    shelf_bits: int  # the store's table of coefficients has at most 2**shelf_bits rows (shelves)
    intercept: float
    scales: tuple[float, ...]  # of the views
    deviations: tuple[float, ...]  # posterior standard deviations of the intercept and of the scales
    centres: tuple[float, ...]  # of the views

    @classmethod
    def of(cls, store: Settings) -> Weights | None:
        """Read the weights of a store; None if nothing was fitted yet."""
        text = store.setting("weights")
        if not text:
            return None
        try:
            fields = parse_weights(text, len(VIEWS_OF[store.token_version()]))
        except ValueError as error:
            raise RuleError(
                f"the weights that were fitted for this store cannot be used ({error}): "
                "tamis tune fits them again"
            ) from error
        messages, bits, values, deviations, centres = fields
        return cls(messages, bits, values[0], tuple(values[1:]), tuple(deviations), tuple(centres))

    def to_text(self) -> str:
        """Write the weights in the form that `of` reads."""
        values = (self.intercept, *self.scales)
        pairs = (f"{value!r} {deviation!r}" for value, deviation in zip(values, self.deviations, strict=True))
        return " ".join([str(self.messages), str(self.shelf_bits), *pairs, *map(repr, self.centres)])


class RuleError(Exception):
    """The tuned rule or the fitted weights of a store are invalid. The message is one line for the user."""


@record(frozen=True, slots=True)
class Side:
    """One side of a comparison of labels."""

    # Per label: the column of its counts, and the factor that converts these counts to numbers of messages.
    columns: tuple[tuple[int, float], ...]
    # The number of messages of this side, per view of `features.VIEWS`: messages that another filter had
    # counted are included only in _IMPORTED_VIEWS.
    messages: tuple[float, ...]

    def count(self, counts: Sequence[int]) -> float:
        """Return how many messages of this side have a feature, given the feature's counts by column."""
        return sum(factor * counts[column] for column, factor in self.columns)


def list_comparisons(names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """List the comparisons of labels as (label, the labels that it is compared with).

    `names` are the labels other than spam. Spam is compared with all of them and, if there are several, each
    of them with the others.
    """
    comparisons = [(SPAM, [*names])]
    if len(names) > 1:
        comparisons += [(name, [other for other in names if other != name]) for name in names]
    return comparisons


@record(frozen=True, slots=True)
class OneVersusRest:
    """The comparison of one label with all others that are not spam."""

    name: str
    own: Side
    rest: tuple[float, ...]  # messages of the others, by view


def one_versus_rest(
    labels: Sequence[Label], names: Sequence[str], unit: int
) -> tuple[Side, list[OneVersusRest]]:
    """Return the labels `names` as one side and, if there are several, a comparison of each with the others.

    The counts of the others are those of all `names` minus the label's own, so that the work is linear in the
    number of labels. Units are powers of two, so the differences are exact.
    """
    all_labels = _side(labels, set(names), "", unit, 0.0)
    if len(names) < 2:
        return all_labels, []
    by_name = {label.name: label for label in labels}
    comparisons = []
    for name in names:
        own = _side([by_name[name]], {name}, "", unit, 0.0)
        rest = tuple(a - b for a, b in zip(all_labels.messages, own.messages, strict=True))
        comparisons.append(OneVersusRest(name, own, rest))
    return all_labels, comparisons


def sides(
    labels: Sequence[Label], chosen: str, against: Sequence[str], unit: int, guessed_weight: float
) -> tuple[Side, Side]:
    """Return the label `chosen` as one side, and the labels `against` as the other.

    If the label is spam, messages that were guessed to be spam or ham are on these sides, too, each with
    `guessed_weight`.
    """
    guessed_labels = GUESSED_LABELS if chosen == SPAM else ("", "")
    return (
        _side(labels, {chosen}, guessed_labels[0], unit, guessed_weight),
        _side(labels, set(against), guessed_labels[1], unit, guessed_weight),
    )


def _side(
    labels: Sequence[Label], names: set[str], guessed_label: str, unit: int, guessed_weight: float
) -> Side:
    """Return one side: the labels `names` and, if not empty, the guessed one, with `guessed_weight`."""
    columns, weight, imported = [], 0.0, 0.0
    for label in labels:
        if label.name in names:
            factor = 1 / unit
        elif label.name == guessed_label:
            factor = guessed_weight / (unit * GUESS_UNITS)
        else:
            continue
        columns.append((label.id, factor))
        weight += factor * label.weight
        imported += factor * label.lent
    messages = (weight + imported if view in _IMPORTED_VIEWS else weight for view in range(len(VIEWS)))
    return Side(tuple(columns), tuple(messages))


def list_layer_keys(keys: Iterable[int], token_version: int) -> list[int]:
    """List the features that can have coefficients, which are those of the LAYER_VIEWS."""
    mask = view_mask(token_version)  # of the bits of a key that are the index of its view
    return [key for key in keys if key & mask in LAYER_VIEWS]


_IMPORTED_VIEWS = (HEADERS, WORDS)  # the views that an import from another filter can fill
_VERSION_1_VIEWS = (
    View(scale=1.6, prior=0.01, pooled=True, reluctance=100, tilt=1.0625, doubt=-1.9375),  # grams
    View(scale=1.0, prior=0.01, pooled=True, reluctance=10),  # headers
    View(scale=6.0, prior=0.1, pooled=False, reluctance=10),  # words
    View(scale=1.7, prior=0.3, pooled=True, reluctance=100),  # pairs
)
_VERSION_1_RULE = Rule(
    views=_VERSION_1_VIEWS, patience=2, acquaintance=10, spam=0.95, ham=0.1, guessed=1.0, token_version=1
)
_VERSION_2_RULE = Rule(  # experiments/0010-learned-weights, 0013-centred-views
    views=(
        View(scale=1.6, prior=0.03, pooled=True, reluctance=100),  # grams
        View(scale=1.0, prior=0.03, pooled=True, reluctance=10),  # headers
        View(scale=3.0, prior=0.1, pooled=False, reluctance=10),  # words
        View(scale=1.7, prior=0.3, pooled=True, reluctance=100),  # pairs
        View(scale=2.0, prior=0.3, pooled=True, reluctance=3),  # relations
    ),
    patience=1,
    acquaintance=10,
    spam=0.97,
    ham=0.1,
    guessed=1.0,
    token_version=2,
)
RULES = {  # by version of the tokens; version 3 was measured with the rule of version 2 (experiments/0017)
    1: _VERSION_1_RULE,
    2: _VERSION_2_RULE,
    3: replace(_VERSION_2_RULE, token_version=3),
}
RULE = RULES[VERSION]
