"""Judge many messages by a table of all counts, in the compiled core, as `arrays` does with NumPy."""

from __future__ import annotations

from collections.abc import Sequence

from tamis_mail.features import GRAMS
from tamis_mail.labels import SPAM, Label
from tamis_mail.verdict.judging import decide, list_other_labels, shrinkage
from tamis_mail.verdict.rule import Rule, one_versus_rest, sides
from tamis_mail.verdict.verdict import Judgement

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from tamis._core.mail import MessageBatch, ScoreTable


class TableRule:
    """A table of counts, and the rule by which messages are judged."""

    def __init__(self, table: ScoreTable, labels: Sequence[Label], rule: Rule, unit: int) -> None:
        """`unit` is the weight of a message that is learned now."""
        self._table, self._rule = table, rule
        self.token_version = rule.token_version
        self._other_labels = list_other_labels(labels)
        spam, rest = sides(labels, SPAM, self._other_labels, unit, guessed_weight=rule.guessed)
        self._compare(spam.columns, spam.messages, rest.columns, rest.messages, rule)
        # The numbers of messages with n-grams: all but the lent ones.
        self._intercept = rule.intercept * shrinkage(spam.messages[GRAMS], rest.messages[GRAMS], rule)
        all_labels, comparisons = one_versus_rest(labels, self._other_labels, unit)
        for comparison in comparisons:
            own_columns = dict(comparison.own.columns)
            rest_columns = [pair for pair in all_labels.columns if pair[0] not in own_columns]
            self._compare(
                comparison.own.columns,
                comparison.own.messages,
                rest_columns,
                comparison.rest,
                rule.drop_centres(),
            )
        self._compared_labels = [comparison.name for comparison in comparisons]

    def _compare(
        self,
        columns: Sequence[tuple[int, float]],
        messages: Sequence[float],
        rest_columns: Sequence[tuple[int, float]],
        rest_messages: Sequence[float],
        rule: Rule,
    ) -> None:
        """Let the table compute the log-odds of the labels in `columns` against those in `rest_columns`."""
        views = [
            [
                view.scale,
                view.prior,
                float(view.pooled),
                view.reluctance,
                view.tilt,
                view.doubt,
                view.centre,
                spams,
                hams,
                shrinkage(spams, hams, rule),
            ]
            # The tokens of version 1 have one view less than there are numbers of messages.
            for view, spams, hams in zip(rule.views, messages, rest_messages, strict=False)
        ]
        self._table.compare(list(columns), list(rest_columns), views, rule.acquaintance)

    def judge(self, batch: MessageBatch, offsets: Sequence[float] | None = None) -> list[Judgement]:
        """Judge the messages of a batch, whose features are read.

        `offsets` are added to the log-odds of spam: the evidence of an imported word list.
        """
        judgements = []
        for message, (log_odds, *log_odds_of_labels) in enumerate(self._table.score(batch)):
            offset = 0.0 if offsets is None else offsets[message]
            judgements.append(
                decide(
                    log_odds + self._intercept + offset,
                    self._other_labels,
                    dict(zip(self._compared_labels, log_odds_of_labels, strict=True)),
                    self._rule,
                )
            )
        return judgements
