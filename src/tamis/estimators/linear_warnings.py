"""A fit of a linear model → a warning of one line, if it did not end at an optimum."""

from sklearn.exceptions import ConvergenceWarning

from tamis.models.linear.fitting import Fit, Plan
from tamis.schema import Schema
from tamis.warning import warn


class SeparationWarning(ConvergenceWarning):  # type: ignore[misc]  # scikit-learn has no types
    """The classes do not overlap and there is no prior: the likelihood rises for ever."""


def warn_of_fit(fit: Fit, schema: Schema, weakest: float, plan: Plan) -> None:
    """Warn if there is no optimum, or if steps ended before it; `weakest` is the smallest prior precision."""
    if fit.separating is not None:
        _warn_of_separation(fit, schema, weakest)
    elif fit.endless:
        warn(
            "the classes lie apart, and evidence finds no end: it rises as the prior fades, and the "
            "alpha found means nothing: set alpha",
            SeparationWarning,
        )
    elif not fit.settled:
        warn(
            f"stopped after {fit.iterations} of max_iter={plan.max_iter} steps before evidence had settled "
            "on an alpha: raise max_iter, or set alpha to a number",
            ConvergenceWarning,
        )
    elif not fit.converged:
        warn(
            f"stopped after max_iter={plan.max_iter} steps, {fit.slack:.2g} standard deviations from "
            "the top: raise max_iter, or scale the columns",
            ConvergenceWarning,
        )


def stronger(alpha: float) -> str:
    """What to do about a prior that is too weak."""
    return "set a larger alpha, such as 1e-6" if alpha else "set alpha above 0"


def _warn_of_separation(fit: Fit, schema: Schema, weakest: float) -> None:
    columns = fit.separating
    if columns is None or not len(columns):
        said = "the classes lie apart: a plane has all rows of each on its own side"
    else:
        named = ", ".join(repr(schema.name(int(j))) for j in columns[:5])
        said = f"the classes do not overlap along columns {named}"
    lack = f"with a prior as weak as alpha={weakest:g}" if weakest else "without a prior"
    warn(
        f"{said}, so that {lack} coefficients grow for ever and those found mean nothing: "
        f"{stronger(weakest)}",
        SeparationWarning,
    )
