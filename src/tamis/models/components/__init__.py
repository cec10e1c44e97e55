"""Principal components: sums of products of columns (`Moments`), and the directions inferred from them."""

from tamis.models.components.choice import CountScores, score_by_evidence, score_held_out
from tamis.models.components.gaps import (
    ComponentsWithGaps,
    ExpectedMoments,
    GapFit,
    Gaps,
    fit_gaps,
    has_gaps,
    impute,
    log_densities_with_gaps,
    refuse_gaps,
)
from tamis.models.components.held_out import HeldOutRows, cross_validate
from tamis.models.components.model import (
    Components,
    PrincipalComponents,
    decompose,
    dense_blocks,
    fold_by_content,
    refuse_few_rows,
    refuse_lost_precision,
    to_integer,
)
from tamis.models.components.wide import (
    choose_solver,
    decompose_randomized,
    decompose_rows,
    refuse_unknown_solver,
)

__all__ = [
    "Components",
    "ComponentsWithGaps",
    "CountScores",
    "ExpectedMoments",
    "GapFit",
    "Gaps",
    "HeldOutRows",
    "PrincipalComponents",
    "choose_solver",
    "cross_validate",
    "decompose",
    "decompose_randomized",
    "decompose_rows",
    "dense_blocks",
    "fit_gaps",
    "fold_by_content",
    "has_gaps",
    "impute",
    "log_densities_with_gaps",
    "refuse_few_rows",
    "refuse_gaps",
    "refuse_lost_precision",
    "refuse_unknown_solver",
    "score_by_evidence",
    "score_held_out",
    "to_integer",
]
