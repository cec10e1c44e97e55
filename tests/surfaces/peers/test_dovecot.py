"""The Dovecot of the tests delivers, survives a kill and shows the messages that it holds."""

import pytest

from tests.surfaces.peers.dovecot import USER, needs_dovecot, run_dovecot

pytestmark = [pytest.mark.peers, needs_dovecot]


def test_dovecot_holds_messages_across_a_kill() -> None:
    raw = b"Subject: a\r\n\r\nbody\r\n"
    with run_dovecot() as dovecot:
        dovecot.deliver(b"Subject: delivered\r\n\r\nbody\r\n")
        dovecot.append("Junk", [raw])
        dovecot.doveadm("mailbox", "create", 'odd "name" \u00fc')
        dovecot.restart()
        messages = dovecot.list_messages()
        assert [raw for folder, raw in messages if folder == "Junk"] == [raw]
        (delivered,) = [raw for folder, raw in messages if folder == "INBOX"]
        assert b"Subject: delivered\r\n" in delivered
        assert dovecot.maildir(USER).is_dir()
