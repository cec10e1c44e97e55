"""Coefficients of all features? python run.py DATA [--streams WORD …] [--rules NAME …] [--held-back] [--table]

Streams and figures are those of experiments 0010 and 0014.
"""

import argparse
import hashlib
import random
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "0010-learned-weights")]
import layer
import strength
from figures import FIGURES, Answers, measure_group, resample_group
from streams import Corpus, Stream, make_streams, read_sets, shuffle
from tape import RULE, SCALES, Fit, Tape, read_tape, split_folds

from tamis_mail.message import canonical, digest
from tamis_mail.verdict import fitting

Floats = np.ndarray
ALL = (0, 1, 2, 3, 4)


@dataclass(frozen=True)
class Variant:
    """One rule; the defaults are the shipped one."""

    name: str
    views: tuple[int, ...] = (1, 2, 4)
    most: int = 2000  # of each class
    precision: float = 0.02
    least: int = 2
    values: str = "view"  # 1 / √n by view; "reluctant": 1 / √(n + r); "overall": n of all views
    patience: float = 10.0
    folds: int = 0  # by which the worth of the layer is fitted
    is_joint: bool = True  # … with the scales, by scores of the folds; else after them, by leave-one-out scores
    width: float = 0.5  # standard deviation of the worth
    precisions: tuple[float, ...] = ()  # from which the folds choose
    by_view: tuple[float, ...] = ()  # factors of the values of each view
    by_weight: str = ""  # values times the weight of the feature, see `layer.Priors`
    cap: float = 0.0  # the offset of the layer has at most about this size; -1: the logarithm of the messages
    share: float = 1.0  # of the first log-odds that is the offset of the layer
    own: float = 0.5  # standard deviation of a scale before any mail, relative to the default
    common: float = 0.0  # … of a factor of all scales
    shapes: tuple[str, ...] = ()  # of further scores of each view, see `tape.SHAPES`
    shape_width: float = 0.25  # standard deviation of the scale of a further score, relative to the view's
    is_signed: bool = False  # whether scales of further scores may be negative

    def make_prior(self) -> tuple[Floats, Floats, np.ndarray]:
        """The mean and the precision of scales and intercept, and which of them are not negative."""
        precision = strength.make_precision(SCALES, self.own, self.common)
        further = np.tile(SCALES, len(self.shapes))
        mean = np.concatenate([SCALES, np.zeros(len(further) + 1)])
        full = np.zeros((len(mean), len(mean)))
        views = np.append(np.arange(len(SCALES)), len(mean) - 1)
        full[np.ix_(views, views)] = precision
        places = np.arange(len(SCALES), len(mean) - 1)
        full[places, places] = 1 / np.square(self.shape_width * further)
        is_bounded = np.ones(len(mean), bool)
        is_bounded[places] = not self.is_signed
        is_bounded[-1] = False
        return mean, full, is_bounded


BEFORE = Variant("before")
VARIANTS = (
    BEFORE,
    replace(BEFORE, name="all messages", most=10**9),
    *(
        replace(BEFORE, name=f"all views, {word}, {precision}", views=ALL, most=most, precision=precision)
        for word, most in (("2,000", 2000), ("all messages", 10**9))
        for precision in (0.01, 0.02, 0.033, 0.05, 0.1)
    ),
    *(
        replace(BEFORE, name=f"views {views}", views=views)
        for views in ((0, 1, 2, 4), (1, 2, 3, 4))
    ),
)
VARIANTS += tuple(
    replace(
        BEFORE,
        name=f"{word}, {kind}, {precision}",
        views=views,
        precision=precision,
        folds=5,
        is_joint=kind == "jointly",
    )
    for word, views in (("5 folds", (1, 2, 4)), ("5 folds, all views", ALL))
    for kind in ("jointly", "after")
    for precision in (0.002, 0.005, 0.01, 0.02, 0.05)
)
VARIANTS += tuple(
    replace(one, name=one.name.replace("0.02", "chosen"), precisions=(0.002, 0.01, 0.05))
    for one in VARIANTS
    if one.folds and one.precision == 0.02
)
VARIANTS += tuple(
    replace(BEFORE, name=f"{values}, {precision}", views=ALL, most=10**9, precision=precision, values=values)
    for values in ("reluctant", "overall")
    for precision in (0.002, 0.005, 0.01, 0.02)
)
VARIANTS += tuple(
    replace(BEFORE, name=f"all views, all messages, from {least}, {precision}", views=ALL, most=10**9, precision=precision, least=least)
    for least in (1, 3, 4, 6, 10)
    for precision in (0.005, 0.01, 0.02)
)
VARIANTS += (
    replace(BEFORE, name="A", views=ALL, least=3),
    replace(BEFORE, name="B", views=ALL, least=3, most=10**9),
)
VARIANTS += tuple(
    replace(BEFORE, name=f"times weight of {by_weight}, {precision}", by_weight=by_weight, precision=precision)
    for by_weight in ("all", "others")
    for precision in (0.02, 0.05, 0.1, 0.2, 0.5)
)
VARIANTS += tuple(
    replace(BEFORE, name=f"{word} times {factor}", by_view=tuple(factor if view == kind else 1 for view in ALL))
    for word, kind in (("headers", 1), ("words", 2), ("relations", 4))
    for factor in (0.5, 2)
)


VARIANTS += tuple(replace(BEFORE, name=f"offset up to {cap}", cap=cap) for cap in (-1, 2, 3, 4, 6))
VARIANTS += tuple(replace(BEFORE, name=f"offset times {share}", share=share) for share in (0, 0.5, 0.75))
VARIANTS += tuple(
    replace(BEFORE, name=f"reluctant, three views, {precision}", values="reluctant", precision=precision)
    for precision in (0.005, 0.01, 0.015, 0.02)
)

VARIANTS += tuple(
    replace(BEFORE, name=f"widths {own}, {common}", own=own, common=common)
    for own in (0.15, 0.2, 0.25, 0.35, 0.5)
    for common in (0.0, 0.25, 0.5, 1.0)
    if (own, common) != (0.5, 0.0)
)

VARIANTS += tuple(
    replace(BEFORE, name=f"also {shape}, {width}, {word}", shapes=(shape,), shape_width=width, is_signed=word == "signed")
    for shape in ("strong", "frequent", "limited", "for spam")
    for width in (0.1, 0.25, 0.5, 1.0)
    for word in ("positive", "signed")
)


def choose(is_spam: np.ndarray, most: int) -> np.ndarray:
    chosen = [np.flatnonzero(is_spam == kind)[:most] for kind in (False, True)]
    return np.sort(np.concatenate(chosen))


def fit_rule(stream: Stream, fits: list[Fit], variant: Variant, design: layer.Design) -> tuple[Floats, Floats, Floats]:
    """Centres, scales with the intercept, and coefficients."""
    fit = fits[0]
    is_spam = stream.corpus.labels[fit.messages] == 1
    sample = choose(is_spam, variant.most)
    totals = is_spam.sum(), (~is_spam).sum()
    is_spam, messages = is_spam[sample], fit.messages[sample]
    weights = np.where(is_spam, totals[0] / is_spam.sum(), totals[1] / (~is_spam).sum())
    held_out = fitting.HeldOut(
        np.column_stack([*(one.held_out.scores[sample, :-1] for one in fits), fit.held_out.scores[sample, -1]]),
        np.column_stack([one.held_out.presences[sample] for one in fits]),
    )
    centres = held_out.find_centres(is_spam, weights)
    designs = held_out.subtract(centres)
    point = strength.fit_scales(designs, is_spam, weights, *variant.make_prior())
    first_point = point
    priors = None
    if variant.by_view or variant.by_weight:
        priors = layer.Priors(variant.by_view or (1,) * len(ALL), variant.by_weight, stream.corpus.labels)
    matrix = layer.build(design, messages, variant.least, priors)
    b = layer.fit(matrix, is_spam, weights, limit(designs @ point, variant), variant.precision)
    worth = min(totals) / (min(totals) + variant.patience)
    if variant.folds:
        best = np.inf
        for precision in variant.precisions or (variant.precision,):
            found = weigh_layer(stream, messages, is_spam, weights, designs, point, worth, precision, variant, design)
            if found is not None and found[0] < best:
                best, point, worth, chosen = *found, precision
        if best < np.inf and chosen != variant.precision:
            b = layer.fit(matrix, is_spam, weights, designs @ first_point, chosen)
    return centres, point, layer.spread(matrix, b, design.features, worth)


def limit(log_odds: Floats, variant: Variant) -> Floats:
    """The offset of the layer. N messages cannot show odds of more than about N to 1."""
    log_odds = variant.share * log_odds
    if not variant.cap:
        return log_odds
    cap = np.log(len(log_odds) + 1) if variant.cap < 0 else variant.cap
    return cap * np.tanh(log_odds / cap)


def weigh_layer(stream, messages, is_spam, weights, designs, point, worth, precision, variant, design):
    """The held-out loss, the scales with the intercept, and the worth of the layer."""
    z, scores = designs.copy(), np.zeros(len(messages))
    folds = FOLDS.get((stream.group, stream.name, len(messages)))
    if folds is None:
        FOLDS[stream.group, stream.name, len(messages)] = folds = split_folds(stream.corpus, messages, variant.folds)
    if len(folds) < variant.folds:
        return None
    for fold in folds:
        y, w = is_spam[fold.train], weights[fold.train]
        centres = fold.of_train.find_centres(y, w)
        inner = fold.of_train.subtract(centres)
        first = fitting.fit_scales(inner, y, w, SCALES, 0.0, fitting.SCALE_WIDTH * SCALES)
        matrix = layer.build(design, messages[fold.train], variant.least)
        b = layer.fit(matrix, y, w, inner @ np.append(first.scales, first.intercept), precision)
        scores[fold.held] = design.judge(messages[fold.held], layer.spread(matrix, b, design.features, 1.0))
        if variant.is_joint:
            z[fold.held] = fold.of_held.subtract(centres)
    columns = np.column_stack([z[:, :-1], scores, z[:, -1]])
    defaults, widths = np.append(SCALES, worth), np.append(fitting.SCALE_WIDTH * SCALES, variant.width)
    if not variant.is_joint:
        columns = np.column_stack([z @ point, scores, np.zeros(len(z))])
        defaults, widths = np.array([1.0, worth]), np.array([1e-4, variant.width])
    found = fitting.fit_scales(columns, is_spam, weights, defaults, 0.0, widths)
    total = columns @ np.append(found.scales, found.intercept)
    loss = (weights * np.logaddexp(0, np.where(is_spam, -total, total))).sum()
    if variant.is_joint:
        point = np.append(found.scales[:-1], found.intercept)
    return loss, point, found.scales[-1]


FOLDS: dict = {}


def play(stream: Stream, tapes: list[Tape], variant: Variant, design: layer.Design) -> Floats:
    """The log-odds of each judged message."""
    judged = stream.order[stream.known :]
    tape = tapes[0]
    log_odds = tape.scores @ SCALES
    scores, presences = (np.column_stack([getattr(one, name) for one in tapes]) for name in ("scores", "presences"))
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


DESIGNS: dict = {}


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
                cells = (f"{m:8.4g}±{e:<7.2g}" for m, e in zip(each.mean(axis=0), error))
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
