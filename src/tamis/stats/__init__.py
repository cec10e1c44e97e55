"""The three statistics that carry all models: they add, subtract and scale, exactly."""

from tamis.stats.exact import Exact
from tamis.stats.gram import Gram
from tamis.stats.keys import Keys
from tamis.stats.moments import Moments
from tamis.stats.sums import Sums
from tamis.stats.tally import Tally

__all__ = ["Exact", "Gram", "Keys", "Moments", "Sums", "Tally"]
