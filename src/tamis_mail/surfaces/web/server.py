"""Run the application by uvicorn, an HTTP server, at a socket that is bound already."""

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tamis_mail.catalog import Catalog
from tamis_mail.sieve import Sieve
from tamis_mail.surfaces.web.app import make_app, make_context
from tamis_mail.surfaces.web.imports import add_folders
from tamis_mail.surfaces.web.security import Security

_CONNECTIONS = 100  # maximum number at once
_CLOSE_SECONDS = 3  # after a signal, time to complete the answers that have begun
_HEADER_SECONDS = 10.0  # a connection that sends no request within this time is closed


def serve(
    store: Path,
    listener: socket.socket,
    announce: Callable[[str], None],
    *,
    mail: Sequence[str] = (),
    host_names: Sequence[str] = (),
    api_token: str | None = None,
) -> None:
    """Serve the page of a store until a signal comes; call `announce` with its address when it is ready."""
    with closing(Sieve.open(store)), closing(Catalog.of(store)) as catalog:  # creates both files
        add_folders(catalog, mail)
    port = listener.getsockname()[1]
    security = Security(port, host_names=host_names, api_token=api_token)
    context = make_context(store, security)
    config = uvicorn.Config(
        make_app(context),
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_CONNECTIONS,
        h11_max_incomplete_event_size=1 << 16,  # maximum bytes of the header of a request
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_CLOSE_SECONDS,
        ws="none",  # no web sockets
        http=_Protocol,
    )
    listener.listen()  # so that the address can be opened before the server accepts
    announce(f"http://{security.host_name}:{port}/enter?token={security.make_entry_token()}")
    _Server(config).run(sockets=[listener])


class _Protocol(H11Protocol):
    """Speaks HTTP/1.1, and closes connections that send no request: they would use up the limit."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Note a new connection, and check after some seconds whether it has sent a request."""
        super().connection_made(transport)
        self.loop.call_later(_HEADER_SECONDS, self._close_if_silent)

    def _close_if_silent(self) -> None:
        # `cycle` is the last request; uvicorn's types do not say that it is None before the first one.
        has_request: object = self.cycle
        if has_request is None:
            self.transport.close()


class _Server(uvicorn.Server):
    """Ends by a signal as the other daemons do: `run` returns, and the exit status is 0."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End the server when a signal comes; uvicorn would afterwards raise the signal again."""
        before = {
            number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
