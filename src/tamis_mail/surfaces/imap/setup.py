"""`tamis setup imap`: ask for the settings of an account, log in, learn its folders, and write its settings.

The settings are written last and atomically: an interrupted run does not change them. The messages that it
has learned stay learned, and a second run learns the others.
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
from tamis_mail.surfaces.imap.account_options import (
    add_account_options,
    load_mailbox_module,
    read_given_settings,
)
from tamis_mail.watching.lessons import SPAM_KEYWORDS
from tamis_mail.watching.mailbox import Folder, MailboxError, MessageError
from tamis_mail.watching.roles import Role

if TYPE_CHECKING:
    from tamis_mail.surfaces.imap.mailbox import ImapMailbox

_OTHER_HOSTS = {  # servers that are not called imap.DOMAIN, by the domain of an address
    "googlemail.com": "imap.gmail.com",
    "hotmail.com": "outlook.office365.com",
    "icloud.com": "imap.mail.me.com",
    "live.com": "outlook.office365.com",
    "me.com": "imap.mail.me.com",
    "outlook.com": "outlook.office365.com",
}
_PASSWORD_SOURCES = {
    "keyring": "in the keyring of this system",
    "command": "a command prints it, such as: pass show mail",  # `pass` is a password manager
    "credential": "a systemd credential, for a service",
    "prompt": "nowhere: ask each time",
}
# The roles of the folders that are learned: what messages in them mean.
_MEANINGS = {
    Role.INBOX: "mail that you want",
    Role.ARCHIVE: "mail that you want",
    Role.JUNK: "spam",
    Role.SENT: "people to whom you write",
}
_BAR_WIDTH = 28  # characters of the progress bar
_SENT_BATCH = 20  # sent messages that are in memory at once: they may have large attachments
_MAX_PASSWORDS = 3  # that may be tried
_MAX_ATTEMPTS = 4  # to read on; so many lost connections without a message between them are an error


@dataclass(slots=True)
class _FolderToLearn:
    """A folder, and the uids of its messages that are to be learned."""

    folder: Folder
    uids: list[str]


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "Set up an IMAP account: ask for its settings, log in, find Inbox, Junk, Archive and Sent, learn "
        "from them, and write the settings, without the password, to a file. An option can answer each "
        "question in advance; with --yes only the password may be asked for. It can be run again at any time."
    )
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="name of the account (default: the domain of the address, or the server)",
    )
    parser.add_argument("--junk", metavar="FOLDER", help="the folder of spam (default: detected)")
    parser.add_argument("--unsure", metavar="FOLDER", help="a folder for mail that may be spam")
    parser.add_argument("--no-learn", action="store_true", help="write the settings only")
    parser.add_argument(
        "-y",
        "--yes",
        action="store_true",
        help="take the default of each question; only the password may be asked for",
    )
    add_account_options(parser)


def run(out: TextIO, options: Namespace) -> int:
    """Ask for the settings of the account, log in, learn its folders, and write its settings."""
    questions = _Questions(out, takes_defaults=options.yes)
    store = Path(options.store).expanduser() if options.store else default_path()
    load_mailbox_module()  # raises an error, before anything is asked, if imapclient is missing
    account = _ask_account(questions, options)
    mailbox, secret = _log_in(out, questions, account, options.max_size)
    try:
        folders_to_learn = _list_folders_to_learn(mailbox)
        _show_folders(out, folders_to_learn)
        if folders_to_learn and not options.no_learn and questions.confirm("Learn these folders now?"):
            _learn(out, mailbox, folders_to_learn, store)
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
    """Asks in the terminal; with `takes_defaults`, asks for the password only."""

    def __init__(self, out: TextIO, *, takes_defaults: bool) -> None:
        self._out = out
        self._takes_defaults = takes_defaults

    def ask(self, question: str, option: str, default: str = "") -> str:
        """Ask until there is an answer; an empty answer chooses the default, if there is one.

        `option` is the option of the command that sets the same value; an error names it.
        """
        if self._takes_defaults:
            if not default:
                raise AccountError(f"{option} is needed")
            return default
        while True:
            shown = f" [{default}]" if default else ""
            answer = self._read(f"{question}{shown}: ", option) or default
            if answer:
                return answer

    def choose(self, question: str, option: str, choices: dict[str, str], default: str) -> str:
        """Ask for one of `choices`, which maps their names to explanations; return its name."""
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
            if answer.isascii() and answer.isdigit() and 1 <= int(answer) <= len(names):
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
        """Ask for a password, which the terminal does not show."""
        if not sys.stdin.isatty():
            raise AccountError("there is no terminal to ask for the password: give --password-command")
        try:
            while not (secret := getpass.getpass(f"{question}: ")):
                pass
        except EOFError:
            raise AccountError("there was no answer: give --password-command") from None
        return secret

    def _read(self, prompt: str, option: str) -> str:
        self._out.write(prompt)
        self._out.flush()
        line = sys.stdin.readline()
        if not line:
            self._out.write("\n")
            raise AccountError(f"there was no answer: give {option}")
        return line.strip()


def _ask_account(questions: _Questions, options: Namespace) -> Account:
    """Return the account that the options describe.

    Settings without an option come from the account of this name that was set up before. The user is asked
    for what is still missing of the address, the server, and where the password is kept.
    """
    given = read_given_settings(options)
    known = _find_known(options.name)
    if known is not None:
        settings = [field.name for field in fields(Account) if field.name != "name"]
        given = {**{name: getattr(known, name) for name in settings}, **given}
    user = given.get("user") or questions.ask("Your address", "--user")
    domain = user.rpartition("@")[2] if "@" in user else ""
    if "host" not in given:
        guess = _OTHER_HOSTS.get(domain.lower(), f"imap.{domain}" if domain else "")
        given["host"] = questions.ask("Server", "--host", guess)
    if "password" not in given:
        default = "keyring" if has_keyring() else "prompt"
        given["password"] = questions.choose(
            "Where is the password kept?", "--password", _PASSWORD_SOURCES, default
        )
    if given["password"] == "command" and not given.get("command"):
        given["command"] = questions.ask("Command", "--password-command")
    if given["password"] == "credential" and not given.get("credential"):
        given["credential"] = questions.ask("Name of the credential", "--credential")
    name = options.name or (known.name if known else "") or domain or given["host"]
    return Account(name, **{**given, "user": user})


def _log_in(out: TextIO, questions: _Questions, account: Account, max_size: int) -> "tuple[ImapMailbox, str]":
    """Log in, and return the mailbox with its connection, and the password if it was asked for here."""
    module = load_mailbox_module()
    secret = ""
    for attempt in range(_MAX_PASSWORDS):
        is_known = account.password in ("command", "credential")
        if account.password == "keyring" and attempt == 0:
            with suppress(AccountError):
                account.read_secret()
                is_known = True
        if not is_known:
            secret = questions.ask_secret(f"Password of {account.user}")
        out.write(f"Connecting to {account.host}, port {account.effective_port} ...\n")
        out.flush()
        mailbox: ImapMailbox = module.ImapMailbox(account, max_size=max_size, secret=secret)
        try:
            mailbox.list_folders()
        except module.LoginError as error:
            if account.password in ("command", "credential") or attempt == _MAX_PASSWORDS - 1:
                raise
            out.write(f"{printable(str(error))}\n")
        else:
            break
    return mailbox, secret


def _find_known(name: str | None) -> Account | None:
    """Return the account that was set up under this name before, or None."""
    if name is None or not settings_path(name).exists():
        return None
    return Account.read(name)


# Folders.


def _list_folders_to_learn(mailbox: "ImapMailbox") -> list[_FolderToLearn]:
    """Return the folders to learn, each with its messages to learn."""
    folders_to_learn = []
    for folder in mailbox.list_folders():
        if folder.role in _MEANINGS and folder.is_present:
            messages = mailbox.list_messages(folder)
            uids = [message.uid for message in messages if _is_to_learn(folder.role, message.keywords)]
            folders_to_learn.append(_FolderToLearn(folder, uids))
    order = list(_MEANINGS)
    return sorted(folders_to_learn, key=lambda item: (order.index(item.folder.role), item.folder.name))


def _is_to_learn(role: Role, keywords: frozenset[str]) -> bool:
    """Whether a message is to be learned: not if it is marked as deleted, or as junk outside of Junk."""
    return "\\Deleted" not in keywords and (role == Role.JUNK or not keywords & SPAM_KEYWORDS)


def _show_folders(out: TextIO, folders_to_learn: Sequence[_FolderToLearn]) -> None:
    if folders_to_learn:
        out.write("Logged in. These folders can be learned:\n")
    else:
        out.write("Logged in. There is no folder to learn.\n")
    width = min(40, max((len(printable(item.folder.name)) for item in folders_to_learn), default=0))
    for item in folders_to_learn:
        name = printable(item.folder.name)
        shown = name if len(name) <= width else f"{name[: width - 1]}…"
        out.write(f"  {shown:<{width}}  {len(item.uids):>9,}  {_MEANINGS[item.folder.role]}\n")
    junk = [item for item in folders_to_learn if item.folder.role == Role.JUNK]
    if not junk:
        out.write("No folder of spam was found: name it with --junk, or move spam to a new folder Junk.\n")
    elif not any(item.uids for item in junk):
        out.write("There is no spam to learn yet: move some to Junk, and run this again.\n")


# Learning.


def _learn(
    out: TextIO, mailbox: "ImapMailbox", folders_to_learn: Sequence[_FolderToLearn], store: Path
) -> None:
    with Sieve.open(store) as sieve:
        for item in folders_to_learn:
            if not item.uids:
                continue
            reader = _FolderReader(mailbox, item)
            actions = _learn_folder(sieve, item.folder.role, reader.messages())
            reader.report(out, actions)


def _learn_folder(sieve: Sieve, role: Role, messages: Iterator[bytes]) -> "Counter[str]":
    """Learn the messages of a folder; return the number of messages by action, such as "learned"."""
    if role == Role.SENT:
        actions: Counter[str] = Counter()
        while batch := list(islice(messages, _SENT_BATCH)):
            actions.update(sieve.learn_sent(batch))
        return actions
    label = SPAM if role == Role.JUNK else HAM
    return sieve.learn_many(messages, label, source="imap", processes=1)


class _FolderReader:
    """Reads the messages of a folder, with a progress bar; a lost connection is opened again."""

    def __init__(
        self,
        mailbox: "ImapMailbox",
        folder_to_learn: _FolderToLearn,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._mailbox = mailbox
        self._folder = folder_to_learn.folder
        self._unread_uids = dict.fromkeys(folder_to_learn.uids)  # in order
        self._total = len(folder_to_learn.uids)
        self._line = Line(sys.stderr)
        self._sleep = sleep
        self.failed = 0

    def messages(self) -> Iterator[bytes]:
        """Yield each message that is still there and can be read, once."""
        attempt = 1
        while self._unread_uids:
            try:
                for uid, outcome in self._mailbox.read(self._folder, list(self._unread_uids)):
                    self._unread_uids.pop(uid, None)
                    attempt = 1
                    if isinstance(outcome, MessageError):
                        self.failed += 1
                    else:
                        yield outcome
                    self._draw_progress()
                self._unread_uids.clear()  # the remaining messages have been deleted
            except MailboxError:
                if attempt == _MAX_ATTEMPTS:
                    raise
                self._sleep(2.0**attempt)  # 2, 4, 8 seconds
                attempt += 1

    def report(self, out: TextIO, actions: "Counter[str]") -> None:
        """Print the number of messages by action, and of those that could not be read."""
        if self._line.is_terminal:
            self._line.draw("", time.monotonic())  # clear the progress bar
        counts = [f"{number:,} {action}" for action, number in sorted(actions.items()) if number]
        if self.failed:
            counts.append(f"{self.failed:,} could not be read")
        out.write(f"  {printable(self._folder.name)}: {', '.join(counts) or 'nothing'}\n")
        out.flush()

    def _draw_progress(self) -> None:
        now = time.monotonic()
        if not self._line.is_terminal or not self._line.is_due(now):
            return
        done = self._total - len(self._unread_uids)
        filled = _BAR_WIDTH * done // max(1, self._total)
        bar = "█" * filled + "░" * (_BAR_WIDTH - filled)
        name = printable(self._folder.name)[:24]
        self._line.draw(f"  {name} {bar} {done:,} of {self._total:,}", now)
