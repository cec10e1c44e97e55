"""The state machine of a store in a file, on stores of servers that two hosts use in turn."""

import os
import tempfile
from itertools import count
from typing import ClassVar
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis.stateful import rule

from tamis_mail import Sieve
from tamis_mail.locations import REPLICAS
from tests.mail.shared.servers import Server, needs_server
from tests.mail.sieve.test_memory import Memory

pytestmark = pytest.mark.peers
SERVERS: dict[str, Server] = {}
NUMBERS = count()


@pytest.fixture(scope="module", autouse=True)
def _servers(servers: dict[str, Server]) -> None:
    SERVERS.update(servers)


class SharedMemory(Memory):
    """Every time the store is opened, it is another host that does it."""

    kind: ClassVar[str]

    def __init__(self) -> None:
        self.hosts = [tempfile.TemporaryDirectory() for _ in range(2)]
        self.environment = mock.patch.dict(os.environ, {REPLICAS: self.hosts[0].name})
        self.environment.start()
        super().__init__()

    def make_place(self) -> str:
        return SERVERS[self.kind].store(f"memory-{next(NUMBERS)}")

    def teardown(self) -> None:
        super().teardown()
        self.environment.stop()
        for host in self.hosts:
            host.cleanup()

    @rule()
    def move_to_the_other_host(self) -> None:
        self.sieve.close()
        self.hosts.reverse()
        os.environ[REPLICAS] = self.hosts[0].name
        self.sieve = Sieve.open(self.path)


class RedisMemory(SharedMemory):
    kind = "redis"


class PostgresqlMemory(SharedMemory):
    kind = "postgresql"


for machine in (RedisMemory, PostgresqlMemory):
    machine.TestCase.settings = settings(max_examples=8, stateful_step_count=20, deadline=None)


TestRedisMemory = needs_server("redis")(RedisMemory.TestCase)
TestPostgresqlMemory = needs_server("postgresql")(PostgresqlMemory.TestCase)
