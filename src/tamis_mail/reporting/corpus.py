"""labelled messages → a corpus: which message has which feature, as arrays of indices.

Features are numbered in the order of their keys. A message that was read several times is one message, as in
a store; one that is among spam and among ham is left out.

A filter that learned some of the messages is a `Filter`: it judges others as a store would that learned the
same messages and was fitted then.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tamis.stats import Exact, Tally
from tamis_mail.features import GRAMS
from tamis_mail.features.arrays import expand_ranges, views
from tamis_mail.labels import HAM, SPAM, Label
from tamis_mail.mailbox import RawMessage
from tamis_mail.schema import MAX_BUNDLE_FEATURES
from tamis_mail.sieve.executor import Executor, batches
from tamis_mail.sieve.weights import can_fit_tokens
from tamis_mail.store.coefficient_arrays import count_units
from tamis_mail.store.coefficients import UNIT
from tamis_mail.tokens import VERSION
from tamis_mail.verdict.arrays import log_odds, scores, sum_coefficients
from tamis_mail.verdict.fitting import HeldOut, Training, can_fit, fit_weights, leave_one_out, training_sample
from tamis_mail.verdict.judging import shrinkage
from tamis_mail.verdict.rule import Rule, sides

LabelledMessages = Iterable[tuple[RawMessage, bool]]
Indices = NDArray[np.intp]
Floats = NDArray[np.float64]

_LABELS = {SPAM: True, HAM: False}  # the label of each row of a statistic, and whether it is spam
_JOB_MESSAGES = 100  # maximum number of messages that a worker process or thread reads at a time
_JOB_BYTES = 8 << 20  # fewer messages are read at a time if they have so many bytes together
_MAX_OCCURRENCES = 1 << 24  # occurrences of features in the arrays of one step: about 0.5 GB


@dataclass(frozen=True, slots=True)
class Filter:
    """Counts of the messages that were learned, and the weights that were fitted to them."""

    statistic: Tally
    rule: Rule  # with the fitted scales, centres and intercept
    coefficients: Floats | None  # (features,); None if there were too few messages to fit

    @property
    def labels(self) -> list[Label]:
        return labels_of(self.statistic.weight.value)


@dataclass(frozen=True, slots=True)
class Corpus:
    """The features of labelled messages, one message after the other."""

    keys: NDArray[np.uint64]  # (features,), ascending
    ids: NDArray[np.int32]  # (occurrences,): indices of `keys`; an occurrence is a feature of a message
    starts: Indices  # (messages + 1,): message i has ids[starts[i] : starts[i + 1]]
    is_spam: NDArray[np.bool_]  # (messages,)
    positions: Indices  # (messages,): index among all messages that were read, with those that are left out
    digests: tuple[bytes, ...]
    duplicates: int  # repetitions of messages, under the same label
    disputed: int  # messages that were given both as spam and as ham, and are left out
    token_version: int

    def __len__(self) -> int:
        return len(self.is_spam)

    def count(self, messages: Indices) -> Tally:
        """Count messages and their features: one row for spam, one for ham."""
        counts = np.zeros((len(_LABELS), len(self.keys)), np.int64)
        weight = np.zeros(len(_LABELS), np.int64)
        for row, is_spam in enumerate(_LABELS.values()):
            members = messages[self.is_spam[messages] == is_spam]
            weight[row] = len(members)
            for part in self._split_by_size(members):
                counts[row] += np.bincount(self._join_features(part), minlength=len(self.keys))
        return Tally(weight=Exact.from_integers(weight), total=Exact.from_integers(counts))

    def train(self, messages: Indices, prior: Rule, statistic: Tally | None = None) -> Filter:
        """Learn messages and fit the weights to them, as a store does; `statistic` is their count, if known.

        The scales and the intercept of `prior` are the means of the prior of the fit. With too few messages,
        and with tokens of version 1, nothing is fitted, and they are used as they are.
        """
        statistic = self.count(messages) if statistic is None else statistic
        # As in a store: in the order of digests, without messages that have too many features to be stored.
        in_order = np.array(sorted(messages.tolist(), key=self.digests.__getitem__), np.intp)
        in_order = in_order[(self.starts[in_order + 1] - self.starts[in_order]) <= MAX_BUNDLE_FEATURES]
        is_spam = self.is_spam[in_order]
        if not (can_fit_tokens(self.token_version) and can_fit(is_spam)):
            return Filter(statistic, prior, coefficients=None)
        training = self._select(in_order[training_sample(is_spam)])  # `distinct`: indices of its features
        keys = self.keys[training.distinct]
        counts = statistic.total.value.T[training.distinct].astype(np.int64)
        fit = fit_weights(training, keys, counts, labels_of(statistic.weight.value), prior, unit=1)
        coefficients = np.zeros(len(self.keys))
        # Rounded to a multiple of UNIT, as a store has them.
        coefficients[np.searchsorted(self.keys, fit.keys)] = count_units(fit.coefficients) * UNIT
        rule = prior.with_scales(fit.scale_fit.scales.tolist()).with_centres(fit.centres.tolist())
        rule = replace(rule, intercept=fit.scale_fit.intercept)
        return Filter(statistic, rule, coefficients)

    def log_odds(self, messages: Indices, trained: Filter) -> Floats:
        """Return the log-odds of spam, (messages,), by the counts and the weights of a filter."""
        labels, rule = trained.labels, trained.rule
        spam, ham = sides(labels, SPAM, [HAM], unit=1, guessed_weight=rule.guessed)
        view_numbers = views(self.keys, self.token_version)  # of each feature: the index of its view
        counts = trained.statistic.total.value.T
        # `messages` has the numbers of messages by view; here, they are the same for all views.
        intercept = rule.intercept * shrinkage(spam.messages[GRAMS], ham.messages[GRAMS], rule)
        result = np.full(len(messages), intercept)
        places = np.arange(len(messages))
        for part in self._split_by_size(messages, places):
            rows = self._join_features(messages[part]).astype(np.intp)
            ends = np.cumsum(self.starts[messages[part] + 1] - self.starts[messages[part]])
            ranges = np.concatenate([np.zeros(1, np.intp), ends[:-1]]), ends
            result[part] += log_odds(scores(rows, ranges, view_numbers, counts, rule, spam, ham), rule)
            if trained.coefficients is not None:
                result[part] += sum_coefficients(rows, ranges, view_numbers, trained.coefficients, rule)
        return result

    def leave_one_out(self, rule: Rule) -> HeldOut:
        """Compute the scores of each message's views by the counts of all other messages."""
        statistic = self.count(np.arange(len(self)))
        labels, counts = labels_of(statistic.weight.value), statistic.total.value.T.astype(np.int64)
        designs = np.zeros((len(self), len(rule.views) + 1))  # with a column for the intercept
        present = np.zeros((len(self), len(rule.views)))
        for part in self._split_by_size(np.arange(len(self))):
            training = self._select(part)
            distinct = training.distinct
            held_out = leave_one_out(training, self.keys[distinct], counts[distinct], labels, rule, unit=1)
            designs[part], present[part] = held_out.scores, held_out.presences
        return HeldOut(designs, present)

    def _select(self, messages: Indices) -> Training:
        """Return messages in the form to which weights are fitted."""
        columns = np.where(self.is_spam, [*_LABELS].index(SPAM), [*_LABELS].index(HAM)).astype(np.intp)
        weights = np.ones(len(self), np.int64)
        ids = self.ids.astype(np.intp)
        return Training.from_messages(ids, self.starts, columns, weights, messages, len(self.keys))

    def features_of(self, message: int) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
        """Return the keys of the features of one message, and their indices in `keys`."""
        ids = self.ids[self.starts[message] : self.starts[message + 1]]
        return self.keys[ids], ids

    def _split_by_size(self, messages: Indices, places: Indices | None = None) -> list[Indices]:
        """Split messages into parts that have on average at most _MAX_OCCURRENCES occurrences of features.

        With `places`, the indices of `messages` from 0, return the parts of these instead.
        """
        occurrences = int((self.starts[messages + 1] - self.starts[messages]).sum())
        return np.array_split(messages if places is None else places, 1 + occurrences // _MAX_OCCURRENCES)

    def _join_features(self, messages: Indices) -> NDArray[np.int32]:
        """Return the indices of the features of some messages, one message after the other."""
        places, _ = expand_ranges(self.starts[messages], self.starts[messages + 1])
        return self.ids[places]


def labels_of(weight: NDArray[np.float64]) -> list[Label]:
    """Return the labels of a statistic as a store has them; `weight` has the numbers of their messages."""
    return [
        Label(column, name, messages=int(n), weight=int(n), lent=0, features=0)
        for column, (name, n) in enumerate(zip(_LABELS, weight, strict=True))
    ]


def read(
    messages: LabelledMessages,
    *,
    token_version: int = VERSION,
    processes: int | None = None,
    on_message: Callable[[RawMessage], None] = lambda _: None,
) -> Corpus:
    """Read messages, in several processes if there are many; `on_message` is called with each of them."""
    spam_flags: list[bool] = []

    def read_raw() -> Iterator[bytes]:
        for message, is_spam in messages:
            on_message(message)
            spam_flags.append(is_spam)
            yield message.raw

    digests: list[bytes] = []
    features: list[NDArray[np.uint64]] = []
    executor = Executor(lambda: token_version)
    raw_messages, run_jobs = executor.prepare(read_raw(), processes)
    jobs = ((batch, token_version) for batch in batches(raw_messages, _JOB_MESSAGES, _JOB_BYTES))
    for new_digests, new_features in run_jobs("digest_messages", jobs):
        digests += new_digests
        features += new_features
    executor.close()
    first_places: dict[bytes, int] = {}
    disputed = set()
    for place, digest in enumerate(digests):
        if spam_flags[first_places.setdefault(digest, place)] != spam_flags[place]:
            disputed.add(digest)
    n_disputed = sum(digest in disputed for digest in digests)
    places = [place for digest, place in first_places.items() if digest not in disputed]
    kept = [features[place] for place in places]
    keys, ids = np.unique(np.concatenate([*kept, np.empty(0, np.uint64)]), return_inverse=True)
    return Corpus(
        keys,
        ids.astype(np.int32),
        starts=np.cumsum([0, *map(len, kept)], dtype=np.intp),
        is_spam=np.array([spam_flags[place] for place in places], np.bool_),
        positions=np.array(places, np.intp),
        digests=tuple(digests[place] for place in places),
        duplicates=len(digests) - n_disputed - len(places),
        disputed=n_disputed,
        token_version=token_version,
    )
