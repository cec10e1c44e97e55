"""Make the statistic of a generative model from sums that a database computes for the rows of each label.

For Gaussian, Poisson, Bernoulli and multinomial columns the database computes Σx, Σx² or products. For
columns of other families it counts the rows that have each distinct value. Each value, weighted by its count,
is then observed as a row in which all other columns are missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.engines.sql.database import Column, to_array
from tamis.engines.sql.fixed_point import Bounds
from tamis.engines.sql.sums import TableSums, ValueCount, take_labels
from tamis.engines.summing import UnsupportedSumsError
from tamis.inputs import read_labels
from tamis.models.generative.block import Block
from tamis.models.generative.category_columns import CategoryColumns
from tamis.models.generative.family_columns import FamilyColumns
from tamis.models.generative.gaussian_columns import GaussianColumns
from tamis.models.generative.gaussian_vectors import GaussianVectors
from tamis.models.generative.model import CLASSES
from tamis.models.generative.multinomial_counts import MultinomialCounts
from tamis.models.generative.rate_columns import BernoulliColumns, PoissonColumns
from tamis.schema import ColumnKind, Schema, describe_poor_category
from tamis.stats import Exact, Joint, Keys, Labels, Moments, Sums, Tally
from tamis.tables import Kind, Table

_COUNTED = CategoryColumns | FamilyColumns  # blocks for which the database counts rows by value
_SUMMED = GaussianColumns | GaussianVectors | BernoulliColumns | PoissonColumns | MultinomialCounts


def refuse_unsupported(name: str, block: Block[Any, Any]) -> None:
    """Raise UnsupportedSumsError for a block whose statistic a database cannot sum."""
    if isinstance(block, GaussianVectors):
        if block.has_matrices and block.exact:
            raise UnsupportedSumsError("exact=True asks for products that are not rounded")
        if isinstance(block.shrinkage, str):
            raise UnsupportedSumsError("shrinkage='auto' is chosen by the rows")
    if not isinstance(block, _COUNTED | _SUMMED):
        raise UnsupportedSumsError(f"columns of the family {name!r} are not summed by a database")


def refuse_missing(columns: tuple[Column, ...], bounds: Mapping[int, Bounds], rows: int) -> None:
    """Raise if a column has fewer values than there are rows, for a model that takes no missing values."""
    for j, bound in bounds.items():
        if bound.count < rows:
            raise ValueError(
                f"column {columns[j].name!r} is missing in {rows - bound.count} of {rows} rows, expected a "
                "number in each: drop or fill those rows"
            )


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Makes the statistic of blocks of columns from sums by label."""

    sums: TableSums
    schema: Schema
    blocks: Mapping[str, Block[Any, Any]]
    missing_label: object  # the label of rows whose class is unknown

    def observe(self) -> tuple[Schema, Joint]:
        """Return the schema and the statistic.

        In the schema, columns without values are of kind "unknown", and remarks name columns of categories
        that predict little, because nearly every row has a value of its own.
        """
        labels, rows = self.sums.count_labels()
        encoded = self._read_labels(labels)
        counts = np.zeros(len(encoded.keys), dtype=np.int64)
        counts[encoded.group] = rows
        number = Exact.from_integers(np.array(counts.sum()))
        parts: dict[str, Sums] = {
            CLASSES: Tally(weight=number, total=Exact.from_integers(counts), terms=encoded.keys)
        }
        kinds: list[ColumnKind] = [self.schema.kind(j) for j in range(self.schema.width)]
        remarks: list[tuple[int, str]] = []
        for name, block in self.blocks.items():
            indices = list(range(self.schema.width)) if block.columns is None else list(block.columns)
            if isinstance(block, _COUNTED):
                counted = self.sums.count_values(indices)
                nonempty = {value.column for value in counted if value.value is not None}
                remarks += self._find_remarks(indices, counted)
                parts[name] = self._observe_values(block, indices, counted, counts)
            else:
                bounds = self.sums.measure(indices)
                nonempty = {j for j in indices if bounds[j].count}
                self._refuse_values(block, bounds)
                parts[name] = self._observe_numbers(block, bounds, encoded.keys)
            for j in set(indices) - nonempty:
                kinds[j] = "unknown" if kinds[j] == "number" else kinds[j]
        common = kinds[0] if set(kinds) == {"number"} else tuple(kinds)
        schema = Schema(self.schema.width, common, self.schema.names, None, tuple(sorted(remarks)))
        return schema, Joint(parts)

    def _read_labels(self, labels: list[Any]) -> Labels:
        """Read labels of the database; raise UnsupportedSumsError if some rows have none."""
        encoded = read_labels(labels, len(labels), self.missing_label)
        if not len(encoded.keys):
            raise ValueError("no row has a label, expected at least one: without labels, use tamis.Mixture")
        if (encoded.group < 0).any():
            raise UnsupportedSumsError("some rows have no label")
        return encoded

    def _find_order(self, labels: list[Any], keys: Keys) -> NDArray[np.int64]:
        """Return the index of each key's label among the labels, which are in the order of the database."""
        encoded = self._read_labels(labels)
        if encoded.keys != keys:
            raise ValueError("the table changed while it was summed, expected the same rows: sum it again")
        return np.argsort(encoded.group)

    # ── sums ──

    def _refuse_values(self, block: Block[Any, Any], bounds: Mapping[int, Bounds]) -> None:
        """Raise for a column with values that the block's family does not allow."""
        for j, bound in bounds.items():
            name, low, high = self.sums.columns[j].name, bound.minimum, bound.maximum
            if low is None or high is None:
                continue
            if isinstance(block, PoissonColumns | MultinomialCounts) and low < 0:
                raise ValueError(
                    f"Negative values in data: column {name!r} holds {low:g}, expected counts of at least 0"
                )
            if isinstance(block, BernoulliColumns) and block.threshold is None:
                if low >= 0 and high <= 1 and not bound.has_fractions:
                    continue
                shown = f"{low:g}" if low < 0 else f"{high:g}" if high > 1 else "fractions"
                raise ValueError(
                    f"column {name!r} holds {shown}, expected 0 or 1: turn it into flags first, as by x > 0"
                )

    def _observe_numbers(self, block: Block[Any, Any], bounds: Mapping[int, Bounds], keys: Keys) -> Sums:
        """Return the statistic of a block from sums of its columns; `bounds` has those of each column."""
        is_full = isinstance(block, GaussianVectors) and block.has_matrices
        has_squares = isinstance(block, GaussianColumns | GaussianVectors) and not is_full
        thresholds = {}
        if isinstance(block, BernoulliColumns) and block.threshold is not None:
            thresholds = dict.fromkeys(bounds, float(block.threshold))
        powers = self.sums.sum_powers(bounds, has_squares, thresholds)
        order = self._find_order(powers.labels, keys)
        rows = Exact.from_integers(np.array(powers.rows, dtype=np.int64)[order])
        first = take_labels(powers.first, order)
        if isinstance(block, MultinomialCounts):
            refuse_missing(self.sums.columns, bounds, sum(powers.rows))
            return block.convert_sums(Tally(weight=rows, total=first, keys=keys))
        if is_full:
            refuse_missing(self.sums.columns, bounds, sum(powers.rows))
            products = self.sums.sum_products(list(bounds))
            order = self._find_order(products.labels, keys)
            centre = products.centre[order]
            return Moments.from_centred_products(rows, first, centre, products.products[order], keys)
        return Moments(
            weight=take_labels(powers.counts, order),
            first=first,
            second=None if powers.second is None else take_labels(powers.second, order),
            form="diagonal" if has_squares else "none",
            keys=keys,
        ).drop_zeros()

    # ── distinct values ──

    def _observe_values(
        self, block: Block[Any, Any], indices: list[int], counted: list[ValueCount], counts: NDArray[np.int64]
    ) -> Sums:
        """Return the statistic of a block from counts of values.

        `counts` has the number of rows of each class.
        """
        columns = [
            to_array([value.value if value.column == j else None for value in counted], self.schema.kind(j))
            for j in indices
        ]
        kinds: tuple[Kind, ...] = tuple(self.sums.columns[j].kind or "category" for j in indices)
        names = tuple(self.sums.columns[j].name for j in indices)
        labels = self._read_labels([value.label for value in counted])
        weights = np.array([value.rows for value in counted], dtype=np.float64)
        own = block.with_columns(tuple(range(len(indices))))
        statistic: Sums = own.observe(
            own.encode(Table(tuple(columns), len(counted), kinds, names)), labels, weights
        )
        if isinstance(block, CategoryColumns):  # its weight counts a row once, however many columns it has
            statistic = statistic.with_fields(weight=Exact.from_integers(counts))
        return statistic

    def _find_remarks(self, indices: list[int], counted: list[ValueCount]) -> list[tuple[int, str]]:
        """Return what `schema.find_poor_categories` would return for all rows."""
        remarks = []
        for j in indices:
            if self.schema.kind(j) == "category":
                own = [value for value in counted if value.column == j and value.value is not None]
                distinct, rows = {value.value for value in own}, sum(value.rows for value in own)
                message = describe_poor_category(f"column {self.schema.name(j)!r}", distinct, rows)
                remarks += [] if message is None else [(j, message)]
        return remarks
