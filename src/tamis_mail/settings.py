"""the environment → the default path of the store."""

import os
from pathlib import Path

__all__ = ["STORE", "default_path"]

STORE = "TAMIS_STORE"  # the environment variable with the path of the store


def default_path() -> Path:
    """Return $TAMIS_STORE, or tamis/mail.tamis in the user's data folder."""
    store_path = os.environ.get(STORE)
    if store_path:
        return Path(store_path).expanduser()
    data = os.environ.get("XDG_DATA_HOME")
    home = Path(data) if data and Path(data).is_absolute() else Path("~/.local/share").expanduser()
    return home / "tamis" / "mail.tamis"
