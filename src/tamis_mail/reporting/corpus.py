"""labelled messages → a corpus: which message has which feature, as arrays of dense numbers.

Features are numbered in the order of their keys. A message that lies in several places is one message, as in
a store; one that is among spam and among ham is left out.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis.stats import Exact, Tally
from tamis_mail.features.arrays import views
from tamis_mail.labels import HAM, SPAM, Label
from tamis_mail.mailbox import RawMessage
from tamis_mail.sieve.executor import Executor, batches
from tamis_mail.tokens import VERSION
from tamis_mail.verdict.arrays import log_odds, scores
from tamis_mail.verdict.rule import Rule, sides

__all__ = ["Corpus", "labels_of", "read"]

LabelledMessages = Iterable[tuple[RawMessage, bool]]
Numbers = NDArray[np.intp]

_LABELS = {SPAM: True, HAM: False}  # the rows of a statistic, and whether each is spam
_JOB = 100  # messages of a worker's job …
_BYTES = 8 << 20  # … or so many bytes
_AT_ONCE = 1 << 24  # occurrences that are expanded at once: about 0.5 GB


@dataclass(frozen=True, slots=True)
class Corpus:
    """The features of labelled messages, one message after the other."""

    keys: NDArray[np.uint64]  # (features,), ascending
    ids: NDArray[np.int32]  # (occurrences,): rows of `keys`
    starts: Numbers  # (messages + 1,): message i has ids[starts[i] : starts[i + 1]]
    is_spam: NDArray[np.bool_]  # (messages,)
    places: Numbers  # (messages,): index among all messages that were read
    digests: tuple[bytes, ...]
    again: int  # duplicates under the same label
    disputed: int  # messages that are among spam and among ham
    token_version: int

    def __len__(self) -> int:
        return len(self.is_spam)

    def count(self, messages: Numbers) -> Tally:
        """Observe some messages: the weight and the counts of features of spam, then those of ham."""
        counts = np.zeros((len(_LABELS), len(self.keys)), np.int64)
        weight = np.zeros(len(_LABELS), np.int64)
        for row, is_spam in enumerate(_LABELS.values()):
            members = messages[self.is_spam[messages] == is_spam]
            weight[row] = len(members)
            for part in self._pieces(members):
                counts[row] += np.bincount(self._occurrences(part)[0], minlength=len(self.keys))
        return Tally(weight=Exact.from_integers(weight), total=Exact.from_integers(counts))

    def scores(self, messages: Numbers, statistic: Tally, rule: Rule) -> NDArray[np.float64]:
        """(messages, views): the score of each message in each view, before its scale."""
        return self._score(messages, statistic.weight.value, statistic.total.value, rule)

    def log_odds(self, messages: Numbers, statistic: Tally, rule: Rule) -> NDArray[np.float64]:
        """(messages,): of spam."""
        return log_odds(self.scores(messages, statistic, rule), rule)

    def leave_one_out(self, rule: Rule) -> NDArray[np.float64]:
        """(messages, views): the scores of each message by the counts of all the others.

        Without a spam message, each count of spam that it is part of is one less. So two tables of weights
        suffice, one for spam and one for ham, however many messages there are.
        """
        total = self.count(np.arange(len(self)))
        scores = np.zeros((len(self), len(rule.views)))
        for row, is_spam in enumerate(_LABELS.values()):
            weight, counts = total.weight.value.copy(), total.total.value.copy()
            counts[row] = np.maximum(counts[row] - 1, 0)  # no message of the label has a feature of count 0
            weight[row] -= 1
            for part in self._pieces(np.flatnonzero(self.is_spam == is_spam)):
                scores[part] = self._score(part, weight, counts, rule)
        return scores

    def _score(
        self, messages: Numbers, weight: NDArray[np.float64], counts: NDArray[np.float64], rule: Rule
    ) -> NDArray[np.float64]:
        ids, owners = self._occurrences(messages)
        kinds = views(self.keys, self.token_version)
        spam, ham = sides(labels_of(weight), SPAM, [HAM], 1, rule.guessed)
        return scores(
            kinds[ids], ids.astype(np.intp), owners, len(messages), kinds, counts.T, rule, spam, ham
        )

    def features_of(self, message: int) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
        """Return the keys of the features of one message, and their rows."""
        ids = self.ids[self.starts[message] : self.starts[message + 1]]
        return self.keys[ids], ids

    def _pieces(self, messages: Numbers) -> list[Numbers]:
        """Split messages into parts that fit into memory."""
        occurrences = int((self.starts[messages + 1] - self.starts[messages]).sum())
        return np.array_split(messages, 1 + occurrences // _AT_ONCE)

    def _occurrences(self, messages: Numbers) -> tuple[NDArray[np.int32], Numbers]:
        """The features of some messages, and for each the index of its message."""
        sizes = self.starts[messages + 1] - self.starts[messages]
        owners = np.repeat(np.arange(len(messages)), sizes)
        begins = np.cumsum(sizes) - sizes
        places = np.arange(int(sizes.sum())) + (self.starts[messages] - begins)[owners]
        return self.ids[places], owners


def labels_of(weight: NDArray[np.float64]) -> list[Label]:
    """The labels of a statistic as a store would give them; `weight` counts the messages of each."""
    return [
        Label(column, name, int(n), int(n), 0, 0)
        for column, (name, n) in enumerate(zip(_LABELS, weight, strict=True))
    ]


def read(
    messages: LabelledMessages,
    *,
    token_version: int = VERSION,
    processes: int | None = None,
    seen: Callable[[RawMessage], None] = lambda _: None,
) -> Corpus:
    """Read messages, on all cores if there are many; `seen` is called with each."""
    marks: list[bool] = []

    def read_raw() -> Iterator[bytes]:
        for message, is_spam in messages:
            seen(message)
            marks.append(is_spam)
            yield message.raw

    digests: list[bytes] = []
    features: list[NDArray[np.uint64]] = []
    executor = Executor()
    chosen, work = executor.prepare(read_raw(), processes)
    for names, found in work(
        "digest_messages", ((part, token_version) for part in batches(chosen, _JOB, _BYTES))
    ):
        digests += names
        features += found
    executor.close()
    first: dict[bytes, int] = {}
    disputed = set()
    for place, name in enumerate(digests):
        if marks[first.setdefault(name, place)] != marks[place]:
            disputed.add(name)
    quarrel = sum(name in disputed for name in digests)
    places = [place for name, place in first.items() if name not in disputed]
    kept = [features[place] for place in places]
    keys, ids = np.unique(np.concatenate([*kept, np.empty(0, np.uint64)]), return_inverse=True)
    return Corpus(
        keys,
        ids.astype(np.int32),
        np.cumsum([0, *map(len, kept)], dtype=np.intp),
        np.array([marks[place] for place in places], np.bool_),
        np.array(places, np.intp),
        tuple(digests[place] for place in places),
        len(digests) - quarrel - len(places),
        quarrel,
        token_version,
    )
