"""Convert a statistic when columns change from one block (family) to another, without reading rows again.

Only columns without any value can change: their old sums are zero, or were imputed by EM and are dropped, and
their new sums are zero. If rows are dicts, columns that first appear in later rows are such columns, too.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.models.generative.block import Block
from tamis.models.generative.category_columns import CategoryColumns
from tamis.models.generative.family_columns import FamilyColumns  # families without a faster block
from tamis.models.generative.gaussian_columns import GaussianColumns
from tamis.models.generative.model import CLASSES, Generative
from tamis.models.generative.rate_columns import RateColumns  # Bernoulli and Poisson
from tamis.stats import Exact, Joint, Keys, Moments, Sums, Tally
from tamis.stats.products import triangle  # the pairs of columns whose products Moments store, in their order


def regroup(
    statistic: Joint, before: Generative, after: Generative, width: int, old_width: int | None = None
) -> Joint:
    """Convert the statistic of the model `before` to the one that `after` would have observed from its rows.

    There are `width` columns now. `old_width`, if it is given, is the number of columns of the observed rows;
    the other columns are new, and come last.
    """
    old_width = width if old_width is None else old_width
    class_counts: Any = statistic[CLASSES]
    parts: dict[str, Sums] = {CLASSES: class_counts}
    for name, block in after.blocks.items():
        columns = _list_columns(block, width)
        if name not in before.blocks:
            parts[name] = _make_empty_statistic(block, len(columns), class_counts)
            continue
        old_index = {column: j for j, column in enumerate(_list_columns(before.blocks[name], old_width))}
        parts[name] = _move_columns(statistic[name], [old_index.get(column, -1) for column in columns])
    return Joint(parts)


def _list_columns(block: Block[Any, Any], width: int) -> Sequence[int]:
    return range(width) if block.columns is None else block.columns


def _make_empty_statistic(block: Block[Any, Any], width: int, class_counts: Tally) -> Sums:
    """The statistic of rows with these counts by class, all of whose values are missing."""
    if isinstance(block, CategoryColumns) and class_counts.terms is not None:
        total = Exact.zeros((len(class_counts.terms), 0))
        return Tally(weight=class_counts.total, total=total, keys=class_counts.terms, terms=Keys(()))
    if isinstance(block, FamilyColumns):
        zeros = Exact.zeros((0, width)), Exact.zeros((0, width, block.n_sufficient))
        return Tally(weight=zeros[0], total=zeros[1], keys=Keys(()))
    if not isinstance(block, GaussianColumns | RateColumns):
        raise ValueError(_describe_refusal(block.kind))
    zero, squares = Exact.zeros((0, width)), isinstance(block, GaussianColumns)
    return Moments(
        weight=zero,
        first=zero,
        second=zero if squares else None,
        form="diagonal" if squares else "none",
        keys=Keys(()),
    )


def _move_columns(part: Any, source: Sequence[int]) -> Sums:
    """Reorder columns: column j comes from index source[j]; -1 is a column without values."""
    if isinstance(part, Tally) and part.terms is not None:
        new_index = {old: new for new, old in enumerate(source) if old >= 0}
        pairs: Any = part.terms
        terms, index = Keys.of([(new_index[column], value) for column, value in pairs])
        total = part.total.place(index, len(terms), axis=-1)
        return Tally(weight=part.weight, total=total, keys=part.keys, terms=terms)
    old = np.array([index for index in source if index >= 0], dtype=np.int64)
    new = np.flatnonzero(np.array(source) >= 0)

    def move(sums: Exact) -> Exact:
        return sums.reindex(lambda words: words[:, :, old]).place(new, len(source), axis=1)

    if isinstance(part, Tally):  # multinomial counts have one weight for all columns
        weight = part.weight if len(part.weight.shape) == 1 else move(part.weight)
        return Tally(weight=weight, total=move(part.total), keys=part.keys)
    if not isinstance(part, Moments) or (part.form == "full" and -1 in source):
        raise ValueError(_describe_refusal("gaussian"))
    if part.form == "full":
        return _select_columns(part, np.array(source, dtype=np.int64))
    second = None if part.second is None else move(part.second)
    return Moments(
        weight=move(part.weight), first=move(part.first), second=second, form=part.form, keys=part.keys
    )


def _select_columns(part: Moments, columns: NDArray[np.int64]) -> Moments:
    """The full Moments of these columns alone, without the sums of the others, which EM had imputed."""
    width = part.first.shape[-1]
    position = np.zeros((width, width), dtype=np.int64)  # of each product among the stored ones
    position[triangle(width)] = np.arange(width * (width + 1) // 2)
    rows, others = triangle(len(columns))
    packed = position[columns[rows], columns[others]]
    second = None if part.second is None else part.second.reindex(lambda words: words[..., packed])
    first = part.first.reindex(lambda words: words[..., columns])
    rounded = None if part.rounded is None else part.rounded[..., columns]
    return replace(part, first=first, second=second, rounded=rounded)


def _describe_refusal(kind: str) -> str:
    return (
        f"a column without values, taken for {kind}, is of another kind now, and this model cannot "
        "change it: name its family in `families`, or fit all rows at once"
    )
