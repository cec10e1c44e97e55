"""`tamis allow`: addresses and domains whose mail is never spam."""

from argparse import Namespace
from typing import TextIO

from tamis_mail.surfaces.cli.parser import Parser
from tamis_mail.surfaces.cli.sender_list import ALLOWED, change_list, configure_list


def configure(parser: Parser) -> None:
    configure_list(parser, ALLOWED)
    parser.description = (
        "Allow senders: their mail is ham, whatever its evidence. NAME is an address (ann@example.org) or a "
        "domain (example.org), which covers its sub-domains. An entry for an address outweighs one for its "
        "domain. Allowing a name removes the same name from the list of tamis block. Without a NAME, the "
        "allowed senders are listed.\n\n"
        "The address in From decides, never the name beside it. From is easily forged: mail whose "
        "Authentication-Results say dmarc=fail is judged by its evidence nevertheless. If your mail server "
        "does not check DMARC, allow only senders that nobody would pretend to be."
    )
    parser.examples = [
        ("tamis allow ann@example.org example.net", "an address and a domain"),
        ("tamis allow", "list them"),
        ("tamis allow --remove example.net", "judge its mail by its evidence again"),
        ("tamis allow --from friends.txt", "one NAME per line; # begins a comment"),
    ]


def run(out: TextIO, options: Namespace) -> int:
    """Change or list the allowed senders."""
    return change_list(out, options, ALLOWED)
