"""Scores η and what was seen → how unlikely, which way to move, how sharply: one response a class.

A response is a family and its link. Of each row it knows the loss −log p(y | η) up to what does not depend
on η, its slope in η, the expected second derivative (Fisher's information) and the observed one; for a
canonical link these two are the same. All are for a dispersion of 1. Newton's steps use the observed one,
which alone makes them converge quadratically; covariances use the expected one, as statsmodels' do.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import numpy as np
from scipy import special

from tamis.arrays import Array
from tamis.families import stirling

Family = Literal["bernoulli", "poisson", "gaussian", "gamma"]
Link = Literal["logit", "log", "identity", "inverse"]

_LOG_TWO_PI = float(np.log(2.0 * np.pi))


class Response(ABC):
    """What a linear score says of a row's target. Scores are (k,)."""

    family: ClassVar[Family]
    link: ClassVar[Link]
    dispersed: ClassVar[bool] = False  # whether the family has a dispersion of its own

    @abstractmethod
    def loss(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        """The loss of each row and its slope; ∞ where the score is outside the link's range."""

    @abstractmethod
    def information(self, scores: Array) -> Array:
        """The expected second derivative of the loss of each row."""

    def observed_information(self, scores: Array, targets: Array) -> Array:
        """The second derivative of the loss of each row; with a canonical link it does not depend on y."""
        return self.information(scores)

    @property
    def is_canonical(self) -> bool:
        """Whether the observed information is the expected one."""
        return CANONICAL[self.family] == self.link

    @abstractmethod
    def mean(self, scores: Array) -> Array:
        """E[y]."""

    @abstractmethod
    def score(self, mean: Array) -> Array:
        """The link: the score of a mean."""

    @abstractmethod
    def variance(self, mean: Array) -> Array:
        """Var[y] for a dispersion of 1."""

    @abstractmethod
    def deviance(self, mean: Array, targets: Array) -> Array:
        """Twice the log-likelihood that the row lost to a model that fits it perfectly, dispersion 1."""

    @abstractmethod
    def log_likelihood(self, mean: Array, targets: Array, dispersion: float) -> Array:
        """log p(y) of each row, with all constants."""

    @abstractmethod
    def refusal(self, targets: Array) -> str | None:
        """What the targets should have been, if one of them cannot be."""


class Bernoulli(Response):
    """Yes or no, by the logistic function; targets between 0 and 1 are shares."""

    family = "bernoulli"
    link = "logit"

    def loss(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        tail = np.exp(-np.abs(scores))
        losses = np.log1p(tail)
        losses += np.maximum(scores, 0.0)
        losses -= targets * scores
        slopes = np.where(scores >= 0, 1.0, tail)
        slopes /= 1.0 + tail
        slopes -= targets
        return losses, slopes

    def information(self, scores: Array) -> Array:
        tail = np.exp(-np.abs(scores))
        return np.asarray(tail / np.square(1.0 + tail))

    def mean(self, scores: Array) -> Array:
        return np.asarray(special.expit(scores))

    def score(self, mean: Array) -> Array:
        return np.asarray(special.logit(mean))

    def variance(self, mean: Array) -> Array:
        return np.asarray(mean * (1.0 - mean))

    def deviance(self, mean: Array, targets: Array) -> Array:
        saturated = special.xlogy(targets, targets) + special.xlogy(1.0 - targets, 1.0 - targets)
        return np.asarray(2.0 * (saturated - self.log_likelihood(mean, targets, 1.0)))

    def log_likelihood(self, mean: Array, targets: Array, dispersion: float) -> Array:
        return np.asarray(special.xlogy(targets, mean) + special.xlog1py(1.0 - targets, -mean))

    def refusal(self, targets: Array) -> str | None:
        return None if ((targets >= 0) & (targets <= 1)).all() else "0, 1, or a share between them"


class Poisson(Response):
    """Counts, by the exponential function."""

    family = "poisson"
    link = "log"

    def loss(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore"):
            means = np.exp(scores)
        return means - targets * scores, means - targets

    def information(self, scores: Array) -> Array:
        return np.asarray(np.exp(scores))

    def mean(self, scores: Array) -> Array:
        return np.asarray(np.exp(scores))

    def score(self, mean: Array) -> Array:
        return np.asarray(np.log(mean))

    def variance(self, mean: Array) -> Array:
        return mean

    def deviance(self, mean: Array, targets: Array) -> Array:
        return 2.0 * stirling.deviance(targets, mean)

    def log_likelihood(self, mean: Array, targets: Array, dispersion: float) -> Array:
        return -stirling.deviance(targets, mean) - stirling.factorial_remainder(targets)

    def refusal(self, targets: Array) -> str | None:
        return None if (targets >= 0).all() else "counts, 0 or more"


class _Normal(Response):
    """Numbers with one variance."""

    family = "gaussian"
    dispersed = True

    def variance(self, mean: Array) -> Array:
        return np.ones_like(mean)

    def deviance(self, mean: Array, targets: Array) -> Array:
        return np.square(targets - mean)

    def log_likelihood(self, mean: Array, targets: Array, dispersion: float) -> Array:
        squares = np.square(targets - mean) / dispersion
        return np.asarray(-0.5 * (squares + _LOG_TWO_PI + np.log(dispersion)))

    def refusal(self, targets: Array) -> str | None:
        return None


class Gaussian(_Normal):
    """Numbers whose mean is the score."""

    link = "identity"

    def loss(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        slopes = scores - targets
        return 0.5 * np.square(slopes), slopes

    def information(self, scores: Array) -> Array:
        return np.ones_like(scores)

    def mean(self, scores: Array) -> Array:
        return scores

    def score(self, mean: Array) -> Array:
        return mean


class GaussianLog(_Normal):
    """Numbers whose mean is the exponential function of the score."""

    link = "log"

    def loss(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore", invalid="ignore"):
            means = np.exp(scores)
            apart = means - targets
            return 0.5 * np.square(apart), apart * means

    def information(self, scores: Array) -> Array:
        return np.asarray(np.exp(2.0 * scores))

    def observed_information(self, scores: Array, targets: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            means = np.exp(scores)
            return np.asarray((2.0 * means - targets) * means)

    def mean(self, scores: Array) -> Array:
        return np.asarray(np.exp(scores))

    def score(self, mean: Array) -> Array:
        return np.asarray(np.log(mean))


class _Positive(Response):
    """Numbers above zero whose standard deviation is proportional to their mean."""

    family = "gamma"
    dispersed = True

    def variance(self, mean: Array) -> Array:
        return np.square(mean)

    def deviance(self, mean: Array, targets: Array) -> Array:
        return 2.0 * stirling.excess(_beyond(targets, mean))

    def log_likelihood(self, mean: Array, targets: Array, dispersion: float) -> Array:
        shape = 1.0 / dispersion
        loss = shape * stirling.excess(_beyond(targets, mean))
        return -loss - np.log(targets) - float(stirling.remainder(np.array(shape)))

    def refusal(self, targets: Array) -> str | None:
        return None if (targets > 0).all() else "numbers above 0"


def _beyond(targets: Array, mean: Array) -> Array:
    """y/mean − 1, with all its digits where it is small; the mean may be infinite."""
    known = np.isfinite(mean)
    safe = np.where(known, mean, 1.0)
    return np.where(known, (targets - safe) / safe, -1.0)


class Gamma(_Positive):
    """The canonical link: the score is one over the mean, and must be above zero."""

    link = "inverse"

    def loss(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        inside = scores > 0
        safe = np.where(inside, scores, 1.0)
        losses = np.where(inside, targets * safe - np.log(safe), np.inf)
        return losses, targets - 1.0 / safe

    def information(self, scores: Array) -> Array:
        return np.asarray(1.0 / np.square(scores))

    def mean(self, scores: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.where(scores > 0, 1.0 / np.where(scores > 0, scores, 1.0), np.inf)

    def score(self, mean: Array) -> Array:
        return np.asarray(1.0 / mean)


class GammaLog(_Positive):
    """The mean is the exponential function of the score."""

    link = "log"

    def loss(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore"):
            ratio = targets * np.exp(-scores)
        return ratio + scores, 1.0 - ratio

    def information(self, scores: Array) -> Array:
        return np.ones_like(scores)

    def observed_information(self, scores: Array, targets: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(targets * np.exp(-scores))

    def mean(self, scores: Array) -> Array:
        return np.asarray(np.exp(scores))

    def score(self, mean: Array) -> Array:
        return np.asarray(np.log(mean))


RESPONSES: dict[tuple[Family, Link], type[Response]] = {
    (kind.family, kind.link): kind for kind in (Bernoulli, Poisson, Gaussian, GaussianLog, Gamma, GammaLog)
}
CANONICAL: dict[Family, Link] = {
    "bernoulli": "logit",
    "poisson": "log",
    "gaussian": "identity",
    "gamma": "inverse",
}


def response(family: object, link: object = None) -> Response:
    """The response of that family, by its canonical link if no other is named.

    >>> response("gamma").link, response("gamma", "log").link
    ('inverse', 'log')
    """
    canonical = CANONICAL.get(family) if isinstance(family, str) else None  # type: ignore[call-overload]
    if canonical is None:
        raise ValueError(f"got family={family!r}, expected one of {', '.join(map(repr, CANONICAL))}")
    named = canonical if link is None else link
    found = RESPONSES.get((family, named)) if isinstance(named, str) else None  # type: ignore[arg-type]
    if found is None:
        links = [name for kind, name in RESPONSES if kind == family]
        raise ValueError(f"got link={link!r} for {family!r}, expected {' or '.join(map(repr, links))}")
    return found()
