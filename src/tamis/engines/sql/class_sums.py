"""Make the statistic of a generative model from sums that a database computes for the rows of each label.

For Poisson, Bernoulli and multinomial columns the database computes Σx; for Gaussian columns also Σx² or, for
Gaussian vectors with full covariances, the sums of products of two columns. For columns of other families it
counts the rows that have each distinct value. Each value, weighted by its count, is then observed as a row in
which all other columns are missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.engines.sql.database import Column, to_array
from tamis.engines.sql.fixed_point import ColumnProfile  # the number and the range of a column's values
from tamis.engines.sql.sums import TableSums, ValueCount, reorder_labels
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
# Blocks for which the database sums the numbers themselves.
_SUMMED = GaussianColumns | GaussianVectors | BernoulliColumns | PoissonColumns | MultinomialCounts


def refuse_unsupported(name: str, block: Block[Any, Any]) -> None:
    """Raise UnsupportedSumsError for a block whose statistic a database cannot sum."""
    if isinstance(block, GaussianVectors):
        if block.has_matrices and block.exact:  # its statistic has the products of all pairs of columns
            raise UnsupportedSumsError("exact=True asks for products that are not rounded")
        if isinstance(block.shrinkage, str):
            raise UnsupportedSumsError("shrinkage='auto' needs the rows")
    if not isinstance(block, _COUNTED | _SUMMED):
        raise UnsupportedSumsError(f"columns of the family {name!r} are not summed by a database")


def refuse_missing(columns: tuple[Column, ...], profiles: Mapping[int, ColumnProfile], rows: int) -> None:
    """Raise if a column has fewer values than there are rows, for a model that takes no missing values."""
    for j, profile in profiles.items():
        if profile.count < rows:
            raise ValueError(
                f"column {columns[j].name!r} is missing in {rows - profile.count} of {rows} rows, expected a "
                "number in each: drop or fill those rows"
            )


@dataclass(frozen=True, eq=False)
class TableObserver:
    """Makes the statistic of a model's blocks from sums by label, which it asks of the database."""

    sums: TableSums  # runs the queries
    schema: Schema  # the columns of the table
    blocks: Mapping[str, Block[Any, Any]]  # by name
    missing_label: object  # the label of rows whose class is unknown

    def observe(self) -> tuple[Schema, Joint]:
        """Return the schema and the statistic.

        In the schema, columns of floats without values are of kind "unknown", and remarks name columns of
        categories that predict little, because they hold dates or hardly ever repeat a value.
        """
        labels, row_counts = self.sums.count_labels()
        encoded = self._read_labels(labels)
        class_counts = np.zeros(len(encoded.keys), dtype=np.int64)
        class_counts[encoded.group] = row_counts
        n_rows = Exact.from_integers(np.array(class_counts.sum()))
        # CLASSES is the name of the part of the statistic that counts the rows of each class.
        parts: dict[str, Sums] = {
            CLASSES: Tally(weight=n_rows, total=Exact.from_integers(class_counts), terms=encoded.keys)
        }
        kinds: list[ColumnKind] = [self.schema.kind(j) for j in range(self.schema.width)]
        remarks: list[tuple[int, str]] = []
        for name, block in self.blocks.items():
            indices = list(range(self.schema.width)) if block.columns is None else list(block.columns)
            if isinstance(block, _COUNTED):
                counted = self.sums.count_values(indices)
                nonempty = {value.column for value in counted if value.value is not None}
                remarks += self._find_remarks(indices, counted)
                parts[name] = self._observe_values(block, indices, counted, class_counts)
            else:
                profiles = self.sums.profile_columns(indices)
                nonempty = {j for j in indices if profiles[j].count}
                self._refuse_values(block, profiles)
                parts[name] = self._observe_numbers(block, profiles, encoded.keys)
            for j in set(indices) - nonempty:
                kinds[j] = "unknown" if kinds[j] == "number" else kinds[j]
        schema = Schema(
            self.schema.width,
            kinds="number" if set(kinds) == {"number"} else tuple(kinds),
            names=self.schema.names,
            library=None,  # the rows were in no data frame
            remarks=tuple(sorted(remarks)),
        )
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

    def _refuse_values(self, block: Block[Any, Any], profiles: Mapping[int, ColumnProfile]) -> None:
        """Raise for a column with values that the block's family does not allow."""
        for j, profile in profiles.items():
            name, low, high = self.sums.columns[j].name, profile.minimum, profile.maximum
            if low is None or high is None:
                continue
            if isinstance(block, PoissonColumns | MultinomialCounts) and low < 0:
                raise ValueError(
                    f"Negative values in data: column {name!r} holds {low:g}, expected counts of at least 0"
                )
            if isinstance(block, BernoulliColumns) and block.threshold is None:
                if low >= 0 and high <= 1 and not profile.has_fractions:
                    continue
                shown = f"{low:g}" if low < 0 else f"{high:g}" if high > 1 else "fractions"
                raise ValueError(
                    f"column {name!r} holds {shown}, expected 0 or 1: turn it into flags first, as by x > 0"
                )

    def _observe_numbers(
        self, block: Block[Any, Any], profiles: Mapping[int, ColumnProfile], keys: Keys
    ) -> Sums:
        """Return the statistic of a block from sums of its columns, whose profiles are given by index."""
        is_full = isinstance(block, GaussianVectors) and block.has_matrices
        has_squares = isinstance(block, GaussianColumns | GaussianVectors) and not is_full
        thresholds = {}
        if isinstance(block, BernoulliColumns) and block.threshold is not None:
            thresholds = dict.fromkeys(profiles, float(block.threshold))
        powers = self.sums.sum_powers(profiles, has_squares, thresholds)
        order = self._find_order(powers.labels, keys)
        row_counts = Exact.from_integers(np.array(powers.row_counts, dtype=np.int64)[order])
        first = reorder_labels(powers.first, order)
        if isinstance(block, MultinomialCounts):
            refuse_missing(self.sums.columns, profiles, sum(powers.row_counts))
            return block.convert_sums(Tally(weight=row_counts, total=first, keys=keys))
        if is_full:
            refuse_missing(self.sums.columns, profiles, sum(powers.row_counts))
            products = self.sums.sum_products(list(profiles))
            order = self._find_order(products.labels, keys)
            centre = products.centre[order]
            return Moments.from_centred_products(row_counts, first, centre, products.products[order], keys)
        # In the forms "diagonal" and "none", each column has a weight of its own: its number of values.
        statistic = Moments(
            weight=reorder_labels(powers.value_counts, order),
            first=first,
            second=None if powers.second is None else reorder_labels(powers.second, order),
            form="diagonal" if has_squares else "none",
            keys=keys,
        )
        return statistic.drop_zeros()  # drops classes in which all sums are zero, as `Moments.observe` does

    # ── distinct values ──

    def _observe_values(
        self,
        block: Block[Any, Any],
        indices: list[int],
        counted: list[ValueCount],
        class_counts: NDArray[np.int64],
    ) -> Sums:
        """Return the statistic of a block from counts of values, and the number of rows of each class."""
        columns = [
            to_array([value.value if value.column == j else None for value in counted], self.schema.kind(j))
            for j in indices
        ]
        # `TableSums` has refused columns whose kind is None; the type checker does not know it.
        kinds: tuple[Kind, ...] = tuple(self.sums.columns[j].kind or "category" for j in indices)
        names = tuple(self.sums.columns[j].name for j in indices)
        labels = self._read_labels([value.label for value in counted])
        weights = np.array([value.rows for value in counted], dtype=np.float64)
        table = Table(tuple(columns), len(counted), kinds, names)
        block_of_table = block.with_columns(tuple(range(len(indices))))  # the table has no other columns
        statistic: Sums = block_of_table.observe(block_of_table.encode(table), labels, weights)
        if isinstance(block, CategoryColumns):
            # Its weight is the number of rows, which the table has once for each column of the block.
            statistic = statistic.with_fields(weight=Exact.from_integers(class_counts))
        return statistic

    def _find_remarks(self, indices: list[int], counted: list[ValueCount]) -> list[tuple[int, str]]:
        """Return pairs (column, warning) of categories that are dates, or hardly ever repeat a value."""
        remarks = []
        for j in indices:
            if self.schema.kind(j) == "category":
                known = [value for value in counted if value.column == j and value.value is not None]
                distinct, rows = {value.value for value in known}, sum(value.rows for value in known)
                message = describe_poor_category(f"column {self.schema.name(j)!r}", distinct, rows)
                remarks += [] if message is None else [(j, message)]
        return remarks
