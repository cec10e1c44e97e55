"""The name of a message's file ↔ its base and its flags; the name of a folder → its parts.

    1700000000.M1P2.host,S=812,W=830:2,FSa        base, then ":2,", then flags; small letters are keywords

The base stays the same while the message is in its folder, and sizes that Dovecot writes into it
(",S=", ",W=") are part of it.
"""

from base64 import b64encode

from tamis_mail.mailbox.names import decode_utf7

# The letters of Maildir, and the flags of IMAP that they stand for.
FLAGS = {
    "S": "\\Seen",
    "R": "\\Answered",
    "T": "\\Deleted",
    "D": "\\Draft",
    "F": "\\Flagged",
    "P": "$Forwarded",
}
_INFO = ":2,"  # the mark before the flags


def split_name(name: str) -> tuple[str, str]:
    """Split the name of a file into its base and its flags.

    >>> split_name("17.M1P2.host,S=812:2,FS"), split_name("17.M1P2.host")
    (('17.M1P2.host,S=812', 'FS'), ('17.M1P2.host', ''))
    """
    base, _, info = name.partition(":")
    return base, info.removeprefix("2,") if info.startswith("2,") else ""


def with_flags(name: str, flags: str) -> str:
    """Return the name of a file with other flags, in the order of the alphabet, as Maildir demands.

    >>> with_flags("17.M1P2.host:2,S", "Sa"), with_flags("17.M1P2.host", "")
    ('17.M1P2.host:2,Sa', '17.M1P2.host:2,')
    """
    return f"{name.partition(':')[0]}{_INFO}{''.join(sorted(set(flags)))}"


def read_flags(flags: str, keywords: dict[str, str]) -> frozenset[str]:
    """Return the flags and keywords of a message; `keywords` has the folder's keywords by their letters."""
    return frozenset(keyword for flag in flags if (keyword := FLAGS.get(flag) or keywords.get(flag)))


def make_uid(base: str) -> str:
    """Return the base as text that can be stored and logged.

    >>> make_uid("17.M1P2.host,S=812"), make_uid("1" + chr(10) + "2")
    ('17.M1P2.host,S=812', '=MQoy')
    """
    if base.isprintable() and not base.startswith("="):
        return base
    return "=" + b64encode(base.encode("utf-8", "surrogateescape")).decode("ascii")


def split_folder_name(name: str) -> tuple[str, ...]:
    """Split the name of a folder as a user writes it: ".Junk.2026" or "Junk/2026".

    The first form is that of Maildir++, which has the subfolders beside each other under such names.

    >>> split_folder_name(".Junk.2026"), split_folder_name("Junk/2026/"), split_folder_name(".Entw&APw-rfe")
    (('Junk', '2026'), ('Junk', '2026'), ('Entwürfe',))
    """
    parts = name[1:].split(".") if name.startswith(".") else name.strip("/").split("/")
    return tuple(decode_utf7(part) for part in parts)
