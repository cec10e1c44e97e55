"""Known entries of a table of ratings → alternating least squares, sweep by sweep → all entries.

Hidden entries are not learned: the error of their predictions is measured. As in the room of the
mixture, a request names the number of sweeps, and all of them are made again from the start.
"""

from dataclasses import replace
from itertools import islice
from math import sqrt

import numpy as np

from tamis.arrays import Array
from tamis.models.factors import Alternating, Factors, Ratings, Sweep, run_sweeps
from tamis_mail.surfaces.web.rooms.fields import FieldError, Fields
from tamis_mail.surfaces.web.rooms.wording import pluralize

MAX_ROWS = 12  # users, and items
MAX_SWEEPS = 50
LOWEST, HIGHEST = 1.0, 5.0  # ratings, in stars
_COUNTS = 12  # maximum number of the counts of known entries for which the error is measured
_OFFSET_RIDGE = 3.0  # the default of `MatrixFactorization`


def make_example() -> dict[str, object]:
    """Return the first request of the page: ratings of two factors, with three of five entries known."""
    rng = np.random.default_rng(9)
    users, items = rng.normal(size=(8, 2)), rng.normal(size=(8, 2))
    table = np.clip(np.round(3.0 + 1.1 * users @ items.T + 0.2 * rng.normal(size=(8, 8))), LOWEST, HIGHEST)
    is_known = rng.random(table.shape) < 0.6
    known = rng.permutation(np.argwhere(is_known))  # in the order in which they are learned
    entries = {"known": known, "hidden": np.argwhere(~is_known)}
    lists = {
        name: [[int(u), int(i), float(table[u, i])] for u, i in cells] for name, cells in entries.items()
    }
    return {"users": 8, "items": 8, **lists, "factors": 2, "ridge": 0.05, "step": 0, "seed": 0}


def compute(fields: Fields) -> dict[str, object]:
    """Make the sweeps; predict every entry after the last sweep, and measure the errors after each.

    The error on hidden entries is also measured after as many sweeps over fewer of the known entries.
    """
    fields.refuse_unknown("users", "items", "known", "hidden", "factors", "ridge", "step", "seed")
    users = fields.read_integer("users", 1, MAX_ROWS)
    items = fields.read_integer("items", 1, MAX_ROWS)
    cell = [(0.0, users - 1.0), (0.0, items - 1.0), (LOWEST, HIGHEST)]
    known, hidden = (fields.read_rows(name, cell, MAX_ROWS**2) for name in ("known", "hidden"))
    factors = fields.read_integer("factors", 1, 4)
    ridge = fields.read_number("ridge", 0.001, 10.0)
    step = fields.read_integer("step", 0, MAX_SWEEPS)
    seed = fields.read_integer("seed", 0, 1_000_000)
    _refuse_bad_entries(np.concatenate([known, hidden]))
    if not len(known):
        raise FieldError("got no known entries, expected at least one: reveal an entry")
    solver = Alternating(factors, ridge=ridge, offset_ridge=_OFFSET_RIDGE)

    def make_sweeps(count: int) -> list[Sweep]:
        """Return the start and the sweeps over the first `count` known entries."""
        user, item = known[:count, :2].astype(np.int64).T
        ratings = Ratings(user, item, known[:count, 2], users, items)
        start = solver.start(ratings, np.random.default_rng(seed))
        # Sweeps begin with the items: before the first one, the users are fitted to the items of the start.
        begin = replace(start, users=solver.solve_users(ratings, start))
        return [solver.evaluate(ratings, begin), *islice(run_sweeps(solver, ratings, start), step)]

    path = make_sweeps(len(known))
    errors = [_measure_error(sweep.factors, hidden) for sweep in path]
    counts = np.unique(np.linspace(1, len(known), _COUNTS).round().astype(np.int64)).tolist()
    return {
        "step": step,
        "predicted": predict_table(path[-1].factors),
        "known_errors": [sweep.rmse for sweep in path],
        "hidden_errors": errors,
        "known_counts": counts,
        "errors_by_count": [_measure_error(make_sweeps(count)[-1].factors, hidden) for count in counts],
        "objectives": [sweep.objective for sweep in path],
        "text": _write_sentences(len(known), len(hidden), path[-1].rmse, errors),
    }


def predict_table(factors: Factors) -> Array:
    """Return all ratings (users, items): level, offsets and product of factors, clipped to 1 to 5."""
    offsets = factors.users[:, -1:] + factors.items[:, -1]
    expected = factors.level + offsets + factors.users[:, :-1] @ factors.items[:, :-1].T
    return np.asarray(np.clip(expected, LOWEST, HIGHEST))


def _measure_error(factors: Factors, hidden: Array) -> float | None:
    """Return the root mean squared error on the hidden entries; None if there are none."""
    if not len(hidden):
        return None
    user, item = hidden[:, :2].astype(np.int64).T
    return sqrt(np.mean(np.square(predict_table(factors)[user, item] - hidden[:, 2])))


def _refuse_bad_entries(entries: Array) -> None:
    cells = entries[:, :2]
    if (cells % 1.0).any():
        raise FieldError("got an entry with a fraction, expected whole numbers for user and item")
    if len(np.unique(cells, axis=0)) < len(cells):
        raise FieldError("got an entry of the table twice, expected each to be known or hidden once")


def _write_sentences(known: int, hidden: int, error: float, errors: list[float | None]) -> list[str]:
    sweeps, last = pluralize(len(errors) - 1, "sweep"), errors[-1]
    lines = [
        (
            f"After {sweeps} over {pluralize(known, 'known entry')} the root mean squared error on known "
            f"entries is {error:.3f} stars."
        )
    ]
    if last is None:
        lines.append("No entry is hidden, so that nothing is left to predict.")
    else:
        lines.append(
            f"The error on {pluralize(hidden, 'hidden entry')} is {last:.3f} stars; it was {errors[0]:.3f} "
            "before the first sweep."
        )
    return lines
