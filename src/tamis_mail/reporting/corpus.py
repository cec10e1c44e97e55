"""labelled messages → a corpus: which message has which feature, as arrays of dense numbers.

Features are numbered in the order of their keys. A message that lies in several places is one message, as in
a store; one that lies among spam and among ham tells nothing, and is left out.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis_mail.features.arrays import views
from tamis_mail.labels import HAM, SPAM, Label
from tamis_mail.mailbox import RawMessage
from tamis_mail.sieve.executor import Executor, batches
from tamis_mail.verdict.arrays import log_odds, scores
from tamis_mail.verdict.rule import Rule, sides

__all__ = ["Corpus", "Counts", "read"]

LabelledMessages = Iterable[tuple[RawMessage, bool]]
Numbers = NDArray[np.intp]

_JOB = 100  # messages of a worker's job …
_BYTES = 8 << 20  # … or so many bytes
_AT_ONCE = 1 << 24  # occurrences that are spread out at once: some 0.5 GB


@dataclass(frozen=True, slots=True)
class Counts:
    """The statistic: how many messages of spam and of ham have each feature. It adds and subtracts."""

    features: NDArray[np.int64]  # (features, 2)
    messages: NDArray[np.int64]  # (2,)

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.features + other.features, self.messages + other.messages)

    def __sub__(self, other: "Counts") -> "Counts":
        return Counts(self.features - other.features, self.messages - other.messages)

    def labels(self) -> list[Label]:
        """As a store would give them."""
        weights = zip((SPAM, HAM), self.messages.tolist(), self.features.sum(axis=0).tolist(), strict=True)
        return [Label(column, name, n, n, 0, total) for column, (name, n, total) in enumerate(weights)]


@dataclass(frozen=True, slots=True)
class Corpus:
    """The features of labelled messages, one message after the other."""

    keys: NDArray[np.uint64]  # (features,), ascending
    ids: NDArray[np.int32]  # (occurrences,): rows of `keys`
    starts: Numbers  # (messages + 1,): message i has ids[starts[i] : starts[i + 1]]
    is_spam: NDArray[np.bool_]  # (messages,)
    places: Numbers  # (messages,): which of the messages it was
    digests: tuple[bytes, ...]
    again: int  # messages that were there before, under the same label
    disputed: int  # messages that are among spam and among ham

    def __len__(self) -> int:
        return len(self.is_spam)

    def count(self, chosen: Numbers) -> Counts:
        """The statistic of some messages."""
        features = np.zeros((len(self.keys), 2), np.int64)
        for column, wanted in enumerate((True, False)):
            for part in self._pieces(chosen[self.is_spam[chosen] == wanted]):
                features[:, column] += np.bincount(self._occurrences(part)[0], minlength=len(self.keys))
        spams = int(self.is_spam[chosen].sum())
        return Counts(features, np.array([spams, len(chosen) - spams], np.int64))

    def scores(self, chosen: Numbers, known: Counts, rule: Rule) -> NDArray[np.float64]:
        """(messages, views): what each view says of each chosen message, before its scale."""
        ids, owners = self._occurrences(chosen)
        kinds = views(self.keys)
        spam, ham = sides(known.labels(), SPAM, [HAM], 1, rule.guessed)
        return scores(
            kinds[ids], ids.astype(np.intp), owners, len(chosen), kinds, known.features, rule, spam, ham
        )

    def log_odds(self, chosen: Numbers, known: Counts, rule: Rule) -> NDArray[np.float64]:
        """(messages,): of spam."""
        return log_odds(self.scores(chosen, known, rule), rule)

    def leave_one_out(self, rule: Rule) -> NDArray[np.float64]:
        """(messages, views): the scores of each message by all the others.

        Who takes a spam away takes one off each count of spam that it has part in: there are two tables of
        weights, one for spam and one for ham, however many messages there are.
        """
        everything = self.count(np.arange(len(self)))
        scores_of_all = np.zeros((len(self), len(rule.views)))
        for column, is_spam in enumerate((True, False)):
            messages_of_label = np.flatnonzero(self.is_spam == is_spam)
            features, messages = everything.features.copy(), everything.messages.copy()
            features[:, column] = np.maximum(features[:, column] - 1, 0)  # no message of the label has a 0
            messages[column] -= 1
            for part in self._pieces(messages_of_label):
                scores_of_all[part] = self.scores(part, Counts(features, messages), rule)
        return scores_of_all

    def features_of(self, message: int) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
        """The keys of one message's features, and their rows."""
        ids = self.ids[self.starts[message] : self.starts[message + 1]]
        return self.keys[ids], ids

    def _pieces(self, chosen: Numbers) -> list[Numbers]:
        """Messages in as many parts as memory asks for."""
        occurrences = int((self.starts[chosen + 1] - self.starts[chosen]).sum())
        return np.array_split(chosen, 1 + occurrences // _AT_ONCE)

    def _occurrences(self, chosen: Numbers) -> tuple[NDArray[np.int32], Numbers]:
        """The features of some messages, and whose each is, numbered as they were chosen."""
        sizes = self.starts[chosen + 1] - self.starts[chosen]
        owners = np.repeat(np.arange(len(chosen)), sizes)
        begins = np.cumsum(sizes) - sizes
        places = np.arange(int(sizes.sum())) + (self.starts[chosen] - begins)[owners]
        return self.ids[places], owners


def read(
    messages: LabelledMessages,
    *,
    processes: int | None = None,
    seen: Callable[[RawMessage], None] = lambda _: None,
) -> Corpus:
    """Read messages, on all cores if there are many; `seen` is told of each."""
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
    for names, found in work("digest_messages", ((part,) for part in batches(chosen, _JOB, _BYTES))):
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
    )
