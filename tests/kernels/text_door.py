"""Lets the door of the text kernels open to the reference or to the compiled core, for one test."""

from types import ModuleType

import pytest

from tamis._kernels import text as door


def use_kernels(monkeypatch: pytest.MonkeyPatch, kernels: ModuleType) -> None:
    """Let the door call these kernels."""
    for name in door.__all__:
        if hasattr(kernels, name) and getattr(door, name) is getattr(door._kernels, name, None):
            monkeypatch.setattr(door, name, getattr(kernels, name))
    monkeypatch.setattr(door, "_kernels", kernels)
