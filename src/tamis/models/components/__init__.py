"""Principal components: one Moments, and what is inferred from it."""

from tamis.models.components.choice import HeldOutCounts, held_out_counts, minka
from tamis.models.components.held_out import HeldOutRows, cross_validate
from tamis.models.components.missing import Gaps, Step, filled, log_densities, refine
from tamis.models.components.model import (
    Components,
    PrincipalComponents,
    components,
    refuse_few_rows,
    whole,
)
from tamis.models.components.wide import from_rows, randomized

__all__ = [
    "Components",
    "Gaps",
    "HeldOutCounts",
    "HeldOutRows",
    "PrincipalComponents",
    "Step",
    "components",
    "cross_validate",
    "filled",
    "from_rows",
    "held_out_counts",
    "log_densities",
    "minka",
    "randomized",
    "refine",
    "refuse_few_rows",
    "whole",
]
