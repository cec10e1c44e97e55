"""Save models to files of numbers and names, and load them: a file holds no code, and loading runs none.

`archive` is the format of a file, `values` the closed list of types that it can hold, `rules` what a value
must be before a model is made of it, and `registry` the closed list of classes, which
`tamis.estimators.saved` fills.
"""

from tamis.persistence.registry import Entry, Registry

__all__ = ["Entry", "Registry"]
