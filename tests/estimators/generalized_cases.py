"""Rows for each response of a generalised linear model, and what statsmodels says of them."""

import warnings
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm  # type: ignore[import-untyped]  # it has no types

from tamis.models.linear.responses import RESPONSES

N = 250
NAMES = ["age", "height", "weight"]
PAIRS = list(RESPONSES)
FAMILIES = {
    "gaussian": sm.families.Gaussian,
    "poisson": sm.families.Poisson,
    "bernoulli": sm.families.Binomial,
    "gamma": sm.families.Gamma,
}
LINKS = {
    "identity": sm.families.links.Identity,
    "log": sm.families.links.Log,
    "logit": sm.families.links.Logit,
    "inverse": sm.families.links.InversePower,
}
each_pair = pytest.mark.parametrize(("family", "link"), PAIRS)


def drawn(family: str, link: str, n: int = N, seed: int = 0) -> tuple[Any, Any, Any]:
    """Rows, targets and offsets of that kind."""
    rng = np.random.default_rng(seed)
    x, offset = rng.normal(size=(n, 3)), 0.3 * rng.normal(size=n)
    if link == "inverse":
        x, offset = np.abs(x), np.abs(offset)
    score = x @ [0.4, 0.2, 0.1] + (1.0 if link == "inverse" else 0.2) + offset
    mean = {"identity": score, "log": np.exp(score), "logit": 1 / (1 + np.exp(-score)), "inverse": 1 / score}[
        link
    ]
    if family == "gaussian":
        return x, mean + 0.5 * rng.normal(size=n), offset
    if family == "poisson":
        return x, rng.poisson(mean), offset
    if family == "bernoulli":
        return x, (rng.random(n) < mean).astype(int), offset
    return x, rng.gamma(3.0, mean / 3.0), offset


def theirs(family: str, link: str, x: Any, y: Any, **more: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of links that they think unsafe, and of a change of their BIC
        model = sm.GLM(y, x, FAMILIES[family](LINKS[link]()), **more)
        return model.fit(tol=1e-14, maxiter=300, tol_criterion="params")
