"""A message that is passed through comes out whatever memory there is, down to what Python needs to start."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.surfaces.terminal import COMMAND, Type, learn_some

resource = pytest.importorskip("resource", reason="limits of memory are set by Unix's setrlimit")
if not sys.platform.startswith("linux"):
    pytest.skip("RLIMIT_AS is not kept by this system", allow_module_level=True)

STEPS = (0, 2, 4, 8, 16, 32, 64)  # MB above the least in which the command starts


def run(megabytes: int, *words: str, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    """Run `tamis` in a process that may have so much memory."""
    code = (
        "import os, resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_AS, ({megabytes << 20}, {megabytes << 20}))\n"
        "os.execv(sys.argv[1], sys.argv[1:])\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code, str(COMMAND), *words], input=stdin, capture_output=True, check=False
    )


@pytest.fixture(scope="module")
def least() -> int:
    """The memory in which the command can say how it is used."""
    return next(limit for limit in range(12, 400, 2) if run(limit, "sort", "--help").returncode == 0)


@pytest.mark.parametrize("option", ["-pe", "--passthrough"])
@pytest.mark.parametrize("lines", [10, 500_000])
def test_a_message_passes_through_whatever_memory_there_is(
    lines: int, option: str, least: int, typed: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn_some(typed, tmp_path, monkeypatch)
    raw = b"Subject: memory\n\n" + b"some line of text\n" * lines
    statuses = []
    for step in STEPS[:: 1 if option == "-pe" else 3]:
        found = run(least + step, "sort", option, stdin=raw)
        statuses.append(found.returncode)
        if found.returncode == 3:
            assert found.stdout == raw
            assert found.stderr.count(b"\n") == 1
        else:
            assert found.returncode in ({0} if option == "-pe" else {0, 1, 2})
            assert found.stdout.endswith(raw)
            assert b"X-Spam-Status: " in found.stdout
    assert 3 in statuses


def test_a_message_passes_through_where_the_command_itself_cannot_be_loaded(
    typed: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tamis_mail.surfaces.cli.sort", None)
    raw = b"Subject: x\n\nbody\n"
    for option in ("-p", "-ep", "--passthrough", "--undo"):
        answer = typed("sort", option, stdin=raw)
        assert (answer.status, answer.out) == (3, raw)
    assert typed("sort", "--exit-zero", stdin=raw).out == b""
