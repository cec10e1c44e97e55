"""What is the layer worth, how sure are the scales, how often? python run.py DATA [--streams WORD …] [--rules NAME …]

Streams and figures are those of experiment 0010, tapes and the rule before those of experiment 0013.
"""

import argparse
import random
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from layers import SCALES, Fitted, Layers, read_layers
from figures import FIGURES, Answers, measure_group, resample_group
from streams import Corpus, Stream, make_streams, read_sets, shuffle
from tape import RULE

from tamis_mail.verdict import fitting

Floats = np.ndarray


@dataclass(frozen=True)
class Variant:
    """One rule; the defaults are the rule before this experiment."""

    name: str
    worth: str = (
        "m / (m + 10)"  # of the layer: or "plain" (1), "cautious" (the factor of the views), or fitted
    )
    # to left-out scores "after" the scales or "jointly" with them
    precisions: tuple[float, ...] = (0.02,)  # λ, the best by leave-one-out log-loss
    width: float = 0.5  # standard deviation of the worth of the layer around `mean`
    mean: float = 1.0
    temperature: float = 0.0  # width of a factor of the views around 1, for "after"
    is_early: bool = False  # averaged over the prior before the first fit, too
    scale_width: float = 0.5
    start: tuple[int, ...] = (5, 12)  # arguments of `read_early_tape`
    averages: str = ""  # whose variance divides the log-odds by √(1 + π/8 × variance): see `judge`

    @property
    def layers(self) -> list[tuple[float, float, tuple[int, int], bool]]:
        """The arguments of `read_layers`, by precision."""
        leaves_out = self.worth in ("after", "jointly") or self.averages in ("layer", "worth")
        return [(precision, self.scale_width, self.start, leaves_out) for precision in self.precisions]


BEFORE = Variant("before")
OFTENER = replace(BEFORE, name="a twentieth", start=(5, 12, 20))
LEFT_OUT = (
    replace(BEFORE, name="worth 1", worth="plain"),
    replace(BEFORE, name="worth fitted after the scales", worth="after"),
    replace(BEFORE, name="worth and temperature fitted after", worth="after", temperature=0.5),
    replace(BEFORE, name="worth fitted jointly", worth="jointly"),
    *(
        replace(BEFORE, name=f"worth fitted {word}, λ {precision}", worth=worth, precisions=(precision,))
        for word, worth in (("after", "after"), ("jointly", "jointly"))
        for precision in (0.005, 0.01, 0.05)
    ),
    replace(BEFORE, name="worth fitted jointly, λ chosen", worth="jointly", precisions=(0.005, 0.02, 0.05)),
)
CAUTIOUS = replace(BEFORE, name="cautious", worth="cautious")
AVERAGED = tuple(
    replace(CAUTIOUS, name=f"{name}, λ {precision}", worth=worth, averages=averages, precisions=(precision,))
    for name, worth, averages in (
        ("before", "m / (m + 10)", ""),
        ("cautious", "cautious", ""),
        ("averaged", "m / (m + 10)", "first"),
        ("averaged, cautious", "cautious", "first"),
        ("averaged by deviations, cautious", "cautious", "diagonal"),
        ("averaged but for strength", "m / (m + 10)", "direction"),
        ("averaged but for strength, cautious", "cautious", "direction"),
        ("averaged, gamma strength, cautious", "cautious", "gamma"),
        ("averaged with the worth of the layer, worth 1", "plain", "worth"),
        ("averaged over the layer, worth 1", "plain", "layer"),
    )
    for precision in (0.005, 0.01, 0.02, 0.05)
)
CANDIDATE = replace(CAUTIOUS, name="A", averages="first", precisions=(0.01,))
CANDIDATES = (
    CANDIDATE,
    replace(CANDIDATE, name="B", start=(3, 6)),
    replace(CANDIDATE, name="A, averaged before the first fit, too", is_early=True),
    *(replace(CANDIDATE, name=f"A, width {width}", scale_width=width) for width in (0.25, 0.35, 1.0)),
)
STARTS = tuple(
    replace(BEFORE, name=f"from {start[0]} and {start[1]}, 1/{start[2]}, {(*start, 1200)[3]}", start=start)
    for start in (
        (3, 6, 10),
        (3, 6, 20),
        (2, 4, 20),
        (5, 12, 40),
        (5, 12, 1000),
        (5, 12, 10, 1600),
        (5, 12, 10, 9999),
    )
)
VARIANTS = (BEFORE, OFTENER, *LEFT_OUT, *AVERAGED, *CANDIDATES, *STARTS)


def sum_loss(log_odds: Floats, fit: Fitted) -> float:
    return float((fit.weights * np.logaddexp(0, np.where(fit.is_spam, -1, 1) * log_odds)).sum())


def judge(fit: Fitted, variant: Variant) -> tuple[float, Floats]:
    """The leave-one-out log-loss, and the log-odds of the messages that the fit judges.

    The variance of the log-odds is that of the first fit's Laplace posterior ("first"), by its standard
    deviations alone ("diagonal"), with the worth of the layer as one more scale ("worth"), or without what
    multiplies all scales by one number ("direction"), which then has a Gamma distribution ("gamma"); or that
    of the coefficients ("layer").
    """
    designs, seen = fit.designs, fit.seen
    if variant.worth == "jointly":
        designs = np.column_stack([fit.designs[:, :-1], fit.left_out, fit.designs[:, -1]])
        seen = np.column_stack([fit.seen[:, :-1], fit.seen_layer, fit.seen[:, -1]])
        scales = np.append(SCALES, variant.mean)
        widths = np.append(0.5 * SCALES, variant.width)
        found = fitting.fit_scales(designs, fit.is_spam, fit.weights, scales, 0.0, widths)
        point = np.append(found.scales, found.intercept)
        worth = point[-2]
    elif variant.worth == "after":
        base = fit.designs @ fit.first
        widths = np.array([max(variant.temperature, 1e-4), variant.width])
        designs = np.column_stack([base, fit.left_out])
        seen = np.column_stack([fit.seen @ fit.first, fit.seen_layer])
        # the intercept is part of the first score: its column is zero
        found = fitting.fit_scales(
            np.column_stack([designs, np.zeros(len(base))]),
            fit.is_spam,
            fit.weights,
            np.array([1.0, variant.mean]),
            0.0,
            widths,
        )
        point = found.scales
        worth = point[1]
    else:
        worth = {
            "plain": 1.0,
            "m / (m + 10)": fit.smaller / (fit.smaller + 10),
            "cautious": 1 / (1 + 1 / fit.spams + 1 / fit.hams),
        }[variant.worth]
        designs = np.column_stack([fit.designs, fit.left_out])
        seen = np.column_stack([fit.seen, fit.seen_layer])
        point = np.append(fit.first, worth)
    held, log_odds = designs @ point, seen @ point
    variance = np.zeros(len(log_odds))
    if variant.averages == "layer":
        variance += worth**2 * fit.seen_variance
        held = held / np.sqrt(1 + np.pi / 8 * worth**2 * fit.variance)
    if variant.averages in ("first", "worth", "diagonal", "direction", "gamma"):
        columns, new, prior = fit.designs, fit.seen, 1 / np.append(variant.scale_width * SCALES, 1) ** 2
        score = fit.designs @ fit.first
        if variant.averages == "worth":
            columns, new = np.column_stack([columns, fit.left_out]), np.column_stack([new, fit.seen_layer])
            prior, score = np.append(prior, 1 / variant.width**2), score + fit.left_out
        p = 1 / (1 + np.exp(-score))
        curvature = fit.weights * p * (1 - p)
        covariance = np.linalg.inv((columns * curvature[:, None]).T @ columns + np.diag(prior))
        if variant.averages == "diagonal":
            covariance = np.diag(np.diag(covariance))
        if variant.averages in ("direction", "gamma"):
            strength = fit.first @ np.linalg.inv(covariance) @ fit.first
            covariance = covariance - np.outer(fit.first, fit.first) / strength
        variance += np.einsum("ij,jk,ik->i", new, covariance, new)
        if variant.averages == "gamma":
            size = np.abs(log_odds)
            log_odds = np.sign(log_odds) * np.log1p(size / strength) * strength
    return sum_loss(held, fit), log_odds / np.sqrt(1 + np.pi / 8 * variance)


def play(layers: list[Layers], variant: Variant) -> Floats:
    log_odds = layers[0].log_odds.copy()
    if variant.is_early:
        variances = np.square(np.append(variant.scale_width * SCALES, 1))
        log_odds /= np.sqrt(1 + np.pi / 8 * (np.square(layers[0].plain) @ variances))
    for fits in zip(*(one.fits for one in layers), strict=True):
        found = min((judge(fit, variant) for fit in fits), key=lambda pair: pair[0])[1]
        log_odds[fits[0].begin : fits[0].begin + len(found)] = found
    return log_odds


def make_all(data: Path, cache: Path) -> list[Stream]:
    """The streams of experiment 0010, and more of them to develop on."""
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
    easy = Corpus(sets["newsgroups"], sets["old spam"])
    streams += [
        Stream("newsgroups, old spam *", f"{seed}", easy, shuffle(range(len(easy)), seed)) for seed in (5, 6)
    ]
    return streams


def show(value: float, error: float, sign: str = "") -> str:
    return f"{value:{sign}.3g} ± {float(f'{error:.1g}'):g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, default=Path("/tmp/exp13"))
    parser.add_argument("--messages", type=Path, default=Path("/tmp/exp10"), help="cache of experiment 0010")
    parser.add_argument("--streams", nargs="*", help="words in names of groups, all if none")
    parser.add_argument("--rules", nargs="*", help="names of rules that are compared with the one before")
    parser.add_argument("--brief", action="store_true", help="without intervals; differences over streams")
    options = parser.parse_args()
    variants = {variant.name: variant for variant in VARIANTS}
    names = options.rules or [BEFORE.name, OFTENER.name, CANDIDATE.name]
    groups: dict[str, list[Stream]] = {}
    for stream in make_all(options.data, options.messages):
        if not options.streams or any(word in stream.group for word in options.streams):
            groups.setdefault(stream.group, []).append(stream)
    if not options.brief:
        print("| streams | rule | " + " | ".join(FIGURES) + " |\n" + "|---" * (2 + len(FIGURES)) + "|")
    matrices: dict = {}
    for group, streams in groups.items():
        needed = {one for name in (*names, BEFORE.name) for one in variants[name].layers}
        layers = {one: [read_layers(s, options.cache, *one, matrices) for s in streams] for one in needed}

        def answer(variant: Variant) -> list[Answers]:
            return [
                Answers(s, play([layers[one][i] for one in variant.layers], variant), RULE.spam, RULE.ham)
                for i, s in enumerate(streams)
            ]

        before = answer(BEFORE)
        of_before = measure_group(before)
        title = f"{group} ({len(streams)})"
        if options.brief:
            single = np.array([one.measure() for one in before])
            print(f"{title:44}", " ".join(f"{f[:16]:>16}" for f in FIGURES))
            for name in names:
                each = np.array([one.measure() for one in answer(variants[name])])
                error = (each - single).std(axis=0, ddof=min(1, len(each) - 1)) / np.sqrt(len(each))
                print(
                    f"  {name:42}",
                    " ".join(f"{m:8.4g}±{e:<7.2g}" for m, e in zip(each.mean(axis=0), error)),
                    flush=True,
                )
            continue
        resampled = resample_group(before)
        for name in names:
            answers = answer(variants[name])
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
