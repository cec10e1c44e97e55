"""The options that all daemons share, and the objects that are made from them."""

import asyncio
import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tamis_mail.serving.filtering import Filtering
from tamis_mail.serving.listeners import Listener
from tamis_mail.serving.logs import Log
from tamis_mail.serving.metrics import Metrics, PrometheusMetrics
from tamis_mail.serving.server import Handler, Limits, Server
from tamis_mail.settings import default_path
from tamis_mail.verdict.header_fields import DIALECTS

_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@-]{0,63}")
_PLACEHOLDER = "{user}"


@dataclass(frozen=True, slots=True)
class Daemon:
    """The objects that a service needs to handle connections."""

    filtering: Filtering
    log: Log
    metrics: Metrics
    limits: Limits
    user_of: Callable[[str], str]
    """Returns the user for a name that a client sent; an empty string for the common store."""


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
        help="permission of a Unix socket, in octal digits (default: 660)",
    )
    parser.add_argument(
        "--user-stores",
        metavar="PATTERN",
        help="a store for each user that a client names: a path with {user} in it; a user without a store of "
        "his own, and a name with other characters than letters, digits and _.+@-, get the common store",
    )
    parser.add_argument(
        "--max-size",
        metavar="BYTES",
        type=make_argument_type(read_positive),
        default=Limits().size,
        help="largest message; a larger one gets no verdict (default: %(default)s)",
    )
    parser.add_argument(
        "--max-connections",
        metavar="N",
        type=make_argument_type(read_positive),
        default=Limits().connections,
        help="connections at once; others wait (default: %(default)s)",
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=make_argument_type(read_positive),
        default=int(Limits().seconds),
        help="longest time of a connection (default: %(default)s)",
    )
    parser.add_argument(
        "--idle-timeout",
        metavar="SECONDS",
        type=make_argument_type(read_positive),
        default=int(Limits().idle_seconds),
        help="longest time in which a client sends nothing (default: %(default)s)",
    )
    parser.add_argument(
        "--threads",
        metavar="N",
        type=make_argument_type(read_positive),
        default=2,
        help="messages that are judged at once (default: %(default)s)",
    )
    add_log_options(parser)
    parser.set_defaults(default_listen=listen)


def add_log_options(parser: ArgumentParser) -> None:
    """Add the options of the log and of the metrics."""
    parser.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="of the log on stderr, which has no content of messages (default: text)",
    )
    parser.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        type=make_argument_type(Listener.parse),
        help="serve Prometheus metrics there",
    )


def add_marking_options(parser: ArgumentParser) -> None:
    """Add the options of a daemon that writes verdicts into messages."""
    parser.add_argument(
        "--dialect",
        choices=DIALECTS,
        default=DIALECTS[0],
        help="whose header fields are written (default: %(default)s)",
    )
    parser.add_argument(
        "--no-evidence",
        action="store_true",
        help="write no X-Spam-Evidence, which takes more time than the verdict",
    )


def run(options: Namespace, make_handler: Callable[[Daemon], Handler], source: str) -> int:
    """Run a daemon until a signal ends it, and return its exit status."""
    asyncio.run(_serve(options, make_handler, source))
    return 0


async def _serve(options: Namespace, make_handler: Callable[[Daemon], Handler], source: str) -> None:
    listeners = options.listen or [Listener.parse(options.default_listen)]
    store = Path(options.store).expanduser() if options.store else default_path()
    log = Log(sys.stderr, options.log_format)
    path_of, user_of = _make_paths(store, options.user_stores)
    limits = Limits(
        options.max_connections, options.max_size, float(options.timeout), float(options.idle_timeout)
    )
    metrics = PrometheusMetrics(options.metrics, store) if options.metrics else Metrics()
    filtering = Filtering(path_of, threads=options.threads, source=source)
    try:
        handle = make_handler(Daemon(filtering, log, metrics, limits, user_of))
        server = Server(
            listeners, handle, log, limits, socket_mode=options.socket_mode, reload=filtering.reopen
        )
        await server.run()
    finally:
        await filtering.close()
        metrics.close()


def _make_paths(store: Path, pattern: str | None) -> tuple[Callable[[str], Path], Callable[[str], str]]:
    """Return functions for the path of a user's store, and for the user of a name that a client sent."""
    if pattern is None:
        return (lambda user: store), (lambda name: "")
    if _PLACEHOLDER not in pattern:
        raise ValueError(f"--user-stores is {pattern!r}: expected a path with {_PLACEHOLDER} in it")

    def path_of(user: str) -> Path:
        return Path(pattern.replace(_PLACEHOLDER, user)).expanduser() if user else store

    def user_of(name: str) -> str:
        return name if _USER.fullmatch(name) and ".." not in name else ""

    return path_of, user_of


def read_positive(text: str) -> int:
    """Read a positive integer."""
    if not (text.isascii() and text.isdigit() and len(text) <= 12 and int(text)):
        raise ValueError(f"got {text!r}, expected a positive integer")
    return int(text)


def _read_socket_mode(text: str) -> int:
    if not re.fullmatch("[0-7]{3,4}", text):
        raise ValueError(f"got {text!r}, expected three octal digits, as in 660")
    return int(text, 8)


def make_argument_type(read: Callable[[str], object]) -> Callable[[str], object]:
    """Make a type for argparse that prints the text of a ValueError, which argparse alone does not."""

    def convert(text: str) -> object:
        try:
            return read(text)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from None

    return convert
