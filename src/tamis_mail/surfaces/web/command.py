"""`tamis serve web`: the page, for a browser on this machine."""

import secrets
import socket
import sys
import webbrowser
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TextIO

from tamis_mail.files import open_privately, open_regular
from tamis_mail.mailbox import open_source
from tamis_mail.settings import default_path

_PORT = 8765
_ADDRESS = "127.0.0.1"


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "Open a page in the browser that shows mail with verdicts and their reasons; a click corrects a "
        "verdict. The server listens on this machine only. The printed address has a token, which opens the "
        "page once, within ten minutes."
    )
    parser.add_argument(
        "--mail",
        metavar="PATH",
        action="append",
        default=[],
        help="a Maildir, an mbox, an MH folder or a folder of these, whose messages are listed, now and in "
        "later runs; may be repeated",
    )
    parser.add_argument(
        "--port",
        metavar="N",
        type=_read_port,
        default=None,
        help=f"port at {_ADDRESS}; 0 takes a free one (default: {_PORT}, or a free one if it is taken)",
    )
    parser.add_argument(
        "--host-name",
        metavar="NAME",
        action="append",
        default=[],
        help="answer requests for this name, too, as from a proxy or a tunnel; may be repeated",
    )
    parser.add_argument(
        "--api-token-file",
        metavar="FILE",
        help="let programs that have the token in this file use the API; a missing file is created",
    )
    parser.add_argument("--no-open", action="store_true", help="do not open the browser")


def run(out: TextIO, options: Namespace) -> int:
    """Serve until a signal ends it."""
    store = Path(options.store).expanduser() if options.store else default_path()
    token = _read_api_token(Path(options.api_token_file).expanduser()) if options.api_token_file else None
    serve_page(
        out,
        store,
        mail=options.mail,
        port=options.port,
        host_names=options.host_name,
        api_token=token,
        opens_browser=not options.no_open,
    )
    return 0


def serve_page(
    out: TextIO,
    store: Path,
    *,
    mail: Sequence[str] = (),
    port: int | None = None,
    host_names: Sequence[str] = (),
    api_token: str | None = None,
    opens_browser: bool = True,
) -> None:
    """Serve the page of a store until a signal ends it, and print its address."""
    try:
        from tamis_mail.surfaces.web import server  # noqa: PLC0415 (the extra `web` may be missing)
    except ImportError as error:
        raise ValueError(
            f'the page needs {error.name}, which is not installed: pip install "tamis[web]"'
        ) from None
    for path in mail:
        open_source(str(Path(path).expanduser()))  # refuse what is not mail before the server starts

    def announce(address: str) -> None:
        out.write(
            f"The page is at {address}\n"
            "This address works once, within ten minutes. Ctrl+C ends the server.\n"
        )
        out.flush()
        if opens_browser and not webbrowser.open(address):
            sys.stderr.write("tamis serve web: no browser could be opened: open the address yourself\n")

    with closing(_listen(port)) as listener:
        server.serve(store, listener, announce, mail=mail, host_names=host_names, api_token=api_token)


def _listen(port: int | None) -> socket.socket:
    """Bind a port of the loopback address: the given one, else the default one, else a free one."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        try:
            listener.bind((_ADDRESS, _PORT if port is None else port))
        except OSError:
            if port is not None:
                raise
            listener.bind((_ADDRESS, 0))
    except OSError as error:
        listener.close()
        raise ValueError(
            f"port {port} cannot be used ({error.strerror}): give another one by --port, or --port 0"
        ) from None
    return listener


def _read_port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= 65535):
        raise ArgumentTypeError(f"got {text!r}, expected a port from 0 to 65535")
    return int(text)


def _read_api_token(path: Path) -> str:
    """Read the token of the API; make one if there is no such file, readable by its owner only."""
    try:
        with open(path, "x", opener=open_privately) as file:
            file.write(secrets.token_urlsafe(32) + "\n")
    except FileExistsError:
        pass
    except OSError as error:
        raise ValueError(f"{path} cannot be written ({error.strerror}): name another file") from None
    with open_regular(str(path)) as file:
        token = file.read(1000).decode("ascii", "replace").strip()
    if len(token) < 16:
        raise ValueError(
            f"the token in {path} has {len(token)} characters, expected 16 or more: delete the file"
        )
    return token
