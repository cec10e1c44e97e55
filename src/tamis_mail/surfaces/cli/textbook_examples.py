"""Two textbook examples in the terminal: naive Bayes for documents, and the bias of a coin.

Both examples take the same three steps. A `Tally` sums the observations: `Tally.count` counts categories,
here labels and words, and `Tally.observe` sums numbers, here the heads. Then a prior is added to the sums, as
if it were more observations. The result is the posterior. A third part subtracts the counts of one document.
"""

import shutil
from typing import TextIO

import numpy as np

from tamis.conjugate import Beta, Dirichlet
from tamis.stats import Tally
from tamis_mail.surfaces.cli.layout import can_show

_DOCUMENTS = (
    ("Chinese Beijing Chinese", "China"),
    ("Chinese Chinese Shanghai", "China"),
    ("Chinese Macao", "China"),
    ("Tokyo Japan Chinese", "not China"),
)
_QUESTION = "Chinese Chinese Chinese Tokyo Japan"
_BARS = " ▁▂▃▄▅▆▇█"
_PLAIN_BARS = " .:-=+*#@"


def show(out: TextIO) -> None:
    """Write the two examples and the subtraction, formatted for the width and the charset of the terminal."""
    width = max(40, min(shutil.get_terminal_size().columns, 76))
    bars = _BARS if can_show(out, _BARS) else _PLAIN_BARS
    out.writelines(
        part + "\n" for part in (_describe_documents(), _describe_coin(width, bars), _describe_subtraction())
    )


def _describe_documents() -> str:
    labels = [label for _, label in _DOCUMENTS]
    documents = Tally.count(labels)
    words = _count_words(_DOCUMENTS)
    if words.keys is None or words.terms is None:
        raise AssertionError("words are counted by class and by word")
    given_class = Dirichlet(np.ones(len(words.terms))).update(words).mean
    columns = words.terms.find(_QUESTION.split())
    # The totals are exact sums; `value` rounds them to floats.
    joint = documents.total.value / documents.weight.value * given_class[:, columns].prod(axis=1)
    lines = ["1. Learn four documents (add-one smoothing is a Dirichlet prior):", ""]
    lines += [f"     {text:<26} {label}" for text, label in _DOCUMENTS]
    lines += ["", f'   then judge "{_QUESTION}":', ""]
    for label, row, score in zip(words.keys, given_class, joint, strict=True):
        chinese, tokyo, japan = row[words.terms.find(["Chinese", "Tokyo", "Japan"])]
        lines.append(f"     {label:<10} P(Chinese) {chinese:.3f}, P(Tokyo) {tokyo:.3f}, P(Japan) {japan:.3f}")
        lines.append(f"                joint probability {score:.4f}")
    best = int(joint.argmax())
    lines += ["", f"   {words.keys[best]}, with probability {joint[best] / joint.sum():.2f}.", ""]
    return "\n".join(lines)


def _describe_coin(width: int, bars: str) -> str:
    prior = Beta(2, 2)
    tosses = Tally.observe([1] * 55 + [0] * 45)
    posterior = prior.update(tosses)
    low, high = posterior.interval(0.95)
    grid = np.linspace(0, 1, width - 6)
    density = np.exp(posterior.log_density(grid))
    heights = np.rint((len(bars) - 1) * density / density.max()).astype(int)
    half = len(grid) // 2
    return "\n".join(
        [
            "2. A coin is tossed a hundred times: 55 heads. The prior is Beta(2, 2).",
            "",
            "     " + "".join(bars[h] for h in heights),
            "     " + "0".ljust(half - 1) + "0.5".ljust(len(grid) - half) + "1",
            "",
            f"   The posterior is Beta({posterior.a:g}, {posterior.b:g}). Its mean is {posterior.mean:.3f},",
            f"   and the bias lies between {low:.2f} and {high:.2f} with probability 0.95.",
            "",
        ]
    )


def _describe_subtraction() -> str:
    everything = _count_words(_DOCUMENTS)
    third = _count_words(_DOCUMENTS[2:3])
    never = _count_words(_DOCUMENTS[:2] + _DOCUMENTS[3:])
    same = everything - third == never
    return "\n".join(
        [
            '3. Subtract the document "Chinese Macao" again. The statistic is',
            f"   {'the same, to the bit,' if same else 'NOT the same'} as if it had never been learned.",
        ]
    )


def _count_words(documents: tuple[tuple[str, str], ...]) -> Tally:
    pairs = [(word, label) for text, label in documents for word in text.split()]
    return Tally.count([word for word, _ in pairs], by=[label for _, label in pairs])
