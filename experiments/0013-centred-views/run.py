"""Which centre, which caution, how often? python run.py DATA [--cache FOLDER] [--streams WORD …] [--rules NAME …]

The streams and the figures are those of experiment 0010, whose cache of messages is used, too.
"""

import argparse
import hashlib
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
from scipy import sparse

sys.path.append(str(Path(__file__).parents[1] / "0010-learned-weights"))

from figures import FIGURES, Answers, measure_group, resample_group
from streams import Corpus, Stream, make_streams
from tape import RULE, SUMS, VIEWS, Tape, read_tape

from tamis_mail.verdict import fitting
from tamis_mail.verdict.rule import LAYER_VIEWS

SCALES = np.array([view.scale for view in RULE.views])
RELUCTANCE = np.array([view.reluctance for view in RULE.views])
Floats = np.ndarray


@dataclass(frozen=True)
class Variant:
    """One rule; the defaults are the rule before this experiment."""

    name: str
    weights: str = "weights"  # which of the sums
    centre: str = ""  # subtracted from the weight of "features" or "known features"; "": no centre
    intercept_width: float = 3.0
    scale_width: float = 0.5
    patience: float = 2.0
    is_by_both: bool = False  # 1 / (1 + patience (1 / spams + 1 / hams)), not m / (m + patience)
    schedule: str = "a quarter"
    denominator: str = "features"  # or "known features"
    precision: float = fitting.PRECISION
    layer_patience: float = fitting.COEFFICIENT_PATIENCE
    least: int = 2  # messages that have a feature with a coefficient
    layer_views: tuple[int, ...] = LAYER_VIEWS


BEFORE = Variant("before")
CENTRED = Variant("centred", centre="known features", intercept_width=1.0)
CAUTIOUS = replace(CENTRED, name="centred, by both", patience=1.0, is_by_both=True)
SHIPPED = replace(CAUTIOUS, name="shipped", schedule="a tenth")
VARIANTS = (
    BEFORE,
    CENTRED,
    CAUTIOUS,
    SHIPPED,
    replace(SHIPPED, name="shipped, centre of all features", centre="features"),
    replace(BEFORE, name="before, a tenth more", schedule="a tenth"),
)
TRIALS = (
    replace(BEFORE, name="intercept 1", intercept_width=1.0),
    replace(CENTRED, name="centred, intercept 3", intercept_width=3.0),
    replace(CENTRED, name="centred, patience 1", patience=1.0),
    replace(BEFORE, name="rare features count less", weights="weights of features seen often"),
    replace(BEFORE, name="another prior", weights="weights by another prior"),
    replace(BEFORE, name="mean of known features", denominator="known features"),
    replace(BEFORE, name="patience 5", patience=5.0),
    replace(BEFORE, name="patience 10", patience=10.0),
    replace(BEFORE, name="scales 0.25", scale_width=0.25),
    replace(BEFORE, name="scales 1", scale_width=1.0),
    replace(BEFORE, name="precision 0.005", precision=0.005),
    replace(BEFORE, name="precision 0.05", precision=0.05),
    replace(BEFORE, name="precision 0.3", precision=0.3),
    replace(BEFORE, name="layer patience 40", layer_patience=40.0),
    replace(BEFORE, name="coefficients of all features", least=1),
    replace(BEFORE, name="coefficients of all views", layer_views=(0, 1, 2, 3, 4)),
)


def shrink(totals: Floats, variant: Variant) -> Floats:
    """(messages, 1): the factor by which few messages shrink the log-odds."""
    spams, hams = np.maximum(totals, 0).T
    m = spams * hams / np.maximum(spams + hams, 1e-9) if variant.is_by_both else np.minimum(spams, hams)
    return (m / (m + variant.patience))[:, np.newaxis]


def split(sums: Floats, variant: Variant) -> tuple[Floats, Floats]:
    """(messages, views) each: the scores without centres, and what a centre of 1 subtracts."""
    parts = dict(zip(SUMS, np.moveaxis(sums, 1, 0), strict=True))
    size = parts[variant.denominator] + RELUCTANCE
    centred = parts[variant.centre] if variant.centre else np.zeros_like(size)
    return parts[variant.weights] / size, centred / size


def build_layer(corpus: Corpus, views: tuple[int, ...]) -> sparse.csr_matrix:
    """(messages, features): 1 / √n for each of the n features of a view."""
    features = corpus.features(2)
    keep = np.isin(features.kinds, views)[features.places]
    owners = np.repeat(np.arange(len(corpus)), np.diff(features.starts))[keep]
    columns = features.places[keep]
    cell = owners * VIEWS + features.kinds[columns]
    values = 1 / np.sqrt(np.bincount(cell)[cell])
    return sparse.csr_matrix((values, (owners, columns)), shape=(len(corpus), len(features.keys)))


def fit_layer(
    rows: sparse.csr_matrix, is_spam: Floats, weights: Floats, offset: Floats, variant: Variant
) -> Floats:
    """(features,): the coefficients, by the minimiser of `tamis_mail`."""
    used = np.flatnonzero(np.bincount(rows.indices, minlength=rows.shape[1]) >= variant.least)
    chosen = rows[:, used].tocsr()
    chosen.sort_indices()
    owners = np.repeat(np.arange(chosen.shape[0]), np.diff(chosen.indptr))
    design = fitting.SparseRows.of(owners, chosen.indices.astype(np.intp), chosen.data, *chosen.shape)
    found = np.zeros(rows.shape[1])
    with patch.object(fitting, "PRECISION", variant.precision):
        found[used] = fitting._minimise(design, is_spam.astype(float), weights, offset)
    return found


def play(stream: Stream, tape: Tape, variant: Variant, layer: sparse.csr_matrix) -> Floats:
    """The log-odds of each judged message."""
    labels, judged = stream.corpus.labels, stream.order[stream.known :]
    scores, presences = split(tape.sums, variant)
    factor = shrink(tape.totals, variant)
    fits = [fit for fit in tape.fits if fit.is_due[variant.schedule]]
    bounds = [*(fit.judged for fit in fits), len(judged)]
    log_odds = (scores @ SCALES) * factor[:, 0]
    for fit, begin, end in zip(fits, bounds[:-1], bounds[1:], strict=True):
        is_spam = labels[fit.messages] == 1
        weights = np.where(is_spam, fit.spams / is_spam.sum(), fit.hams / (~is_spam).sum())
        fitted, present = split(fit.sums, variant)
        own_factor = shrink(fit.totals, variant)
        middle, presence = (
            part[is_spam].mean(axis=0) + part[~is_spam].mean(axis=0)
            for part in (fitted * own_factor, present * own_factor)
        )
        centres = np.divide(middle, presence, out=np.zeros(VIEWS), where=presence > 0)
        designs = np.column_stack([fitted - centres * present, np.ones(len(is_spam))]) * own_factor
        with patch.object(fitting, "INTERCEPT_WIDTH", variant.intercept_width):
            found = fitting.fit_scales(
                designs, is_spam, weights, SCALES, 0.0, variant.scale_width * SCALES
            )
        coefficients = np.append(found.scales, found.intercept)
        part = slice(begin, end)
        seen = np.column_stack([scores[part] - centres * presences[part], np.ones(end - begin)]) * factor[part]
        smaller = min(fit.spams, fit.hams)
        b = fit_layer(layer[fit.messages], is_spam, weights, designs @ coefficients, variant)
        b *= smaller / (smaller + variant.layer_patience)
        log_odds[part] = seen @ coefficients + layer[judged[part]] @ b
    return log_odds


def answer(streams: list[Stream], variant: Variant, cache: Path) -> list[Answers]:
    """What a rule said of the messages of each stream, from the cache if it is there."""
    found, layers = [], {}
    for stream in streams:
        mark = hashlib.sha256(f"{stream.group}|{stream.name}|{variant}".encode()).hexdigest()[:20]
        path = cache / "answers" / f"{mark}.npy"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            if id(stream.corpus) not in layers:
                layers[id(stream.corpus)] = build_layer(stream.corpus, variant.layer_views)
            np.save(path, play(stream, read_tape(stream, cache), variant, layers[id(stream.corpus)]))
        found.append(Answers(stream, np.load(path), RULE.spam, RULE.ham))
    return found


def show(value: float, error: float, sign: str = "") -> str:
    return f"{value:{sign}.3g} ± {float(f'{error:.1g}'):g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, default=Path("/tmp/exp13"))
    parser.add_argument("--messages", type=Path, default=Path("/tmp/exp10"), help="cache of experiment 0010")
    parser.add_argument("--streams", nargs="*", help="words in names of groups, all if none")
    parser.add_argument("--rules", nargs="*", help="names of rules that are compared with the one before")
    options = parser.parse_args()
    variants = {variant.name: variant for variant in (*VARIANTS, *TRIALS)}
    names = options.rules or [variant.name for variant in VARIANTS]
    groups: dict[str, list[Stream]] = {}
    for stream in make_streams(options.data, options.messages):
        if not options.streams or any(word in stream.group for word in options.streams):
            groups.setdefault(stream.group, []).append(stream)
    print("| streams | rule | " + " | ".join(FIGURES) + " |\n" + "|---" * (2 + len(FIGURES)) + "|")
    for group, streams in groups.items():
        before = answer(streams, BEFORE, options.cache)
        of_before, resampled = measure_group(before), resample_group(before)
        title = f"{group} ({len(streams)})"
        for name in names:
            answers = answer(streams, variants[name], options.cache)
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
