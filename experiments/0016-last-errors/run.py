"""Which further evidence, priors and layers would help? python run.py DATA [--streams WORD …] [--rules WORD …] [--thin]

Streams and figures are those of experiments 0010 and 0015. Answers and tapes are kept in a cache, so that an
interrupted run goes on where it ended.
"""

import argparse
import hashlib
import runpy
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

EXPERIMENTS = Path(__file__).parents[1]
sys.path[:0] = [
    str(Path(__file__).parent),
    *(str(EXPERIMENTS / name) for name in ("0015-all-features", "0010-learned-weights")),
]
before = runpy.run_path(str(EXPERIMENTS / "0015-all-features/run.py"), run_name="before")
import strength
import tape
from figures import FIGURES, Answers, measure_group, resample_group
from priors import read_tape
from streams import Stream
from tape import RELUCTANCES, RULE, SCALES

from tamis_mail.features.arrays import expand_ranges
from tamis_mail.verdict import arrays, fitting

choose, count_features, is_held_back, make_all, show = (
    before[name] for name in ("choose", "count_features", "is_held_back", "make_all", "show")
)
VIEWS = ("grams", "headers", "words", "pairs", "relations")
Floats = np.ndarray


@dataclass(frozen=True)
class Variant:
    """One rule; the defaults are the shipped one."""

    name: str
    weights: str = "before"  # "evidence": the prior of the weights is fitted to the store, see `priors`
    mixed: tuple[int, ...] = ()  # the views that have these weights; all, if none
    scales: tuple[float, ...] = tuple(SCALES.tolist())  # before any mail
    width: float = 0.5  # standard deviation of a scale before any mail, relative to the default
    centre_width: float = 0.0  # … of the centre of a view around the balanced one, fitted with the scales
    share: float = 0.0  # the reluctance of words as a share of the mean number of words, at least as before
    precision: float = 0.02
    patience: float = 10.0
    worth: float = 1.0  # a factor of the layer
    folds: int = 0  # the offset of the layer is computed by counts of other folds; 0: by leaving one out
    all_folds: bool = False  # the scales are fitted to such scores, too


def change_scales(**factors: float) -> tuple[float, ...]:
    return tuple((s * factors.get(name, 1)) for s, name in zip(SCALES.tolist(), VIEWS, strict=True))


BEFORE = Variant("before")
VARIANTS = (
    BEFORE,
    *(Variant(f"share {share}", share=share) for share in (0.1, 0.2, 0.4)),
    *(Variant(f"centres {width}", centre_width=width) for width in (0.25, 0.5, 1.0)),
    *(
        Variant(f"evidence {width}, scales {factor}", "evidence", width=width, scales=tuple(factor * SCALES))
        for factor in (1, 1.5, 2, 3)
        for width in (0.5, 1.0)
    ),
    Variant("grams by evidence, 2", "evidence", (0,), change_scales(grams=2)),
    Variant("headers by evidence, 2", "evidence", (1,), change_scales(headers=2)),
    Variant("words by evidence, 1.5", "evidence", (2,), change_scales(words=1.5)),
    Variant("pairs by evidence, 2", "evidence", (3,), change_scales(pairs=2)),
    Variant("pairs by evidence, 3", "evidence", (3,), change_scales(pairs=3)),
    Variant("grams, pairs by evidence, 2", "evidence", (0, 3), change_scales(pairs=2, grams=2)),
    *(Variant(f"layer times {worth}", worth=worth) for worth in (1.5, 2.0)),
    Variant("offset by 2 folds", folds=2),
    Variant("offset by 2 folds, times 1.5", folds=2, worth=1.5),
    Variant("all by 5 folds", folds=5, all_folds=True),
)


def find_thin_size(messages: int) -> int:
    """Return the size of a schedule with fits at each fifth more messages."""
    size, following = 0, 12
    while following <= messages:
        size, following = following, following + max(following // 5, 1)
    return size


class Moment:
    """What a fit is given: the messages, the matrix of the layer, and their scores by folds."""

    def __init__(self, stream: Stream, fit: tape.Fit) -> None:
        self.corpus, self.features = stream.corpus, stream.corpus.features(2)
        is_spam = self.corpus.labels[fit.messages] == 1
        self.sample = choose(is_spam, fitting.MAX_MESSAGES)
        self.totals = is_spam.sum(), (~is_spam).sum()
        self.is_spam, self.messages = is_spam[self.sample], fit.messages[self.sample]
        shares = [
            total / chosen.sum()
            for total, chosen in zip(self.totals, (self.is_spam, ~self.is_spam), strict=True)
        ]
        self.weights = np.where(self.is_spam, *shares)
        training = fitting.Training.from_messages(
            self.features.places,
            self.features.starts,
            self.corpus.labels,
            np.ones(len(self.corpus), np.int64),
            self.messages,
            len(self.features.keys),
        )
        kinds = self.features.kinds[training.distinct]
        is_used, self.matrix = fitting.make_design(training.rows, training.starts, kinds)
        self.used = training.distinct[is_used]
        self.sizes = count_features(self.corpus)[self.messages]
        self.by_folds: dict[int, fitting.HeldOut | None] = {}

    def score_by_folds(self, number: int) -> fitting.HeldOut | None:
        """Score the messages by the counts of other folds; None if there are too few of them."""
        if number not in self.by_folds:
            self.by_folds[number] = self._score_folds(number)
        return self.by_folds[number]

    def _score_folds(self, number: int) -> fitting.HeldOut | None:
        reader, fold_of = tape.Reader(self.corpus), self.corpus.folds[self.messages] % number
        scores = np.zeros((len(fold_of), len(SCALES) + 1))
        presences = np.zeros((len(fold_of), len(SCALES)))
        for fold in range(number):
            members, others = np.flatnonzero(fold_of == fold), np.flatnonzero(fold_of != fold)
            for label in (0, 1):
                chosen = self.messages[others[self.is_spam[others] == label]]
                places, _ = expand_ranges(*(self.features.starts[chosen + i] for i in (0, 1)))
                reader.counts[:, label] = np.bincount(
                    self.features.places[places], minlength=len(reader.counts)
                )
            reader.totals = np.bincount(self.is_spam[others], minlength=2)
            if reader.totals.min() < 2 or not len(members):
                return None
            scores[members, :-1], presences[members], scores[members, -1] = reader.score(
                self.messages[members]
            )
        return fitting.HeldOut(scores, presences)

    def fit_layer(self, offset: Floats, variant: Variant) -> Floats:
        """(features,): the coefficients as they are stored."""
        coefficients = np.zeros(len(self.features.keys))
        smaller = min(self.totals)
        fitted = fitting._minimise(self.matrix, self.is_spam.astype(float), self.weights, offset)
        coefficients[self.used] = fitted * variant.worth * smaller / (smaller + variant.patience)
        return coefficients

    def judge(self, messages: np.ndarray, coefficients: Floats) -> Floats:
        starts, ends = (self.features.starts[messages + i] for i in (0, 1))
        places, _ = expand_ranges(starts, ends)
        bounds = np.cumsum([0, *(ends - starts)])
        kinds = self.features.kinds.astype(np.intp)
        return arrays.sum_coefficients(
            self.features.places[places], (bounds[:-1], bounds[1:]), kinds, coefficients, RULE
        )


def mix(plain, other, variant: Variant):
    """Take the scores of some views from the one, and of the rest from the other."""
    if not variant.mixed:
        return other
    scores, presences = plain.scores.copy(), plain.presences.copy()
    for view in variant.mixed:
        scores[:, view], presences[:, view] = other.scores[:, view], other.presences[:, view]
    return replace(plain, scores=scores, presences=presences)


def change_reluctance(sizes: np.ndarray, mean_sizes: Floats, variant: Variant) -> Floats:
    """(messages, views): by what scores change, if the reluctance of words is a share of their mean number."""
    changed = RELUCTANCES.copy()
    changed[2] = max(changed[2], variant.share * mean_sizes[2])
    return (sizes + RELUCTANCES) / (sizes + changed)


def judge_part(moment: Moment, held_out, recorded, part: slice, judged, sizes, variant: Variant) -> Floats:
    """Fit the rule, and judge the messages that come until the next fit."""
    held_out = fitting.HeldOut(held_out.scores[moment.sample], held_out.presences[moment.sample])
    scores, presences, factors = recorded.scores[part], recorded.presences[part], recorded.factors[part]
    if variant.share:
        mean_sizes = moment.sizes.mean(axis=0)
        change = change_reluctance(moment.sizes, mean_sizes, variant)
        held_out = fitting.HeldOut(
            held_out.scores * np.column_stack([change, np.ones(len(change))]), held_out.presences * change
        )
        change = change_reluctance(sizes, mean_sizes, variant)
        scores, presences = scores * change, presences * change
    by_folds = moment.score_by_folds(variant.folds) if variant.folds else None
    if by_folds is not None and variant.all_folds:
        held_out = by_folds
    centres = held_out.find_centres(moment.is_spam, moment.weights)
    designs, new = held_out.subtract(centres), scores - centres * presences
    offset_designs = designs if by_folds is None else by_folds.subtract(centres)
    defaults = np.array(variant.scales)
    if variant.centre_width:
        designs, offset_designs = (
            np.column_stack([one[:, :-1], held_out.presences, one[:, -1]])
            for one in (designs, offset_designs)
        )
        new = np.column_stack([new, presences])
        widths = [*(variant.width * defaults), *(variant.centre_width * defaults), fitting.INTERCEPT_WIDTH]
        mean = np.concatenate([defaults, np.zeros(len(defaults) + 1)])
        is_bounded = np.arange(len(mean)) < len(defaults)
        precision = np.diag(1 / np.square(widths))
        point = strength.fit_scales(designs, moment.is_spam, moment.weights, mean, precision, is_bounded)
    else:
        widths = variant.width * defaults
        fit = fitting.fit_scales(designs, moment.is_spam, moment.weights, defaults, 0.0, widths)
        point = np.append(fit.scales, fit.intercept)
    coefficients = moment.fit_layer(offset_designs @ point, variant)
    return np.column_stack([new, factors]) @ point + moment.judge(judged, coefficients)


def find_path(stream: Stream, variant: Variant, cache: Path) -> Path:
    values = sorted(asdict(variant).items())
    mark = hashlib.sha256(f"{stream.group}|{stream.name}|{values}".encode()).hexdigest()[:20]
    return cache / "answers16" / f"{mark}.npy"


def answer(stream: Stream, variants: list[Variant], cache: Path) -> dict[str, Answers]:
    """Judge a stream by several rules, of which those of the cache are not computed again."""
    todo = [variant for variant in variants if not find_path(stream, variant, cache).exists()]
    if todo:
        (cache / "answers16").mkdir(parents=True, exist_ok=True)
        tapes = {kind: read_tape(stream, cache, kind) for kind in {"before", *(v.weights for v in todo)}}
        plain = tapes["before"]
        mixed = {variant.name: mix(plain, tapes[variant.weights], variant) for variant in todo}
        judged = stream.order[stream.known :]
        sizes = count_features(stream.corpus)[judged]
        log_odds = {v.name: mixed[v.name].scores @ np.array(v.scales) for v in todo}
        bounds = [*(fit.judged for fit in plain.fits), len(judged)]
        for number, (begin, end) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
            if begin == end:
                continue
            moment, part = Moment(stream, plain.fits[number]), slice(begin, end)
            for v in todo:
                fits = (one.fits[number].held_out for one in (plain, tapes[v.weights]))
                log_odds[v.name][part] = judge_part(
                    moment, mix(*fits, v), mixed[v.name], part, judged[part], sizes[part], v
                )
        for variant in todo:
            np.save(find_path(stream, variant, cache), log_odds[variant.name])
    return {
        v.name: Answers(stream, np.load(find_path(stream, v, cache)), RULE.spam, RULE.ham) for v in variants
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, default=Path("/tmp/exp16"))
    parser.add_argument("--messages", type=Path, default=Path("/tmp/exp10"), help="cache of experiment 0010")
    parser.add_argument("--streams", nargs="*", help="words in names of groups, all if none")
    parser.add_argument("--rules", nargs="*", default=[], help="words in names of rules")
    parser.add_argument("--held-back", action="store_true", help="the streams that were not developed on")
    parser.add_argument("--thin", action="store_true", help="fits at each fifth more messages")
    parser.add_argument("--first", type=int, help="how many streams of each group")
    parser.add_argument("--table", action="store_true", help="with intervals")
    options = parser.parse_args()
    if options.thin:
        tape.find_scheduled_size = find_thin_size
        options.cache = options.cache / "thin"
    variants = [v for v in VARIANTS if v is BEFORE or any(word in v.name for word in options.rules)]
    groups: dict[str, list[Stream]] = {}
    for stream in make_all(options.data, options.messages):
        if is_held_back(stream.group) == options.held_back and (
            not options.streams or any(word in stream.group for word in options.streams)
        ):
            groups.setdefault(stream.group, []).append(stream)
    if options.table:
        print("| streams | rule | " + " | ".join(FIGURES) + " |\n" + "|---" * (2 + len(FIGURES)) + "|")
    for group, all_streams in groups.items():
        streams = all_streams[: options.first]
        answers = [answer(stream, variants, options.cache) for stream in streams]
        of_before = [one[BEFORE.name] for one in answers]
        single = np.array([one.measure() for one in of_before])
        title = f"{group} ({len(streams)})"
        if options.table:
            mean_before, resampled = measure_group(of_before), resample_group(of_before)
        else:
            print(f"{title:44}", " ".join(f"{f[:16]:>16}" for f in FIGURES))
        for variant in variants:
            of_rule = [one[variant.name] for one in answers]
            if not options.table:
                each = np.array([one.measure() for one in of_rule])
                error = (each - single).std(axis=0, ddof=min(1, len(each) - 1)) / np.sqrt(len(each))
                cells = (f"{m:8.4g}±{e:<7.2g}" for m, e in zip(each.mean(axis=0), error, strict=True))
                print(f"  {variant.name:42}", " ".join(cells), flush=True)
                continue
            mean, draws = measure_group(of_rule), resample_group(of_rule)
            cells = [show(*pair) for pair in zip(mean, draws.std(axis=0), strict=True)]
            print(f"| {title} | {variant.name} | " + " | ".join(cells) + " |", flush=True)
            title = ""
            if variant is not BEFORE:
                difference, error = mean - mean_before, (draws - resampled).std(axis=0)
                is_tied = np.abs(difference) <= 2 * error + 1e-12
                outcomes = np.where(is_tied, "tied", np.where(difference < 0, "won", "lost"))
                cells = [
                    f"{show(d, e, '+')} {outcome}"
                    for d, e, outcome in zip(difference, error, outcomes, strict=True)
                ]
                print("| | … less before | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
