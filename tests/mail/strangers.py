"""as a user without rights: what a function returns, or the error that it raises, in a child process."""

import os
import pickle
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")
NOBODY = 65534


def as_nobody(function: Callable[[], T]) -> T | str:
    """Call a function as a user to whom permissions apply (they do not to root); an error is its text."""
    if os.geteuid() != 0:
        return _outcome(function)
    if not hasattr(os, "fork"):
        pytest.skip("permissions do not apply to this user, and there is no fork to become another")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(writer, pickle.dumps(_outcome(function)))
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        answer = file.read()
    os.waitpid(child, 0)
    if not answer:
        pytest.skip("this process may not become another user")
    outcome: T | str = pickle.loads(answer)
    return outcome


def _outcome(function: Callable[[], T]) -> T | str:
    try:
        return function()
    except Exception as error:  # noqa: BLE001 (whatever it is, the caller compares it)
        return f"{type(error).__name__}: {error}"
