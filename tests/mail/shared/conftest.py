"""One server of each kind for all tests of a folder, and a folder of replicas for each test."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tamis_mail.locations import REPLICAS
from tests.mail.shared.servers import KINDS, Server, find_missing, run_server


@pytest.fixture(scope="session")
def servers() -> Iterator[dict[str, Server]]:
    """Run one server of each kind that is installed."""
    with ExitStack() as stack:
        yield {kind: stack.enter_context(run_server(kind)) for kind in KINDS if not find_missing(kind)}


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, servers: dict[str, Server]) -> Server:
    """Return a server of each kind in turn."""
    if missing := find_missing(request.param):
        pytest.skip(f"needs {' and '.join(missing)}: apt-get install {request.param}")
    return servers[request.param]


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Hosts":
    """Return hosts, of which the first is used at the beginning."""
    hosts = Hosts(tmp_path, monkeypatch)
    hosts.use("first")
    return hosts


class Hosts:
    """Folders of replicas: the process is on one host at a time."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, self._monkeypatch = folder, monkeypatch

    def use(self, name: str) -> None:
        """Open stores from now on as another host does."""
        self._monkeypatch.setenv(REPLICAS, str(self._folder / name))
