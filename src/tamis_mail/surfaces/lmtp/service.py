"""Take mail by LMTP, add the verdict, and pass it on to the next hop, the server that delivers it.

A client's session has a session with the next hop. MAIL and RCPT are passed on one by one, and the replies of
the next hop to them are returned as they are. The message is collected, judged for each recipient, and sent
to the next hop; if users have stores of their own that lead to different header fields, there is a
transaction for each group of recipients with the same fields. A message that is too large to be judged is
passed on while it comes. The client gets 250 for a recipient only after the next hop has answered 250 for it.

If a store cannot be used, the message is passed on as it came. If the next hop fails, the recipients without
an answer get 451, and the client, which still has the message, tries again. No message is written to disk.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, TypeVar

from tamis_mail.serving.filtering import Fault, Filtering, TimedVerdict
from tamis_mail.serving.logs import Log
from tamis_mail.serving.metrics import Metrics
from tamis_mail.serving.server import Limits
from tamis_mail.surfaces.lmtp.codec import (
    AmbiguousDotError,
    BadLine,
    Command,
    CommandReader,
    Content,
    End,
    Reply,
    has_bare_line_ends,
    read_path,
)
from tamis_mail.surfaces.lmtp.next_hop import NextHop, NextHopError, NextHopSession
from tamis_mail.verdict import Verdict
from tamis_mail.verdict.header_fields import add_verdict, fields

T = TypeVar("T")

_BLOCK = 1 << 16  # bytes that are read at once
_PART = 1 << 19  # bytes of a message that are sent at once; other sessions have their turn between them
_JUDGE_SECONDS = 60.0  # after this time, a message is passed on without a verdict
_MAX_RECIPIENTS = 1000  # of a message; the mail server Postfix sends 50 by default
_MAX_ERRORS = 20  # mistakes of a client, after which its session is ended
# Extensions of the next hop that are offered to clients: they only add parameters to MAIL and RCPT.
_PASSED_ON_EXTENSIONS = ("8BITMIME", "DSN", "SIZE", "SMTPUTF8")

_GREETING = Reply(220, (b"tamis LMTP",))
_OK = Reply(250, (b"2.0.0 ok",))
_BYE = Reply(221, (b"2.0.0 bye",))
_NOT_VERIFIED = Reply(252, (b"2.5.2 send the message, and see",))
_GO_AHEAD = Reply(354, (b"send the message, and end it by a line with a dot",))
_SILENT_TOO_LONG = Reply(421, (b"4.4.2 nothing was sent for too long",))
_OLD_SESSION = Reply(421, (b"4.3.2 this session was long: open another one",))
_TOO_MANY_ERRORS = Reply(421, (b"4.7.0 too many errors",))
_NEXT_HOP_UNREACHABLE = Reply(451, (b"4.4.1 the next hop cannot be reached, try again",))
_NEXT_HOP_LOST = Reply(451, (b"4.4.2 the next hop did not finish, try again",))
_TOO_MANY_RECIPIENTS = Reply(452, (b"4.5.3 too many recipients, send the message to the others again",))
_NOT_LMTP = Reply(500, (b"5.5.1 this is LMTP: say LHLO",))
_UNKNOWN_COMMAND = Reply(500, (b"5.5.1 this command is not known",))
_NO_PATH = Reply(501, (b"5.5.4 an address in angle brackets is missing",))
_WRONG_ORDER = Reply(503, (b"5.5.1 this command comes at the wrong time",))
_NO_RECIPIENT = Reply(503, (b"5.5.1 there is no valid recipient",))
_LONE_DOT = Reply(
    554, (b"5.6.0 the message has a lone dot between bare line ends, which the next hop may misunderstand",)
)


@dataclass(frozen=True, slots=True)
class Marking:
    """How a verdict is written into a message."""

    dialect: str  # one of `header_fields.DIALECTS`: the filter whose header fields are written
    version: str  # of tamis, for the header fields
    shows_evidence: bool = True

    @property
    def needs_evidence(self) -> bool:
        """Whether the fields name the evidence, which takes much longer to find than the verdict.

        The field of bogofilter, X-Bogosity, has no place for it.
        """
        return self.shows_evidence and self.dialect != "bogofilter"

    def write(self, message: bytes, judged: TimedVerdict) -> bytes:
        """Return the message with the fields of the verdict, whose lines end in CR LF in any case.

        `judged.required` is the probability from which on a message is called spam. The field X-Spam-Status
        of SpamAssassin names such a threshold as `required`.
        """
        return add_verdict(
            message,
            self._trim(judged.verdict),
            dialect=self.dialect,
            required=judged.required,
            version=self.version,
            newline=b"\r\n",
        )

    def list_fields(self, judged: TimedVerdict) -> tuple[bytes, ...]:
        """Return the header fields of a verdict."""
        verdict = self._trim(judged.verdict)
        return tuple(fields(verdict, dialect=self.dialect, required=judged.required, version=self.version))

    def _trim(self, verdict: Verdict) -> Verdict:
        """Return the verdict without evidence that is not needed."""
        # The second argument of a verdict is the function that finds the evidence.
        return verdict if self.needs_evidence else Verdict(verdict.judgement, lambda: ())


@dataclass(frozen=True, slots=True)
class _Recipient:
    """A recipient that the next hop has accepted."""

    line: bytes  # the command RCPT
    user: str  # whose store judges the message; "" is the user of the common store


@dataclass(slots=True)
class _Transaction:
    """A message that is being passed on."""

    line: bytes  # the command MAIL
    recipients: list[_Recipient] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class LmtpService:
    """Handles the sessions of clients."""

    filtering: Filtering  # judges messages by the users' stores, in threads
    log: Log
    metrics: Metrics
    _: KW_ONLY
    limits: Limits  # of sessions and messages
    hop: NextHop  # the server to which mail is passed on
    marking: Marking
    # Returns the user of a name that a client sent, or "", the user of the common store.
    user_of: Callable[[str], str] = lambda name: ""
    user_name: str = "address"  # or "local-part": the part of a recipient's address that names a user

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a client until it leaves."""
        session = _ClientSession(self, reader, writer)
        try:
            await session.run()
        finally:
            await session.close()

    def find_user(self, address: bytes) -> str:
        """Return the user of a recipient's address; a "+detail" at the end of its local part is ignored."""
        local_part, at, domain = address.decode("utf-8", "replace").lower().rpartition("@")
        if not at:
            local_part, domain = domain, ""
        local_part = local_part.partition("+")[0] or local_part
        return self.user_of(local_part if self.user_name == "local-part" else f"{local_part}{at}{domain}")


class _ClientGoneError(Exception):
    """The client has ended the session, or the session must end."""


class _ClientSession:
    """The session of a client, with the session with the next hop that belongs to it."""

    def __init__(
        self, service: LmtpService, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._service = service
        self._reader = reader
        self._writer = writer
        self._commands = CommandReader()
        self._name: bytes | None = None  # of the client, from LHLO; None before LHLO has succeeded
        self._next: NextHopSession | None = None
        self._transaction: _Transaction | None = None
        self._n_errors = 0
        # After this time, no message is begun, so that the last one can end before the server closes the
        # session at the end of `limits.seconds`.
        self._last_start = time.monotonic() + service.limits.seconds / 2

    async def run(self) -> None:
        """Answer one command after the other, until the client leaves."""
        try:
            await self._reply(_GREETING)
            while True:
                event = await self._read_event()
                if isinstance(event, Command):
                    await self._handle_command(event)
                elif isinstance(event, BadLine):
                    await self._refuse(Reply(500, (b"5.5.2 " + event.sentence.encode("ascii"),)))
        except _ClientGoneError:
            pass

    async def close(self) -> None:
        """End the session with the next hop."""
        if self._next is not None:
            await self._next.quit()
            self._next = None

    async def _handle_command(self, command: Command) -> None:
        match command.verb:
            case "LHLO":
                await self._answer_hello(command)
            case "MAIL":
                await self._begin_transaction(command)
            case "RCPT":
                await self._add_recipient(command)
            case "DATA":
                await self._take_message(command)
            case "RSET":
                await self._reset()
                await self._reply(_OK)
            case "NOOP":
                await self._reply(_OK)
            case "VRFY":
                await self._reply(_NOT_VERIFIED)
            case "QUIT":
                await self._reply(_BYE)
                raise _ClientGoneError
            case "HELO" | "EHLO":
                await self._refuse(_NOT_LMTP)
            case _:
                await self._refuse(_UNKNOWN_COMMAND)

    async def _answer_hello(self, command: Command) -> None:
        """Answer LHLO with those extensions of the next hop that can be passed on."""
        self._name = command.argument.strip() or b"localhost"
        self._transaction = None
        try:
            session = await self._connect()
        except NextHopError as error:
            self._name = None
            await self._reply(self._note_failure(error, _NEXT_HOP_UNREACHABLE))
            return
        passed_on = [
            f"{name} {session.extensions[name]}".strip().encode("ascii", "replace")
            for name in _PASSED_ON_EXTENSIONS
            if name in session.extensions
        ]
        await self._reply(Reply(250, (b"tamis", b"PIPELINING", b"ENHANCEDSTATUSCODES", *passed_on)))

    async def _begin_transaction(self, command: Command) -> None:
        """Answer MAIL with the reply of the next hop."""
        if self._name is None or self._transaction is not None:
            return await self._refuse(_WRONG_ORDER)
        if read_path(command) is None:
            return await self._refuse(_NO_PATH)
        if time.monotonic() > self._last_start:
            await self._reply(_OLD_SESSION)
            raise _ClientGoneError
        try:
            reply = await self._pass_on_mail(command.line)
        except NextHopError as error:
            reply = self._note_failure(error, _NEXT_HOP_UNREACHABLE)
        if reply.is_positive:
            self._transaction = _Transaction(command.line)
        return await self._reply(reply)

    async def _pass_on_mail(self, line: bytes) -> Reply:
        """Pass MAIL on; a session that has ended since the last message is opened again."""
        if self._next is not None:
            try:
                return await self._next.ask(line)
            except NextHopError:
                pass
        return await (await self._connect()).ask(line)

    async def _connect(self) -> NextHopSession:
        """Open a new session with the next hop."""
        self._leave_next_hop()
        self._next = await NextHopSession.open(self._service.hop, self._name or b"localhost")
        return self._next

    def _leave_next_hop(self) -> None:
        """End the session with the next hop at once: it is lost, or has half of a message."""
        if self._next is not None:
            self._next.abort()
            self._next = None

    def _note_failure(self, error: NextHopError, reply: Reply) -> Reply:
        """End the session with a next hop that failed, log the error, and return the given reply."""
        self._leave_next_hop()
        self._service.log.write("next-hop-fault", reason=str(error))
        self._service.metrics.count_fault("next-hop")
        return reply

    async def _add_recipient(self, command: Command) -> None:
        """Answer RCPT with the reply of the next hop."""
        if self._transaction is None:
            return await self._refuse(_WRONG_ORDER)
        address = read_path(command)
        if address is None:
            return await self._refuse(_NO_PATH)
        if len(self._transaction.recipients) >= _MAX_RECIPIENTS:
            return await self._reply(_TOO_MANY_RECIPIENTS)
        if self._next is None:  # lost since MAIL
            return await self._reply(_NEXT_HOP_LOST)
        try:
            reply = await self._next.ask(command.line)
        except NextHopError as error:
            reply = self._note_failure(error, _NEXT_HOP_LOST)
        if reply.is_positive:
            self._transaction.recipients.append(_Recipient(command.line, self._service.find_user(address)))
        return await self._reply(reply)

    async def _reset(self) -> None:
        """End the transaction, if there is one, here and at the next hop."""
        transaction, self._transaction = self._transaction, None
        if transaction is not None and self._next is not None:
            try:
                await self._next.ask(b"RSET")
            except NextHopError as error:
                self._note_failure(error, _NEXT_HOP_LOST)

    async def _take_message(self, command: Command) -> None:
        """Answer DATA, read the message, and deliver it; a message beyond the limit is passed through."""
        transaction = self._transaction
        if command.argument or transaction is None or not transaction.recipients:
            has_sent_more = self._commands.has_pending
            await self._refuse(_WRONG_ORDER if transaction is None or command.argument else _NO_RECIPIENT)
            if has_sent_more:  # perhaps the message, before the reply: it must not be read as commands
                raise _ClientGoneError
            return
        self._transaction = None
        await self._reply(_GO_AHEAD)
        self._commands.expect_content()
        parts: list[bytes] = []
        size = 0
        while isinstance(event := await self._read_event(), Content):
            parts.append(event.data)
            size += len(event.data)
            if size > self._service.limits.size:
                await self._pass_through(transaction, parts)
                return
        message = b"".join(parts)
        parts.clear()
        await _run_uninterrupted(self._deliver(transaction, message))

    async def _deliver(self, transaction: _Transaction, message: bytes) -> None:
        """Judge a message, and send it to each recipient with the verdict of that recipient's store."""
        answers = _Answers(self._writer)
        try:
            groups = await self._judge_for(transaction.recipients, message)
        except Exception as error:  # noqa: BLE001 (a defect of the filter must not keep mail back)
            self._note_fault(Fault(f"unexpected {type(error).__name__}"))
            groups = [(list(range(len(transaction.recipients))), Fault(""))]  # no verdict is written
        for indices, judged in groups:
            await self._send(transaction, indices, self._mark(message, judged), message, answers)
        self._log_delivery(answers, len(message), len(groups))
        await self._drain()

    async def _judge_for(
        self, recipients: Sequence[_Recipient], message: bytes
    ) -> list[tuple[list[int], TimedVerdict | Fault]]:
        """Return groups of recipients that get the same header fields: their indices, and their verdict."""
        store_users = [self._service.filtering.find_store_user(recipient.user) for recipient in recipients]
        distinct_users = list(dict.fromkeys(store_users))
        verdicts = await asyncio.gather(*(self._judge(message, user) for user in distinct_users))
        judged = dict(zip(distinct_users, verdicts, strict=True))
        groups: dict[tuple[bytes, ...], list[int]] = {}
        for index, user in enumerate(store_users):
            groups.setdefault(self._make_header(judged[user]), []).append(index)
        return [(indices, judged[store_users[indices[0]]]) for indices in groups.values()]

    async def _judge(self, message: bytes, user: str) -> TimedVerdict | Fault:
        """Judge a message by a user's store; log and count the verdict, or the fault."""
        service = self._service
        try:
            async with asyncio.timeout(_JUDGE_SECONDS):
                judged = await service.filtering.judge(
                    message, user, with_evidence=service.marking.needs_evidence
                )
        except TimeoutError:
            judged = Fault("the verdict took too long")
        if isinstance(judged, Fault):
            self._note_fault(judged)
        else:
            service.metrics.count_verdict(judged.verdict.label, judged.seconds)
            service.log.write(
                "verdict",
                label=judged.verdict.label,
                probability=round(judged.verdict.probability, 6),
                bytes=len(message),
                seconds=round(judged.seconds, 4),
            )
        return judged

    def _note_fault(self, fault: Fault) -> None:
        self._service.log.write("store-fault", reason=fault.sentence)
        self._service.metrics.count_fault("store")

    def _make_header(self, judged: TimedVerdict | Fault) -> tuple[bytes, ...]:
        return () if isinstance(judged, Fault) else self._service.marking.list_fields(judged)

    def _mark(self, message: bytes, judged: TimedVerdict | Fault) -> bytes:
        return message if isinstance(judged, Fault) else self._service.marking.write(message, judged)

    async def _send(
        self,
        transaction: _Transaction,
        indices: Sequence[int],
        marked: bytes,
        message: bytes,
        answers: "_Answers",
    ) -> None:
        """Send the marked message to the recipients with these indices, and note the answer to each.

        `message` is the message without a verdict, which is sent if the marked one would be too large.
        """
        remaining = list(indices)
        try:
            session, remaining = await self._open_transaction(transaction, indices, answers)
            if not remaining:
                return
            largest = session.extensions.get("SIZE", "")
            if largest.isascii() and largest.isdigit() and len(message) <= int(largest) < len(marked):
                marked = message  # with our fields, it would be refused as too large
            if self._is_client_gone():
                raise _ClientGoneError
            by_length = session.has_chunking and has_bare_line_ends(marked)
            refusal = await session.begin_message(by_length=by_length)
            for start in range(0, len(marked), _PART):
                if refusal is None:
                    refusal = await session.send_part(marked[start : start + _PART])
            if refusal is None:
                await session.end_message()
                await self._read_answers(session, remaining, answers)
            else:
                answers.note(remaining, refusal)
                await session.ask(b"RSET")
        except NextHopError as error:
            answers.note(remaining, self._note_failure(error, _NEXT_HOP_LOST))
        except AmbiguousDotError:
            answers.note(remaining, self._refuse_dot())

    async def _open_transaction(
        self, transaction: _Transaction, indices: Sequence[int], answers: "_Answers"
    ) -> tuple[NextHopSession, list[int]]:
        """Return a session whose next hop has the envelope, and the indices of the recipients it accepted.

        If `indices` are all recipients and the session is still open, the next hop has the envelope already,
        because the client's commands were passed on. Otherwise the commands are sent again: no message was
        sent yet, so none can be delivered twice.
        """
        has_envelope = len(indices) == len(transaction.recipients)
        for _ in range(2):
            session = self._next
            if session is None:
                has_envelope = False
                session = await self._connect()
            try:
                if has_envelope:
                    await session.ask(b"NOOP")
                    return session, list(indices)
                return session, await self._repeat_envelope(session, transaction, indices, answers)
            except NextHopError:
                self._leave_next_hop()
        raise NextHopError("the next hop has ended the session twice")

    async def _repeat_envelope(
        self, session: NextHopSession, transaction: _Transaction, indices: Sequence[int], answers: "_Answers"
    ) -> list[int]:
        """Send sender and recipients to the next hop again; return the indices of those that it accepts."""
        await session.ask(b"RSET")
        reply = await session.ask(transaction.line)
        if not reply.is_positive:
            answers.note(indices, reply)
            return []
        replies = {index: await session.ask(transaction.recipients[index].line) for index in indices}
        accepted = [index for index, reply in replies.items() if reply.is_positive]
        if not accepted:
            await session.ask(b"RSET")
        for index in set(indices).difference(accepted):
            answers.note([index], replies[index])
        return accepted

    async def _read_answers(
        self, session: NextHopSession, indices: Sequence[int], answers: "_Answers"
    ) -> None:
        """Note the answer for each recipient: LMTP sends one for each, SMTP sends one for all."""
        if self._service.hop.protocol == "smtp":
            answers.note(indices, await session.read_reply())
            return
        for index in indices:
            answers.note([index], await session.read_reply())

    async def _pass_through(self, transaction: _Transaction, parts: list[bytes]) -> None:
        """Pass on a message that is too large to be judged, part by part."""
        self._service.log.write("not-judged", reason=f"larger than {self._service.limits.size} bytes")
        answers = _Answers(self._writer, is_withheld=True)
        remaining = list(range(len(transaction.recipients)))
        size = 0
        session: NextHopSession | None = None
        refusal: Reply | None = None  # ends the sending, and is the answer to all remaining recipients
        try:
            try:
                session, remaining = await self._open_transaction(transaction, remaining, answers)
                if remaining:
                    refusal = await session.begin_message(by_length=session.has_chunking)
                else:
                    session = None
            except NextHopError as error:
                refusal = self._note_failure(error, _NEXT_HOP_LOST)
            event: object = Content(b"".join(parts))
            parts.clear()
            while isinstance(event, Content):
                size += len(event.data)
                if session is not None and refusal is None:
                    refusal = await self._send_part(session, event.data)
                event = await self._read_event()
        except BaseException:
            self._leave_next_hop()  # it drops a message without an end
            raise
        await _run_uninterrupted(self._end_message(session, refusal, remaining, answers))
        self._log_delivery(answers, size, 1)
        await self._drain()

    async def _send_part(self, session: NextHopSession, data: bytes) -> Reply | None:
        """Send a part of a message; return the answer to all recipients if this fails, else None."""
        try:
            return await session.send_part(data)
        except NextHopError as error:
            return self._note_failure(error, _NEXT_HOP_LOST)
        except AmbiguousDotError:
            return self._refuse_dot()

    async def _end_message(
        self,
        session: NextHopSession | None,
        refusal: Reply | None,
        remaining: Sequence[int],
        answers: "_Answers",
    ) -> None:
        """End a message that was passed on part by part, and write the answer to each recipient."""
        try:
            if refusal is not None:
                answers.note(remaining, refusal)
                self._leave_next_hop()
            elif session is not None:
                await session.end_message()
                await self._read_answers(session, remaining, answers)
        except NextHopError as error:
            answers.note(remaining, self._note_failure(error, _NEXT_HOP_LOST))
        answers.release()

    def _refuse_dot(self) -> Reply:
        self._leave_next_hop()
        self._service.log.write("refused", reason="a lone dot between bare line ends")
        self._service.metrics.count_fault("protocol")
        return _LONE_DOT

    def _log_delivery(self, answers: "_Answers", size: int, n_transactions: int) -> None:
        first_digits = [reply.code // 100 for reply in answers.replies.values()]
        self._service.log.write(
            "passed-on",
            accepted=first_digits.count(2),
            deferred=first_digits.count(4),
            refused=first_digits.count(5),
            bytes=size,
            transactions=n_transactions,
        )

    async def _read_event(self) -> Command | BadLine | Content | End:
        """Return what the client sends next; raise _ClientGoneError if it sends nothing for too long."""
        while (event := self._commands.read_event()) is None:
            try:
                async with asyncio.timeout(self._service.limits.idle_seconds):
                    data = await self._reader.read(_BLOCK)
            except TimeoutError:
                await self._reply(_SILENT_TOO_LONG)
                raise _ClientGoneError from None
            if not data:
                raise _ClientGoneError
            self._commands.feed(data)
        return event

    def _is_client_gone(self) -> bool:
        """Whether the client has gone and does not wait for answers; it will send the message once more."""
        return self._reader.at_eof() and not self._commands.has_pending

    async def _refuse(self, reply: Reply) -> None:
        """Reply to a mistake of the client; too many of them end the session."""
        self._n_errors += 1
        self._service.metrics.count_fault("protocol")
        await self._reply(reply)
        if self._n_errors >= _MAX_ERRORS:
            self._service.log.write("refused", reason="too many errors in a session")
            await self._reply(_TOO_MANY_ERRORS)
            raise _ClientGoneError

    async def _reply(self, reply: Reply) -> None:
        self._writer.write(reply.encode())
        await self._drain()

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(self._service.limits.idle_seconds):
                await self._writer.drain()
        except (TimeoutError, ConnectionError):
            raise _ClientGoneError from None


class _Answers:
    """The answers to the recipients of a message, written in their order, each as soon as possible.

    While they are withheld, the client still sends the message, and nothing may be written.
    """

    def __init__(self, writer: asyncio.StreamWriter, *, is_withheld: bool = False) -> None:
        self.replies: dict[int, Reply] = {}
        self._writer = writer
        self._n_written = 0
        self._is_withheld = is_withheld

    def note(self, indices: Sequence[int], reply: Reply) -> None:
        """Note the answer to those of the recipients that have none yet."""
        for index in indices:
            self.replies.setdefault(index, reply)
        self._write()

    def release(self) -> None:
        """Write the answers that were withheld."""
        self._is_withheld = False
        self._write()

    def _write(self) -> None:
        while not self._is_withheld and self._n_written in self.replies:
            self._writer.write(self.replies[self._n_written].encode())
            self._n_written += 1


async def _run_uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Run work to its end, even if the session is cancelled once meanwhile.

    Otherwise a client would get no answer to a message that the next hop has delivered, and would send it
    once more. The time limits of the next hop bound the wait.
    """
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
