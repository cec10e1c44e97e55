"""Save models to files of numbers and names, and load them: a file holds no code, and loading runs none.

`archive` reads and writes the format of a file, `values` has the closed list of types that it can hold, and
`rules` checks values before a model is made of them. `registry` saves and loads models of a closed list of
classes, which `tamis.estimators.saved` gives.
"""

from tamis.persistence.registry import Entry, Registry

__all__ = ["Entry", "Registry"]
