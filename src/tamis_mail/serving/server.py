"""The asynchronous server that all daemons share.

`Limits.connections` is the number of connections that are handled at once. One more per socket is accepted
and waits; all others wait in the queue of the operating system, so that many clients at once take no memory.
On SIGTERM and SIGINT, the server stops listening, and open connections have `Limits.stop_seconds` to end.
SIGHUP calls `reload`, by which the daemons open their stores again.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tamis_mail.serving.listeners import Listener
from tamis_mail.serving.logs import Log

_RETRY_SECONDS = 1.0  # pause after a connection could not be accepted

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a daemon. `Server` keeps all but `size` and `idle_seconds`, which its handlers keep."""

    connections: int = 100  # maximum number of connections at once
    size: int = 10 << 20  # maximum bytes of a message: with 100 connections, 1 GB of memory
    seconds: float = 300.0  # maximum duration of a connection
    idle_seconds: float = 60.0  # maximum time in which a client sends nothing
    stop_seconds: float = 10.0  # time until connections are closed after a signal to stop


class Server:
    """Listens, and calls a handler for each connection.

    `started` is set when all sockets are open; `stop` ends the server as a signal does.
    """

    def __init__(
        self,
        listeners: Iterable[Listener],
        handle: Handler,
        log: Log,
        limits: Limits | None = None,
        *,
        socket_mode: int = 0o660,
        reload: Callable[[], None] | None = None,
    ) -> None:
        self.listeners = tuple(listeners)
        self.handle = handle
        self.log = log
        self.limits = limits or Limits()
        self.socket_mode = socket_mode
        self.reload = reload
        self.sockets: list[socket.socket] = []
        self.started = asyncio.Event()
        self._stopping = asyncio.Event()
        self._slots = asyncio.Semaphore(self.limits.connections)
        self._connections: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """Accept no more connections, and end when the open ones have ended."""
        self._stopping.set()

    async def run(self) -> None:
        """Serve until a signal or `stop` ends it."""
        try:
            for listener in self.listeners:
                self.sockets += listener.open(self.socket_mode)
        except OSError:
            self._close_sockets()
            raise
        self._handle_signals()
        accepting = [asyncio.create_task(self._accept(each)) for each in self.sockets]
        self.log.write("started", listeners=" ".join(map(str, self.listeners)))
        _notify_systemd("READY=1")
        self.started.set()
        await self._stopping.wait()
        _notify_systemd("STOPPING=1")
        for task in accepting:
            task.cancel()
        await asyncio.gather(*accepting, return_exceptions=True)
        self._close_sockets()
        await self._end_connections()
        self.log.write("stopped")

    def _close_sockets(self) -> None:
        for each in self.sockets:
            name = each.getsockname() if each.family == socket.AF_UNIX else ""
            each.close()
            # A socket file that systemd made is left, because systemd itself listens there.
            if name in [str(Path(listener.path)) for listener in self.listeners if listener.path]:
                with suppress(OSError):
                    os.unlink(name)  # noqa: PTH108 (paths are strings here)

    async def _accept(self, listening: socket.socket) -> None:
        """Accept connections at a socket, and serve each in a task, until this task is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError as error:  # too many open files, or the client has gone
                self.log.write("accept-failed", reason=error.strerror or type(error).__name__)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            try:
                # After accepting, so that a socket without clients occupies no slot.
                await self._slots.acquire()
            except asyncio.CancelledError:
                accepted.close()
                raise
            task = asyncio.create_task(self._serve(accepted))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

    async def _serve(self, accepted: socket.socket) -> None:
        """Handle one connection. An error ends this connection only."""
        writer: asyncio.StreamWriter | None = None
        try:
            accepted.setblocking(False)
            reader, writer = await asyncio.open_connection(sock=accepted)
            async with asyncio.timeout(self.limits.seconds):
                await self.handle(reader, writer)
        except TimeoutError:
            self.log.write("connection-ended", reason="it took too long")
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            self.log.write("connection-ended", reason=type(error).__name__)
        except Exception as error:  # noqa: BLE001 (a defect must not end the daemon)
            # The text of an unexpected error may quote a message, so the log has only its kind.
            self.log.write("connection-failed", reason=f"unexpected {type(error).__name__}")
        finally:
            self._slots.release()
            if writer is None:
                accepted.close()
            else:
                writer.close()
                with suppress(Exception):
                    async with asyncio.timeout(1):
                        await writer.wait_closed()

    async def _end_connections(self) -> None:
        if self._connections:
            await asyncio.wait(self._connections, timeout=self.limits.stop_seconds)
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        # An error says that this is not the main thread, or not Unix.
        with suppress(NotImplementedError, ValueError, RuntimeError):
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.stop)
            loop.add_signal_handler(signal.SIGHUP, self._reload)

    def _reload(self) -> None:
        self.log.write("reloaded")  # also without `reload`: it confirms that the signal was received
        if self.reload is not None:
            self.reload()


def _notify_systemd(state: str) -> None:
    """Send the daemon's state to systemd, if it waits for that (the protocol of `sd_notify`).

    systemd names its socket in NOTIFY_SOCKET: a path or, after "@", a name that is in no file system, which
    Linux expects with a zero byte in place of "@".
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.connect("\0" + address[1:] if address.startswith("@") else address)
        channel.send(state.encode("ascii"))
