"""The IMAP library imapclient on a transport with limits: bytes and seconds per command.

`imaplib`, on which imapclient is built, trusts a server: it reads literals of any size and any number of
responses. `Transport` limits the bytes and the seconds of each command; a server that exceeds them loses the
connection. After STARTTLS, bytes that came before the encryption are refused.
"""

import imaplib
import io
import logging
import socket
import ssl
import time
from typing import Any, NoReturn

from imapclient import IMAPClient

_RECEIVE_BYTES = 1 << 16  # maximum number of bytes that are received at once
_GREETING_BYTES = 1 << 20  # maximum number of bytes before the first command


class Transport(imaplib.IMAP4):
    """Sends and receives for `imaplib`, by overriding its methods `open`, `read`, `readline` and others.

    `seconds` limits the time to connect, the time until the server's greeting, and each wait for bytes.
    `is_broken` says that the connection cannot be used any more; `fault` says why, if the reason is known.
    """

    def __init__(self, host: str, port: int, seconds: float, context: ssl.SSLContext | None) -> None:
        self.is_broken = False
        self.fault = ""
        self._context = context  # for TLS from the start; None for a connection without it
        self._seconds = seconds
        self._buffer = bytearray()
        self._source: socket.socket | None = None  # from which the bytes in the buffer came
        self.set_limits(_GREETING_BYTES, seconds)
        super().__init__(host, port, timeout=seconds)

    def set_limits(self, size: int, seconds: float) -> None:
        """Until the next call of this method, let at most `size` bytes be read, within `seconds` from now."""
        self._remaining_bytes = size
        self._deadline = time.monotonic() + seconds

    @property
    def has_unread(self) -> bool:
        """Whether bytes have come that `read` and `readline` have not returned yet."""
        # Besides the buffer here, TLS has one of its own.
        pending = self.sock.pending() if isinstance(self.sock, ssl.SSLSocket) else 0
        return bool(self._buffer) or pending > 0

    def open(self, host: str = "", port: int = 143, timeout: float | None = None) -> None:
        self.host, self.port = host, port
        connection = socket.create_connection((host, port), timeout)
        try:
            # imaplib sends a command in several parts. Without TCP_NODELAY, a part is sent only when the one
            # before was acknowledged, which takes about 40 ms.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sock = (
                self._context.wrap_socket(connection, server_hostname=host) if self._context else connection
            )
        except BaseException:
            connection.close()
            raise

    def read(self, size: int) -> bytes:
        self._check_source()
        self._count_bytes(size)
        while len(self._buffer) < size:
            self._receive()
        return self._take(size)

    def readline(self) -> bytes:
        self._check_source()
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > self._remaining_bytes:
                self._count_bytes(searched)  # fails: the line is longer than what may be read
            self._receive()
        self._count_bytes(end + 1)
        return self._take(end + 1)

    def send(self, data: Any) -> None:
        try:
            super().send(data)
        except OSError:
            self.is_broken = True
            raise

    def shutdown(self) -> None:
        self.is_broken = True
        # At STARTTLS, imaplib has made a file object of the socket, which would keep the socket open. All
        # attributes are searched for it, because its name is not part of imaplib's interface.
        for value in list(vars(self).values()):
            if isinstance(value, io.BufferedReader):
                value.close()
        self.sock.close()

    def _check_source(self) -> None:
        """Refuse bytes that came before the encryption: anyone on the network may have written them."""
        if self._buffer and self._source is not self.sock:
            self._fail("the server sent something between STARTTLS and the encryption")

    def _count_bytes(self, size: int) -> None:
        if size > self._remaining_bytes:
            self._fail("the server sent more than was expected")
        self._remaining_bytes -= size

    def _receive(self) -> None:
        seconds = self._deadline - time.monotonic()
        if seconds <= 0:
            self._fail("the server took too long")
        try:
            self.sock.settimeout(min(seconds, self._seconds))
            data = self.sock.recv(_RECEIVE_BYTES)
        except TimeoutError:
            self._fail("the server took too long")
        except OSError:
            self.is_broken = True
            raise
        if not data:
            self._fail("the server closed the connection")
        self._buffer += data
        self._source = self.sock

    def _fail(self, sentence: str) -> NoReturn:
        self.is_broken, self.fault = True, sentence
        raise self.abort(sentence)

    def _take(self, size: int) -> bytes:
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data


class Client(IMAPClient):  # type: ignore[misc]  # imapclient has no types
    """The methods of imapclient on `Transport`."""

    transport: Transport

    def __init__(self, host: str, port: int, seconds: float, context: ssl.SSLContext | None) -> None:
        self._seconds = seconds
        # Without a handler, imapclient's warnings, which quote what a server sent, would go to stderr.
        logger = logging.getLogger("imapclient")
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
        super().__init__(host, port, ssl=context is not None, ssl_context=context, timeout=seconds)
        self.transport.debug = 0  # imapclient has made imaplib log every line

    def _create_IMAP4(self) -> Transport:  # noqa: N802 (imapclient's hook for another transport)
        self.transport = Transport(self.host, self.port, self._seconds, self.ssl_context)
        return self.transport
