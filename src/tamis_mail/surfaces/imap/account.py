"""The settings of an IMAP account (server, login, folders), their file, and the sources of its password.

The file holds no password. A password comes from the system's keyring (its store of passwords, which the
package `keyring` reads), from the first line that a command prints, from the first line of a systemd
credential, or from a prompt. Certificates are always verified; without TLS, only a server on this machine is
allowed. A secret is a password, or the OAuth 2.0 token that takes its place when the login is by XOAUTH2.
"""

import getpass
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args

from tamis_mail.files import write_file

Security = Literal["implicit", "starttls", "none"]  # implicit: TLS from the first byte on, as on port 993
PasswordKind = Literal["keyring", "command", "credential", "prompt"]
Login = Literal["password", "xoauth2"]

_SERVICE = "tamis"  # the service under which the keyring has the passwords of this program
_COMMAND_SECONDS = 60.0  # maximum time of a password command
_MAX_SECRET = 64 << 10  # the largest size of a secret in bytes; OAuth tokens have some kB
_NAME = re.compile(r"[\w.@+-]{1,100}")  # of an account or a credential
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_CREDENTIALS = "CREDENTIALS_DIRECTORY"  # the variable in which systemd names the folder of credentials


class AccountError(ValueError):
    """The settings of an account, or its password, cannot be used; the text is one line."""

    def __init__(self, text: str) -> None:
        # Settings and errors may have line ends and other control characters, which are shown as escapes.
        super().__init__("".join(c if c.isprintable() else ascii(c)[1:-1] for c in text))


@dataclass(frozen=True, slots=True)
class Account:
    """The settings of one account.

    >>> account = Account("example", host="imap.example.org", user="ann@example.org")
    >>> account.tls, account.effective_port
    ('implicit', 993)
    """

    name: str
    host: str
    user: str
    port: int = 0  # 0 stands for 993 with implicit TLS, else for 143
    tls: Security = "implicit"
    certificate: str = ""  # a file with the certificates to trust instead of the system's
    login: Login = "password"
    password: PasswordKind = "keyring"  # where the password, or the token for XOAUTH2, comes from
    command: str = ""  # prints the password, or the token for XOAUTH2
    credential: str = ""  # the name of a systemd credential
    junk: str = ""  # the folder of spam; empty if it is found by its special use (RFC 6154) or its name
    unsure: str = ""  # the folder for mail that may be spam; empty if there is none
    # Further folders to watch, or none for all; Inbox, Junk and the unsure folder are always watched.
    folders: tuple[str, ...] = ()
    keywords: bool = False  # whether sorted mail is marked with $Junk and $NotJunk

    def __post_init__(self) -> None:
        for problem in _find_problems(self):
            raise AccountError(problem)

    @property
    def effective_port(self) -> int:
        """The port, or the usual one for this kind of TLS if none is set."""
        return self.port or (993 if self.tls == "implicit" else 143)

    def read_secret(self) -> str:
        """Read the password or token from its source; raise AccountError if that fails or it is empty."""
        secret = _READERS[self.password](self)
        if not secret:
            raise AccountError(f"account {self.name}: the {self.password} gave an empty password")
        return secret

    @classmethod
    def read(cls, name: str, path: Path | None = None) -> "Account":
        """Read the settings of an account from a file; raise AccountError if they cannot be read."""
        path = path or settings_path(name)
        try:
            data = tomllib.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            raise AccountError(
                f"there is no account {name}: {path} does not exist; run tamis setup imap, or give --host"
            ) from None
        except (OSError, ValueError) as error:  # ValueError: no UTF-8, no TOML, or a zero byte in the path
            raise AccountError(f"{path} cannot be read: {error}") from None
        except RecursionError:
            raise AccountError(f"{path} cannot be read: its lists are nested too deeply") from None
        return cls(name, **_read_settings(data, path))

    def write(self, path: Path | None = None) -> Path:
        """Write the settings atomically, readable by the user alone; return the path."""
        path = path or settings_path(self.name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lines = [f"# Account {self.name} of tamis watch imap. There is no password in here."]
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "name" and value != field.default:
                lines.append(f"{field.name} = {_format_value(value)}")
        write_file(path, ("\n".join(lines) + "\n").encode("utf-8"))
        return path


def settings_path(name: str) -> Path:
    """Return the path of an account's settings."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(folder) if Path(folder).is_absolute() else Path("~/.config").expanduser()
    return base / "tamis" / f"imap-{name}.toml"


def list_accounts() -> list[str]:
    """Return the names of all accounts that have a file of settings."""
    files = settings_path("x").parent.glob("imap-*.toml")
    names = (path.name.removeprefix("imap-").removesuffix(".toml") for path in files)
    return sorted(name for name in names if _NAME.fullmatch(name))


def has_keyring() -> bool:
    """Whether this system has a keyring that can be used."""
    try:
        return bool(_load_keyring().get_keyring().priority > 0)
    except Exception:  # noqa: BLE001 (each keyring has errors of its own)
        return False


def keep_in_keyring(host: str, user: str, password: str) -> None:
    """Store a password in the system's keyring; raise AccountError if that fails."""
    keyring = _load_keyring()
    try:
        keyring.set_password(_SERVICE, f"{user} at {host}", password)
    except Exception as error:  # noqa: BLE001 (each keyring has errors of its own)
        raise AccountError(
            f"the keyring refused the password: {_format_error(error)}; {_OTHER_WAYS}"
        ) from None


_OTHER_WAYS = "use --password command or --password credential"


def _read_from_keyring(account: Account) -> str:
    keyring = _load_keyring()
    try:
        secret = keyring.get_password(_SERVICE, f"{account.user} at {account.host}")
    except Exception as error:  # noqa: BLE001 (each keyring has errors of its own)
        raise AccountError(f"the keyring cannot be read: {_format_error(error)}; {_OTHER_WAYS}") from None
    if secret is None:
        raise AccountError(
            f"the keyring has no password of {account.user} at {account.host}: run tamis setup imap again"
        )
    return str(secret)


def _read_from_command(account: Account) -> str:
    try:
        result = subprocess.run(
            shlex.split(account.command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=False,
            timeout=_COMMAND_SECONDS,
        )
    except (OSError, ValueError) as error:
        raise AccountError(f"the password command {account.command!r} cannot be run: {error}") from None
    except subprocess.TimeoutExpired:
        raise AccountError(
            f"the password command {account.command!r} took more than {_COMMAND_SECONDS:.0f} s"
        ) from None
    if result.returncode:
        raise AccountError(
            f"the password command {account.command!r} failed with exit status {result.returncode}"
        )
    return _decode_secret(result.stdout, f"the password command {account.command!r}")


def _read_from_credential(account: Account) -> str:
    folder = os.environ.get(_CREDENTIALS, "")
    if not folder:
        raise AccountError(
            f"the credential {account.credential} is not there: ${_CREDENTIALS} is not set; start tamis by a "
            f"systemd unit with LoadCredential={account.credential}:PATH"
        )
    path = Path(folder) / account.credential
    try:
        with path.open("rb") as stream:
            return _decode_secret(stream.read(_MAX_SECRET + 1), f"the credential {path}")
    except OSError as error:
        raise AccountError(f"the credential {path} cannot be read: {error.strerror}") from None


def _read_from_prompt(account: Account) -> str:
    if not sys.stdin.isatty():
        raise AccountError(
            f"account {account.name} asks for its password, but there is no terminal: {_OTHER_WAYS}"
        )
    try:
        return getpass.getpass(f"Password of {account.user} at {account.host}: ")
    except EOFError:
        raise AccountError(f"account {account.name} asks for its password, but there was no answer") from None


_READERS: Mapping[str, Callable[[Account], str]] = {
    "keyring": _read_from_keyring,
    "command": _read_from_command,
    "credential": _read_from_credential,
    "prompt": _read_from_prompt,
}


def _load_keyring() -> Any:
    try:
        return import_module("keyring")
    except ModuleNotFoundError:
        raise AccountError(
            'the package keyring is not installed: pip install "tamis[imap]", or ' + _OTHER_WAYS
        ) from None


def _decode_secret(data: bytes, source: str) -> str:
    line = data.split(b"\n", 1)[0].removesuffix(b"\r")
    if len(line) > _MAX_SECRET or b"\0" in line:
        raise AccountError(f"{source} gave no password: expected one line of text")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        raise AccountError(f"{source} gave a password that is not UTF-8") from None


def _find_problems(account: Account) -> list[str]:
    """Return a message for each setting that is not valid.

    The values have the types that `Account` declares. Names of folders and of the certificate's file are not
    checked here.
    """
    name = account.name
    checks = [
        (
            bool(_NAME.fullmatch(name)),
            f"{name!r} is not a valid name of an account: use letters, digits and _.@+-",
        ),
        (
            bool(account.host) and account.host.isprintable() and not set(account.host) & set(" /\\"),
            f"account {name}: host is {account.host!r}, expected a name such as imap.example.org",
        ),
        (
            bool(account.user) and account.user.isprintable(),
            f"account {name}: user is {account.user!r}, expected the name that you log in with",
        ),
        (
            0 <= account.port <= 65535,
            f"account {name}: port is {account.port}, expected 1 to 65535, or 0 for the usual one",
        ),
        *(
            (
                getattr(account, field) in get_args(allowed),
                f"account {name}: {field} is {getattr(account, field)!r}, expected one of "
                + ", ".join(get_args(allowed)),
            )
            for field, allowed in (("tls", Security), ("password", PasswordKind), ("login", Login))
        ),
        (
            account.tls != "none" or account.host in _LOCAL_HOSTS,
            f"account {name}: tls is none, but {account.host} is another machine: use implicit or starttls",
        ),
        (
            account.password != "command" or bool(account.command.strip()),
            f"account {name}: password is command, but no command is given",
        ),
        (
            account.password != "credential" or bool(_NAME.fullmatch(account.credential)),
            f"account {name}: credential is {account.credential!r}, expected the NAME of LoadCredential",
        ),
        (
            account.login != "xoauth2" or account.password in ("command", "credential"),
            f"account {name}: login is xoauth2, which needs a command or credential that gives the token",
        ),
    ]
    return [problem for is_valid, problem in checks if not is_valid]


def _read_settings(data: Mapping[str, object], path: Path) -> dict[str, Any]:
    """Check the settings of a file, and return them as arguments of the constructor."""
    types = {"port": int, "keywords": bool, "folders": list}
    names = [field.name for field in fields(Account) if field.name != "name"]
    settings: dict[str, Any] = {}
    for name, value in data.items():
        if name not in names:
            raise AccountError(f"{path}: {name} is not a setting; expected one of {', '.join(names)}")
        expected = types.get(name, str)
        is_valid = type(value) is expected
        if isinstance(value, list):
            is_valid = is_valid and all(isinstance(item, str) for item in value)
        if not is_valid:
            raise AccountError(f"{path}: {name} is {value!r}, expected {_TYPE_NAMES[expected]}")
        settings[name] = tuple(value) if isinstance(value, list) else value
    missing = [name for name in ("host", "user") if name not in settings]
    if missing:
        raise AccountError(f"{path}: {missing[0]} is missing")
    return settings


_TYPE_NAMES = {str: "a text in quotes", int: "a number", bool: "true or false", list: "a list of names"}


def _format_value(value: object) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_format_value, value)) + "]"
    # TOML writes strings, numbers and booleans as JSON does, except for the character DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _format_error(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
