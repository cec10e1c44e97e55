"""`tamis block`: addresses and domains whose mail is always spam."""

from argparse import Namespace
from typing import TextIO

from tamis_mail.surfaces.cli.parser import Parser
from tamis_mail.surfaces.cli.sender_list import BLOCKED, change_list, configure_list


def configure(parser: Parser) -> None:
    configure_list(parser, BLOCKED)
    parser.description = (
        "Block senders: their mail is spam, whatever its evidence. NAME is an address (eve@example.org) or a "
        "domain (example.org), which covers its sub-domains; .top is a top-level domain. An entry for an "
        "address outweighs one for its domain. Blocking a name removes the same name from the list of tamis "
        "allow. Without a NAME, the blocked senders are listed.\n\n"
        "The address in From decides. Most spam comes from a new address each time: to learn it "
        "(tamis learn --spam) helps more than to block its sender."
    )
    parser.examples = [
        ("tamis block eve@example.org shop.example", "an address and a domain"),
        ("tamis block", "list them"),
        ("tamis block --remove shop.example", "judge its mail by its evidence again"),
        ("tamis block --from list.txt", "one NAME per line; # begins a comment"),
    ]


def run(out: TextIO, options: Namespace) -> int:
    """Change or list the blocked senders."""
    return change_list(out, options, BLOCKED)
