"""Runs the application by uvicorn at a socket that listens already."""

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

_CONNECTIONS = 100
_CLOSE_SECONDS = 3  # for answers that have begun
_HEADER_SECONDS = 10.0  # in which a connection must send its first request


def serve(
    store: Path,
    listener: socket.socket,
    announce: Callable[[str], None],
    *,
    mail: Sequence[str] = (),
    host_names: Sequence[str] = (),
    api_token: str | None = None,
) -> None:
    """Serve the page of a store until a signal comes; `announce` gets its address when it can be opened."""
    with closing(Sieve.open(store)), closing(Catalog.of(store)) as catalog:  # both are created
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
        h11_max_incomplete_event_size=1 << 16,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_CLOSE_SECONDS,
        ws="none",
        http=_Protocol,
    )
    listener.listen()  # so that the address can be opened before the server accepts
    announce(f"http://{security.host_name}:{port}/enter?token={security.make_entry_token()}")
    _Server(config).run(sockets=[listener])


class _Protocol(H11Protocol):
    """Closes a connection that sends no request, so that silent ones do not take the places of others."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection."""
        super().connection_made(transport)
        self.loop.call_later(_HEADER_SECONDS, self._close_if_silent)

    def _close_if_silent(self) -> None:
        has_request: object = self.cycle  # uvicorn's types do not say that it is None before the first one
        if has_request is None:
            self.transport.close()


class _Server(uvicorn.Server):
    """Ends by a signal as other daemons do: what follows in the program runs, and its exit status is 0."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Ask the server to end when a signal comes; uvicorn's own would then end the process by it."""
        before = {one: signal.signal(one, self.handle_exit) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
