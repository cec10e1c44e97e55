"""Where messages lie, and the last verdict on each: for lists of messages, which the store does not keep."""

from tamis_mail.catalog.catalog import Catalog, CatalogError

__all__ = ["Catalog", "CatalogError"]
