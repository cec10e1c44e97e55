"""Several named statistics of the same rows, which are added and subtracted as one."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import add, sub
from typing import Any, ClassVar

from tamis.stats.keys import Keys
from tamis.stats.sums import Sums


@dataclass(frozen=True, slots=True)
class Joint(Mapping[str, Sums]):
    """Named statistics of the same rows, added, subtracted and scaled together.

    If the rows were observed given a posterior, the log-likelihood of the rows is added as well.

    >>> from tamis.stats import Moments, Tally
    >>> monday = Joint({"sky": Tally.count(["sun", "rain"]), "heat": Moments.observe([21.0, 14.0])})
    >>> week = monday + monday * 6
    >>> week["sky"].table(), float(week["heat"].mean), week - monday * 6 == monday
    ({'rain': 7.0, 'sun': 7.0}, 17.5, True)
    """

    __array_ufunc__: ClassVar[None] = None  # so that NumPy leaves `array * joint` to `__rmul__`

    parts: Mapping[str, Sums]
    # the log-likelihood of the rows given the posterior that `observe` was given; 0 if it was given none
    log_likelihood: float = field(default=0.0, compare=False, repr=False)

    def __add__(self, other: "Joint") -> "Joint":
        if not isinstance(other, Joint):
            return NotImplemented
        return self._combine(other, add)

    def __radd__(self, other: object) -> "Joint":
        if isinstance(other, int) and other == 0:  # so that sum(parts) works
            return self
        return NotImplemented

    def __sub__(self, other: "Joint") -> "Joint":
        if not isinstance(other, Joint):
            return NotImplemented
        return self._combine(other, sub)

    def __mul__(self, weight: float) -> "Joint":
        parts = {name: part * weight for name, part in self.parts.items()}
        return Joint(parts, self.log_likelihood * weight)

    def __rmul__(self, weight: float) -> "Joint":
        return self * weight

    def over(self, keys: Keys) -> "Joint":
        """Extend all parts, which must be grouped by label, to these labels; the sums of new labels are zero.

        `keys` must include the labels of each part.
        """
        return Joint({name: part.over(keys) for name, part in self.parts.items()}, self.log_likelihood)

    def __getitem__(self, name: str) -> Sums:
        return self.parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __hash__(self) -> int:
        return hash(frozenset(self.parts.items()))

    def _combine(self, other: "Joint", operation: Callable[[Any, Any], Any]) -> "Joint":
        """Add the other statistics to these, or subtract them."""
        if self.parts.keys() != other.parts.keys():
            raise ValueError(
                f"cannot combine statistics of {', '.join(self)} with statistics of {', '.join(other)}: "
                "expected the same parts"
            )
        parts = {name: operation(part, other.parts[name]) for name, part in self.parts.items()}
        return Joint(parts, operation(self.log_likelihood, other.log_likelihood))
