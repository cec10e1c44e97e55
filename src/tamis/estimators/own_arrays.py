"""Fitted attributes → arrays that belong to the caller: writing to one changes no model, raises nothing."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np


class OwnArrays:
    """Of a face: every property whose name ends in `_` gives a copy of the array that the model keeps."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, member in list(vars(cls).items()):
            public = name.endswith("_") and not name.startswith("_")
            if public and isinstance(member, property) and member.fget is not None:
                setattr(cls, name, property(_copying(member.fget), member.fset, member.fdel, member.__doc__))


def _copying(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @wraps(read)
    def copied(face: Any) -> Any:
        found = read(face)
        return found.copy() if type(found) is np.ndarray else found

    return copied
