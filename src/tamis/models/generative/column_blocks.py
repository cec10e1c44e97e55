"""Families of columns, as a user names them → a block for each family: its columns and how they are learned.

`FASTER` maps the names of some families to faster blocks; all others have the block `FamilyColumns`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tamis.arrays import one_line
from tamis.families.conjugacy import ConjugateFamily
from tamis.families.family import Family
from tamis.families.registry import (
    AUTOMATIC,  # the name of the default family for each kind of column
    find_family,
    label_of,  # the name of a family with its fixed parameters, such as "gamma(shape=3)"
    name_of,  # its name alone
)
from tamis.models.generative.block import Block, Estimate, refuse_strength
from tamis.models.generative.category_columns import CategoryColumns
from tamis.models.generative.family_columns import FamilyColumns
from tamis.models.generative.gaussian_columns import GaussianColumns
from tamis.models.generative.gaussian_vectors import GaussianVectors
from tamis.models.generative.multinomial_counts import MultinomialCounts
from tamis.models.generative.rate_columns import BernoulliColumns, PoissonColumns, RateColumns
from tamis.schema import Schema
from tamis.warning import warn

AUTO = "auto"  # the family is chosen by the kind of a column's values

FamilyChoice = str | Family  # AUTO, the name of a family, or a member of it
Families = FamilyChoice | Mapping[Any, FamilyChoice]  # one choice for all columns, or one for each column


@dataclass(frozen=True, kw_only=True)
class BlockOptions:
    """Estimates and priors that several kinds of blocks share."""

    estimate: Estimate = "mean"  # "mle", "map", "mean" or "predictive": see `block.Estimate`
    alpha: float = 1.0  # pseudo-observations of a rate, or of a member of a family without a faster block
    outcome_alpha: float = 1.0  # pseudo-observations of each flag, category or multinomial count
    strength: float = 1.0  # pseudo-observations in the prior of a Gaussian column
    smoothing: float = 0.0  # this fraction of the largest variance is added to every variance
    vectors: GaussianVectors | None = None  # the block of all Gaussian columns, if they are not independent

    def __post_init__(self) -> None:
        refuse_strength(self.strength)


# Maps the name of a family to the constructor of its faster block.
FASTER: dict[str, Callable[[BlockOptions], Block[Any, Any]]] = {
    "gaussian": lambda options: (
        GaussianColumns(estimate=options.estimate, smoothing=options.smoothing, strength=options.strength)
        if options.vectors is None
        else options.vectors
    ),
    "bernoulli": lambda options: BernoulliColumns(estimate=options.estimate, alpha=options.outcome_alpha),
    "categorical": lambda options: CategoryColumns(estimate=options.estimate, alpha=options.outcome_alpha),
    "poisson": lambda options: PoissonColumns(estimate=options.estimate, alpha=options.alpha),
    "multinomial": lambda options: MultinomialCounts(estimate=options.estimate, alpha=options.outcome_alpha),
}


def make_block(family: Family, options: BlockOptions) -> Block[Any, Any]:
    """Make the block of columns of a family: a faster one if there is one."""
    faster = FASTER.get(name_of(family))
    if faster is not None:
        return faster(options)
    if not isinstance(family, ConjugateFamily):
        raise TypeError(f"got a {type(family).__name__}, expected a family of one column")
    return FamilyColumns(family=family, estimate=options.estimate, alpha=options.alpha)


def can_read_sparse(families: object) -> bool:
    """Whether one family has all columns, and its block reads the zeros of sparse rows as counts or flags."""
    if isinstance(families, Mapping) or families == AUTO:
        return False
    try:
        block = make_block(find_family(families), BlockOptions())
    except ValueError:
        return False
    return isinstance(block, RateColumns | MultinomialCounts)


def choose_families(schema: Schema, families: Families, integers: FamilyChoice) -> list[Family]:
    """The family of each column: the one that the user names, or the default for the kind of its values."""
    by_column: Mapping[Any, FamilyChoice] = families if isinstance(families, Mapping) else {}
    default_choice: FamilyChoice = AUTO if isinstance(families, Mapping) else families
    where = f" in families={one_line(families)}"
    members = {name: _find_unless_auto(choice, f" for {name!r}{where}") for name, choice in by_column.items()}
    default_family = _find_unless_auto(default_choice, " for 'families'")
    integer_family = find_family(integers, " for 'integers'")
    columns = {schema.name(j) for j in range(schema.width)} | set(range(schema.width))
    if unknown := [name for name in by_column if name not in columns]:
        raise ValueError(f"families names a column {unknown[0]!r}, which the data does not have")
    remarks = dict(schema.remarks)  # warnings, by the index of the column that they are about
    chosen = []
    for j in range(schema.width):
        # A number in `families` is the index of a column only if it is not the name of one.
        by_index = (
            default_family
            if schema.names is not None and j in schema.names
            else members.get(j, default_family)
        )
        family = members.get(schema.name(j), by_index)
        if family is None:
            kind = schema.kind(j)
            family = integer_family if kind == "integer" else find_family(AUTOMATIC[kind])
            if j in remarks:
                warn(remarks[j], UserWarning)
        chosen.append(family)
    return chosen


def _find_unless_auto(choice: object, where: str) -> Family | None:
    """Find the family; return None if it is to be chosen by the kind of a column's values.

    `where` is the end of the error's message, which says where the choice was given.
    """
    return None if isinstance(choice, str) and choice == AUTO else find_family(choice, where)


def make_blocks(
    schema: Schema, families: Families, integers: FamilyChoice, options: BlockOptions
) -> dict[str, Block[Any, Any]]:
    """Make a block for each family that some column has."""
    chosen = choose_families(schema, families, integers)
    members = {label_of(family): family for family in chosen}
    columns: dict[str, list[int]] = {label: [] for label in members}
    for j, family in enumerate(chosen):
        columns[label_of(family)].append(j)
    blocks = {label: make_block(family, options) for label, family in members.items()}
    if len(blocks) == 1 and not any(isinstance(block, CategoryColumns) for block in blocks.values()):
        return blocks  # without a list of columns, so that the block reads sparse rows as they are
    return {label: block.with_columns(tuple(columns[label])) for label, block in blocks.items()}
