"""`tamis serve lmtp`: judge mail on its way from a mail server to its delivery."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from functools import partial
from importlib.metadata import version
from typing import TextIO

from tamis_mail.serving import daemon
from tamis_mail.serving.listeners import Listener
from tamis_mail.surfaces.lmtp.next_hop import NextHop
from tamis_mail.surfaces.lmtp.service import LmtpService, Marking

_LISTEN = "127.0.0.1:2424"


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "Take mail by LMTP, as from Postfix, add the verdict to its header, and pass it on by LMTP, as to "
        "Dovecot. A recipient is accepted only after the next hop has accepted it. If the store cannot be "
        "read, the message goes on unchanged; if the next hop cannot be reached, the mail server keeps the "
        "message and tries again."
    )
    daemon.add_options(parser, _LISTEN)
    parser.add_argument(
        "--next",
        metavar="ADDRESS",
        required=True,
        type=_read_next,
        help="HOST:PORT, [ADDRESS]:PORT or unix:PATH of the server to which mail is passed on",
    )
    parser.add_argument(
        "--next-protocol",
        choices=("lmtp", "smtp"),
        default="lmtp",
        help="protocol of that server (default: lmtp)",
    )
    parser.add_argument(
        "--next-timeout",
        metavar="SECONDS",
        type=_read_seconds,
        default=300,
        help="maximum time to wait for an answer of that server (default: %(default)s)",
    )
    daemon.add_marking_options(parser)
    parser.add_argument(
        "--user-name",
        choices=("address", "local-part"),
        default="address",
        help="name of a user in --user-stores: the recipient's address, or the part before its @; always "
        "in lower case and without +detail (default: address)",
    )


def run(out: TextIO, options: Namespace) -> int:
    """Serve until a signal ends it; `daemon.run` calls `make_service` with the service's other fields."""
    if str(options.next) in {str(listener) for listener in options.listen or [Listener.parse(_LISTEN)]}:
        raise ValueError(
            f"--next is {options.next}, where this daemon listens: give the address of the next server"
        )
    hop = NextHop(options.next, options.next_protocol, float(options.next_timeout))
    marking = Marking(options.dialect, version("tamis"), shows_evidence=not options.no_evidence)
    make_service = partial(LmtpService, hop=hop, marking=marking, user_name=options.user_name)
    return daemon.run(options, make_service, "lmtp")


def _read_next(text: str) -> Listener:
    try:
        address = Listener.parse(text)
    except ValueError:
        address = Listener()
    if not (address.path or address.host):
        raise ArgumentTypeError(f"got {text!r}, expected HOST:PORT, [ADDRESS]:PORT or unix:PATH")
    return address


def _read_seconds(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and int(text)):
        raise ArgumentTypeError(f"got {text!r}, expected a whole number of seconds from 1 to 999999")
    return int(text)
