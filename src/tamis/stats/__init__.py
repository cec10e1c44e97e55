"""The three statistics of all models, `Tally`, `Moments` and `Gram`, and `Joint`, which combines several.

Statistics are sums over rows, stored without rounding (`Exact`), so that they are added and subtracted
exactly. Only the products of many rows are rounded before they are added; see `Moments.observe` and
`Gram.observe`.
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
