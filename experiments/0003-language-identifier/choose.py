"""Which runs, how many columns, what smoothing, how sharp: by leaving sentences of the project's own texts out.

The texts say the same in each language, so the i-th sentence is left out of all languages at once: else what the
neighbours of a language say there would speak against it. Left out, it is asked about whole and in pieces of 1 to 8 words.

    python experiments/0003-language-identifier/choose.py
"""

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import numpy as np
from tamis.arrays import Array
from tamis.text.identifier import LANGUAGES, SCRIPTS, find_columns

ROOT = Path(__file__).resolve().parents[2]
loader = SourceFileLoader("languages", str(ROOT / "tools" / "languages"))
tool = module_from_spec(spec_from_loader("languages", loader))
loader.exec_module(tool)


def pieces(sentence: str) -> list[str]:
    words = sentence.split()
    found = [sentence]
    for n in (1, 2, 4, 8):
        if len(words) > n:
            found += [" ".join(words[i : i + n]) for i in range(0, len(words), n)][:3]
    return found


def left_out(order: int, width: int, alphas: list[float], equal: bool) -> dict[float, tuple[Array, ...]]:
    """Of each smoothing: whether it is a whole sentence, the language, the number of runs, log-likelihoods."""
    size = SCRIPTS + width
    lines = {code: tool.sentences(code) for code in LANGUAGES}
    tallies = {code: [np.bincount(find_columns(s, order, width), minlength=size) for s in lines[code]] for code in LANGUAGES}
    whole = np.stack([np.sum(tallies[code], axis=0) for code in LANGUAGES], axis=1).astype(float)
    asked: dict[float, list[tuple[bool, int, int, Array]]] = {alpha: [] for alpha in alphas}
    for fold in range(max(map(len, lines.values()))):
        without = whole.copy()
        rows = []
        for k, code in enumerate(LANGUAGES):
            if fold < len(lines[code]) and lines[code][fold].strip()[-1] in ".?!;;。？।۔։؟" or (code == "th" and fold < 10):
                without[:, k] -= tallies[code][fold]
                rows += [(j == 0, k, find_columns(p, order, width)) for j, p in enumerate(pieces(lines[code][fold]))]
        if equal:
            totals = without.sum(axis=0)
            without *= np.median(totals) / totals
        for alpha in alphas:
            logs = np.log(without + alpha) - np.log(without.sum(axis=0) + alpha * size)
            asked[alpha] += [(w, k, len(g), logs[g].sum(axis=0)) for w, k, g in rows if len(g)]
    return {alpha: tuple(map(np.array, zip(*found, strict=True))) for alpha, found in asked.items()}


def loss(found: tuple[Array, ...], sharpness: float, damping: float) -> float:
    _, truth, runs, scores = found
    scores = scores * (sharpness / runs**damping)[:, None]
    scores = scores - scores.max(axis=1, keepdims=True)
    logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return float(-logs[np.arange(len(truth)), truth].mean())


def main() -> None:
    print("| n-grams up to | columns | totals | smoothing | sentences right | pieces right | log-loss | sharpness, damping |")
    print("|---|---|---|---|---|---|---|---|")
    for order, bits, equal in ((4, 15, False), (4, 15, True), (3, 15, True), (5, 15, True), (4, 14, True), (4, 16, True)):
        for alpha, found in left_out(order, 1 << bits, [0.03, 0.1, 0.3, 1.0], equal).items():
            right = found[3].argmax(axis=1) == found[1]
            sharp = [(loss(found, s, d), s, d) for d in (0.0, 0.25, 0.5) for s in np.geomspace(0.05, 5, 21)]
            least, s, d = min(sharp)
            print(
                f"| {order} | 2^{bits} | {'equal' if equal else 'as they are'} | {alpha} | {right[found[0]].mean():.1%} "
                f"| {right[~found[0]].mean():.1%} | {least:.3f} | {s:.2f}, {d} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
