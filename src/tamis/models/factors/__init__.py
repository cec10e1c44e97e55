"""Latent factors of users and items."""

from tamis.models.factors.alternating import Alternating, Factors
from tamis.models.factors.clock import Clock
from tamis.models.factors.gibbs import Draw, Gibbs
from tamis.models.factors.implicit import Implicit
from tamis.models.factors.learned import Chain, Learned
from tamis.models.factors.ratings import Ratings, Side

__all__ = [
    "Alternating",
    "Chain",
    "Clock",
    "Draw",
    "Factors",
    "Gibbs",
    "Implicit",
    "Learned",
    "Ratings",
    "Side",
]
