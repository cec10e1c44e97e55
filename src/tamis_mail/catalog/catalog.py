"""messages of folders and imports, verdicts of the log → rows of one SQLite file beside the store.

The catalog can be deleted at any time: it is filled again from the same mail.
"""

from __future__ import annotations

import os
import sqlite3

__all__ = ["Catalog", "CatalogError"]


class CatalogError(Exception):
    """The catalog cannot be used. The message is one line for the user."""


class Catalog:
    """The catalog of a store; each thread opens its own."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._connection = sqlite3.connect(self.path, timeout=30.0, isolation_level=None)

    @classmethod
    def of(cls, store_path: str | os.PathLike[str]) -> Catalog:
        """Open the catalog of the store at a path: the file with `.catalog` added to its name."""
        return cls(f"{os.path.realpath(store_path)}.catalog")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
