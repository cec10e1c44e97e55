"""A fitted generalised linear model → a table of text for a terminal."""

from typing import Any

import numpy as np
from scipy import special

from tamis.conjugate.distribution import tail_of

_NAME = 14  # characters of a name
_WIDE = 1e4  # from here on z is told by three digits and a power


def summary(model: Any, coverage: float) -> str:
    """See `GeneralizedLinear.summary`."""
    state = model._checked()
    low, high = model.coef_interval(coverage)
    lines = [(state.schema.name(j), model.coef_[j], model.coef_std_[j]) for j in range(len(low))]
    ends = list(zip(low.tolist(), high.tolist(), strict=True))
    if state.intercept:
        level, std = model.intercept_, model.intercept_std_
        reach = -float(special.ndtri(tail_of(coverage)))
        lines.insert(0, ("(intercept)", level, std))
        ends.insert(0, (level - reach * std, level + reach * std))
    share = f"{100 * coverage:g} %"
    head = f"{'':{_NAME}}{'coef':>10}{'std err':>9}{'z':>10}{'p':>6}{share + ' from':>12}{'to':>11}"
    found = [_headline(model), "", head]
    for (name, value, std), (begin, end) in zip(lines, ends, strict=True):
        z = value / std if std != 0 else np.inf * np.sign(value) if value else np.nan
        p = 2.0 * float(special.ndtr(-abs(z)))
        said = str(name) if len(str(name)) < _NAME else f"{str(name)[: _NAME - 2]}…"
        found.append(
            f"{said:{_NAME}}{value:>10.4g} {std:>8.3g} {_short(z):>9} {p:>5.3f} {begin:>11.4g} {end:>10.4g}"
        )
    return "\n".join(found)


def _short(z: float) -> str:
    return f"{z:.2f}" if abs(z) < _WIDE else f"{z:.3g}"


def _headline(model: Any) -> str:
    state = model._fitted
    first = f"{state.response.family}, link {state.response.link}: {state.weight:g} rows"
    second = f"dispersion {state.dispersion:.4g}, deviance {state.deviance:.6g}"
    if np.isnan(state.null_deviance):
        return f"{first}\n{second}"
    third = f"log-likelihood {state.told:.6g}, AIC {model.aic_:.6g}, BIC {model.bic_:.6g}"
    return f"{first}\n{second} (null {state.null_deviance:.6g})\n{third}"
