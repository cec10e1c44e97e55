"""A session with the server that mail is passed on to, by LMTP or SMTP."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from tamis_mail.serving.listeners import Listener
from tamis_mail.surfaces.lmtp.codec import ContentWriter, Reply, ReplyError, ReplyReader, read_extensions

_BLOCK = 1 << 16  # bytes that are read at once
_QUIT_SECONDS = 1.0  # maximum wait for the reply to QUIT


@dataclass(frozen=True, slots=True)
class NextHop:
    """The server to which mail is passed on."""

    address: Listener
    protocol: str = "lmtp"  # or "smtp"
    seconds: float = 300.0  # maximum wait for an answer


class NextHopError(Exception):
    """The next hop cannot be reached, has ended the session, does not answer or breaks the protocol."""


class NextHopSession:
    """A session with the next hop. Errors of the connection and of the next hop raise NextHopError."""

    def __init__(self, hop: NextHop, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._hop = hop
        self._reader = reader
        self._writer = writer
        self._replies = ReplyReader()
        self._content: ContentWriter | None = None  # None if the message is sent by BDAT
        self.extensions: dict[str, str] = {}  # parameters by name, from the reply to LHLO or EHLO

    @classmethod
    async def open(cls, hop: NextHop, name: bytes) -> "NextHopSession":
        """Connect, and send LHLO (or EHLO) with the name of the client whose mail is passed on."""
        address = hop.address
        try:
            async with asyncio.timeout(hop.seconds):
                if address.path:
                    streams = await asyncio.open_unix_connection(address.path)
                else:
                    streams = await asyncio.open_connection(address.host, address.port)
        except TimeoutError:
            raise NextHopError("the next hop does not answer") from None
        except OSError as error:
            raise NextHopError(
                f"the next hop cannot be reached: {error.strerror or type(error).__name__}"
            ) from None
        session = cls(hop, *streams)
        try:
            _require_positive(await session.read_reply(), "its greeting")
            verb = "LHLO" if hop.protocol == "lmtp" else "EHLO"
            hello = await session.ask(b"%s %s" % (verb.encode(), name))
            _require_positive(hello, verb)
        except BaseException:
            session.abort()
            raise
        session.extensions = read_extensions(hello)
        return session

    @property
    def has_chunking(self) -> bool:
        """Whether messages can be sent by BDAT."""
        return "CHUNKING" in self.extensions

    async def ask(self, line: bytes) -> Reply:
        """Send a command, and return the reply."""
        await self._send(line + b"\r\n")
        return await self.read_reply()

    async def begin_message(self, *, by_length: bool) -> Reply | None:
        """Begin a message; with `by_length` it is sent by BDAT, else by DATA.

        Return the reply if the next hop refuses it, else None.
        """
        self._content = None if by_length else ContentWriter()
        if by_length:
            return None
        await self._send(b"DATA\r\n")
        reply = await self._read_any_reply()
        if reply.code == 354:
            return None
        if reply.code < 400:  # to the client, this reply would mean that the message was delivered
            raise NextHopError(f"the next hop does not speak LMTP: DATA has the code {reply.code}")
        return reply

    async def send_part(self, data: bytes) -> Reply | None:
        """Send a part of the message; return the reply if the next hop refuses it, else None.

        By DATA, raise `codec.AmbiguousDotError` if servers may take a lone dot for the end of the message.
        """
        if self._content is not None:
            await self._send(self._content.write(data))
            return None
        await self._send(b"BDAT %d\r\n" % len(data), data)
        reply = await self.read_reply()
        return None if reply.is_positive else reply

    async def end_message(self) -> None:
        """End the message: from here on the next hop may have delivered it."""
        await self._send(b"BDAT 0 LAST\r\n" if self._content is None else self._content.end())

    async def read_reply(self) -> Reply:
        """Return the next reply, whose code is 2xx, 4xx or 5xx."""
        reply = await self._read_any_reply()
        if 300 <= reply.code < 400:
            raise NextHopError(f"the next hop does not speak LMTP: a command has the code {reply.code}")
        return reply

    async def _read_any_reply(self) -> Reply:
        try:
            async with asyncio.timeout(self._hop.seconds):
                while (reply := self._replies.read_reply()) is None:
                    data = await self._reader.read(_BLOCK)
                    if not data:
                        raise NextHopError("the next hop has ended the session")
                    self._replies.feed(data)
        except ReplyError as error:
            raise NextHopError(f"the next hop does not speak LMTP: {error}") from None
        except TimeoutError:
            raise NextHopError("the next hop does not answer") from None
        except OSError:
            raise NextHopError("the next hop has ended the session") from None
        if reply.code == 421:
            raise NextHopError("the next hop ends the session: 421")
        return reply

    async def _send(self, *parts: bytes) -> None:
        self._writer.writelines(parts)
        try:
            async with asyncio.timeout(self._hop.seconds):
                await self._writer.drain()
        except TimeoutError:
            raise NextHopError("the next hop takes no more data") from None
        except OSError:
            raise NextHopError("the next hop has ended the session") from None

    async def quit(self) -> None:
        """End the session by QUIT."""
        with suppress(NextHopError, TimeoutError):
            async with asyncio.timeout(_QUIT_SECONDS):
                await self.ask(b"QUIT")
        self.abort()

    def abort(self) -> None:
        """End the session at once; the next hop drops a message whose end it has not read."""
        transport = self._writer.transport
        if isinstance(transport, asyncio.WriteTransport):
            transport.abort()


def _require_positive(reply: Reply, step: str) -> None:
    if not reply.is_positive:
        raise NextHopError(f"the next hop is not ready: {step} has the code {reply.code}")
