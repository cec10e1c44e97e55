"""The scale of each view and the intercept of a store, with their uncertainty before and after the fit."""

from dataclasses import dataclass

from tamis_mail.features import VIEWS_OF
from tamis_mail.store import Store
from tamis_mail.verdict.fitting import INTERCEPT_WIDTH, SCALE_WIDTH
from tamis_mail.verdict.judging import INTERCEPT_VIEW
from tamis_mail.verdict.rule import RULES, Rule, RuleError, Weights


@dataclass(frozen=True, slots=True)
class Estimate:
    """A scale of a view, or the intercept: a Gaussian before the fit, and the Laplace posterior after it."""

    name: str  # of the view, or INTERCEPT_VIEW
    value: float  # posterior mode, or the prior's if nothing was fitted
    deviation: float  # standard deviation; 0 where a scale is at its bound 0
    prior: float
    prior_deviation: float


def list_estimates(store: Store) -> list[Estimate]:
    """List the scales of the views, then the intercept; damaged weights count as not fitted."""
    rule = Rule.read_prior(store)
    try:
        weights = Weights.of(store)
    except RuleError:
        weights = None
    names = (*VIEWS_OF[rule.token_version], INTERCEPT_VIEW)
    # The widths are the standard deviations of the priors; that of a scale is relative to its default.
    priors = [
        *(
            (view.scale, SCALE_WIDTH * default.scale)
            for view, default in zip(rule.views, RULES[rule.token_version].views, strict=True)
        ),
        (rule.intercept, INTERCEPT_WIDTH),
    ]
    posteriors = priors
    if weights is not None:
        scales = zip(weights.scales, weights.deviations[1:], strict=True)
        posteriors = [*scales, (weights.intercept, weights.deviations[0])]
    return [
        Estimate(name, *posterior, *prior)
        for name, posterior, prior in zip(names, posteriors, priors, strict=True)
    ]
