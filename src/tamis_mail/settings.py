"""the environment → where things are: the store of a person who does not say which."""

import os
from pathlib import Path

__all__ = ["STORE", "default_path"]

STORE = "TAMIS_STORE"  # the variable that names the store


def default_path() -> Path:
    """$TAMIS_STORE, or mail.tamis where the user's programs keep their data."""
    store_path = os.environ.get(STORE)
    if store_path:
        return Path(store_path).expanduser()
    data = os.environ.get("XDG_DATA_HOME")
    home = Path(data) if data and Path(data).is_absolute() else Path("~/.local/share").expanduser()
    return home / "tamis" / "mail.tamis"
