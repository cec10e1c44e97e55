"""Linear predictors (scores) and targets → losses, derivatives and information: one class per response.

A response is a family and its link. For each row it computes the loss −log p(y | η) up to terms that do not
depend on the score η, the derivative of the loss by η, the expected second derivative (Fisher's information)
and the second derivative at the observed target; with a canonical link these two are equal. All are for a
dispersion of 1. Newton's steps use the second derivative at the observed target, with which they converge
quadratically; covariances use the expected one, as in statsmodels. (McCullagh and Nelder, Generalized Linear
Models, chapter 2)

`RESPONSES` lists the responses by family and link; `Response` lists the methods that each must define.
"""

from typing import Literal, cast

from tamis.models.linear.responses.classes import (
    Bernoulli,
    ClassResponse,
    Softmax,
    average_log_odds,
    average_softmax,
)
from tamis.models.linear.responses.numbers import Gamma, GammaLog, Gaussian, GaussianLog, Poisson, match_gamma
from tamis.models.linear.responses.response import NullModelSizes, Response, RowSums, leave_out_scores

__all__ = [
    "CANONICAL",
    "RESPONSES",
    "Bernoulli",
    "ClassResponse",
    "Family",
    "Gamma",
    "GammaLog",
    "Gaussian",
    "GaussianLog",
    "Link",
    "NullModelSizes",
    "Poisson",
    "Response",
    "RowSums",
    "Softmax",
    "average_log_odds",
    "average_softmax",
    "leave_out_scores",
    "make_response",
    "match_gamma",
]

Family = Literal["bernoulli", "poisson", "gaussian", "gamma"]
Link = Literal["logit", "log", "identity", "inverse"]

RESPONSES: dict[tuple[Family, Link], type[Response]] = {
    (cast(Family, kind.family), cast(Link, kind.link)): kind
    for kind in (Bernoulli, Poisson, Gaussian, GaussianLog, Gamma, GammaLog)
}
CANONICAL: dict[Family, Link] = {
    family: link for (family, link), kind in RESPONSES.items() if kind.is_canonical
}


def make_response(family: object, link: object = None) -> Response:
    """Make the response of a family and a link, by default the canonical one.

    >>> make_response("gamma").link, make_response("gamma", "log").link
    ('inverse', 'log')
    """
    canonical = CANONICAL.get(family) if isinstance(family, str) else None  # type: ignore[call-overload]
    if canonical is None:
        raise ValueError(f"got family={family!r}, expected one of {', '.join(map(repr, CANONICAL))}")
    name = canonical if link is None else link
    kind = RESPONSES.get((family, name)) if isinstance(name, str) else None  # type: ignore[arg-type]
    if kind is None:
        links = [known_link for known_family, known_link in RESPONSES if known_family == family]
        raise ValueError(f"got link={link!r} for {family!r}, expected {' or '.join(map(repr, links))}")
    return kind()
