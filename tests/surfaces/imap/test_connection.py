"""A connection reads whatever a server may write, and ends in a declared error if that makes no sense."""

import re
import socket
import ssl
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tamis_mail.surfaces.imap.account import Account
from tamis_mail.surfaces.imap.connection import (
    CommandRefusedError,
    Connection,
    ConnectionLostError,
    LoginRefusedError,
    format_uid_set,
    open_connection,
    read_uid_set,
)
from tests.surfaces.imap.fake_server import ALL_CAPABILITIES, FakeFolder, FakeServer, run_fake_server
from tests.surfaces.peers.dovecot import needs_dovecot, write_certificate

ODD_BODIES = [
    b"Subject: plain\r\n\r\nbody\r\n",
    b"",
    b"short",
    b'"quoted" and \\ (parentheses) {5}',
    b"{5}",
    b"NIL",
    b"* 1 FETCH (UID 9)\r\nA1 OK done\r\n",
    b")\r\n",
    b"\0\xff\r\n\x80",
    b"x" * 70_000,
    b"12",
]
ODD_NAMES = [
    "INBOX",
    "Junk",
    "with space",
    'quo"te',
    "back\\slash",
    "[Gmail]/Spam",
    "NIL",
    "12",
    "&ZeVnLIqe-",
    "a{5}",
]


@contextmanager
def connect(server: FakeServer) -> Iterator[Connection]:
    account = Account("test", host="127.0.0.1", user="ann", port=server.port, tls="none", password="prompt")
    connection = open_connection(account, "pass word")
    try:
        yield connection
    finally:
        connection.close()


def make_folder(*messages: bytes, attributes: str = "") -> FakeFolder:
    folder = FakeFolder(attributes=attributes)
    for raw in messages:
        folder.add(raw)
    return folder


@pytest.mark.parametrize("packet", [1, 2, 3, 7, 1 << 16])
@pytest.mark.parametrize("writes_literals", [False, True])
def test_strings_in_quotes_and_literals_are_read_in_packets_of_any_size(
    packet: int, *, writes_literals: bool
) -> None:
    bodies = ODD_BODIES if packet > 5 else [raw for raw in ODD_BODIES if len(raw) < 1000]
    folders = {name: make_folder() for name in ODD_NAMES} | {"INBOX": make_folder(*bodies)}
    with (
        run_fake_server(folders=folders, packet=packet, writes_literals=writes_literals) as server,
        connect(server) as connection,
    ):
        names = [folder.name for folder in connection.list_folders()]
        expected = [name.replace("&ZeVnLIqe-", "日本語") for name in ODD_NAMES]
        # imapclient takes an unquoted NIL for nothing; this server puts names in quotes or literals.
        assert names == expected
        connection.select("INBOX")
        uids = sorted(connection.list_uids())
        assert list(connection.read_messages(uids, 1 << 20).values()) == bodies
        assert connection.read_sizes(uids) == {uid: len(raw) for uid, raw in zip(uids, bodies, strict=True)}


def test_every_folder_name_is_sent_back_as_it_came() -> None:
    with (
        run_fake_server(folders={name: make_folder(b"Subject: a\r\n\r\n") for name in ODD_NAMES}) as server,
        connect(server) as connection,
    ):
        for folder in connection.list_folders():
            assert connection.select(folder.wire).status.messages == 1
            assert connection.read_status(folder.wire).messages == 1


def test_a_folder_name_that_could_carry_a_command_is_left_out() -> None:
    def script(number: int, command: str) -> bytes | None:
        if command.startswith("LIST"):
            return b'* LIST () "/" {18}\r\nx\r\nA1 DELETE INBOX\r\n* LIST () "/" INBOX\r\nTAG OK done\r\n'
        return None

    with run_fake_server(script=script) as server, connect(server) as connection:
        assert [folder.name for folder in connection.list_folders()] == ["INBOX"]


@pytest.mark.parametrize(
    "answer",
    [
        b"* 1 FETCH (UID 1 BODY[] {99999999999999}\r\nxx",
        b"* 1 FETCH (UID 1 BODY[] {5000000}\r\nxx",
        b"* 1 FETCH (UID 1 BODY[] {-5}\r\nxx)\r\nTAG OK done\r\n",
        b"* 1 FETCH (UID 1 BODY[] {3}\r\nxxxxx)\r\nTAG OK done\r\n",
        b"* 1 FETCH (UID 1 BODY[]\r\nTAG OK done\r\n",
        b"* 1 FETCH (UID 1 (((((\r\nTAG OK done\r\n",
        b"* 1 FETCH " + b"(" * 20_000 + b"\r\nTAG OK done\r\n",
        b"* 1 FETCH UID\r\nTAG OK done\r\n",
        b'* 1 FETCH (UID 1 BODY[] "never closed)\r\nTAG OK done\r\n',
        b"* x FETCH (UID 1 BODY[] {1}\r\nx)\r\nTAG OK done\r\n",
        b"TAG2 OK somebody else's\r\n",
        b"garbage\r\n",
        b"\0\xff\xfe\r\n",
        b"\r\n",
        b"* 1 FETCH (UID 1 BODY[] {1}\nx)\r\nTAG OK done\r\n",
        b"* OK " + b"x" * 500_000 + b"\r\n",
        b"* OK still here\r\n" * 20_000,
        b"* BYE xx as in a message\r\n",
    ],
    ids=lambda answer: repr(answer[:45]),
)
def test_nonsense_ends_the_connection_in_bounded_memory(answer: bytes) -> None:
    def script(number: int, command: str) -> bytes | None:
        return answer if "BODY.PEEK" in command else None

    with (
        run_fake_server(folders={"INBOX": make_folder(b"x")}, script=script) as server,
        connect(server) as connection,
    ):
        connection.select("INBOX")
        tracemalloc.start()
        try:
            with pytest.raises(ConnectionLostError) as caught:
                connection.read_messages([1], 200_000)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 20 << 20
        assert connection.is_lost
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 300
        assert "xx" not in str(caught.value)  # nothing of a message


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"* 1 FETCH (UID 1 BODY[] NIL)\r\nTAG OK done\r\n", {1: None}),
        (b"* 1 FETCH (BODY[] {1}\r\nx UID 1)\r\nTAG OK done\r\n", {1: b"x"}),
        (b"* 1 FETCH (uid 1 body[] {1}\r\nx)\r\nTAG OK done\r\n", {1: b"x"}),
        (b"* 1 FETCH (UID 2 BODY[] {1}\r\nx)\r\nTAG OK done\r\n", {}),
        (b"* 1 FETCH (FLAGS (\\Seen))\r\n* 1 FETCH (UID 1 BODY[] {1}\r\nx)\r\nTAG OK done\r\n", {1: b"x"}),
        (b"* 9 EXISTS\r\n* 3 EXPUNGE\r\n* 1 FETCH (UID 1 BODY[] {1}\r\nx)\r\nTAG OK done\r\n", {1: b"x"}),
        (b"TAG OK nothing\r\n", {}),
    ],
)
def test_what_a_server_says_unasked_is_no_part_of_a_message(
    answer: bytes, expected: dict[int, bytes]
) -> None:
    def script(number: int, command: str) -> bytes | None:
        return answer if "BODY.PEEK" in command else None

    with (
        run_fake_server(folders={"INBOX": make_folder(b"x")}, script=script) as server,
        connect(server) as connection,
    ):
        connection.select("INBOX")
        assert connection.read_messages([1], 1 << 20) == expected


def test_flags_of_a_message_without_uid_are_not_taken_for_those_of_another() -> None:
    """imapclient would give the flags of the second message to that with the uid 2."""
    answer = b"* 1 FETCH (UID 2 FLAGS ())\r\n* 2 FETCH (FLAGS ($Junk))\r\nTAG OK done\r\n"

    def script(number: int, command: str) -> bytes | None:
        return answer if command.startswith("UID FETCH 1:*") else None

    with (
        run_fake_server(folders={"INBOX": make_folder(b"x")}, script=script) as server,
        connect(server) as connection,
    ):
        connection.select("INBOX")
        assert connection.list_flags() == ({2: frozenset()}, frozenset())


def test_an_impossible_uid_of_a_moved_message_is_not_known() -> None:
    answer = b"* OK [COPYUID 7 1 %s] moved\r\nTAG OK done\r\n"
    uids = iter([b"9" * 5000, b"9"])

    def script(number: int, command: str) -> bytes | None:
        return answer % next(uids) if command.startswith("UID MOVE") else None

    with (
        run_fake_server(folders={"INBOX": make_folder(b"x")}, script=script) as server,
        connect(server) as connection,
    ):
        connection.select("INBOX", writable=True)
        assert connection.move(1, "Junk") is None
        assert connection.move(1, "Junk") == (7, 9)


def test_a_refused_idle_does_not_hinder_the_logout() -> None:
    def script(number: int, command: str) -> str | None:
        return "no" if command == "IDLE" else None

    with run_fake_server(folders={"INBOX": make_folder(b"x")}, script=script) as server:
        with connect(server) as connection:
            connection.select("INBOX")
            with pytest.raises(CommandRefusedError):
                connection.wait(1.0)
        assert server.commands[-1] == "LOGOUT"


def test_flags_that_came_with_an_earlier_command_are_not_taken_for_the_present_ones() -> None:
    def script(number: int, command: str) -> bytes | None:
        return b"* 1 FETCH (UID 99 FLAGS ($Junk))\r\nTAG OK done\r\n" if command == "NOOP" else None

    with (
        run_fake_server(folders={"INBOX": make_folder(b"x")}, script=script) as server,
        connect(server) as connection,
    ):
        connection.select("INBOX")
        connection.check()
        assert connection.list_flags() == ({1: frozenset()}, frozenset())


def test_a_refusal_to_read_quotes_nothing_because_it_may_be_part_of_a_message() -> None:
    def script(number: int, command: str) -> bytes | None:
        return b"TAG NO periwinkle\r\n" if command.startswith("UID FETCH") else None

    with (
        run_fake_server(folders={"INBOX": make_folder(b"x")}, script=script) as server,
        connect(server) as connection,
    ):
        connection.select("INBOX")
        with pytest.raises(CommandRefusedError) as caught:
            connection.read_messages([1], 1 << 20)
        assert "periwinkle" not in str(caught.value)


def use_everything(server: FakeServer) -> None:
    """Use every command of a connection."""
    with connect(server) as connection:
        connection.list_folders()
        connection.list_foreign_prefixes()
        connection.find_own_prefix()
        connection.read_status("INBOX")
        connection.select("INBOX", writable=True)
        connection.list_uids()
        connection.list_flags()
        connection.read_sizes([1, 2])
        connection.read_messages([1, 2], 1 << 20)
        connection.add_flags(1, ["$Junk"])
        connection.create("New")
        connection.move(1, "New")
        connection.check()
        connection.wait(0.01)


@pytest.mark.parametrize("capabilities", [ALL_CAPABILITIES, ALL_CAPABILITIES.replace(" MOVE", "")])
@pytest.mark.parametrize("act", ["bye", "before", "after", "no", b"\xff\xfe\r\n"])
def test_whatever_happens_at_any_command_is_one_of_the_declared_errors(
    capabilities: str, act: "str | bytes"
) -> None:
    def make() -> dict[str, FakeFolder]:
        return {"INBOX": make_folder(b"a", b"b")}

    with run_fake_server(folders=make(), capabilities=capabilities) as server:
        use_everything(server)
        count = len(server.commands)
    assert count > 15
    for place in range(count - 1):  # the last is LOGOUT

        def script(number: int, command: str, place: int = place) -> "str | bytes | None":
            return act if number == place else None

        with run_fake_server(folders=make(), capabilities=capabilities, script=script) as server:
            try:
                use_everything(server)
            except (ConnectionLostError, CommandRefusedError, LoginRefusedError):
                pass
            else:
                # Whether a folder can be subscribed to, or was there already, is not important.
                assert act == "no"
            assert {raw for _, raw in server.all_messages()} == {b"a", b"b"}


def test_no_command_removes_more_than_one_message() -> None:
    for capabilities in (ALL_CAPABILITIES, ALL_CAPABILITIES.replace(" MOVE", "")):
        folders = {"INBOX": make_folder(b"a", b"b", b"c"), "Junk": make_folder()}
        folders["INBOX"].flags[3].add(r"\Deleted")
        with (
            run_fake_server(folders=folders, capabilities=capabilities) as server,
            connect(server) as connection,
        ):
            connection.select("INBOX", writable=True)
            assert connection.move(2, "Junk") == (7, 1)
            connection.select("Junk")
            assert server.all_messages() == [("INBOX", b"a"), ("INBOX", b"c"), ("Junk", b"b")]
            sent = [command.split()[0] for command in server.commands]
            assert not {"EXPUNGE", "CLOSE", "DELETE"} & set(sent)
            bodies = [command for command in server.commands if "BODY" in command]
            assert all("BODY.PEEK[]" in command for command in bodies)


@pytest.mark.parametrize(
    "greeting",
    [
        b"* BYE full\r\n",
        b"garbage\r\n",
        b"* OK\r\n" * 5,
        b"\xff" * 2_000_000,
        b"220 smtp.example ESMTP\r\n",
    ],
    ids=lambda greeting: repr(greeting[:20]),
)
def test_a_server_that_greets_oddly_is_reported_in_one_line(greeting: bytes) -> None:
    def script(number: int, command: str) -> str:
        return "bye"

    with run_fake_server(greeting=greeting, script=script) as server:
        with pytest.raises(ConnectionLostError, match="cannot be reached") as caught, connect(server):
            pass
        assert "\n" not in str(caught.value)


def test_without_tls_or_password_in_the_open_nothing_is_sent() -> None:
    with run_fake_server(capabilities="IMAP4rev1 LOGINDISABLED STARTTLS") as server:
        with pytest.raises(LoginRefusedError, match="accepts no password here"), connect(server):
            pass
        assert not any(re.match("LOGIN|AUTHENTICATE", command) for command in server.commands)


@needs_dovecot  # for openssl
def test_what_came_before_the_encryption_is_refused(tmp_path: Path) -> None:
    """An attacker on the way could write it, as in CVE-2011-0411."""
    write_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate.pem", tmp_path / "key.pem")
    listening = socket.create_server(("127.0.0.1", 0))

    def serve(*, is_attacked: bool) -> None:
        plain, _ = listening.accept()
        with suppress(OSError), plain:
            plain.sendall(b"* OK ready\r\n")
            tag = plain.recv(1000).split()[0]
            plain.sendall(b"* CAPABILITY IMAP4rev1 STARTTLS LOGINDISABLED\r\n" + tag + b" OK done\r\n")
            tag = plain.recv(1000).split()[0]
            injected = b"* CAPABILITY IMAP4rev1 AUTH=PLAIN\r\n" if is_attacked else b""
            plain.sendall(tag + b" OK begin\r\n" + injected)
            with context.wrap_socket(plain, server_side=True) as client:
                while data := client.recv(1000):
                    tag = data.split()[0]
                    client.sendall(b"* CAPABILITY IMAP4rev1\r\n" + tag + b" OK done\r\n")

    account = Account(
        "test",
        host="127.0.0.1",
        user="ann",
        port=listening.getsockname()[1],
        tls="starttls",
        certificate=str(tmp_path / "certificate.pem"),
        password="prompt",
    )
    with listening:
        for is_attacked in (False, True):
            thread = threading.Thread(target=serve, kwargs={"is_attacked": is_attacked}, daemon=True)
            thread.start()
            if is_attacked:
                with pytest.raises(ConnectionLostError, match="between STARTTLS and the encryption"):
                    open_connection(account, "secret")
            else:
                open_connection(account, "secret").close()
            thread.join(5)


def test_a_server_that_is_silent_or_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tamis_mail.surfaces.imap.connection._CONNECT_SECONDS", 0.2)
    monkeypatch.setattr("tamis_mail.surfaces.imap.connection._COMMAND_SECONDS", 0.4)
    released = threading.Event()

    def script(number: int, command: str) -> bytes | None:
        if command == "NOOP":
            released.wait(5)
        return None

    with run_fake_server(script=script) as server, connect(server) as connection:
        with pytest.raises(ConnectionLostError, match="took too long"):
            connection.check()
        released.set()

    def drip(number: int, command: str) -> bytes | None:
        return b"* OK still working\r\n" * 1000 if command == "NOOP" else None

    with run_fake_server(script=drip) as server, connect(server) as connection:
        server.packet, server.pause = 1, 0.02
        with pytest.raises(ConnectionLostError, match="took too long"):
            connection.check()


def test_a_token_logs_in_by_xoauth2() -> None:
    account = Account(
        "test", host="127.0.0.1", user="ann", tls="none", login="xoauth2", password="command", command="x"
    )
    capabilities = f"{ALL_CAPABILITIES} AUTH=XOAUTH2"
    with run_fake_server(capabilities=capabilities, accepts=b"auth=Bearer token\1\1") as server:
        account = replace(account, port=server.port)
        open_connection(account, "token").close()
        with pytest.raises(LoginRefusedError, match="does not accept the xoauth2 of ann"):
            open_connection(account, "old")
        assert server.credentials[0] == b"user=ann\1auth=Bearer token\1\1"
        server.capabilities = ALL_CAPABILITIES
        with pytest.raises(LoginRefusedError, match="does not offer XOAUTH2"):
            open_connection(account, "token")


def test_a_password_may_have_any_letters() -> None:
    with run_fake_server(accepts='\0ann\0pässwörd "quoted" \\'.encode()) as server:
        account = Account(
            "test", host="127.0.0.1", user="ann", port=server.port, tls="none", password="prompt"
        )
        open_connection(account, 'pässwörd "quoted" \\').close()
        with pytest.raises(LoginRefusedError, match="AUTHENTICATIONFAILED"):
            open_connection(account, "wrong")


def test_uid_sets_are_written_and_read() -> None:
    assert format_uid_set([9, 1, 2, 3, 5]) == "1:3,5,9"
    assert read_uid_set(b"1:3,5,9") == {1, 2, 3, 5, 9}
    assert read_uid_set(b"3:1") == {1, 2, 3}
    for bad in (b"", b"x", b"1:4294967295", b":1", b"1,,2"):
        with pytest.raises(ValueError, match=r"."):
            read_uid_set(bad)
