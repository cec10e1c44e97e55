"""Whether a fitted model can forget rows: the laws of all faces ask it."""

from typing import Any

__all__ = ["can_unlearn"]


def can_unlearn(model: Any, *rows: Any, sample_weight: Any) -> bool:
    """Unlearn rows; False if the model refuses because rounding would hide the rest."""
    try:
        model.unlearn(*rows, sample_weight=sample_weight)
    except ValueError as refusal:
        if "exact=True" not in str(refusal):
            raise
        return False
    return True
