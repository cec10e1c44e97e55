"""Runs a Postfix of one's own: configuration, queue, log and mailboxes in one temporary folder.

    with run_postfix("smtpd_milters = inet:127.0.0.1:8783") as postfix:
        postfix.send(raw, "ann@example.test")
        (delivered,) = postfix.wait_for_mail("ann@example.test", 1)

Mail to any address at example.test is delivered to one Maildir. Nothing leaves the machine, and nothing
outside of the folder is changed. Postfix needs root, its user `postfix` and its group `postdrop`, which the
Debian package creates.
"""

import grp
import os
import pwd
import shutil
import signal
import smtplib
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.surfaces.peers.daemon import find_free_port

DOMAIN = "example.test"
SENDER = "sender@elsewhere.test"
_DAEMONS = Path("/usr/lib/postfix/sbin")
_MAIN = """
compatibility_level = 3.6
queue_directory = {folder}/queue
data_directory = {folder}/data
command_directory = /usr/sbin
daemon_directory = {daemons}
mail_owner = postfix
setgid_group = postdrop
maillog_file = {folder}/log
maillog_file_prefixes = {folder}
myhostname = mx.{domain}
mydestination =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
default_transport = error:nothing leaves this machine
alias_maps =
alias_database =
local_recipient_maps =
virtual_mailbox_domains = {domain}
virtual_mailbox_base = {folder}/mail
virtual_mailbox_maps = static:all/
virtual_uid_maps = static:{uid}
virtual_gid_maps = static:{gid}
virtual_mailbox_limit = 0
message_size_limit = 60000000
smtputf8_enable = yes
smtpd_peername_lookup = no
in_flow_delay = 0
milter_connect_timeout = 5s
{settings}
"""
_MASTER = """
pickup unix n - n 1 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 1 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
showq unix n - n - - showq
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
virtual unix - n n - - virtual
lmtp unix - - n - - lmtp
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
"""

needs_postfix = pytest.mark.skipif(
    shutil.which("postfix") is None or os.geteuid() != 0,
    reason="Postfix is not installed (tools/mail_programs installs it), or the tests do not run as root",
)


@dataclass(frozen=True)
class Postfix:
    """A Postfix that receives mail."""

    folder: Path
    ports: Mapping[str, int]

    @property
    def log(self) -> str:
        file = self.folder / "log"
        return file.read_text() if file.exists() else ""

    def connect(self, service: str = "") -> smtplib.SMTP:
        return smtplib.SMTP("127.0.0.1", self.ports[service], timeout=60)

    def send(self, raw: bytes, *recipients: str, sender: str = SENDER, service: str = "") -> None:
        """Send a message by SMTP, as it is: its lines end in CR LF, and SMTP's dots are added."""
        with self.connect(service) as client:
            client.sendmail(sender, recipients, raw, ["BODY=8BITMIME"])

    def submit(self, raw: bytes, *recipients: str, sender: str = SENDER) -> None:
        """Send a message by the command `sendmail`."""
        self.run("/usr/sbin/sendmail", "-f", sender, *recipients, raw=raw)

    def run(self, *words: str, raw: bytes = b"") -> str:
        """Run a command of this Postfix; return its output."""
        done = subprocess.run(
            words,
            input=raw,
            env={**os.environ, "MAIL_CONFIG": str(self.folder / "etc")},
            capture_output=True,
            check=True,
        )
        return done.stdout.decode()

    def list_mail(self, address: str) -> list[bytes]:
        """Return the delivered messages of an address, in the order of arrival."""
        files = list((self.folder / "mail" / "all" / "new").glob("*"))
        messages = [file.read_bytes() for file in sorted(files, key=lambda file: file.stat().st_mtime_ns)]
        mark = f"\nDelivered-To: {address}\n".encode()
        return [raw for raw in messages if mark in raw[: raw.find(b"\n\n")]]

    def wait_for_mail(self, address: str, count: int) -> list[bytes]:
        """Wait until an address has got some messages, and return them."""
        for _ in range(600):
            messages = self.list_mail(address)
            if len(messages) >= count:
                return messages
            time.sleep(0.05)
        raise AssertionError(f"{address} got {len(messages)} messages, expected {count}: {self.log[-3000:]}")

    def list_queue(self) -> list[str]:
        """Return the messages that wait, one JSON object each."""
        return self.run("/usr/sbin/postqueue", "-j").splitlines()


@contextmanager
def run_postfix(settings: str = "", services: Mapping[str, str] | None = None) -> Iterator[Postfix]:
    """Start Postfix, wait until it answers, and stop it.

    `services` are further ports with settings of their own, as in `{"old": "milter_protocol=2"}`.
    """
    nobody = pwd.getpwnam("nobody")
    # Not in pytest's folder, which only its owner may enter: Postfix has several users.
    with tempfile.TemporaryDirectory(prefix="postfix-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        for part, owner in (("etc", 0), ("queue", 0), ("data", pwd.getpwnam("postfix").pw_uid)):
            (folder / part).mkdir()
            os.chown(folder / part, owner, -1)
        (folder / "mail").mkdir()
        os.chown(folder / "mail", nobody.pw_uid, nobody.pw_gid)
        main = _MAIN.format(
            folder=folder,
            daemons=_DAEMONS,
            domain=DOMAIN,
            uid=nobody.pw_uid,
            gid=nobody.pw_gid,
            settings=settings,
        )
        (folder / "etc" / "main.cf").write_text(main)
        postfix = Postfix(folder, {name: find_free_port() for name in ("", *(services or {}))})
        smtpd = [f"{postfix.ports['']} inet n - n - - smtpd"]
        for service, options in (services or {}).items():
            overrides = " ".join(f"-o {option}" for option in options.split())
            smtpd.append(f"{postfix.ports[service]} inet n - n - - smtpd {overrides}")
        (folder / "etc" / "master.cf").write_text("\n".join(smtpd) + _MASTER)
        for file in (folder / "etc").iterdir():
            os.utime(file, (0, 0))  # Postfix waits for two seconds before it reads a file that is newer
        _make_queue(folder / "queue")
        process = subprocess.Popen(
            [str(_DAEMONS / "master"), "-c", str(folder / "etc"), "-d"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            _wait_until_it_answers(postfix, process)
            yield postfix
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)


def _make_queue(queue: Path) -> None:
    """Create the folders of a queue with the owners that Postfix wants."""
    owner, group = pwd.getpwnam("postfix").pw_uid, grp.getgrnam("postdrop").gr_gid
    for name in ("active", "bounce", "corrupt", "defer", "deferred", "flush", "hold", "incoming", "private"):
        (queue / name).mkdir(mode=0o700)
        os.chown(queue / name, owner, -1)
    for name in ("saved", "trace"):
        (queue / name).mkdir(mode=0o700)
        os.chown(queue / name, owner, -1)
    for name, mode in (("public", 0o710), ("maildrop", 0o730)):
        (queue / name).mkdir()
        (queue / name).chmod(mode)
        os.chown(queue / name, owner, group)
    (queue / "pid").mkdir(mode=0o755)


def _wait_until_it_answers(postfix: Postfix, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(400):
        if process.poll() is not None:
            raise AssertionError(f"Postfix ended with status {process.returncode}: {postfix.log}")
        try:
            postfix.connect().close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"Postfix does not answer: {postfix.log}")


def without_delivery_fields(delivered: bytes) -> bytes:
    """Remove the fields that the delivery to a mailbox has put at the top of a message."""
    lines = delivered.split(b"\n")
    while lines[0].startswith((b"Return-Path:", b"X-Original-To:", b"Delivered-To:")):
        del lines[0]
    return b"\n".join(lines)
