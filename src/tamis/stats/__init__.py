"""The three statistics that carry all models, and bundles of them: they add, subtract and scale, exactly."""

from tamis.stats.exact import Exact
from tamis.stats.gram import Gram
from tamis.stats.joint import Joint
from tamis.stats.keys import Keys, Labels
from tamis.stats.moments import Moments
from tamis.stats.sums import Sums, refuse_excess_subtraction
from tamis.stats.tally import Tally

__all__ = [
    "Exact",
    "Gram",
    "Joint",
    "Keys",
    "Labels",
    "Moments",
    "Sums",
    "Tally",
    "refuse_excess_subtraction",
]
