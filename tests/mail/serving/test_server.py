"""The server that all daemons share: limits, stop and reload."""

import asyncio
import io
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tamis_mail.serving.listeners import Listener
from tamis_mail.serving.logs import Log
from tamis_mail.serving.server import Handler, Limits, Server

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Running:
    """A server at a Unix socket, and what it logs."""

    def __init__(self, folder: Path, handle: Handler, limits: Limits, reload: Callable[[], None]) -> None:
        self.path = str(folder / "socket")
        self.lines = io.StringIO()
        self.server = Server(
            [Listener(path=self.path)], handle, Log(self.lines), limits, socket_mode=0o600, reload=reload
        )

    async def connect(self) -> Client:
        return await asyncio.open_unix_connection(self.path)


def serve(
    folder: Path,
    handle: Handler,
    scenario: Callable[[Running], Awaitable[None]],
    limits: Limits | None = None,
    reload: Callable[[], None] = lambda: None,
) -> str:
    """Run a scenario against a server, stop it, and return its log."""

    async def run() -> str:
        running = Running(folder, handle, limits or Limits(), reload)
        task = asyncio.create_task(running.server.run())
        await running.server.started.wait()
        try:
            await scenario(running)
        finally:
            running.server.stop()
            async with asyncio.timeout(20):
                await task
        return running.lines.getvalue()

    return asyncio.run(run())


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.readline())
    await writer.drain()


async def ask(client: Client, text: bytes = b"hello\n") -> bytes:
    reader, writer = client
    writer.write(text)
    async with asyncio.timeout(20):
        reply = await reader.read()
    writer.close()
    await writer.wait_closed()
    return reply


def test_a_connection_under_way_ends_properly_when_the_server_stops(tmp_path: Path) -> None:
    async def scenario(running: Running) -> None:
        client = await running.connect()
        client[1].write(b"hel")
        await asyncio.sleep(0)
        while not running.server._connections:
            await asyncio.sleep(0.01)
        running.server.stop()
        while Path(running.path).exists():
            await asyncio.sleep(0.01)
        assert await ask(client, b"lo\n") == b"hello\n"

    assert "event=stopped" in serve(tmp_path, echo, scenario)


def test_a_connection_that_does_not_end_is_cut_when_the_server_stops(tmp_path: Path) -> None:
    clients: list[Client] = []

    async def scenario(running: Running) -> None:
        clients.append(await running.connect())
        while not running.server._connections:
            await asyncio.sleep(0.01)
        running.server.stop()
        assert await clients[0][0].read() == b""
        clients[0][1].close()

    assert "event=stopped" in serve(tmp_path, echo, scenario, Limits(stop_seconds=0.05))


def test_connections_beyond_the_limit_wait_and_are_served_later(tmp_path: Path) -> None:
    at_once = most = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.01)
        await echo(reader, writer)
        at_once -= 1

    async def scenario(running: Running) -> None:
        clients = [await running.connect() for _ in range(8)]
        assert await asyncio.gather(*map(ask, clients)) == [b"hello\n"] * 8

    serve(tmp_path, handle, scenario, Limits(connections=2))
    assert most == 2


def test_an_idle_socket_does_not_use_up_the_only_connection(tmp_path: Path) -> None:
    async def run() -> None:
        paths = [str(tmp_path / name) for name in ("one", "two")]
        listeners = [Listener(path=path) for path in paths]
        server = Server(listeners, echo, Log(io.StringIO()), Limits(connections=1))
        task = asyncio.create_task(server.run())
        await server.started.wait()
        for path in (*paths, *paths):
            assert await ask(await asyncio.open_unix_connection(path)) == b"hello\n"
        server.stop()
        await task

    asyncio.run(run())


def test_a_connection_ends_after_its_time(tmp_path: Path) -> None:
    async def scenario(running: Running) -> None:
        reader, writer = await running.connect()
        assert await reader.read() == b""
        writer.close()
        assert await ask(await running.connect()) == b"hello\n"

    assert "it took too long" in serve(tmp_path, echo, scenario, Limits(seconds=0.05))


def test_a_defect_ends_one_connection_and_its_text_is_not_logged(tmp_path: Path) -> None:
    calls = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise KeyError("Subject: secret")
        await echo(reader, writer)

    async def scenario(running: Running) -> None:
        reader, writer = await running.connect()
        assert await reader.read() == b""
        writer.close()
        assert await ask(await running.connect()) == b"hello\n"

    log = serve(tmp_path, handle, scenario)
    assert 'event=connection-failed reason="unexpected KeyError"' in log
    assert "secret" not in log


def test_a_client_that_goes_away_disturbs_nobody(tmp_path: Path) -> None:
    async def scenario(running: Running) -> None:
        for _ in range(20):
            _, writer = await running.connect()
            writer.write(b"x")
            writer.transport.abort()
        assert await ask(await running.connect()) == b"hello\n"

    serve(tmp_path, echo, scenario)


def test_signals_reload_and_stop(tmp_path: Path) -> None:
    reloads: list[int] = []

    async def scenario(running: Running) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        while not reloads:
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        while Path(running.path).exists():
            await asyncio.sleep(0.01)

    log = serve(tmp_path, echo, scenario, reload=lambda: reloads.append(1))
    assert [line.split()[1] for line in log.splitlines()] == [
        "event=started",
        "event=reloaded",
        "event=stopped",
    ]


def test_when_one_socket_cannot_be_opened_the_others_are_closed(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    listeners = [Listener(path=str(tmp_path / "socket")), Listener(path=str(tmp_path / "file"))]

    async def run() -> None:
        with pytest.raises(OSError, match="it exists and is not a socket"):
            await Server(listeners, echo, Log(io.StringIO())).run()

    asyncio.run(run())
    assert not (tmp_path / "socket").exists()
    assert (tmp_path / "file").exists()


def test_the_file_of_a_socket_is_removed_however_its_path_was_written(tmp_path: Path) -> None:
    async def run() -> None:
        server = Server([Listener(path=f"{tmp_path}//./socket")], echo, Log(io.StringIO()))
        running = asyncio.create_task(server.run())
        await server.started.wait()
        assert (tmp_path / "socket").exists()
        server.stop()
        await running

    asyncio.run(run())
    assert not (tmp_path / "socket").exists()
