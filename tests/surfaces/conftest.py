"""What all tests of commands begin with."""

import pytest

from tests.surfaces.terminal import Type, type_in


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Type:
    """A function that runs a command in this process."""
    return type_in(monkeypatch)
