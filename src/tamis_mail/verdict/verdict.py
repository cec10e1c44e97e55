"""A verdict: label, probability, and the evidence of each token."""

from collections.abc import Callable, Iterable, Mapping

from tamis_mail.records import field, record


class VerdictError(Exception):
    """No probability can be computed from the counts. The message is one line for the user."""


@record(frozen=True, slots=True)
class Evidence:
    """The contribution of one feature of a message to the log-odds of spam.

    `spam` and `ham` are the numbers of spam and of other messages that have it. A message that was learned
    before decays, or with a guessed label, counts as less than one. The intercept and the length of the
    headers are evidence, too; their `spam` and `ham` are the numbers of all learned messages. So is a known
    sender; its `ham` is the number of messages that the user wrote to it.
    """

    token: str
    view: str
    contribution: float
    spam: float
    ham: float


def sort_evidence(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Sort evidence, strongest first."""
    return tuple(sorted(evidence, key=lambda one: (-abs(one.contribution), one.view, one.token)))


@record(frozen=True, slots=True)
class Judgement:
    """A verdict without its evidence."""

    label: str  # spam, unsure, ham, or another label that was learned
    probability: float  # of spam
    log_odds: float
    probabilities: Mapping[str, float]  # of each label that was learned
    listed: str | None = None  # the entry of the lists that decided, such as "allowed: ann@example.org"
    remark: str | None = None  # a sentence on the sender, for the user


@record(frozen=True, slots=True)
class Identity:
    """The fields of a message that the log stores."""

    digest: bytes
    sender: str
    subject: str


@record(frozen=True, slots=True)
class Verdict:
    """The label of a message, its probability, and the evidence."""

    judgement: Judgement
    _explain: Callable[[], tuple[Evidence, ...]] = field(repr=False, compare=False)
    identity: Identity | None = field(default=None, repr=False, compare=False)  # None if it was not asked for
    _strongest: tuple[Evidence, ...] | None = field(default=None, repr=False, compare=False)

    @property
    def label(self) -> str:
        """spam, ham, unsure, or another label that was learned."""
        return self.judgement.label

    @property
    def probability(self) -> float:
        """The probability that the message is spam."""
        return self.judgement.probability

    @property
    def log_odds(self) -> float:
        """The log-odds of spam: log(p / (1 - p))."""
        return self.judgement.log_odds

    @property
    def probabilities(self) -> Mapping[str, float]:
        """The probability of each label that was learned."""
        return self.judgement.probabilities

    @property
    def listed(self) -> str | None:
        """The entry of the user's lists that decided the label, whatever the evidence; None if none did."""
        return self.judgement.listed

    @property
    def remark(self) -> str | None:
        """A sentence on the sender, such as why an allowed address did not decide; None if there is none."""
        return self.judgement.remark

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The contributions of tokens, strongest first; they sum to the log-odds."""
        return self._explain()

    @property
    def strongest(self) -> tuple[Evidence, ...]:
        """At least the 20 strongest contributions, and the 20 strongest without n-grams, strongest first.

        It is all of the evidence, unless `Sieve.sort_batch` has computed these, which takes less time; then
        contributions of 0 are left out.
        """
        return self.evidence if self._strongest is None else self._strongest
