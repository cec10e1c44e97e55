"""Tosses of a coin → Tally → Beta: the distribution of its probability of heads."""

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.conjugate import Beta
from tamis.stats import Tally
from tamis_mail.surfaces.web.rooms.fields import Fields
from tamis_mail.surfaces.web.rooms.wording import pluralize

MAX_TOSSES = 1000
_GRID = (np.arange(200) + 0.5) / 200  # without 0 and 1, where a density may be infinite


def make_example() -> dict[str, object]:
    """Return the first request of the page: two heads, and a prior of two heads and two tails."""
    return {"tosses": [1, 1], "a": 2.0, "b": 2.0, "coverage": 0.95, "next": 10}


def compute(fields: Fields) -> dict[str, object]:
    """Update the prior by the tosses; describe prior and posterior, and predict the next tosses."""
    fields.refuse_unknown("tosses", "a", "b", "coverage", "next")
    tosses = fields.read_integers("tosses", 0, 1, MAX_TOSSES)
    prior = Beta(fields.read_number("a", 0.01, 1000.0), fields.read_number("b", 0.01, 1000.0))
    coverage = fields.read_number("coverage", 0.5, 0.999)
    trials = fields.read_integer("next", 1, 50)
    posterior = prior.update(Tally.observe(tosses)) if len(tosses) else prior
    evidence = float(prior.log_evidence(Tally.observe(tosses))) if len(tosses) else 0.0
    heads = int(tosses.sum())
    frequency = heads / len(tosses) if len(tosses) else None
    return {
        "places": _GRID,  # the probabilities of heads at which all densities are given
        "prior": _describe_belief(prior, coverage),
        "posterior": _describe_belief(posterior, coverage),
        "likelihood": _normalize_likelihood(tosses),
        "predictive": posterior.predictive(trials).density(np.arange(trials + 1)),
        "next_head": posterior.mean,
        "frequency": frequency,
        "prior_weight": prior.strength / posterior.strength,  # of the prior mean in the posterior mean
        "log_evidence": evidence,
        "text": _write_sentences(prior, posterior, tosses, coverage, evidence),
    }


def _describe_belief(belief: Beta, coverage: float) -> dict[str, object]:
    low, high = belief.interval(coverage)
    return {
        "a": belief.a,
        "b": belief.b,
        "mean": belief.mean,
        "mode": belief.mode,
        "low": low,
        "high": high,
        "density": np.exp(belief.log_density(_GRID)),
    }


def _normalize_likelihood(tosses: NDArray[np.int64]) -> Array | None:
    """Return the likelihood on the grid, scaled to the area 1: the posterior of a uniform prior."""
    if not len(tosses):
        return None
    return np.asarray(np.exp(Beta(1.0, 1.0).update(Tally.observe(tosses)).log_density(_GRID)))


def _write_sentences(
    prior: Beta, posterior: Beta, tosses: NDArray[np.int64], coverage: float, evidence: float
) -> list[str]:
    low, high = posterior.interval(coverage)
    mode = f"its mode {posterior.mode:.3f}" if np.isfinite(posterior.mode) else "it has no single mode"
    lines = [
        (
            f"{pluralize(int(tosses.sum()), 'head')} in {pluralize(len(tosses), 'toss')}: the prior "
            f"Beta({prior.a:g}, {prior.b:g}) becomes the posterior Beta({posterior.a:g}, {posterior.b:g})."
        ),
        (
            f"The posterior mean is {posterior.mean:.3f}, {mode}, and the {100 * coverage:g} % credible "
            f"interval goes from {low:.3f} to {high:.3f}."
        ),
    ]
    if len(tosses):
        share = float(prior.strength / posterior.strength)
        lines.append(
            f"The next toss is heads with probability {posterior.mean:.3f}: {share:.3f} times the prior mean "
            f"{prior.mean:.3f} plus {1 - share:.3f} times the frequency {tosses.mean():.3f}, which is the "
            f"maximum-likelihood estimate. The log-evidence is {evidence:.3f}."
        )
    else:
        lines.append(f"The next toss is heads with probability {posterior.mean:.3f}, the prior mean.")
    return lines
