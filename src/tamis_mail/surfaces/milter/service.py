"""Decide on messages that a mail server hands over by the milter protocol, as Postfix and Sendmail do.

The verdict is added to the header, and the message is accepted.

A message that cannot be judged is accepted without a verdict or, if `on_fault` is "tempfail", refused
temporarily, so that its sender tries again later. A message that is too large is accepted in any case. Only
spam is ever rejected, quarantined or discarded, and only if `on_spam` says so.

If the mail server sends invalid packets, or nothing for too long, the connection is closed. What happens to
a message that has no answer then is up to the mail server (in Postfix, to `milter_default_action`).
"""

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from tamis_mail.serving.filtering import Fault, Filtering, TimedVerdict
from tamis_mail.serving.logs import Log
from tamis_mail.serving.metrics import Metrics
from tamis_mail.serving.server import Limits
from tamis_mail.surfaces.milter import codec
from tamis_mail.surfaces.milter.codec import Action, Negotiation, ProtocolError, ProtocolOption
from tamis_mail.surfaces.milter.session import Envelope, Message, Session
from tamis_mail.surfaces.milter.trace import format_trace
from tamis_mail.verdict import Verdict
from tamis_mail.verdict.header_fields import OLD_PREFIX, fields

# What is done with spam; "mark" accepts it with the verdict in its header, as all other mail.
ON_SPAM = ("mark", "reject", "quarantine", "discard")
ON_FAULT = ("accept", "tempfail")

_BLOCK = 1 << 16  # bytes that are read at once
_VERDICT_SECONDS = 60.0  # mail servers wait some minutes for a decision
# The reply does not name the probability: spammers could change the message until the probability is low.
_REJECTION = "550 5.7.1 This message was taken for spam"
_QUARANTINE = "tamis: spam"
_VERSION_WITH_INSERTING = 6  # of the protocol; older servers may be unable to insert a field at the top
_NOT_IN_QUEUE_ID = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True)
class Policy:
    """What is done to messages, as the options of `tamis milter` say."""

    dialect: str = "spamassassin"  # one of `header_fields.DIALECTS`
    on_spam: str = "mark"  # one of ON_SPAM
    on_fault: str = "accept"  # one of ON_FAULT
    shows_evidence: bool = True
    # Needed to rename the fields of a verdict that a message has already ("old fields"): each is removed, and
    # added under a new name.
    may_remove_fields: bool = True
    judges_authenticated: bool = False  # whether mail of clients that logged in is judged

    @property
    def needs_evidence(self) -> bool:
        """Whether the fields name the evidence, which takes much longer to find than the verdict.

        The only field of bogofilter's dialect, X-Bogosity, has no room for evidence.
        """
        return self.shows_evidence and self.dialect != "bogofilter"

    @property
    def actions(self) -> Action:
        """The changes that the filter asks a mail server to allow; the protocol calls them actions."""
        actions = Action.ADD_HEADERS
        if self.may_remove_fields:
            actions |= Action.CHANGE_HEADERS
        return actions | Action.QUARANTINE if self.on_spam == "quarantine" else actions


@dataclass(frozen=True, slots=True, eq=False)
class MilterService:
    """Handles connections of mail servers."""

    filtering: Filtering  # judges messages in its own threads
    log: Log
    metrics: Metrics
    _: KW_ONLY
    limits: Limits  # of the size of a message, and of the seconds in which a server sends nothing
    version: str  # of tamis, for the fields of the verdict
    policy: Policy
    # Returns the user of a recipient's address, or "", the user of the common store.
    user_of: Callable[[str], str] = lambda address: ""
    verdict_seconds: float = _VERDICT_SECONDS

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection until the mail server ends it, breaks the protocol or is silent for too long."""
        session = Session(self.limits.size, self.policy.actions, self._is_exempt)
        try:
            while not session.is_ended and (data := await self._read(reader)):
                for answer_or_message in session.feed(data):
                    if isinstance(answer_or_message, bytes):
                        answer = answer_or_message
                    else:
                        answer = await self.decide(answer_or_message, session.agreed)
                    writer.write(answer)
                await writer.drain()
        except ProtocolError as error:
            # In the log, "refused" names a connection that was closed; no message is refused here.
            self.log.write("refused", reason=str(error))
            self.metrics.count_fault("protocol")

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        try:
            async with asyncio.timeout(self.limits.idle_seconds):
                return await reader.read(_BLOCK)
        except TimeoutError:
            raise ProtocolError("the mail server has sent nothing for too long") from None

    def _is_exempt(self, envelope: Envelope) -> bool:
        """Whether a message is accepted unjudged, because its client logged in: `auth_type` says how."""
        return bool(envelope.auth_type) and not self.policy.judges_authenticated

    async def decide(self, message: Message, agreed: Negotiation) -> bytes:
        """Return the changes of a message and the decision, as packets.

        `agreed` is the result of the negotiation: what the mail server and the filter both can do.
        """
        try:
            return await self._judge(message, agreed)
        except Exception as error:  # noqa: BLE001 (no error may stop mail)
            # The text of an unexpected error may quote a message, so the log has only its kind.
            return self._decide_without_verdict(message, agreed, f"unexpected {type(error).__name__}")

    async def _judge(self, message: Message, agreed: Negotiation) -> bytes:
        """Judge a message, log the verdict, and return the changes and the decision, as packets."""
        queue_id = _clean_queue_id(message.envelope.queue_id)
        # The session keeps only the first old fields, and no long values; the other fields are not renamed.
        if (n_left := message.n_old_fields - len(_list_renamable(message))) > 0:
            self.log.write("old-fields-left", queue=queue_id, count=n_left)
        if message.raw is None:
            self.log.write("too-large", queue=queue_id, bytes=message.size)
            return rename_old_fields(message, agreed) + codec.ACCEPT
        # The server does not send the Received field that it adds itself, so one like it is put on top.
        raw = format_trace(message.envelope, time.time()) + message.raw
        try:
            async with asyncio.timeout(self.verdict_seconds):
                judged = await self.filtering.judge(
                    raw, self._find_user(message.envelope), with_evidence=self.policy.needs_evidence
                )
        except TimeoutError:
            judged = Fault(f"there was no verdict within {self.verdict_seconds:g} s")
        if isinstance(judged, Fault):
            return self._decide_without_verdict(message, agreed, reason=judged.sentence)
        label = judged.verdict.label
        treatment = self._choose_treatment(label, agreed)
        self.metrics.count_verdict(label, judged.seconds)
        self.log.write(
            "verdict",
            queue=queue_id,
            label=label,
            action=treatment,
            probability=round(judged.verdict.probability, 6),
            bytes=message.size,
            seconds=round(judged.seconds, 4),
        )
        if treatment == "reject":
            return codec.encode_rejection(_REJECTION)
        if treatment == "discard":
            return codec.DISCARD
        changes = rename_old_fields(message, agreed) + self._add_verdict(judged, agreed)
        if treatment == "quarantine":
            changes += codec.encode_quarantine(_QUARANTINE)
        return changes + codec.ACCEPT

    def _decide_without_verdict(self, message: Message, agreed: Negotiation, reason: str) -> bytes:
        """Log why there is no verdict, as a fault of the store in any case; decide as `on_fault` says."""
        self.log.write("store-fault", queue=_clean_queue_id(message.envelope.queue_id), reason=reason)
        self.metrics.count_fault("store")
        if self.policy.on_fault == "tempfail":
            return codec.TEMPORARY_FAILURE
        return rename_old_fields(message, agreed) + codec.ACCEPT

    def _choose_treatment(self, label: str, agreed: Negotiation) -> str:
        """Return the one of ON_SPAM that applies to a message with this label."""
        treatment = self.policy.on_spam if label == "spam" else "mark"
        if treatment == "quarantine" and not agreed.actions & Action.QUARANTINE:
            return "mark"  # the server does not offer a quarantine
        return treatment

    def _add_verdict(self, judged: TimedVerdict, agreed: Negotiation) -> bytes:
        """Return the changes that add the verdict's fields as one block at the top of the message.

        The fields are those that `tamis sort --passthrough` adds. Servers with older versions of the protocol
        append them to the end of the header.
        """
        if not agreed.actions & Action.ADD_HEADERS:
            return b""
        verdict = judged.verdict
        if not self.policy.needs_evidence:
            verdict = Verdict(verdict.judgement, lambda: ())  # without evidence, so that `fields` names none
        lines = fields(
            verdict,
            dialect=self.policy.dialect,
            required=judged.required,  # the probability from which on mail is spam
            version=self.version,
        )
        # With LEADING_SPACE, the server adds no space after the colon, so the value has to begin with one.
        pairs = _join_lines(lines, keeps_space=bool(agreed.options & ProtocolOption.LEADING_SPACE))
        if agreed.version < _VERSION_WITH_INSERTING:
            return b"".join(codec.encode_add_header(name, value) for name, value in pairs)
        # Each field is inserted above the one before it, so the last comes first.
        return b"".join(codec.encode_insert_header(0, name, value) for name, value in reversed(pairs))

    def _find_user(self, envelope: Envelope) -> str:
        """Return the user whose store judges the message: the recipient, or "" if there are several.

        `recipient` is then empty.
        """
        address = envelope.recipient.removeprefix(b"<").removesuffix(b">")
        return self.user_of(address.decode("utf-8", "replace").lower())


def rename_old_fields(message: Message, agreed: Negotiation) -> bytes:
    """Return the changes that rename the old fields of a message, so that they are not taken for our verdict.

    A milter cannot rename: a field is removed, and added to the end of the header with the prefix X-Old-. A
    field whose value was too long for the session to keep is not removed. Of fields with the same name, the
    last is removed first, so that the numbers of the others do not change.
    """
    needed = Action.CHANGE_HEADERS | Action.ADD_HEADERS
    if agreed.actions & needed != needed:
        return b""
    renamable = _list_renamable(message)
    changes = [codec.encode_remove_header(name, number) for name, number, _ in reversed(renamable)]
    changes += [codec.encode_add_header(OLD_PREFIX + name, value) for name, _, value in renamable]
    return b"".join(changes)


def _list_renamable(message: Message) -> list[tuple[bytes, int, bytes]]:
    """Return name, number and value of the old fields that can be added again under another name."""
    return [
        (field.name, field.number, field.value) for field in message.old_fields if field.value is not None
    ]


def _join_lines(lines: list[bytes], *, keeps_space: bool) -> list[tuple[bytes, bytes]]:
    """Return names and values of fields; a line that begins with a tab continues the field before it."""
    pairs: list[tuple[bytes, bytes]] = []
    for line in lines:
        if line.startswith(b"\t"):
            name, value = pairs.pop()
            pairs.append((name, value + b"\n" + line))
        else:
            name, _, value = line.partition(b":")
            pairs.append((name, value if keeps_space else value.removeprefix(b" ")))
    return pairs


def _clean_queue_id(queue_id: bytes) -> str:
    """Return the queue id of a message for the log, without characters that mail servers do not use in it."""
    return _NOT_IN_QUEUE_ID.sub("", queue_id.decode("ascii", "replace"))[:40]
