"""Property tests (laws) of models, families, priors and statistics, for users to test their own classes.

A law is an equation that every registered class must satisfy, such as that learning in parts equals learning
at once: a function that raises AssertionError. The registries hold cases to run laws over: of classifiers
(`FACES`), of blocks of columns that are specialised for one family (`FASTER_BLOCKS`), and so on. Those of
statistics, families and priors name every public type, or else `tests/laws/test_registry.py` fails. Needs
Hypothesis: tamis[testing].
"""

from tamis.testing.components import COMPONENTS, ComponentsCase
from tamis.testing.faces import FACES, FaceCase
from tamis.testing.families import FAMILIES, FamilyCase
from tamis.testing.family_columns import FASTER_BLOCKS, BlockCase
from tamis.testing.priors import PRIORS, PriorCase
from tamis.testing.regressions import REGRESSIONS, RegressionCase
from tamis.testing.statistics import STATISTICS, Sample, StatisticCase

__all__ = [
    "COMPONENTS",
    "FACES",
    "FAMILIES",
    "FASTER_BLOCKS",
    "PRIORS",
    "REGRESSIONS",
    "STATISTICS",
    "BlockCase",
    "ComponentsCase",
    "FaceCase",
    "FamilyCase",
    "PriorCase",
    "RegressionCase",
    "Sample",
    "StatisticCase",
]
