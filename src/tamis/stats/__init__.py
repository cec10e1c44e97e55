"""The three statistics (sums over rows) of all models, and `Joint`, several of them together.

They can be added, subtracted and scaled exactly.
"""

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
