"""An account's settings are read, checked and written without its password; mistakes get one line."""

import io
import stat
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis_mail.surfaces.imap import account as account_module
from tamis_mail.surfaces.imap import setup
from tamis_mail.surfaces.imap.account import Account, AccountError, list_accounts, settings_path
from tamis_mail.surfaces.imap.account_options import load_mailbox_module


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_settings_are_written_for_the_user_alone_and_read_again() -> None:
    account = Account(
        "home",
        host="imap.example.org",
        user="ann",
        password="command",
        command="pass 'my mail'",
        keywords=True,
    )
    path = account.write()
    assert path == settings_path("home")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Account.read("home") == account
    assert list_accounts() == ["home"]
    assert [file.name for file in path.parent.iterdir()] == ["imap-home.toml"]


@given(
    text=st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    folders=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=10), max_size=3),
)
def test_any_text_survives_the_file(
    text: str, folders: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    account = Account("x", host="h", user="u", junk=text, unsure=text, folders=tuple(folders))
    path = tmp_path_factory.mktemp("settings") / "imap.toml"
    assert Account.read("x", account.write(path)) == account


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "host is missing"),
        ('host = "h"', "user is missing"),
        ("host = 3", "host is 3, expected a text in quotes"),
        ('host = "h"\nuser = "u"\nport = "993"', "port is '993', expected a number"),
        ('host = "h"\nuser = "u"\nport = 70000', "port is 70000, expected 1 to 65535"),
        ('host = "h"\nuser = "u"\ncolour = "red"', "colour is not a setting"),
        ('host = "h"\nuser = "u"\npassword = "secret"', "password is 'secret', expected one of keyring"),
        ('host = "h"\nuser = "u"\ntls = "none"', "h is another machine: use implicit or starttls"),
        ('host = "h"\nuser = "u"\npassword = "command"', "no command is given"),
        ('host = "h"\nuser = "u"\nlogin = "xoauth2"', "needs a command or credential"),
        ('host = "h h"\nuser = "u"', "host is 'h h'"),
        ('host = "h"\nuser = "u"\nfolders = "Work"', "folders is 'Work', expected a list of names"),
        ('host = "h"\nuser = "u"\n"a\\nb" = 1', r"a\nb is not a setting"),
        ("folders = " + "[" * 5000, "cannot be read: its lists are nested too deeply"),
        ("host = [", "cannot be read"),
        ("\ufeff\0", "cannot be read"),
    ],
)
def test_a_wrong_file_gets_one_line(text: str, reason: str) -> None:
    path = settings_path("home")
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(AccountError) as caught:
        Account.read("home")
    assert reason in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_name_with_a_zero_byte_or_a_line_end_gets_one_line() -> None:
    for name in ("a\0b", "a\nb"):
        with pytest.raises(AccountError) as caught:
            Account.read(name)
        assert str(caught.value).isprintable()


def test_only_files_with_a_valid_name_are_accounts() -> None:
    folder = settings_path("x").parent
    folder.mkdir(parents=True)
    for name in ("imap-.toml", "imap-a b.toml", "imap-home.toml"):
        (folder / name).touch()
    assert list_accounts() == ["home"]


def test_a_missing_account_says_what_to_do() -> None:
    with pytest.raises(AccountError, match=r"there is no account home.*tamis setup imap"):
        Account.read("home")
    with pytest.raises(AccountError, match="is not a valid name of an account"):
        Account("../x", host="h", user="u")


def make(password: str, **settings: str) -> Account:
    return Account("a", host="h", user="u", password=password, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo 'my secret'", "my secret"),
        (r"printf 'one\r\ntwo\n'", "one"),
        (r"printf ' spaces stay '", " spaces stay "),
        ("false", "failed with exit status 1"),
        ("/no/such/program", "cannot be run"),
        ("echo 'unbalanced", "cannot be run"),
        (r"printf '\377'", "is not UTF-8"),
        ("true", "an empty password"),
        (r"printf 'a\0b'", "expected one line of text"),
    ],
)
def test_a_command_gives_the_first_line(command: str, expected: str) -> None:
    account = make("command", command=command)
    try:
        assert account.read_secret() == expected
    except AccountError as error:
        assert expected in str(error)  # noqa: PT017 (most rows are errors)


def test_a_credential_of_systemd_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account = make("credential", credential="imap-password")
    with pytest.raises(AccountError, match="LoadCredential=imap-password"):
        account.read_secret()
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    with pytest.raises(AccountError, match="No such file"):
        account.read_secret()
    (tmp_path / "imap-password").write_text("secret\n")
    assert account.read_secret() == "secret"
    with pytest.raises(AccountError, match="expected the NAME"):
        make("credential", credential="../imap-password")


class FakeKeyring:
    """A keyring that may be locked."""

    def __init__(self, *, is_locked: bool = False) -> None:
        self.kept: dict[tuple[str, str], str] = {}
        self.is_locked = is_locked

    def get_password(self, service: str, name: str) -> str | None:
        if self.is_locked:
            raise RuntimeError("the keyring\nis locked")
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, password: str) -> None:
        if self.is_locked:
            raise RuntimeError("the keyring\nis locked")
        self.kept[service, name] = password


def test_a_keyring_keeps_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    keyring = FakeKeyring()
    monkeypatch.setattr(account_module, "import_module", lambda name: keyring)
    with pytest.raises(AccountError, match="the keyring has no password of u at h"):
        make("keyring").read_secret()
    account_module.keep_in_keyring("h", "u", "secret")
    assert make("keyring").read_secret() == "secret"
    keyring.is_locked = True
    with pytest.raises(AccountError, match="the keyring cannot be read: the keyring is locked"):
        make("keyring").read_secret()
    with pytest.raises(AccountError, match="the keyring refused"):
        account_module.keep_in_keyring("h", "u", "secret")


def test_without_the_package_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(account_module, "import_module", fail)
    with pytest.raises(AccountError, match=r'pip install "tamis\[imap\]"'):
        make("keyring").read_secret()
    assert not account_module.has_keyring()


def test_without_imapclient_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("tamis_mail.surfaces.imap.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "imapclient", None)
    with pytest.raises(ValueError, match=r'imapclient, which is not installed: pip install "tamis\[imap\]"'):
        load_mailbox_module()


def test_without_a_terminal_nothing_is_asked() -> None:
    with pytest.raises(AccountError, match="there is no terminal"):
        make("prompt").read_secret()


def test_the_end_of_input_is_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(_: str) -> str:
        raise EOFError

    monkeypatch.setattr("getpass.getpass", end)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    with pytest.raises(AccountError, match="account a asks for its password, but there was no answer"):
        make("prompt").read_secret()
    with pytest.raises(AccountError, match="there was no answer: give --password-command"):
        setup._Questions(io.StringIO(), takes_defaults=False).ask_secret("Password")


def test_a_digit_that_is_not_ascii_is_no_number_of_a_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["²", "٣", "2"])
    monkeypatch.setattr(setup._Questions, "_read", lambda *_: next(answers))
    out = io.StringIO()
    choice = setup._Questions(out, takes_defaults=False).choose("Which?", "--which", {"a": "", "b": ""}, "a")
    assert choice == "b"
    assert out.getvalue().count("Please answer with a number from 1 to 2.") == 2
