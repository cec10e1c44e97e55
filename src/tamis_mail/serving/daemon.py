"""The options that all daemons share, and the function that runs a daemon with them."""

import asyncio
import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tamis_mail.serving.filtering import Filtering
from tamis_mail.serving.listeners import Listener
from tamis_mail.serving.logs import Log
from tamis_mail.serving.metrics import Metrics, PrometheusMetrics
from tamis_mail.serving.server import Limits, Server
from tamis_mail.settings import default_path
from tamis_mail.verdict.header_fields import DIALECTS

_USER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@-]{0,63}")
_PLACEHOLDER = "{user}"


class Service(Protocol):
    """The part of a daemon that handles connections by its protocol."""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, /) -> None:
        """Handle one connection, which `Server` closes afterwards. An error ends this connection only."""


def add_options(parser: ArgumentParser, listen: str) -> None:
    """Add the options of a daemon, whose default address is `listen`."""
    parser.add_argument(
        "--listen",
        metavar="ADDRESS",
        action="append",
        type=make_argument_type(Listener.parse),
        help=f"HOST:PORT, [ADDRESS]:PORT, unix:PATH or systemd; may be repeated (default: {listen})",
    )
    parser.add_argument(
        "--socket-mode",
        metavar="MODE",
        type=make_argument_type(_read_socket_mode),
        default=0o660,
        help="permissions of a Unix socket, in octal digits (default: 660)",
    )
    parser.add_argument(
        "--user-stores",
        metavar="PATTERN",
        help="a store for each user that a client names: a path with {user} in it; the store of --store "
        "judges for users without a store, and serves names with other characters than letters, digits "
        "and _.+@-",
    )
    limits = Limits()
    add_number(
        parser, "--max-size", "BYTES", limits.size, "maximum size of a message; a larger one gets no verdict"
    )
    connections_help = "maximum number of connections at once; further clients wait"
    add_number(parser, "--max-connections", "N", limits.connections, connections_help)
    add_number(parser, "--timeout", "SECONDS", int(limits.seconds), "maximum duration of a connection")
    idle_help = "maximum time in which a client sends nothing"
    add_number(parser, "--idle-timeout", "SECONDS", int(limits.idle_seconds), idle_help)
    add_number(parser, "--threads", "N", 2, "number of threads that judge messages")
    add_log_options(parser)
    parser.set_defaults(default_listen=listen)


def add_number(parser: ArgumentParser, name: str, metavar: str, default: int, description: str) -> None:
    """Add an option that takes a positive integer."""
    parser.add_argument(
        name,
        metavar=metavar,
        type=make_argument_type(read_positive),
        default=default,
        help=f"{description} (default: %(default)s)",
    )


def add_log_options(parser: ArgumentParser) -> None:
    """Add the options of the log and of the metrics."""
    parser.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="format of the log on stderr; the log has no content of messages (default: text)",
    )
    parser.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        type=make_argument_type(Listener.parse),
        help="serve Prometheus metrics at this address",
    )


def add_marking_options(parser: ArgumentParser) -> None:
    """Add the options of a daemon that writes verdicts into messages."""
    parser.add_argument(
        "--dialect",
        choices=DIALECTS,
        default=DIALECTS[0],
        help="write the header fields that this filter writes (default: %(default)s)",
    )
    parser.add_argument(
        "--no-evidence",
        action="store_true",
        help="write no X-Spam-Evidence, which takes more time than the verdict",
    )


def run(options: Namespace, make_service: Callable[..., Service], source: str) -> int:
    """Run a daemon until a signal ends it, and return its exit status.

    `make_service` is called with a `Filtering`, a `Log`, `Metrics`, the `limits` and `user_of`, which returns
    the user for a name that a client sent; "" is the user of the common store, that of `--store`. The log of
    events names `source` as the origin of what the daemon learns and judges.
    """
    asyncio.run(_serve(options, make_service, source))
    return 0


async def _serve(options: Namespace, make_service: Callable[..., Service], source: str) -> None:
    listeners = options.listen or [Listener.parse(options.default_listen)]
    store = Path(options.store).expanduser() if options.store else default_path()
    log = Log(sys.stderr, options.log_format)
    path_of, user_of = _make_lookups(store, options.user_stores)
    limits = Limits(
        connections=options.max_connections,
        size=options.max_size,
        seconds=float(options.timeout),
        idle_seconds=float(options.idle_timeout),
    )
    metrics = PrometheusMetrics(options.metrics, store) if options.metrics else Metrics()
    filtering = Filtering(path_of, threads=options.threads, source=source)
    try:
        service = make_service(filtering, log, metrics, limits=limits, user_of=user_of)
        server = Server(
            listeners, service.handle, log, limits, socket_mode=options.socket_mode, reload=filtering.reopen
        )
        await server.run()
    finally:
        await filtering.close()
        metrics.close()


def _make_lookups(store: Path, pattern: str | None) -> tuple[Callable[[str], Path], Callable[[str], str]]:
    """Return two functions: user → path of the user's store, and name that a client sent → user."""
    if pattern is None:
        return (lambda user: store), (lambda name: "")
    if _PLACEHOLDER not in pattern:
        raise ValueError(f"--user-stores is {pattern!r}: expected a path with {_PLACEHOLDER} in it")

    def path_of(user: str) -> Path:
        return Path(pattern.replace(_PLACEHOLDER, user)).expanduser() if user else store

    def user_of(name: str) -> str:
        return name if _USER_NAME.fullmatch(name) and ".." not in name else ""

    return path_of, user_of


def read_positive(text: str) -> int:
    """Read a positive integer; raise ValueError if the text is not one of at most 12 digits."""
    if not (text.isascii() and text.isdigit() and len(text) <= 12 and int(text)):
        raise ValueError(f"got {text!r}, expected a positive integer of at most 12 digits")
    return int(text)


def _read_socket_mode(text: str) -> int:
    if not re.fullmatch("[0-7]{3,4}", text):
        raise ValueError(f"got {text!r}, expected three or four octal digits, as in 660")
    return int(text, 8)


def make_argument_type(read: Callable[[str], object]) -> Callable[[str], object]:
    """Return a `type` for argparse that reports the text of a ValueError, which argparse would omit."""

    def convert(text: str) -> object:
        try:
            return read(text)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from None

    return convert
