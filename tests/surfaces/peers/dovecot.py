"""Runs Dovecot 2.3 in a folder of its own: IMAP, plain and with TLS, at free ports; LMTP at a Unix socket.

It works as root, as CI is, and as any other user. Nothing outside of the folder is touched, and the folder is
removed at the end.
"""

import grp
import imaplib
import os
import pwd
import re
import shutil
import signal
import smtplib
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.surfaces.peers.daemon import find_free_port

__all__ = ["PASSWORD", "USER", "Dovecot", "needs_dovecot", "run_dovecot", "write_certificate"]

USER = "ann@example.org"
PASSWORD = "correct horse"
_PROGRAMS = ("dovecot", "doveadm", "openssl")
_GROUPS = ("mailbox", "flags", "sieve", "acl", "quota")  # commands of doveadm with a second word
_START_SECONDS = 20.0
_STOP_SECONDS = 10.0
needs_dovecot = pytest.mark.skipif(
    any(shutil.which(name) is None for name in _PROGRAMS),
    reason=f"needs {', '.join(_PROGRAMS)}: tools/mail_programs installs Dovecot",
)
_FOLDERS = {"Junk": r"\Junk", "Trash": r"\Trash", "Sent": r"\Sent", "Drafts": r"\Drafts"}

_CONFIGURATION = """
base_dir = {base}/run
state_dir = {base}/state
log_path = {base}/dovecot.log
instance_name = {base}
listen = 127.0.0.1
protocols = imap lmtp
{accounts}
first_valid_uid = 0
mail_uid = {uid}
mail_gid = {gid}
mail_location = {mail_location}
mail_home = {base}/home/%u
mail_fsync = never
auth_mechanisms = plain login
auth_failure_delay = 0
disable_plaintext_auth = no
ssl = yes
ssl_cert = <{base}/certificate.pem
ssl_key = <{base}/key.pem
postmaster_address = postmaster@example.org
mailbox_idle_check_interval = 1 secs
imap_idle_notify_interval = 30 secs
imap_hibernate_timeout = 0
passdb {{
  driver = passwd-file
  args = scheme=PLAIN username_format=%u {base}/users
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={base}/home/%u
}}
namespace inbox {{
  inbox = yes
  separator = {separator}
  prefix = {prefix}
{mailboxes}
}}
service imap-login {{
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = {tls_port}
    ssl = yes
  }}
  chroot =
}}
service lmtp {{
  unix_listener {base}/lmtp.sock {{
    mode = 0666
  }}
}}
service anvil {{
  chroot =
}}
service stats {{
  chroot =
}}
"""


@dataclass
class Dovecot:
    """A Dovecot that answers."""

    folder: Path
    port: int  # plain, and STARTTLS
    tls_port: int
    mail_location: str
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def certificate(self) -> Path:
        """The certificate that signs itself; its name is localhost."""
        return self.folder / "certificate.pem"

    @property
    def lmtp(self) -> Path:
        """The Unix socket of LMTP."""
        return self.folder / "lmtp.sock"

    @property
    def log(self) -> str:
        """What Dovecot has logged."""
        path = self.folder / "dovecot.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def maildir(self, user: str = USER) -> Path:
        """The folder with a user's mail."""
        return self.folder / "home" / user / "Maildir"

    def start(self) -> None:
        """Start, and wait until IMAP answers.

        A port that was free a moment ago may be in use for a while, by a connection of another process.
        """
        limit = time.monotonic() + _START_SECONDS
        self._launch()
        while not self._answers():
            if self.process is None or self.process.poll() is not None:
                self._launch()
            if time.monotonic() > limit:
                output = (self.folder / "output").read_text(errors="replace")
                self.kill()
                raise AssertionError(f"Dovecot did not start: {output[-2000:]}{self.log[-2000:]}")
            time.sleep(0.02)

    def _launch(self) -> None:
        with (self.folder / "output").open("ab") as output:
            self.process = subprocess.Popen(
                ["dovecot", "-F", "-c", str(self.folder / "dovecot.conf")],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 5) as client:
                client.settimeout(5)
                return client.recv(4) == b"* OK"
        except OSError:
            return False

    def kill(self) -> None:
        """End all of its processes by SIGKILL, as a loss of power does."""
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """End it in order."""
        self._signal(signal.SIGTERM)

    def restart(self) -> None:
        """Kill it, and start it again."""
        self.kill()
        self.start()

    def doveadm(self, *words: str, user: str | None = USER, data: bytes | None = None) -> bytes:
        """Run a command of doveadm for a user, and return its output."""
        command = 2 if words[0] in _GROUPS else 1  # words of the command, which its options follow
        options = [] if user is None else ["-u", user]
        done = subprocess.run(
            [
                "doveadm",
                "-c",
                str(self.folder / "dovecot.conf"),
                *words[:command],
                *options,
                *words[command:],
            ],
            input=data,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, (words, done.stderr.decode(errors="replace"), self.log[-2000:])
        return done.stdout

    def deliver(self, raw: bytes, user: str = USER, sender: str = "bob@example.net") -> None:
        """Deliver a message by LMTP; Dovecot adds Return-Path, Delivered-To and Received fields."""
        self.deliver_all([raw], user, sender)

    def deliver_all(
        self, messages: Sequence[bytes], user: str = USER, sender: str = "bob@example.net"
    ) -> None:
        """Deliver messages by LMTP, in one session."""
        with smtplib.LMTP(str(self.lmtp)) as client:
            for raw in messages:
                client.sendmail(sender, [user], raw)

    def append(self, folder: str, messages: Sequence[bytes], user: str = USER, flags: str = "") -> None:
        """Put messages into a folder by IMAP, byte for byte."""
        with self.log_in(user) as client:
            for raw in messages:
                status, answer = client.append(_quote(folder), flags, None, raw)
                assert status == "OK", answer

    @contextmanager
    def log_in(self, user: str = USER) -> Iterator[imaplib.IMAP4]:
        """Give an IMAP connection of a user, as a mail program has."""
        client = imaplib.IMAP4("127.0.0.1", self.port, 20)
        try:
            client.login(user, PASSWORD)
            yield client
        finally:
            with suppress(Exception):
                client.logout()

    def list_messages(self, user: str = USER) -> list[tuple[str, bytes]]:
        """Return the folder and the bytes of every message of a user."""
        messages = []
        with self.log_in(user) as client:
            _, lines = client.list()
            for line in lines:
                assert line is not None
                name = _read_name(line)
                status, answer = client.select(_quote(name), readonly=True)
                assert status == "OK", answer
                _, parts = client.uid("FETCH", "1:*", "(BODY.PEEK[])")
                messages += [(name, part[1]) for part in parts if isinstance(part, tuple)]
        return messages

    def _signal(self, number: int) -> None:
        if self.process is None:
            return
        group = self.process.pid  # the master process leads a group of its own
        with suppress(ProcessLookupError):
            if number == signal.SIGKILL:
                os.killpg(group, signal.SIGKILL)
            else:
                self.process.send_signal(number)
        try:
            self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        self.process = None


@contextmanager
def run_dovecot(
    *,
    settings: str = "",
    users: Sequence[str] = (USER,),
    mail_location: str = "maildir:~/Maildir",
    folders: Mapping[str, str] = _FOLDERS,
    separator: str = ".",
    prefix: str = "",
    plugins: Mapping[str, str] | None = None,
) -> Iterator[Dovecot]:
    """Start a Dovecot with users, whose password is `PASSWORD`, and folders with their special uses.

    `plugins` names mail plugins per protocol, as in `{"imap": "imap_sieve", "lmtp": "sieve"}`. `settings` is
    further configuration; `{base}` in it stands for the folder.
    """
    base = Path(tempfile.mkdtemp(prefix="tamis-dovecot-"))
    base.chmod(0o755)  # as root, the mail belongs to another user, who must reach it
    dovecot = Dovecot(base, find_free_port(), find_free_port(), mail_location)
    try:
        _write_files(
            dovecot,
            settings=settings,
            users=users,
            folders=folders,
            separator=separator,
            prefix=prefix,
            plugins=plugins or {},
        )
        dovecot.start()
        yield dovecot
    finally:
        dovecot.kill()  # to stop in order takes a second or two
        shutil.rmtree(base, ignore_errors=True)


def _write_files(
    dovecot: Dovecot,
    *,
    settings: str,
    users: Sequence[str],
    folders: Mapping[str, str],
    separator: str,
    prefix: str,
    plugins: Mapping[str, str],
) -> None:
    base = dovecot.folder
    owner = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    home = base / "home"
    home.mkdir()
    (base / "users").write_text("".join(f"{user}:{{PLAIN}}{PASSWORD}::::::\n" for user in users))
    for user in users:
        (home / user).mkdir()
        os.chown(home / user, owner.pw_uid, owner.pw_gid)
    write_certificate(base)
    accounts = ""
    if os.geteuid() != 0:
        group = grp.getgrgid(owner.pw_gid).gr_name
        accounts = (
            f"default_login_user = {owner.pw_name}\n"
            f"default_internal_user = {owner.pw_name}\n"
            f"default_internal_group = {group}\n"
        )
    mailboxes = "".join(
        f'  mailbox "{name}" {{\n    auto = subscribe\n'
        + (f"    special_use = {use}\n" if use else "")
        + "  }\n"
        for name, use in folders.items()
    )
    loaded = "".join(
        f"protocol {protocol} {{\n  mail_plugins = $mail_plugins {names}\n}}\n"
        for protocol, names in plugins.items()
    )
    configuration = _CONFIGURATION.format(
        base=base,
        accounts=accounts,
        uid=owner.pw_uid,
        gid=owner.pw_gid,
        mail_location=dovecot.mail_location,
        separator=separator,
        prefix=prefix,
        mailboxes=mailboxes,
        port=dovecot.port,
        tls_port=dovecot.tls_port,
    )
    further = settings.replace("{base}", str(base))
    (base / "dovecot.conf").write_text(f"{configuration}\n{loaded}\n{further}\n")


def write_certificate(folder: Path) -> None:
    """Write a certificate for localhost that signs itself, and its key."""
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    words += ["-days", "2", "-subj", "/CN=localhost", "-addext", names]
    words += ["-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")]
    subprocess.run(words, check=True, capture_output=True, timeout=60)


def _read_name(line: "bytes | tuple[bytes, bytes]") -> str:
    """Return the name in a line of LIST, as it is on the wire: modified UTF-7."""
    if isinstance(line, tuple):  # a literal
        return line[1].decode("ascii")
    found = re.fullmatch(rb'\([^)]*\) (?:"[^"]*"|NIL) (.*)', line)
    assert found, line
    name = found[1].decode("ascii")
    return re.sub(r"\\(.)", r"\1", name[1:-1]) if name.startswith('"') else name


def _quote(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
