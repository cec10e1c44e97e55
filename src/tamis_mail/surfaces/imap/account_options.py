"""The options that name an IMAP account, or replace its settings, for `watch imap` and `setup imap`.

A password comes from the system's keyring (its store of passwords), a command, a systemd credential or a
prompt; for XOAUTH2, a login by an OAuth 2.0 token, the token comes from a command or a credential.
"""

import shlex
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from tamis_mail.surfaces.imap.account import Account, AccountError, list_accounts, settings_path

_MAX_SIZE = 10 << 20  # default of the largest message in bytes


def add_account_options(parser: ArgumentParser) -> None:
    """Add the options of an account."""
    add = parser.add_argument
    add("--host", metavar="HOST", help="the IMAP server")
    add(
        "--port",
        metavar="PORT",
        type=_read_port,
        help="port of the server (default: 993, or 143 without implicit TLS)",
    )
    add("--user", metavar="USER", help="the name to log in with, usually the address")
    add(
        "--tls",
        choices=("implicit", "starttls", "none"),
        help="how the connection is encrypted; none is only for a server on this machine (default: implicit)",
    )
    add("--certificate", metavar="FILE", help="file of certificates (PEM) to trust instead of the system's")
    add(
        "--password",
        metavar="SOURCE",
        choices=("keyring", "command", "credential", "prompt"),
        help="where the password comes from: keyring, command, credential or prompt (default: keyring)",
    )
    add(
        "--password-command",
        metavar="COMMAND",
        help="command that prints the password, or the token, in its first line",
    )
    add("--credential", metavar="NAME", help="the systemd credential with the password or token")
    add("--xoauth2", action="store_true", help="log in by XOAUTH2: the command or credential gives a token")
    add(
        "--folder",
        metavar="FOLDER",
        action="append",
        help="watch this folder besides Inbox and Junk; may be repeated (default: all folders)",
    )
    add(
        "--max-size",
        metavar="BYTES",
        type=_read_size,
        default=_MAX_SIZE,
        help="maximum size of a message that is read; larger ones stay where they are (default: %(default)s)",
    )


def read_given_settings(options: Namespace) -> dict[str, Any]:
    """Return the settings that are given as options, by their names in `Account`."""
    changes: dict[str, Any] = {
        name: value
        for name in ("host", "port", "user", "tls", "certificate", "password", "credential")
        if (value := getattr(options, name)) is not None
    }
    if options.password_command is not None:
        changes["command"] = options.password_command
        changes.setdefault("password", "command")
    if options.credential is not None:
        changes.setdefault("password", "credential")
    if options.xoauth2:
        changes["login"] = "xoauth2"
    if options.folder:
        changes["folders"] = tuple(options.folder)
    for name in ("junk", "unsure"):  # folders; their options are added by each command itself
        if getattr(options, name, None):
            changes[name] = getattr(options, name)
    return changes


def make_account(options: Namespace, name: str | None) -> Account:
    """Return the account of a name, or the only one, with the settings that are given as options.

    Raise AccountError if there are no settings of this account, and the options are not enough.
    """
    changes = read_given_settings(options)
    if name is not None and not ("host" in changes and "user" in changes):
        return replace(Account.read(name), **changes)
    if name is None and "host" not in changes:
        return replace(Account.read(_choose_only(list_accounts())), **changes)
    if "user" not in changes:
        raise AccountError("--host needs --user: the name to log in with")
    return Account(name or changes["host"], **changes)


def format_account(options: Namespace, account: Account) -> str:
    """Return the arguments of a command that name the account, and the options that change its settings.

    Folders and sizes are left out.
    """
    words = [account.name] if settings_path(account.name).exists() else []
    for option in (
        "host",
        "port",
        "user",
        "tls",
        "certificate",
        "password",
        "password_command",
        "credential",
    ):
        value = getattr(options, option)
        if value is not None:
            words += [f"--{option.replace('_', '-')}", str(value)]
    words += ["--xoauth2"] if options.xoauth2 else []
    return shlex.join(words)


def load_mailbox_module() -> Any:
    """Import `mailbox`; raise AccountError if the package imapclient, which it needs, is not installed."""
    try:
        return import_module("tamis_mail.surfaces.imap.mailbox")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "imapclient":
            raise
        raise AccountError(
            'IMAP needs the package imapclient, which is not installed: pip install "tamis[imap]"'
        ) from None


def _choose_only(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    if names:
        raise AccountError(f"there are several accounts, name one of them: {', '.join(names)}")
    raise AccountError("there is no account yet: run tamis setup imap, or give --host and --user")


def _read_port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) <= 65535):
        raise ArgumentTypeError(f"got {text!r}, expected a number from 1 to 65535")
    return int(text)


def _read_size(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text)):
        raise ArgumentTypeError(f"got {text!r}, expected a number of bytes below 1,000,000,000")
    return int(text)
