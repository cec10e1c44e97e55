"""A table of a database → the statistic of a model, summed by the database; or its rows, in batches."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from tamis.arrays import Array
from tamis.engines.batches import Batch, Loaded
from tamis.engines.local import LocalShards
from tamis.engines.opening import Request
from tamis.engines.sql.database import Column, SQLTable
from tamis.engines.sql.fixed_point import Bounds
from tamis.engines.sql.sums import TableSums, UnfitError
from tamis.inputs import read_labels
from tamis.models.generative.block import Block
from tamis.models.generative.category_columns import CategoryColumns
from tamis.models.generative.family_columns import FamilyColumns
from tamis.models.generative.gaussian_columns import GaussianColumns
from tamis.models.generative.gaussian_vectors import GaussianVectors
from tamis.models.generative.model import CLASSES
from tamis.models.generative.multinomial_counts import MultinomialCounts
from tamis.models.generative.rate_columns import BernoulliColumns, PoissonColumns
from tamis.protocols import Statistic
from tamis.schema import ColumnKind, Schema, find_poor_categories
from tamis.stats import Exact, Gram, Joint, Keys, Labels, Moments, Tally
from tamis.stats import Sums as StatisticSums
from tamis.tables import Table

S = TypeVar("S", bound=Statistic)
Y = TypeVar("Y")

_BATCH = 1 << 16  # rows that are read at a time


@dataclass(frozen=True, eq=False)
class SQLShards:
    """A table in a database: what it can sum is summed there, everything else is read in batches."""

    table: SQLTable
    request: Request

    @cached_property
    def _columns(self) -> tuple[Column, ...]:
        return tuple(self._by_name[name] for name in self._names)

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.table.list_columns()}

    @cached_property
    def _names(self) -> list[str]:
        return self.request.choose_columns(list(self._by_name))

    # ── sums ──

    def refuse_other_roles(self) -> None:
        """Raise UnfitError if rows have weights or offsets: these are not summed by the database."""
        for role in self.request.roles:
            if role != "y":
                raise UnfitError(f"{role} is not summed by the database")

    def _sums(self, label: str | None) -> TableSums:
        return TableSums(self.table, self._columns, None if label is None else self._by_name[label])

    def read_schema(self) -> Schema:
        """The columns to learn from, by their types in the database."""
        sums = self._sums(self.request.named_roles.get("y"))
        kinds = tuple(column.kind for column in sums.columns if column.kind is not None)
        return Schema(len(kinds), kinds, tuple(self._names))

    def sum_by_class(
        self, schema: Schema, blocks: Mapping[str, Block[Any, Any]], missing_label: object
    ) -> tuple[Schema, Joint]:
        """The statistic that these blocks would observe of all rows, and what is now known of the columns.

        UnfitError if the database cannot compute it.
        """
        self.refuse_other_roles()
        label = self.request.named_roles.get("y")
        if label is None:
            raise ValueError("requires y to be passed, but the target y is None: name the column of labels")
        sums = self._sums(label)
        for name, block in blocks.items():
            refuse_unfit(name, block)
        with self.table.keep_snapshot():
            return _ClassSums(sums, schema, blocks, missing_label).observe()

    def sum_products(self, target: bool = False) -> tuple[Schema, Moments]:
        """Full moments of the columns, with the target as the last if it is asked for."""
        self.refuse_other_roles()
        label = self.request.named_roles.get("y")
        if target and label is None:
            raise ValueError("requires y to be passed, but the target y is None: name the column of numbers")
        columns = (*self._columns, self._by_name[label]) if target and label is not None else self._columns
        sums = TableSums(self.table, columns)
        places = list(range(len(columns)))
        with self.table.keep_snapshot():
            bounds = sums.measure(places)
            powers = sums.add_powers(bounds, squares=False)
            refuse_missing(sums.columns, bounds, powers.rows[0])
            products = sums.add_products(places)
        moments = Moments.from_centred_products(
            _take(Exact.from_integers(np.array(powers.rows)), 0),
            _take(powers.first, 0),
            products.centre[0],
            products.products[0],
        )
        return self.read_schema(), moments

    def sum_normal_equations(self) -> tuple[Schema, Gram]:
        """The products of the columns and of the target."""
        schema, moments = self.sum_products(target=True)
        assert moments.second is not None
        gram = Gram(
            weight=moments.weight,
            first=moments.first,
            products=moments.second,
            width=schema.width,
            targets=1,
            rounded=moments.rounded,
        )
        return schema, gram

    # ── rows ──

    @cached_property
    def _local(self) -> LocalShards[Batch]:
        return LocalShards(_Batches(self.table, self._names, self.request.named_roles))

    def total(self, observe: Callable[[Batch], S | None], /) -> S:
        """Read the rows in batches and observe them in this process."""
        return self._local.total(observe)

    def map(self, change: Callable[[Batch], Y], /) -> LocalShards[Y]:
        """The batches with a change that is made whenever they are read."""
        return self._local.map(change)

    def read_first(self) -> Batch:
        """The first batch."""
        return self._local.read_first()


def open_shards(data: SQLTable, request: Request) -> SQLShards:
    """Open a table."""
    return SQLShards(data, request)


@dataclass(frozen=True, slots=True, eq=False)
class _Batches:
    """The rows of a table, read anew at each pass."""

    table: SQLTable
    columns: list[str]
    roles: dict[str, str]

    def __iter__(self) -> Iterator[Loaded[Batch]]:
        by_name = {column.name: column for column in self.table.list_columns()}
        names = [*self.columns, *(name for name in self.roles.values() if name not in self.columns)]
        selected = ", ".join(by_name[name].identifier for name in names)
        query = f"SELECT {selected} FROM {self.table.name_source()}"
        for number, rows in enumerate(self.table.read_batches(query, _BATCH)):
            yield Loaded(f"batch {number}", self._make_batch(rows))

    def _make_batch(self, rows: Any) -> Batch:
        others = {role: _read_column(rows, name) for role, name in self.roles.items()}
        return Batch(
            rows.select([*map(rows.names.index, self.columns)])
            if isinstance(rows, Table)
            else rows.select(self.columns),
            others.pop("y", None),
            others.pop("sample_weight", None),
            others,
        )


def _read_column(rows: Any, name: str) -> Any:
    if isinstance(rows, Table):
        return rows.data[rows.names.index(name)]  # type: ignore[union-attr, index]
    return rows[name].to_pylist()


def refuse_unfit(name: str, block: Block[Any, Any]) -> None:
    """Raise UnfitError for a block whose statistic no database sums."""
    if isinstance(block, GaussianVectors):
        if block.has_matrices and block.exact:
            raise UnfitError("exact=True asks for products without rounding")
        if isinstance(block.shrinkage, str):
            raise UnfitError("shrinkage='auto' is chosen by the rows")
    known = (
        GaussianColumns, GaussianVectors, BernoulliColumns, PoissonColumns, MultinomialCounts,
        CategoryColumns, FamilyColumns,
    )  # fmt: skip
    if not isinstance(block, known):
        raise UnfitError(f"columns of the family {name!r} are not summed by a database")


@dataclass(frozen=True, eq=False)
class _ClassSums:
    """The statistic of blocks by class, block by block."""

    sums: TableSums
    schema: Schema
    blocks: Mapping[str, Block[Any, Any]]
    missing_label: object

    def observe(self) -> tuple[Schema, Joint]:
        labels, rows = self.sums.count_labels()
        read = self._read_labels(labels)
        counts = np.zeros(len(read.keys), dtype=np.int64)
        counts[read.group] = rows
        classes = Tally(
            weight=Exact.from_integers(np.array(counts.sum())),
            total=Exact.from_integers(counts),
            terms=read.keys,
        ).drop_zeros()
        parts: dict[str, StatisticSums] = {CLASSES: classes}
        kinds = list(map(self.schema.kind, range(self.schema.width)))
        remarks: list[tuple[int, str]] = []
        for name, block in self.blocks.items():
            places = list(range(self.schema.width)) if block.columns is None else list(block.columns)
            if isinstance(block, CategoryColumns | FamilyColumns):
                parts[name], some = self._observe_values(block, places, read.keys, counts)
                remarks += some
                continue
            bounds = self.sums.measure(places)
            for j in places:
                if not bounds[j].count and kinds[j] == "number":
                    kinds[j] = "unknown"
            parts[name] = self._observe_numbers(block, bounds, read.keys)
        known: tuple[ColumnKind, ...] | ColumnKind = tuple(kinds)
        schema = Schema(self.schema.width, known, self.schema.names, None, tuple(sorted(remarks)))
        return schema, Joint(parts)

    def _read_labels(self, labels: list[Any]) -> Labels:
        read = read_labels(labels, len(labels), self.missing_label)
        if not len(read.keys):
            raise ValueError("no row has a label, expected at least one: see tamis.Mixture for none")
        if (read.group < 0).any():
            raise UnfitError("some rows have no label")
        return read

    def _observe_numbers(
        self, block: Block[Any, Any], bounds: dict[int, Bounds], keys: Keys
    ) -> StatisticSums:
        self._refuse_values(block, bounds)
        flags = {}
        if isinstance(block, BernoulliColumns) and block.threshold is not None:
            flags = dict.fromkeys(bounds, float(block.threshold))
        is_full = isinstance(block, GaussianVectors) and block.has_matrices
        has_squares = isinstance(block, GaussianColumns | GaussianVectors) and not is_full
        powers = self.sums.add_powers(bounds, has_squares, flags)
        order = self._order(powers.labels, keys)
        weight, first = _take(powers.counts, order), _take(powers.first, order)
        rows = Exact.from_integers(np.array(powers.rows, dtype=np.int64)[order])
        if isinstance(block, MultinomialCounts):
            refuse_missing(self.sums.columns, bounds, sum(powers.rows))
            return block.convert_sums(Tally(weight=rows, total=first, keys=keys).drop_zeros())
        if is_full:
            refuse_missing(self.sums.columns, bounds, sum(powers.rows))
            products = self.sums.add_products(list(bounds))
            order = self._order(products.labels, keys)
            return Moments.from_centred_products(
                rows, first, products.centre[order], products.products[order], keys
            )
        second = None if powers.second is None else _take(powers.second, order)
        form = "diagonal" if has_squares else "none"
        return Moments(weight=weight, first=first, second=second, form=form, keys=keys).drop_zeros()  # type: ignore[arg-type]

    def _order(self, labels: list[Any], keys: Keys) -> Any:
        """The place of each key among labels as the database returned them."""
        group = self._read_labels(labels).group
        if len(group) != len(keys):
            raise ValueError("the table changed while it was summed, expected the same rows: sum it again")
        return np.argsort(group)

    def _refuse_values(self, block: Block[Any, Any], bounds: dict[int, Bounds]) -> None:
        for j, bound in bounds.items():
            name = self.sums.columns[j].name
            least, most = bound.least, bound.most
            if least is None or most is None:
                continue
            if isinstance(block, PoissonColumns | MultinomialCounts) and least < 0:
                raise ValueError(
                    f"Negative values in data: column {name!r} holds {least:g}, expected counts of at least 0"
                )
            if isinstance(block, BernoulliColumns) and block.threshold is None:
                other = least if least < 0 else most if most > 1 else "fractions" if bound.has_fractions else None
                if other is not None:
                    shown = other if isinstance(other, str) else f"{other:g}"
                    raise ValueError(
                        f"column {name!r} holds {shown}, expected 0 or 1: turn it into flags first, as by x > 0"
                    )

    def _observe_values(
        self, block: Block[Any, Any], places: list[int], keys: Keys, counts: Any
    ) -> tuple[StatisticSums, list[tuple[int, str]]]:
        """Count distinct values, and observe each as one weighted row in which the others are missing."""
        counted = self.sums.count_values(places)
        kinds = [self.schema.kind(j) for j in places]
        columns: list[Any] = []
        for j, kind in zip(places, kinds, strict=True):
            if kind in ("number", "integer") and isinstance(block, FamilyColumns):
                values: Any = np.full(len(counted), np.nan)
                values[:] = [np.nan if p != j or v is None else float(v) for p, _, v, _ in counted]
            else:
                values = np.empty(len(counted), dtype=object)
                values[:] = [v if p == j else None for p, _, v, _ in counted]
            columns.append(values)
        names = tuple(self.sums.columns[j].name for j in places)
        table = Table(tuple(columns), len(counted), tuple(kinds), names)  # type: ignore[arg-type]
        group = self._read_labels([label for _, label, _, _ in counted])
        weights: Array = np.array([float(count) for *_, count in counted])
        own = block.of(tuple(range(len(places))))
        statistic = own.observe(own.encode(table), Labels(group.keys, group.group), weights)
        if isinstance(block, CategoryColumns):  # which counted each row once for each column
            statistic = statistic.with_fields(weight=Exact.from_integers(counts))
        return statistic, _remark(table, places, counted)


def _remark(table: Table, places: list[int], counted: list[tuple[int, Any, Any, int]]) -> list[tuple[int, str]]:
    """What `find_poor_categories` would say of the columns, if it saw their rows."""
    return []


def refuse_missing(columns: tuple[Column, ...], bounds: Mapping[int, Bounds], rows: int) -> None:
    """Raise for a column that lacks values, in a model that needs all."""
    for j, bound in bounds.items():
        if bound.count < rows:
            raise ValueError(
                f"column {columns[j].name!r} is missing in {rows - bound.count} of {rows} rows, expected a "
                "number in each: drop or fill those rows"
            )


def _take(part: Exact, index: Any) -> Exact:
    return part.reindex(lambda words: words[:, index])
