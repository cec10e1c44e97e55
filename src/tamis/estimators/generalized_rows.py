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

_HUGE = 1e152  # squares of 10,000 such targets sum to what a float holds


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
        _refuse_targets(response, found.targets)
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
    if response.link != "log":
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
    if type(asked) is not type(learned):
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


def _refuse_targets(response: Response, values: Array) -> None:
    expected = response.refusal(values)
    if expected is None:
        largest = float(np.abs(values).max())
        if largest > _HUGE or 0 < largest < 1.0 / _HUGE:
            raise ValueError(
                f"the largest target is {largest:g}, expected {1.0 / _HUGE:g} to {_HUGE:g}, whose squares "
                "floats can hold: choose another unit"
            )
        return
    row = next(i for i in range(len(values)) if response.refusal(values[i : i + 1]) is not None)
    raise ValueError(
        f"target {row} is {values[row]:g}, expected {expected}: family={response.family!r} knows no others, "
        "drop that row or choose another family"
    )


def refuse_boundless(response: Response, observed: Observed, prior: GaussianPrior, intercept: bool) -> None:
    """Raise if the likelihood rises for ever with the intercept, or says nothing, and no prior does."""
    flat = int((prior.diagonal == 0).sum())
    if len(observed.targets) == 1 and flat > 1:
        raise ValueError(
            f"got 1 sample for {flat} coefficients without a prior, expected more rows: set alpha above 0"
        )
    values = observed.targets
    if intercept and response.family == "gaussian" and response.link == "log":
        mean = float(np.average(values, weights=observed.weights))
        if mean <= 0:
            raise ValueError(
                f"the mean of the targets is {mean:g}, expected above 0 for link='log': means are "
                "exponentials, set link='identity'"
            )
    if not intercept or prior.diagonal[-1] > 0:
        return
    if response.family in ("poisson", "bernoulli") and not values.any():
        raise ValueError(
            "all targets are 0, so that the likelihood rises for ever as the intercept falls, expected some "
            "above 0: set intercept_alpha above 0, or collect more rows"
        )
    if response.family == "bernoulli" and values.all() and (values == 1).all():
        raise ValueError(
            "all targets are 1, so that the likelihood rises for ever with the intercept, expected some "
            "below 1: set intercept_alpha above 0, or collect more rows"
        )
