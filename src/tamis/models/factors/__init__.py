"""Latent factors of users and items."""

from tamis.models.factors.alternating import Alternating, Factors, Sweep, run_sweeps
from tamis.models.factors.explanation import FactorExplanation, explain
from tamis.models.factors.fitting import DEFAULT_RIDGE, FitHistory, FitOptions
from tamis.models.factors.gibbs import Draw, Gibbs
from tamis.models.factors.implicit import Implicit
from tamis.models.factors.posterior import FactorPosterior, Hyperparameters, Solver
from tamis.models.factors.ratings import Duplicates, Entries, GroupedRatings, Indices, Ratings
from tamis.models.factors.recommender import FoldedUser, Recommender, find_id, find_ids, fit_recommender
from tamis.models.factors.times import TimeScale

__all__ = [
    "DEFAULT_RIDGE",
    "Alternating",
    "Draw",
    "Duplicates",
    "Entries",
    "FactorExplanation",
    "FactorPosterior",
    "Factors",
    "FitHistory",
    "FitOptions",
    "FoldedUser",
    "Gibbs",
    "GroupedRatings",
    "Hyperparameters",
    "Implicit",
    "Indices",
    "Ratings",
    "Recommender",
    "Solver",
    "Sweep",
    "TimeScale",
    "explain",
    "find_id",
    "find_ids",
    "fit_recommender",
    "run_sweeps",
]
