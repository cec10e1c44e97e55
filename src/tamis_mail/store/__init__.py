"""The store of the filter, one SQLite database: counts of features by label, and the learned messages."""

from tamis_mail.store.database import StoreError, has_store, is_store
from tamis_mail.store.store import Entry, Store, Writer

__all__ = ["Entry", "Store", "StoreError", "Writer", "has_store", "is_store"]
