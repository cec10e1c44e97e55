"""The evidence of a verdict, summed by view, and its strongest pieces."""

from collections.abc import Iterable, Sequence

from tamis_mail.reporting.wording import VIEW_TITLES
from tamis_mail.verdict import Evidence


def sum_views(evidence: Iterable[Evidence]) -> dict[str, float]:
    """Sum the contributions by view: those of VIEW_TITLES, in its order, then the others.

    >>> sum_views([Evidence("offer", "words", 2.0, 0, 0), Evidence("(before)", "intercept", 1.0, 0, 0)])
    {'intercept': 1.0, 'words': 2.0}
    """
    sums: dict[str, float] = {}
    for one in evidence:
        sums[one.view] = sums.get(one.view, 0.0) + one.contribution
    views = [view for view in VIEW_TITLES if view in sums] + sorted(sums.keys() - VIEW_TITLES.keys())
    return {view: sums[view] for view in views}


def select_strongest(evidence: Sequence[Evidence], sign: int, limit: int | None) -> list[Evidence]:
    """Select the first entries of a sign: evidence is sorted, the strongest first."""
    return [one for one in evidence if one.contribution * sign > 0][:limit]
