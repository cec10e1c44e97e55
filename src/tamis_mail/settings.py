"""The default path of the store, from environment variables."""

from __future__ import annotations

import os
from importlib import import_module

TYPE_CHECKING = False  # `pathlib` would take 5 ms of a process that judges one message
if TYPE_CHECKING:
    from pathlib import Path

STORE = "TAMIS_STORE"  # the environment variable that holds the path or the address of the store


def default_path() -> Path:
    """Return $TAMIS_STORE, or tamis/mail.tamis in $XDG_DATA_HOME (default: ~/.local/share)."""
    path: Path = import_module("pathlib").Path(default_path_name())
    return path


def default_path_name() -> str:
    """Return `default_path` as text."""
    store_path = os.environ.get(STORE)
    if store_path:
        return os.path.expanduser(store_path)  # noqa: PTH111
    data = os.environ.get("XDG_DATA_HOME", "")
    home = data if os.path.isabs(data) else os.path.expanduser("~/.local/share")  # noqa: PTH111, PTH117
    return os.path.join(home, "tamis", "mail.tamis")  # noqa: PTH118
