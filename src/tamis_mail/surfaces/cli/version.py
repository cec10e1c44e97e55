"""Find the installed version in the name of the metadata folder: `importlib.metadata` imports `email`."""

import os
import sys

import tamis
from tamis import compiled

_START, _END = "tamis-", ".dist-info"


def describe() -> str:
    """Return the version, and which kernels are in use."""
    return f"tamis {version()} ({compiled.describe()})"


def version() -> str:
    """Return the version of tamis, which equals `tamis.__version__`."""
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")  # noqa: PTH208 (pathlib takes 8 ms)
        except OSError:
            continue
        for name in names:
            if name.startswith(_START) and name.endswith(_END):
                return name[len(_START) : -len(_END)]
    return tamis.__version__
