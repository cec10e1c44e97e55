"""A record is what `dataclasses.dataclass(frozen=True, slots=True)` makes of the same class."""

import dataclasses
import pickle
from typing import Any

import pytest

from tamis_mail.records import field, record, replace


@record(frozen=True, slots=True)
class Point:
    """A point."""

    x: int
    y: int = 2
    note: str = field(default="", compare=False, repr=False)

    @property
    def total(self) -> int:
        return self.x + self.y

    @classmethod
    def origin(cls) -> "Point":
        return cls(0, 0)


@dataclasses.dataclass(frozen=True, slots=True)
class Twin:
    """A point."""

    x: int
    y: int = 2
    note: str = dataclasses.field(default="", compare=False, repr=False)


@pytest.mark.parametrize(
    ("values", "named"), [((1,), {}), ((1, 3, "n"), {}), ((), {"x": 1}), ((1,), {"note": "n", "y": 5})]
)
def test_values_are_those_of_a_dataclass(values: tuple[Any, ...], named: dict[str, Any]) -> None:
    one, twin = Point(*values, **named), Twin(*values, **named)
    assert dataclasses.astuple(one) == dataclasses.astuple(twin)
    assert dataclasses.asdict(one) == dataclasses.asdict(twin)
    assert repr(one).replace("Point", "Twin") == repr(twin)
    assert one.total == one.x + one.y
    assert pickle.loads(pickle.dumps(one)) == one
    assert replace(one, y=9) == dataclasses.replace(one, y=9) == Point(one.x, 9)


@pytest.mark.parametrize(
    ("values", "named"), [((), {}), ((1, 2, "n", 4), {}), ((1,), {"x": 1}), ((1,), {"z": 1})]
)
def test_wrong_values_are_refused_as_by_a_dataclass(values: tuple[Any, ...], named: dict[str, Any]) -> None:
    for kind in (Point, Twin):
        with pytest.raises(TypeError):
            kind(*values, **named)


def test_fields_are_those_of_a_dataclass() -> None:
    def describe(kind: type) -> list[tuple[Any, ...]]:
        return [(one.name, one.type, one.default, one.compare, one.repr) for one in dataclasses.fields(kind)]

    assert describe(Point) == describe(Twin)
    assert dataclasses.is_dataclass(Point)
    assert Point.__match_args__ == Twin.__match_args__


def test_records_are_compared_and_hashed_by_value_and_type() -> None:
    assert Point(1, 2, "a") == Point(1, 2, "b") != Point(1, 3)
    assert hash(Point(1, 2, "a")) == hash(Point(1, 2, "b"))
    others: list[object] = [Twin(1), (1, 2), None]
    assert Point(1) not in others
    assert Point.origin() == Point(0, 0)


def test_records_are_immutable() -> None:
    point = Point(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del point.x
    with pytest.raises(AttributeError):
        point.other = 2  # type: ignore[attr-defined]
    assert not hasattr(point, "__dict__")


def test_a_record_that_could_change_is_refused() -> None:
    with pytest.raises(TypeError, match="frozen and has slots"):
        record(frozen=False, slots=True)
