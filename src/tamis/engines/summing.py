"""Shards that can sum their rows themselves, as a database does, instead of handing them to `observe`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tamis.schema import Schema
from tamis.stats import Gram, Joint, Moments

if TYPE_CHECKING:  # its package loads SciPy, which engines do not need before data comes
    from tamis.models.generative.block import Block


class UnfitError(Exception):
    """The statistic cannot be summed where the rows are, for the reason that the message gives."""


@runtime_checkable
class SummingShards(Protocol):
    """Shards that sum all rows; each method also returns the schema, and raises UnfitError if it cannot."""

    def read_schema(self) -> Schema:
        """The columns to learn from, by their types."""

    def sum_by_class(
        self, schema: Schema, blocks: "Mapping[str, Block[Any, Any]]", missing_label: object, /
    ) -> tuple[Schema, Joint]:
        """The statistic that a generative model of these blocks would observe."""

    def sum_products(self) -> tuple[Schema, int, Moments]:
        """The number of rows, and full moments of the columns."""

    def sum_normal_equations(self) -> tuple[Schema, Gram]:
        """The products of the columns and of the target."""
