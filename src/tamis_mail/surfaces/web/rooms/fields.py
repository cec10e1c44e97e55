"""Read and check the fields of a request: numbers within bounds, or an error of one line.

The body may come from any program on this machine, not only from a browser: every list has a maximum length,
every number a range, and a field with an unknown name is refused. The limits bound the time of a computation.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array

LONGEST_BODY = 65_536  # bytes; 300 points of two numbers with all digits need 15,000
_SHOWN = 40  # characters of a wrong value that an error message quotes


class FieldError(ValueError):
    """A request that cannot be computed; its text is one line for the person at the page."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one request, by name."""

    values: Mapping[str, object]

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Read a JSON object."""
        if len(body) > LONGEST_BODY:
            raise FieldError(f"got {len(body)} bytes, expected at most {LONGEST_BODY}: remove some points")
        try:
            values = json.loads(body)
        except (ValueError, RecursionError):
            raise FieldError("got a body that is not JSON, expected a JSON object of fields") from None
        if not isinstance(values, dict):
            raise FieldError(f"got {_shorten(values)}, expected a JSON object of fields")
        return cls(values)

    def refuse_unknown(self, *names: str) -> None:
        """Raise an error if a field has none of these names."""
        for name in self.values:
            if name not in names:
                raise FieldError(f"got the field {_shorten(name)}, expected only {', '.join(names)}")

    def read_number(self, name: str, low: float, high: float) -> float:
        """Return a field that is a number from low to high."""
        return _check_number(name, self._get(name), low, high)

    def read_integer(self, name: str, low: int, high: int) -> int:
        """Return a field that is a whole number from low to high."""
        value = _check_number(name, self._get(name), low, high)
        if not value.is_integer():
            raise FieldError(f"got {name} = {value:g}, expected a whole number")
        return int(value)

    def read_flag(self, name: str) -> bool:
        """Return a field that is true or false."""
        value = self._get(name)
        if not isinstance(value, bool):
            raise FieldError(f"got {name} = {_shorten(value)}, expected true or false")
        return value

    def read_choice(self, name: str, options: Sequence[str]) -> str:
        """Return a field that is one of the options."""
        value = self._get(name)
        if not isinstance(value, str) or value not in options:
            raise FieldError(f"got {name} = {_shorten(value)}, expected one of {', '.join(options)}")
        return value

    def read_rows(self, name: str, ranges: Sequence[tuple[float, float]], max_rows: int) -> Array:
        """Return a list of at most `max_rows` rows, each with one number per range, (n, columns)."""
        rows = self._read_list(name, max_rows)
        values = np.empty((len(rows), len(ranges)))
        for i, row in enumerate(rows):
            if not isinstance(row, list) or len(row) != len(ranges):
                raise FieldError(f"got {name}[{i}] = {_shorten(row)}, expected {len(ranges)} numbers")
            for j, (low, high) in enumerate(ranges):
                values[i, j] = _check_number(f"{name}[{i}][{j}]", row[j], low, high)
        return values

    def read_integers(self, name: str, low: int, high: int, max_rows: int) -> NDArray[np.int64]:
        """Return a list of at most `max_rows` whole numbers from low to high, (n,)."""
        values = [
            _check_number(f"{name}[{i}]", value, low, high)
            for i, value in enumerate(self._read_list(name, max_rows))
        ]
        for i, value in enumerate(values):
            if not value.is_integer():
                raise FieldError(f"got {name}[{i}] = {value:g}, expected a whole number")
        return np.array(values, dtype=np.int64)

    def _get(self, name: str) -> object:
        if name not in self.values:
            raise FieldError(f"the field {name} is missing, expected a value for it")
        return self.values[name]

    def _read_list(self, name: str, max_rows: int) -> list[object]:
        value = self._get(name)
        if not isinstance(value, list):
            raise FieldError(f"got {name} = {_shorten(value)}, expected a list")
        if len(value) > max_rows:
            raise FieldError(f"got {len(value)} entries in {name}, expected at most {max_rows}: remove some")
        return value


def to_json(value: object) -> object:
    """Prepare an answer for JSON: arrays become lists, and numbers that are not finite become null.

    Six digits are more than a screen shows, and keep an answer short.
    """
    match value:
        case dict():
            return {str(name): to_json(part) for name, part in value.items()}
        case list() | tuple():
            return [to_json(part) for part in value]
        case np.ndarray():
            return to_json(value.tolist())
        case bool() | int() | str() | None:
            return value
        case _:
            number = float(value)  # type: ignore[arg-type]  # a float, or a scalar of NumPy
            return float(f"{number:.6g}") if math.isfinite(number) else None


def _check_number(name: str, value: object, low: float, high: float) -> float:
    # A bool is an int in Python, and an integer of 400 digits has no float.
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise FieldError(f"got {name} = {_shorten(value)}, expected a number from {low:g} to {high:g}")
    return float(value)


def _shorten(value: object) -> str:
    """Return a value as JSON, truncated to some characters."""
    try:
        text = json.dumps(value)
    except RecursionError:
        return "lists within lists"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
