"""Infer and describe the posterior of a linear model's weights; without points it is the prior."""

import numpy as np

from tamis.arrays import Array
from tamis.models.linear import BayesianLinear, LinearPosterior, Paired

DRAWN_FUNCTIONS = 6  # functions that are drawn from the posterior


def infer_weights(features: Array, targets: Array, alpha: float, noise: float) -> LinearPosterior:
    """Return the posterior of the weights, with prior precision `alpha` and standard deviation `noise`."""
    beta = 1.0 / noise**2
    if not len(targets):
        return _make_prior(features.shape[1], alpha, beta)
    model = BayesianLinear(alpha=alpha, beta=beta, intercept=False)
    return model.infer(model.observe(Paired(features, targets)))


def infer_by_evidence(features: Array, targets: Array) -> LinearPosterior:
    """Return the posterior of the weights, with the precisions that maximise the evidence."""
    model = BayesianLinear(alpha="evidence", beta="evidence", intercept=False)
    return model.infer(model.observe(Paired(features, targets)))


def get_log_evidence(posterior: LinearPosterior) -> float:
    """Return log p(targets) of a posterior with one column of targets and a proper prior."""
    assert posterior.log_evidence is not None
    return float(posterior.log_evidence[0])


def describe_predictions(posterior: LinearPosterior, features: Array, seed: int) -> dict[str, object]:
    """Return the mean, one standard deviation of the next observation around it, and drawn functions."""
    mean = posterior.predict(features)[:, 0]
    deviation = posterior.deviation(1.0 + posterior.leverage(features))[:, 0]
    weights, _ = posterior.draw(np.random.default_rng(seed), DRAWN_FUNCTIONS)
    return {
        "mean": mean,
        "low": mean - deviation,
        "high": mean + deviation,
        "functions": weights[:, 0] @ features.T,
    }


def _make_prior(width: int, alpha: float, beta: float) -> LinearPosterior:
    """Return the prior as a posterior without points: `BayesianLinear.infer` needs at least one row."""
    return LinearPosterior(
        centre=np.zeros(width),
        level=np.zeros(1),
        slack=0.0,
        mean=np.zeros((1, width)),
        root=np.sqrt(beta / alpha) * np.eye(width)[None],
        beta=np.array([beta]),
        noise=None,  # no distribution of the noise: its precision `beta` is given
        alpha=np.asarray(alpha),
        effective=np.zeros(1),
        log_evidence=np.zeros(1),
    )
