"""The commands of docs/howto/mail-shared-stores.md, on a server of each kind."""

import re
import shlex
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tamis_mail import Sieve
from tamis_mail.sample import messages
from tests.mail.shared.servers import Server
from tests.surfaces.terminal import type_in

if TYPE_CHECKING:
    from tests.mail.shared.conftest import Hosts

pytestmark = pytest.mark.peers
PAGE = Path(__file__).parents[3] / "docs/howto/mail-shared-stores.md"
SITES = (f"site-{number}" for number in count())


def list_commands() -> list[str]:
    """List the commands of the page that end by themselves."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("tamis ") and " serve " not in line]


def test_the_commands_of_the_page_work(
    server: Server, hosts: "Hosts", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mail = [one.raw for one in messages()]
    monkeypatch.chdir(tmp_path)
    site = next(SITES)
    address = server.store(site)
    monkeypatch.setenv("TAMIS_STORE", address)
    for name, raw in (("spam", mail[0]), ("ham", mail[1]), ("mine", mail[2])):
        Path(f"{name}.mbox").write_bytes(b"From a@example.org Mon Jan  1 00:00:00 2024\n" + raw + b"\n")
    with Sieve.open("mail.tamis") as sieve:
        sieve.learn(mail[3], "ham")
    run = type_in(monkeypatch)
    commands = list_commands()
    assert len(commands) == 7
    for command in commands:
        words = command.replace("redis://store.example.org/0?store=site", address)
        words = words.replace("redis://store.example.org/0", server.address).replace(
            "site=site", f"site={site}"
        )
        arguments, _, redirected = words.partition(" < ")
        answer = run(*shlex.split(arguments)[1:], stdin=mail[4] if redirected else b"")
        # The status of `sort` is the verdict.
        assert answer.status in ((0, 1, 2) if redirected else (0,)), command
        assert not answer.err, command
        assert answer.text, command
    with Sieve.open("backup.tamis") as sieve:
        assert sum(label.messages for label in sieve.store.labels()) == 3
