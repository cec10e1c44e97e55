"""The protocol of shards that sum their rows themselves, as a database does: `observe` is not called."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tamis.schema import Schema
from tamis.stats import Gram, Joint, Moments

if TYPE_CHECKING:  # importing it would import SciPy, which engines do not need until they are given data
    from tamis.models.generative.block import Block


class UnsupportedSumsError(Exception):
    """The shards cannot compute the statistic, so that rows must be read; the message says why."""


@runtime_checkable
class DatabaseShards(Protocol):
    """Shards that sum all rows; methods that sum raise UnsupportedSumsError if they cannot.

    Each method returns the schema of the columns to learn from.
    """

    def read_schema(self) -> Schema:
        """Return the schema by the types of the columns in the database."""

    def sum_by_class(
        self, schema: Schema, blocks: "Mapping[str, Block[Any, Any]]", missing_label: object, /
    ) -> tuple[Schema, Joint]:
        """Return the schema, and the statistic that a generative model of these blocks would observe.

        `missing_label` is the label of rows whose class is unknown.
        """

    def sum_products(self) -> tuple[Schema, int, Moments]:
        """Return the schema, the number of rows, and the moments of the columns in the form "full"."""

    def sum_normal_equations(self) -> tuple[Schema, Gram]:
        """Return the schema, and the sums of products of the columns and the target."""
