"""n-grams of bytes that overlap in a message → the strings they are of, each with the sum of what they weigh.

Hundreds of grams of a few bytes say one thing, such as a host name in a header, letter by letter.
Where grams that speak for the same side overlap in the message, they are one strand; each gram counts once,
where it first occurs, so gram_spans sum to what the grams sum to.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tamis_mail.verdict import Evidence

__all__ = ["gram_spans"]


@dataclass(slots=True)
class _Strand:
    start: int
    stop: int
    grams: list[Evidence]


def gram_spans(head: str, grams: Iterable[Evidence]) -> list[Evidence]:
    """Strands by weight, strongest first; `head` is the text that the grams are of.

    Their counts are those of the strand's strongest gram.
    """
    found: list[Evidence] = []
    for sign in (1, -1):
        placed: list[tuple[int, int, Evidence]] = []
        for gram in grams:
            if gram.contribution * sign > 0:
                start = head.find(gram.token)
                if start < 0:  # half a letter, which reads otherwise alone
                    found.append(gram)
                else:
                    placed.append((start, start + len(gram.token), gram))
        found += [_said(head, strand) for strand in _joined(sorted(placed, key=lambda one: one[:2]))]
    return sorted(found, key=lambda one: (-abs(one.contribution), one.token))


def _joined(placed: list[tuple[int, int, Evidence]]) -> list[_Strand]:
    joined: list[_Strand] = []
    for start, stop, gram in placed:
        if joined and start < joined[-1].stop:
            joined[-1].stop = max(joined[-1].stop, stop)
            joined[-1].grams.append(gram)
        else:
            joined.append(_Strand(start, stop, [gram]))
    return joined


def _said(head: str, strand: _Strand) -> Evidence:
    strongest = max(strand.grams, key=lambda gram: abs(gram.contribution))
    total = sum(gram.contribution for gram in strand.grams)
    return Evidence(head[strand.start : strand.stop], strongest.view, total, strongest.spam, strongest.ham)
