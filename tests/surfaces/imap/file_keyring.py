"""A keyring for tests, which keeps passwords in the file that an environment variable names."""

import json
import os
from pathlib import Path

from keyring.backend import KeyringBackend

__all__ = ["FileKeyring"]


class FileKeyring(KeyringBackend):
    """Keeps passwords in a file."""

    priority = 1

    @property
    def _path(self) -> Path:
        return Path(os.environ["TEST_KEYRING"])

    def _read(self) -> dict[str, str]:
        kept: dict[str, str] = json.loads(self._path.read_text()) if self._path.exists() else {}
        return kept

    def get_password(self, service: str, username: str) -> str | None:
        return self._read().get(f"{service} {username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        self._path.write_text(json.dumps({**self._read(), f"{service} {username}": password}))
