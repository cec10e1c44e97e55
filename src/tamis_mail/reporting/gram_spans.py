"""Join overlapping n-grams of a message to the strings that they cover.

Hundreds of n-grams may cover one string, such as a host name in a header. N-grams of the same sign that
overlap in the message form one span, whose contribution is the sum of theirs. Each n-gram counts once, at
its first occurrence, so the contributions of all spans have the same sum as those of all n-grams.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tamis_mail.verdict import Evidence


@dataclass(slots=True)
class _Span:
    """A part of the head that overlapping n-grams cover."""

    start: int
    stop: int
    grams: list[Evidence]


def join_grams(head: str, grams: Sequence[Evidence]) -> list[Evidence]:
    """Return the spans, strongest first; `head` is the text in which the n-grams occur.

    The counts of a span are those of its strongest n-gram. An n-gram that is not in the text is a span
    itself.
    """
    spans: list[Evidence] = []
    for sign in (1, -1):
        occurrences: list[tuple[int, int, Evidence]] = []
        for gram in grams:
            if gram.contribution * sign > 0:
                start = head.find(gram.token)
                if start < 0:  # it begins or ends within a character of several bytes
                    spans.append(gram)
                else:
                    occurrences.append((start, start + len(gram.token), gram))
        spans += [
            _sum_span(head, span) for span in _join_overlapping(sorted(occurrences, key=lambda one: one[:2]))
        ]
    return sorted(spans, key=lambda one: (-abs(one.contribution), one.token))


def _join_overlapping(occurrences: list[tuple[int, int, Evidence]]) -> list[_Span]:
    spans: list[_Span] = []
    for start, stop, gram in occurrences:
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
