"""Would a further view, or another layer, help? python screen.py DATA [views | layers]

One moment in place of a stream. Messages are divided into five folds, at random; those of a fold are judged by
coefficients that were fitted to the others. For *views* the scores of the views are by the counts of all other
messages; for *layers* by those of the other folds alone. This takes seconds, and shows whether an idea knows
something that the rule does not.
"""

import hashlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

EXPERIMENTS = Path(__file__).parents[1]
sys.path[:0] = [str(EXPERIMENTS / name) for name in ("0015-all-features", "0010-learned-weights")]
from scipy.stats import rankdata
from streams import Corpus, Features, read_files, read_index, read_letters, read_short_texts, shuffle

from tamis_mail.features.arrays import expand_ranges
from tamis_mail.message import canonical
from tamis_mail.verdict import RULES, arrays, fitting
from tamis_mail.verdict.rule import View

RULE = RULES[2]
SCALES = np.array([view.scale for view in RULE.views])
Floats = np.ndarray
Column = tuple[Floats, Floats]  # the scores and the presences of one view

LISTS = (
    rb"list-[^:]*|x-beenthere|x-mailman-version|errors-to|sender|precedence|x-loop|x-original-date|mailing-list|"
    rb"x-keywords|x-egroups-[^:]*"
)
ROUTE = rb"received|return-path|delivered-to|x-original-to|lines|status"
ADDRESS = re.compile(rb"[\w.+-]+@([\w.-]+)")
SENDERS = re.compile(rb"(?im)^(from|reply-to|list-id|x-beenthere|sender):(.*\n(?:[ \t].*\n)*)")


def split(raw: bytes) -> tuple[bytes, bytes]:
    head, _, body = canonical(raw).replace(b"\r\n", b"\n").partition(b"\n\n")
    return head + b"\n", body


def find_grams(text: bytes, n: int) -> np.ndarray:
    """Return the distinct n-grams of the first 3,000 bytes."""
    data = np.frombuffer(text[:3000], np.uint8).astype(np.uint64)
    codes = np.zeros(max(len(data) - n + 1, 0), np.uint64)
    for i in range(n):
        codes = codes * np.uint64(256) + data[i : i + len(codes)]
    return np.unique(codes)


def find_head_grams(*fields: bytes) -> Callable[[bytes], np.ndarray]:
    removed = re.compile(rb"(?im)^(" + b"|".join(fields or [rb"$^"]) + rb"):.*\n(?:[ \t].*\n)*")
    return lambda raw: find_grams(removed.sub(b"", split(raw)[0]), 5)


def find_identities(raw: bytes) -> np.ndarray:
    """Return who wrote: addresses, their domains, and the mailing list."""
    identities = set()
    for name, value in SENDERS.findall(split(raw)[0].lower()):
        for match in ADDRESS.finditer(value):
            identities |= {name + b" " + match.group(0), name + b" @" + match.group(1)}
        if name == b"list-id":
            identities.add(name + b" " + value.strip())
    numbers = [
        int.from_bytes(hashlib.blake2b(one, digest_size=8).digest(), "big") for one in sorted(identities)
    ]
    return np.unique(np.array(numbers, np.uint64))


GRAMS = View(1.6, 0.03, True, 100)
FURTHER_VIEWS = {
    "4-grams of 3,000 raw bytes": (lambda raw: find_grams(raw, 4), GRAMS),
    "5-grams of the body": (lambda raw: find_grams(split(raw)[1].lower(), 5), GRAMS),
    "who": (find_identities, View(1.0, 0.1, False, 3)),
    "head": (find_head_grams(), GRAMS),
    "head without fields of lists": (find_head_grams(LISTS), GRAMS),
    "head without route": (find_head_grams(ROUTE), GRAMS),
    "head without either": (find_head_grams(LISTS, ROUTE), GRAMS),
}


class Table:
    """The features of messages in one view."""

    def __init__(self, rows: Sequence[np.ndarray]) -> None:
        keys, self.places = np.unique(np.concatenate(rows), return_inverse=True)
        self.features, self.messages = len(keys), len(rows)
        self.owners = np.repeat(np.arange(len(rows)), [len(row) for row in rows])

    def count(self, chosen: np.ndarray) -> Floats:
        """(features,): how many of some messages have each feature."""
        return np.bincount(self.places[chosen[self.owners]], minlength=self.features).astype(float)

    def add(
        self, chosen: np.ndarray, view: View, s: Floats, h: Floats, totals: Floats, column: Column
    ) -> None:
        """Score some messages by counts of spam and ham."""
        is_known, weights = s + h > 0, np.zeros(self.features)
        weights[is_known] = arrays.weigh(view, s[is_known], h[is_known], *totals)
        mine = chosen[self.owners]
        sizes = np.bincount(self.owners, minlength=self.messages) + view.reluctance
        for values, sums in zip((weights, is_known.astype(float)), column, strict=True):
            sums += np.bincount(self.owners[mine], values[self.places[mine]], self.messages) / sizes

    def leave_one_out(self, view: View, labels: np.ndarray, known: np.ndarray | None = None) -> Column:
        """Score each message by the others; those that are not known, by all known ones."""
        known = np.ones(self.messages, bool) if known is None else known
        column = np.zeros(self.messages), np.zeros(self.messages)
        s, h = (self.count(known & (labels == kind)) for kind in (1, 0))
        totals = np.array([(known & (labels == kind)).sum() for kind in (1, 0)], float)
        own = np.eye(2)
        self.add(known & (labels == 1), view, np.maximum(s - 1, 0), h, totals - own[0], column)
        self.add(known & (labels == 0), view, s, np.maximum(h - 1, 0), totals - own[1], column)
        if not known.all():
            self.add(~known, view, s, h, totals, column)
        return column

    def leave_folds_out(self, view: View, labels: np.ndarray, known: np.ndarray, folds: int) -> Column:
        """Score each known message by those of other folds, and the others by all known ones."""
        column = np.zeros(self.messages), np.zeros(self.messages)
        fold_of = np.full(self.messages, -1)
        fold_of[known] = np.random.default_rng(1).permutation(known.sum()) % folds
        for fold in range(-1, folds):
            others = known & (fold_of != fold)
            s, h = (self.count(others & (labels == kind)) for kind in (1, 0))
            totals = np.array([(others & (labels == kind)).sum() for kind in (1, 0)], float)
            self.add(fold_of == fold, view, s, h, totals, column)
        return column


class Layer:
    """Coefficients of headers, words and relations, fitted to some messages."""

    def __init__(self, features: Features, messages: np.ndarray, labels: np.ndarray) -> None:
        self.features, self.messages, self.labels = features, messages, labels

    def judge(
        self,
        train: np.ndarray,
        test: np.ndarray,
        offset: Floats,
        patience: float = 10.0,
        weights: Floats | None = None,
    ) -> Floats:
        """(test,): what the layer adds; the offset is that of all messages."""
        features, n = self.features, len(self.features.starts) - 1
        none, ones = np.zeros(n, np.int64), np.ones(n, np.int64)
        training = fitting.Training.from_messages(
            features.places, features.starts, none, ones, self.messages[train], len(features.keys)
        )
        is_used, matrix = fitting.make_design(
            training.rows, training.starts, features.kinds[training.distinct]
        )
        y = self.labels[train].astype(float)
        weights = np.ones(len(train)) if weights is None else weights
        smaller = min(y.sum(), len(y) - y.sum())
        b = np.zeros(len(features.keys))
        fitted = fitting._minimise(matrix, y, weights, offset[train])
        b[training.distinct[is_used]] = fitted * smaller / (smaller + patience)
        starts, ends = (features.starts[self.messages[test] + i] for i in (0, 1))
        bounds, kinds = np.cumsum([0, *(ends - starts)]), features.kinds.astype(np.intp)
        places = features.places[expand_ranges(starts, ends)[0]]
        return arrays.sum_coefficients(places, (bounds[:-1], bounds[1:]), kinds, b, RULE)


def fit_scales(columns: Sequence[Column], views: Sequence[View], labels: np.ndarray, train: np.ndarray):
    """The log-odds of the first fit as a function of columns."""
    held_out = stack(columns)
    chosen = fitting.HeldOut(held_out.scores[train], held_out.presences[train])
    ones, is_spam = np.ones(len(train)), labels[train] == 1
    centres = chosen.find_centres(is_spam, ones)
    fit = fitting.fit_scales(
        chosen.subtract(centres), is_spam, ones, np.array([view.scale for view in views])
    )
    point = np.append(fit.scales, fit.intercept)
    return lambda others: stack(others).subtract(centres) @ point


def stack(columns: Sequence[Column]) -> fitting.HeldOut:
    scores, presences = (np.column_stack([column[i] for column in columns]) for i in (0, 1))
    return fitting.HeldOut(np.column_stack([scores, np.ones(len(scores))]), presences)


def measure(log_odds: Floats, y: np.ndarray) -> tuple[float, ...]:
    """1-ROCA %, missed at 0.1 % ham loss, log-loss."""
    of_spam, of_ham = log_odds[y == 1], np.sort(log_odds[y == 0])[::-1]
    pairs = rankdata(log_odds)[y == 1].sum() - len(of_spam) * (len(of_spam) + 1) / 2
    missed = np.mean(of_spam <= of_ham[int(0.001 * len(of_ham))])
    loss = np.logaddexp(0, (1 - 2 * y) * log_odds).mean()
    return 100 * (1 - pairs / len(of_spam) / len(of_ham)), 100 * missed, loss


def try_views(corpus: Corpus, messages: np.ndarray, labels: np.ndarray, tables: list[Table]) -> Iterator:
    layer, everyone = Layer(corpus.features(2), messages, labels), np.arange(len(messages))
    columns = [table.leave_one_out(view, labels) for table, view in zip(tables, RULE.views, strict=True)]
    folds = np.random.default_rng(0).integers(0, 5, len(messages))

    def judge(columns: list[Column], views: Sequence[View]) -> Floats:
        offset = fit_scales(columns, views, labels, everyone)(columns)
        log_odds = offset.copy()
        for fold in range(5):
            train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            log_odds[test] += layer.judge(train, test, offset)
        return log_odds

    yield "before", judge(columns, RULE.views)
    for name, (read, view) in FURTHER_VIEWS.items():
        table = Table([read(corpus.letters[message].raw) for message in messages])
        column = table.leave_one_out(view, labels)
        yield f"and {name}", judge([*columns, column], [*RULE.views, view])
        if view is GRAMS:
            yield f"{name} for n-grams", judge([column, *columns[1:]], RULE.views)


def try_layers(corpus: Corpus, messages: np.ndarray, labels: np.ndarray, tables: list[Table]) -> Iterator:
    layer = Layer(corpus.features(2), messages, labels)
    fold_of = np.random.default_rng(0).integers(0, 5, len(messages))
    log_odds: dict[str, Floats] = {}
    for fold in range(5):
        known = fold_of != fold
        train, test = np.flatnonzero(known), np.flatnonzero(~known)
        pairs = list(zip(tables, RULE.views, strict=True))
        columns = [table.leave_one_out(view, labels, known) for table, view in pairs]
        by_first = fit_scales(columns, RULE.views, labels, train)
        offset = by_first(columns)
        added = layer.judge(train, test, offset)
        answers = {
            "before": added,
            "no layer": 0 * added,
            "times 1.5": 1.5 * added,
            "worth 1": layer.judge(train, test, offset, 0.0),
            "m / (m + 30)": layer.judge(train, test, offset, 30.0),
        }
        for folds in (2, 5):
            others = [table.leave_folds_out(view, labels, known, folds) for table, view in pairs]
            answers[f"offset by {folds} folds"] = layer.judge(train, test, by_first(others))
            by_folds = fit_scales(others, RULE.views, labels, train)
            change = by_folds(others) - offset
            answers[f"all by {folds} folds"] = layer.judge(train, test, by_folds(others)) + change[test]
        bags = np.random.default_rng(2).permutation(len(train)) % 4
        draws = np.random.default_rng(4).poisson(1, (4, len(train))).astype(float)
        answers["mean of 4 without a quarter each"] = np.mean(
            [layer.judge(train[bags != bag], test, offset) for bag in range(4)], axis=0
        )
        answers["mean of 4 resampled"] = np.mean(
            [layer.judge(train, test, offset, weights=draw) for draw in draws], axis=0
        )
        for name, value in answers.items():
            log_odds.setdefault(name, np.zeros(len(messages)))[test] = offset[test] + value
    yield from log_odds.items()


def main() -> None:
    data, cache = Path(sys.argv[1]), Path("/tmp/exp10")
    attempts = {"views": try_views, "layers": try_layers}
    index, short = read_index(data), read_short_texts(data)
    hams = [
        m for f in ("easy_ham", "easy_ham_2", "hard_ham") for m in read_files(data, f"spamassassin/{f}/*")
    ]
    modern, old, videos = (
        Corpus(read_letters(ham, cache), read_letters(spam, cache))
        for ham, spam in (
            ([raw for is_spam, raw in index if not is_spam], [raw for is_spam, raw in index if is_spam]),
            (hams, read_files(data, "spamassassin/spam*/*")),
            (short["YouTube ham"], short["YouTube spam"]),
        )
    )
    half = shuffle(range(len(old)), 7)[: len(old) // 2]
    shuffled = [shuffle(range(len(modern)), seed) for seed in range(4)]
    groups = (
        ("modern mail", modern, [np.arange(len(modern))]),
        ("its halves", modern, [order[begin : begin + 136] for order in shuffled for begin in (0, 136)]),
        ("SpamAssassin, 60", old, [half[60 * i : 60 * i + 60] for i in range(16)]),
        ("SpamAssassin, 300", old, [half[300 * i : 300 * i + 300] for i in range(10)]),
        ("SpamAssassin, 1,511", old, [half[:1511], half[1511:]]),
        ("YouTube", videos, [np.arange(len(videos))]),
    )
    for attempt in sys.argv[2:] or attempts:
        for group, corpus, pools in groups:
            if attempt == "views" and corpus is videos:
                continue
            figures: dict[str, list[tuple[float, ...]]] = {}
            for pool in pools:
                messages = pool[np.unique(corpus.ranks[pool], return_index=True)[1]]
                labels, features = corpus.labels[messages], corpus.features(2)
                rows = [features.of(message) for message in messages]
                tables = [
                    Table([row[features.kinds[row] == kind] for row in rows]) for kind in range(len(SCALES))
                ]
                for name, log_odds in attempts[attempt](corpus, messages, labels, tables):
                    figures.setdefault(name, []).append(measure(log_odds, labels))
            before = np.array(figures["before"])
            for name, values in figures.items():
                change = np.array(values) - before
                error = change.std(axis=0, ddof=min(1, len(change) - 1)) / np.sqrt(len(change))
                cells = (f"{m:9.4f}±{e:<7.2g}" for m, e in zip(np.mean(values, axis=0), error, strict=True))
                print(f"{group:22} {name:48}", " ".join(cells), flush=True)


if __name__ == "__main__":
    main()
