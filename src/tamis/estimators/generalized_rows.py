"""What a caller passes besides rows → targets, weights and offsets, or one line that says what is wrong."""

from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from tamis import arrays
from tamis.arrays import Array
from tamis.estimators.reading import read_target
from tamis.inputs import read_weights
from tamis.models.linear.objective import GaussianPrior
from tamis.models.linear.responses import Response
from tamis.schema import Schema
from tamis.tables import Table


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """Rows and what was seen with them; none of them has no weight."""

    table: Table
    schema: Schema
    targets: Array  # (n,)
    weights: Array | None  # (n,)
    offsets: Array | None  # (n,): exposures are in them
    kept: NDArray[np.int64] | None = (
        None  # (n,): places among the rows that were passed, if some were dropped
    )

    @classmethod
    def of(
        cls,
        table: Table,
        schema: Schema,
        response: Response,
        y: object,
        sample_weight: object,
        offset: object,
        exposure: object,
    ) -> "Observed":
        """What was passed, checked; rows without weight are dropped."""
        weighed = read_weights(sample_weight, table.rows)
        found = cls(
            table,
            schema,
            read_target(y, table.rows),
            weighed,
            offsets(offset, exposure, table.rows, response),
        )
        if weighed is not None and not weighed.all():
            found = found.take(np.flatnonzero(weighed))
        response.refuse_targets(found.targets)
        return found

    def take(self, rows: NDArray[np.int64]) -> "Observed":
        """These rows."""
        return Observed(
            self.table.take(rows),
            self.schema,
            self.targets[rows],
            None if self.weights is None else self.weights[rows],
            None if self.offsets is None else self.offsets[rows],
            rows,
        )


def offsets(offset: object, exposure: object, rows: int, response: Response) -> Array | None:
    """What is added to the scores (n,): offsets, and the logarithms of exposures."""
    found = None if offset is None else _column(offset, rows, "offset")
    if exposure is None:
        return found
    if not response.takes_exposure:
        raise ValueError(
            f"got exposure with link={response.link!r}, expected link='log': only there does it multiply the "
            "mean; pass an offset instead"
        )
    times = _column(exposure, rows, "exposure")
    if not (times > 0).all():
        row = int(np.argmin(times > 0))
        raise ValueError(f"exposure {row} is {times[row]:g}, expected above 0: drop that row")
    return np.log(times) if found is None else found + np.log(times)


def refuse_another(asked: Response, learned: Response) -> None:
    """Raise if a model that learned one kind of target is to learn another."""
    if asked != learned:
        raise ValueError(
            f"got family={asked.family!r} and link={asked.link!r} for a model that learned "
            f"{learned.family!r} by {learned.link!r}, expected the same: call fit, which learns anew"
        )


def _column(given: object, rows: int, name: str) -> Array:
    if np.ndim(given) == 0 and not isinstance(given, Real):  # type: ignore[arg-type]
        raise ValueError(f"got {name}={given!r}, expected a number, or one per row")
    values = np.asarray(arrays.matrix(given).values if np.ndim(given) else np.full((rows, 1), given))  # type: ignore[arg-type]
    if values.shape != (rows, 1):
        raise ValueError(f"got {name} of shape {values.shape} for {rows} rows, expected one number per row")
    found = np.ascontiguousarray(values[:, 0], dtype=np.float64)
    if not np.isfinite(found).all():
        row = int(np.argmin(np.isfinite(found)))
        raise ValueError(f"{name} {row} is {found[row]}, expected a finite number: drop or mend that row")
    return found


def refuse_boundless(response: Response, observed: Observed, prior: GaussianPrior, intercept: bool) -> None:
    """Raise if the likelihood rises for ever with the intercept, or says nothing, and no prior does."""
    flat = int((prior.diagonal == 0).sum())
    if len(observed.targets) == 1 and flat > 1:
        raise ValueError(
            f"got 1 sample for {flat} coefficients without a prior, expected more rows: set alpha above 0"
        )
    if intercept:
        has_prior = bool(prior.diagonal[-1] > 0)
        response.refuse_unbounded_intercept(observed.targets, observed.weights, has_prior)
