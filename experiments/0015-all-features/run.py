"""Coefficients of all features?

    PYTHONPATH=src python run.py DATA [--streams WORD …] [--rules NAME …] [--held-back] [--table]

Streams and figures are those of experiments 0010 and 0014. Answers and tapes are kept in a cache, so that an
interrupted run goes on where it ended.
"""

import argparse
import hashlib
import random
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "0010-learned-weights")]
import layer
import strength
from figures import FIGURES, Answers, measure_group, resample_group
from streams import Corpus, Stream, make_streams, read_sets, shuffle
from tape import RULE, SCALES, Fit, Fold, Tape, change_means, read_tape, split_folds
from variants import ALL, BEFORE, VARIANTS, Variant

from tamis_mail.message import canonical, digest
from tamis_mail.verdict import fitting

Floats = np.ndarray
DESIGNS: dict[tuple, layer.Design] = {}  # by corpus, views and values
SIZES: dict[int, np.ndarray] = {}  # by corpus
FOLDS: dict[tuple, list[Fold]] = {}  # by stream and number of messages


def choose(is_spam: np.ndarray, most: int) -> np.ndarray:
    """The messages that are fitted: the first of either class, by digest."""
    chosen = [np.flatnonzero(is_spam == kind)[:most] for kind in (False, True)]
    return np.sort(np.concatenate(chosen))


def fit_rule(
    stream: Stream, fits: list[Fit], variant: Variant, design: layer.Design
) -> tuple[Floats, Floats, Floats]:
    """Centres, scales with the intercept, and coefficients."""
    fit = fits[0]
    is_spam = stream.corpus.labels[fit.messages] == 1
    sample = choose(is_spam, variant.most)
    totals = is_spam.sum(), (~is_spam).sum()
    is_spam, messages = is_spam[sample], fit.messages[sample]
    weights = np.where(is_spam, totals[0] / is_spam.sum(), totals[1] / (~is_spam).sum())
    held_out = fitting.HeldOut(
        np.column_stack(
            [*(one.held_out.scores[sample, :-1] for one in fits), fit.held_out.scores[sample, -1]]
        ),
        np.column_stack([one.held_out.presences[sample] for one in fits]),
    )
    if variant.changes_means:
        sizes, factors = count_features(stream.corpus)[messages], held_out.scores[:, -1]
        scores, presences = change_means(
            held_out.scores[:, :-1], held_out.presences, factors, sizes, *variant.means
        )
        held_out = fitting.HeldOut(np.column_stack([scores, factors]), presences)
    centres = held_out.find_centres(is_spam, weights)
    designs = held_out.subtract(centres)
    point = strength.fit_scales(designs, is_spam, weights, *variant.make_prior())
    priors = None
    if variant.by_view or variant.by_weight:
        priors = layer.Priors(variant.by_view or (1,) * len(ALL), variant.by_weight, stream.corpus.labels)
    matrix = layer.build(design, messages, variant.least, priors)
    b = layer.fit(matrix, is_spam, weights, limit(designs @ point, variant), variant.precision)
    if variant.evidence:
        matrix, b = layer.choose_by_evidence(
            design,
            messages,
            variant.least,
            is_spam,
            weights,
            designs @ point,
            variant.precision,
            variant.views,
            variant.evidence == "by view",
        )
    worth = min(totals) / (min(totals) + variant.patience)
    if variant.folds:
        weighed = weigh_layer(stream, messages, is_spam, weights, designs, point, worth, variant, design)
        if weighed is not None:
            point, worth = weighed
    return centres, point, layer.spread(matrix, b, design.features, worth)


def count_features(corpus: Corpus) -> np.ndarray:
    """(messages, views): how many features each message has."""
    if id(corpus) not in SIZES:
        features = corpus.features(2)
        owners = np.repeat(np.arange(len(corpus)), np.diff(features.starts))
        cells = owners * len(ALL) + features.kinds[features.places]
        SIZES[id(corpus)] = np.bincount(cells, minlength=len(corpus) * len(ALL)).reshape(-1, len(ALL))
    return SIZES[id(corpus)]


def limit(log_odds: Floats, variant: Variant) -> Floats:
    """The offset of the layer. N messages cannot show odds of more than about N to 1."""
    log_odds = variant.share * log_odds
    if not variant.cap:
        return log_odds
    cap = np.log(len(log_odds) + 1) if variant.cap < 0 else variant.cap
    return cap * np.tanh(log_odds / cap)


def weigh_layer(stream, messages, is_spam, weights, designs, point, worth, variant, design):
    """The scales with the intercept, and the worth of the layer; None if there are too few messages."""
    z, scores = designs.copy(), np.zeros(len(messages))
    folds = FOLDS.get((stream.group, stream.name, len(messages)))
    if folds is None:
        FOLDS[stream.group, stream.name, len(messages)] = folds = split_folds(
            stream.corpus, messages, variant.folds
        )
    if len(folds) < variant.folds:
        return None
    for fold in folds:
        y, w = is_spam[fold.train], weights[fold.train]
        centres = fold.of_train.find_centres(y, w)
        inner = fold.of_train.subtract(centres)
        first = fitting.fit_scales(inner, y, w, SCALES, 0.0, fitting.SCALE_WIDTH * SCALES)
        matrix = layer.build(design, messages[fold.train], variant.least)
        b = layer.fit(matrix, y, w, inner @ np.append(first.scales, first.intercept), variant.precision)
        scores[fold.held] = design.judge(messages[fold.held], layer.spread(matrix, b, design.features, 1.0))
        if variant.is_joint:
            z[fold.held] = fold.of_held.subtract(centres)
    columns = np.column_stack([z[:, :-1], scores, z[:, -1]])
    defaults, widths = np.append(SCALES, worth), np.append(fitting.SCALE_WIDTH * SCALES, variant.width)
    if not variant.is_joint:
        columns = np.column_stack([z @ point, scores, np.zeros(len(z))])
        defaults, widths = np.array([1.0, worth]), np.array([1e-4, variant.width])
    scale_fit = fitting.fit_scales(columns, is_spam, weights, defaults, 0.0, widths)
    if variant.is_joint:
        point = np.append(scale_fit.scales[:-1], scale_fit.intercept)
    return point, scale_fit.scales[-1]


def play(stream: Stream, tapes: list[Tape], variant: Variant, design: layer.Design) -> Floats:
    """The log-odds of each judged message."""
    judged = stream.order[stream.known :]
    tape = tapes[0]
    log_odds = tape.scores @ SCALES
    scores, presences = (
        np.column_stack([getattr(one, name) for one in tapes]) for name in ("scores", "presences")
    )
    if variant.changes_means:
        sizes = count_features(stream.corpus)[judged]
        scores, presences = change_means(scores, presences, tape.factors, sizes, *variant.means)
        log_odds = scores @ SCALES
    bounds = [*(fit.judged for fit in tape.fits), len(judged)]
    for *fits, begin, end in zip(*(one.fits for one in tapes), bounds[:-1], bounds[1:], strict=True):
        if begin == end:
            continue
        part = slice(begin, end)
        centres, point, b = fit_rule(stream, fits, variant, design)
        log_odds[part] = (
            (scores[part] - centres * presences[part]) @ point[:-1]
            + tape.factors[part] * point[-1]
            + design.judge(judged[part], b)
        )
    return log_odds


def answer(stream: Stream, variant: Variant, cache: Path) -> Answers:
    changes = sorted(asdict(variant).items() - asdict(replace(BEFORE, name=variant.name)).items())
    mark = hashlib.sha256(f"{stream.group}|{stream.name}|{changes}".encode()).hexdigest()[:20]
    path = cache / "answers" / f"{mark}.npy"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        views = id(stream.corpus), variant.views, variant.values
        if views not in DESIGNS:
            DESIGNS[views] = layer.Design(stream.corpus, variant.views, variant.values)
        tapes = [read_tape(stream, cache, shape) for shape in ("", *variant.shapes)]
        np.save(path, play(stream, tapes, variant, DESIGNS[views]))
    return Answers(stream, np.load(path), RULE.spam, RULE.ham)


def make_all(data: Path, cache: Path) -> list[Stream]:
    """The streams of experiment 0010, and those that experiment 0014 added to develop on."""
    streams = make_streams(data, cache)
    sets = read_sets(data, cache)
    old = next(stream.corpus for stream in streams if stream.group.startswith("SpamAssassin"))
    half = shuffle(range(len(old)), 7)[: len(old) // 2].tolist()
    for draw in range(10):
        rng = random.Random(77 + draw)
        spams = rng.sample([m for m in half if old.labels[m]], 15)
        hams = rng.sample([m for m in half if not old.labels[m]], 15)
        rest = rng.sample(sorted(set(half) - set(spams) - set(hams)), 1000)
        order = np.concatenate([shuffle(spams + hams, draw), rest])
        streams.append(Stream("15 labels *", f"{draw}", old, order, 30, learns=False))
    streams.append(Stream("SpamAssassin, another order *", "8", old, shuffle(range(len(old)), 8)))
    easy = Corpus(sets["newsgroups"], sets["old spam"])
    streams += [
        Stream("newsgroups, old spam *", f"{seed}", easy, shuffle(range(len(easy)), seed)) for seed in (5, 6)
    ]
    for corpus in {id(stream.corpus): stream.corpus for stream in streams}.values():
        # the filter's digests, which say which messages are the first 2,000; experiment 0010 had others
        digests = [digest(canonical(letter.raw)) for letter in corpus.letters]
        corpus.folds = np.array([int.from_bytes(one[:4], "big") for one in digests])
        corpus.ranks = np.unique(np.array(digests), return_inverse=True)[1]
    return streams


def is_held_back(group: str) -> bool:
    return not group.endswith("*") and not group.startswith("YouTube")


def show(value: float, error: float, sign: str = "") -> str:
    return f"{value:{sign}.3g} ± {float(f'{error:.1g}'):g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, default=Path("/tmp/exp15"))
    parser.add_argument("--messages", type=Path, default=Path("/tmp/exp10"), help="cache of experiment 0010")
    parser.add_argument("--streams", nargs="*", help="words in names of groups, all if none")
    parser.add_argument("--rules", nargs="*", help="names of rules that are compared with the one before")
    parser.add_argument("--held-back", action="store_true", help="the streams that were not developed on")
    parser.add_argument("--table", action="store_true", help="with intervals")
    options = parser.parse_args()
    variants = {variant.name: variant for variant in VARIANTS}
    names = [BEFORE.name, *(options.rules or [])]
    groups: dict[str, list[Stream]] = {}
    for stream in make_all(options.data, options.messages):
        if is_held_back(stream.group) == options.held_back and (
            not options.streams or any(word in stream.group for word in options.streams)
        ):
            groups.setdefault(stream.group, []).append(stream)
    if options.table:
        print("| streams | rule | " + " | ".join(FIGURES) + " |\n" + "|---" * (2 + len(FIGURES)) + "|")
    for group, streams in groups.items():
        before = [answer(stream, BEFORE, options.cache) for stream in streams]
        single = np.array([one.measure() for one in before])
        title = f"{group} ({len(streams)})"
        if not options.table:
            print(f"{title:44}", " ".join(f"{f[:16]:>16}" for f in FIGURES))
        else:
            of_before, resampled = measure_group(before), resample_group(before)
        for name in names:
            begun = time.process_time()
            answers = [answer(stream, variants[name], options.cache) for stream in streams]
            seconds = time.process_time() - begun
            if not options.table:
                each = np.array([one.measure() for one in answers])
                error = (each - single).std(axis=0, ddof=min(1, len(each) - 1)) / np.sqrt(len(each))
                cells = (f"{m:8.4g}±{e:<7.2g}" for m, e in zip(each.mean(axis=0), error, strict=True))
                print(f"  {name:42}", " ".join(cells), f"{seconds:.0f} s", flush=True)
                continue
            mean, draws = measure_group(answers), resample_group(answers)
            cells = [show(*pair) for pair in zip(mean, draws.std(axis=0), strict=True)]
            print(f"| {title} | {name} | " + " | ".join(cells) + " |", flush=True)
            title = ""
            if name != BEFORE.name:
                difference, error = mean - of_before, (draws - resampled).std(axis=0)
                is_tied = np.abs(difference) <= 2 * error + 1e-12
                outcomes = np.where(is_tied, "tied", np.where(difference < 0, "won", "lost"))
                cells = [
                    f"{show(d, e, '+')} {outcome}"
                    for d, e, outcome in zip(difference, error, outcomes, strict=True)
                ]
                print("| | … less before | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
