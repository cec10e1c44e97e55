"""`tamis setup imap`: ask for an account, try it, learn its folders, and write its settings.

The settings are written last and at once: whenever it is interrupted, nothing is half-done. What was learned
before stays learned, and a second run learns the rest.
"""

import getpass
import shlex
import sys
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tamis.progress import Line
from tamis_mail.labels import HAM, SPAM
from tamis_mail.mailbox.raw_message import printable
from tamis_mail.settings import default_path
from tamis_mail.sieve import Sieve
from tamis_mail.surfaces.imap.account import (
    Account,
    AccountError,
    has_keyring,
    keep_in_keyring,
    settings_path,
)
from tamis_mail.surfaces.imap.account_options import add_account_options, load_mailbox, read_changes
from tamis_mail.watching.lessons import SPAM_KEYWORDS
from tamis_mail.watching.mailbox import Folder, MailboxError, MessageError
from tamis_mail.watching.roles import Role

if TYPE_CHECKING:
    from tamis_mail.surfaces.imap.mailbox import ImapMailbox

_OTHER_HOSTS = {
    "googlemail.com": "imap.gmail.com",
    "hotmail.com": "outlook.office365.com",
    "icloud.com": "imap.mail.me.com",
    "live.com": "outlook.office365.com",
    "me.com": "imap.mail.me.com",
    "outlook.com": "outlook.office365.com",
}
_WAYS = {
    "keyring": "in the keyring of this system",
    "command": "a command prints it, such as: pass show mail",
    "credential": "a systemd credential, for a service",
    "prompt": "nowhere: ask each time",
}
_USES = {
    Role.INBOX: "mail that you want",
    Role.ARCHIVE: "mail that you want",
    Role.JUNK: "spam",
    Role.SENT: "people to whom you write",
}
_WIDTH = 28  # characters of the progress bar
_SENT_BATCH = 20  # sent messages that are held at once: they may have large attachments
_PASSWORDS = 3  # that may be tried
_ATTEMPTS = 4  # to read a folder, if the connection is lost


@dataclass(slots=True)
class _Counted:
    """A folder and the messages that are learned."""

    folder: Folder
    uids: list[str]


def configure(parser: ArgumentParser) -> None:
    """Add the options of `tamis setup imap`."""
    parser.description = (
        "Set up an IMAP account: ask for it, log in, find Inbox, Junk, Archive and Sent, learn them, and "
        "write the settings to a file without the password. Each question has an option; with --yes none is "
        "asked. It can be run again at any time."
    )
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="what to call the account (default: the domain)"
    )
    parser.add_argument("--junk", metavar="FOLDER", help="the folder of spam (default: found by itself)")
    parser.add_argument("--unsure", metavar="FOLDER", help="a folder for mail that may be spam")
    parser.add_argument("--no-learn", action="store_true", help="write the settings only")
    parser.add_argument("-y", "--yes", action="store_true", help="take the default for every answer")
    add_account_options(parser)


def run(out: TextIO, options: Namespace) -> int:
    """Ask, try, learn and write."""
    ask = _Questions(out, takes_defaults=options.yes)
    store = Path(options.store).expanduser() if options.store else default_path()
    load_mailbox()  # before anything is asked
    account = _ask_account(ask, options)
    mailbox, secret = _log_in(out, ask, account, options.max_size)
    try:
        counted = _count(mailbox)
        _show_folders(out, counted)
        if not options.no_learn and ask.confirm("Learn these folders now?"):
            _learn(out, mailbox, counted, store)
    finally:
        mailbox.close()
    if account.password == "keyring" and secret:
        keep_in_keyring(account.host, account.user, secret)
    path = printable(str(account.write()))
    home = str(Path.home())
    shown = f"~{path.removeprefix(home)}" if path.startswith(f"{home}/") else path
    out.write(f"Settings: {shown} (without the password)\n\n")
    words = [account.name, *(["--store", options.store] if options.store else [])]
    command = f"tamis watch imap {shlex.join(words)}"
    out.write(f"To see what would be moved:\n  {command} --dry-run\n")
    out.write(f"To begin:\n  {command} --move\n")
    return 0


# The account.


class _Questions:
    """Asks in the terminal."""

    def __init__(self, out: TextIO, *, takes_defaults: bool) -> None:
        self._out = out
        self._takes_defaults = takes_defaults

    def ask(self, question: str, option: str, default: str = "") -> str:
        """Return the answer, or the default if it is empty; `option` is what gives it without a question."""
        if self._takes_defaults:
            if not default:
                raise AccountError(f"{option} is needed")
            return default
        while True:
            shown = f" [{default}]" if default else ""
            answer = self._read(f"{question}{shown}: ", option) or default
            if answer:
                return answer

    def choose(self, question: str, option: str, choices: "dict[str, str]", default: str) -> str:
        """Return one of the choices."""
        if self._takes_defaults:
            return default
        names = list(choices)
        self._out.write(f"{question}\n")
        for number, (name, meaning) in enumerate(choices.items(), 1):
            self._out.write(f"  {number}  {name:<10}  {meaning}\n")
        while True:
            answer = self._read(f"Number [{names.index(default) + 1}]: ", option) or default
            if answer in names:
                return answer
            if answer.isdigit() and 1 <= int(answer) <= len(names):
                return names[int(answer) - 1]
            self._out.write(f"Please answer with a number from 1 to {len(names)}.\n")

    def confirm(self, question: str) -> bool:
        """Return whether the answer is yes, which is the default."""
        if self._takes_defaults:
            return True
        while True:
            answer = self._read(f"{question} [Y/n] ", "--yes").lower()
            if answer in ("", "y", "yes"):
                return True
            if answer in ("n", "no"):
                return False

    def ask_secret(self, question: str) -> str:
        """Return a password, which is not shown."""
        if not sys.stdin.isatty():
            raise AccountError("there is no terminal to ask for the password: use --password command")
        while not (secret := getpass.getpass(f"{question}: ")):
            pass
        return secret

    def _read(self, prompt: str, option: str) -> str:
        self._out.write(prompt)
        self._out.flush()
        line = sys.stdin.readline()
        if not line:
            self._out.write("\n")
            raise AccountError(f"there was no answer: give {option}")
        return line.strip()


def _ask_account(ask: _Questions, options: Namespace) -> Account:
    """Return the account; what no option gives is asked."""
    given = read_changes(options)
    known = _find_known(options.name)
    if known is not None:
        settings = [field.name for field in fields(Account) if field.name != "name"]
        given = {**{name: getattr(known, name) for name in settings}, **given}
    user = given.get("user") or ask.ask("Your address", "--user")
    domain = user.rpartition("@")[2] if "@" in user else ""
    if "host" not in given:
        guess = _OTHER_HOSTS.get(domain.lower(), f"imap.{domain}" if domain else "")
        given["host"] = ask.ask("Server", "--host", guess)
    if "password" not in given:
        default = "keyring" if has_keyring() else "prompt"
        given["password"] = ask.choose("Where is the password kept?", "--password", _WAYS, default)
    if given["password"] == "command" and not given.get("command"):
        given["command"] = ask.ask("Command", "--password-command")
    if given["password"] == "credential" and not given.get("credential"):
        given["credential"] = ask.ask("Name of the credential", "--credential")
    name = options.name or (known.name if known else "") or domain or given["host"]
    return Account(name, **{**given, "user": user})


def _log_in(out: TextIO, ask: _Questions, account: Account, max_size: int) -> "tuple[ImapMailbox, str]":
    """Return the account with a connection, and its password if it was asked for here."""
    module = load_mailbox()
    secret = ""
    for attempt in range(_PASSWORDS):
        is_known = account.password in ("command", "credential")
        if account.password == "keyring" and attempt == 0:
            with suppress(AccountError):
                account.read_secret()
                is_known = True
        if not is_known:
            secret = ask.ask_secret(f"Password of {account.user}")
        out.write(f"Connecting to {account.host}, port {account.effective_port} ...\n")
        out.flush()
        mailbox: ImapMailbox = module.ImapMailbox(account, max_size=max_size, secret=secret)
        try:
            mailbox.list_folders()
        except module.LoginError as error:
            if account.password in ("command", "credential") or attempt == _PASSWORDS - 1:
                raise
            out.write(f"{printable(str(error))}\n")
        else:
            break
    return mailbox, secret


def _find_known(name: str | None) -> Account | None:
    """Return the account that was set up under this name before."""
    if name is None or not settings_path(name).exists():
        return None
    return Account.read(name)


# Folders.


def _count(mailbox: "ImapMailbox") -> list[_Counted]:
    """Return the folders that are learned, with their messages."""
    counted = []
    for folder in mailbox.list_folders():
        if folder.role in _USES and folder.exists:
            messages = mailbox.list_messages(folder)
            kept = [message.uid for message in messages if _is_learned(folder.role, message.keywords)]
            counted.append(_Counted(folder, kept))
    order = list(_USES)
    return sorted(counted, key=lambda one: (order.index(one.folder.role), one.folder.name))


def _is_learned(role: Role, keywords: frozenset[str]) -> bool:
    """Whether a message is what its folder says: not one that is marked as deleted, or as junk elsewhere."""
    return "\\Deleted" not in keywords and (role == Role.JUNK or not keywords & SPAM_KEYWORDS)


def _show_folders(out: TextIO, counted: Sequence[_Counted]) -> None:
    out.write("Logged in. These folders can be learned:\n")
    width = min(40, max(len(printable(one.folder.name)) for one in counted)) if counted else 0
    for one in counted:
        name = printable(one.folder.name)
        shown = name if len(name) <= width else f"{name[: width - 1]}…"
        out.write(f"  {shown:<{width}}  {len(one.uids):>9,}  {_USES[one.folder.role]}\n")
    roles = {one.folder.role for one in counted if one.uids}
    if Role.JUNK not in roles:
        out.write("There is no spam to learn yet: move some to Junk, and run this again.\n")


# Learning.


def _learn(out: TextIO, mailbox: "ImapMailbox", counted: Sequence[_Counted], store: Path) -> None:
    with Sieve.open(store) as sieve:
        for one in counted:
            if not one.uids:
                continue
            reading = _Reading(mailbox, one)
            learned = _learn_folder(sieve, one.folder.role, reading.messages())
            reading.end(out, learned)


def _learn_folder(sieve: Sieve, role: Role, messages: Iterator[bytes]) -> "Counter[str]":
    if role == Role.SENT:
        actions: Counter[str] = Counter()
        while part := list(islice(messages, _SENT_BATCH)):
            actions.update(sieve.learn_sent(part))
        return actions
    label = SPAM if role == Role.JUNK else HAM
    return sieve.learn_many(messages, label, source="imap", processes=1)


class _Reading:
    """Reads the messages of a folder, with a progress bar; a lost connection is opened again."""

    def __init__(
        self, mailbox: "ImapMailbox", counted: _Counted, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._mailbox = mailbox
        self._folder = counted.folder
        self._waiting = dict.fromkeys(counted.uids)
        self._total = len(counted.uids)
        self._line = Line(sys.stderr)
        self._sleep = sleep
        self.failed = 0

    def messages(self) -> Iterator[bytes]:
        """Yield each message once."""
        attempt = 1
        while self._waiting:
            try:
                for uid, outcome in self._mailbox.read(self._folder, list(self._waiting)):
                    self._waiting.pop(uid, None)
                    attempt = 1
                    if isinstance(outcome, MessageError):
                        self.failed += 1
                    else:
                        yield outcome
                    self._draw()
                self._waiting.clear()  # what is left has been deleted
            except MailboxError:
                if attempt == _ATTEMPTS:
                    raise
                self._sleep(2.0**attempt)
                attempt += 1

    def end(self, out: TextIO, actions: "Counter[str]") -> None:
        """Say what was learned."""
        if self._line.is_terminal:
            self._line.draw("", time.monotonic())
        counts = [f"{number:,} {action}" for action, number in sorted(actions.items()) if number]
        if self.failed:
            counts.append(f"{self.failed:,} could not be read")
        out.write(f"  {printable(self._folder.name)}: {', '.join(counts) or 'nothing'}\n")
        out.flush()

    def _draw(self) -> None:
        now = time.monotonic()
        if not self._line.is_terminal or not self._line.is_due(now):
            return
        done = self._total - len(self._waiting)
        filled = _WIDTH * done // max(1, self._total)
        bar = "█" * filled + "░" * (_WIDTH - filled)
        name = printable(self._folder.name)[:24]
        self._line.draw(f"  {name} {bar} {done:,} of {self._total:,}", now)
