"""The catalog: the location of each message and the last verdict on it, for the lists of the web page."""

from tamis_mail.catalog.catalog import (
    Catalog,
    CatalogError,
    CatalogSource,
    Cursor,
    Listing,
    Location,
    Query,
    Row,
)
from tamis_mail.catalog.scanning import FoundMessage, read_message, remove_missing, scan_path

__all__ = [
    "Catalog",
    "CatalogError",
    "CatalogSource",
    "Cursor",
    "FoundMessage",
    "Listing",
    "Location",
    "Query",
    "Row",
    "read_message",
    "remove_missing",
    "scan_path",
]
