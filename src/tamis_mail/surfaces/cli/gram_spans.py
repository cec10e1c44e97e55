"""n-grams of bytes that overlap in a message → the strings they are of, each with the sum of what they weigh.

Hundreds of grams of a few bytes say one thing, such as a host name in a header, letter by letter.
Where grams that speak for the same side overlap in the message, they are one span; each gram counts once,
where it first occurs, so spans sum to what the grams sum to.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tamis_mail.verdict import Evidence

__all__ = ["join_grams"]


@dataclass(slots=True)
class _Span:
    start: int
    stop: int
    grams: list[Evidence]


def join_grams(head: str, grams: Iterable[Evidence]) -> list[Evidence]:
    """Spans by weight, strongest first; `head` is the text that the grams are of.

    Their counts are those of the span's strongest gram.
    """
    spans: list[Evidence] = []
    for sign in (1, -1):
        places: list[tuple[int, int, Evidence]] = []
        for gram in grams:
            if gram.contribution * sign > 0:
                start = head.find(gram.token)
                if start < 0:  # half a letter, which reads otherwise alone
                    spans.append(gram)
                else:
                    places.append((start, start + len(gram.token), gram))
        spans += [
            _sum_span(head, span) for span in _join_overlapping(sorted(places, key=lambda one: one[:2]))
        ]
    return sorted(spans, key=lambda one: (-abs(one.contribution), one.token))


def _join_overlapping(places: list[tuple[int, int, Evidence]]) -> list[_Span]:
    spans: list[_Span] = []
    for start, stop, gram in places:
        if spans and start < spans[-1].stop:
            spans[-1].stop = max(spans[-1].stop, stop)
            spans[-1].grams.append(gram)
        else:
            spans.append(_Span(start, stop, [gram]))
    return spans


def _sum_span(head: str, span: _Span) -> Evidence:
    strongest = max(span.grams, key=lambda gram: abs(gram.contribution))
    total = sum(gram.contribution for gram in span.grams)
    return Evidence(head[span.start : span.stop], strongest.view, total, strongest.spam, strongest.ham)
