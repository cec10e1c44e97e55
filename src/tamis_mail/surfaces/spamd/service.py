"""Answer requests of the spamd protocol with verdicts, and learn or forget messages by TELL."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass

from tamis_mail.serving.filtering import Fault, Filtering, TimedVerdict
from tamis_mail.serving.logs import Log
from tamis_mail.serving.metrics import Metrics
from tamis_mail.serving.server import Limits
from tamis_mail.surfaces.spamd.codec import (
    MARKING_METHODS,
    PONG,
    PROTOCOL,
    TEMPORARY,
    TIMEOUT,
    UNAVAILABLE,
    USAGE,
    ProtocolError,
    Request,
    RequestReader,
    answer_error,
    answer_learning,
    answer_verdict,
    find_body,
)
from tamis_mail.verdict.header_fields import add_verdict, score_of, tests_of

_BLOCK = 1 << 16  # bytes that are read at once
_MAX_EVIDENCE = 15  # tokens of a report, one per line
_TOKEN_WIDTH = 60  # maximum characters of a token in a report
# The rest of a refused request is read for at most this time: closing the connection at once would lose the
# answer.
_DISCARD_SECONDS = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class SpamdService:
    """Handles connections, each with one request and one answer."""

    filtering: Filtering  # judges and learns messages in its own threads
    log: Log
    metrics: Metrics
    _: KW_ONLY
    limits: Limits  # of the size of a message, and of the seconds in which a client sends nothing
    version: str  # of tamis, for the fields of the verdict
    may_learn: bool = True
    # Returns the user of a name that a client sent, or "", the user of the common store.
    user_of: Callable[[str], str] = lambda user: ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read a request, and write the answer; a client that sends SKIP, or nothing at all, gets none."""
        is_refused = False
        try:
            request = await self._read(reader)
            reply = await self._answer(request) if request else b""
        except ProtocolError as error:
            is_refused = True
            self.log.write("refused", reason=str(error))
            self.metrics.count_fault("protocol")
            # `given` is the part of the request that is wrong; it is not logged, because it may be mail.
            reply = answer_error(error.code, str(error), error.given)
        writer.write(reply)
        await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
        if is_refused:
            with suppress(TimeoutError):
                async with asyncio.timeout(_DISCARD_SECONDS):
                    while await reader.read(_BLOCK):
                        pass

    async def _read(self, reader: asyncio.StreamReader) -> Request | None:
        requests = RequestReader(self.limits.size)
        while True:
            try:
                async with asyncio.timeout(self.limits.idle_seconds):
                    data = await reader.read(_BLOCK)
            except TimeoutError:
                raise ProtocolError(TIMEOUT, "the client has sent nothing for too long") from None
            if not data:
                return requests.end()
            request = requests.feed(data)
            if request is not None:
                return request

    async def _answer(self, request: Request) -> bytes:
        if request.method == "SKIP":
            return b""
        if request.method == "PING":
            return PONG
        user = self.user_of(request.user)
        if request.method == "TELL":
            return await self._learn(request, user)
        judged = await self.filtering.judge(request.message, user, with_evidence=_shows_evidence(request))
        if isinstance(judged, Fault):
            return self._answer_fault(judged)
        self.metrics.count_verdict(judged.verdict.label, judged.seconds)
        self.log.write(
            "verdict",
            method=request.method,
            label=judged.verdict.label,
            probability=round(judged.verdict.probability, 6),
            bytes=len(request.message),
            seconds=round(judged.seconds, 4),
        )
        return self._format_answer(request, judged)

    def _format_answer(self, request: Request, judged: TimedVerdict) -> bytes:
        verdict = judged.verdict
        # Log-odds of the message and of the threshold, which SpamAssassin's clients compare.
        score, required = score_of(verdict, judged.required)
        is_spam = verdict.label == "spam"
        body: bytes | None = None
        if request.method == "SYMBOLS":
            # SpamAssassin lists the rules that matched, its "tests"; here they say what decided the label.
            # Before version 1.3 of the protocol, the list ended a line.
            names = ",".join(tests_of(verdict)) + ("\r\n" if request.version < (1, 3) else "")
            body = names.encode("ascii", "replace")
        elif request.method in ("REPORT", "REPORT_IFSPAM"):
            body = _write_report(judged, score, required) if is_spam or request.method == "REPORT" else b""
        elif request.method in MARKING_METHODS:
            body = self._mark(request, judged)
        return answer_verdict(request, is_spam=is_spam, score=score, required=required, body=body)

    def _mark(self, request: Request, judged: TimedVerdict) -> bytes:
        """Add the verdict to the message; for HEADERS, return only its header."""
        marked = add_verdict(
            request.message,
            judged.verdict,
            dialect="spamassassin",
            required=judged.required,
            version=self.version,
        )
        if request.method == "PROCESS":
            return marked
        length_of_body = len(request.message) - find_body(request.message)
        return marked[: len(marked) - length_of_body]

    async def _learn(self, request: Request, user: str) -> bytes:
        """Learn a message (`Set: local` with `Message-class`) or forget it (`Remove: local`).

        Clients name "local", the filter that is asked, or "remote", networks that collect spam, which this
        daemon does not serve; or both, separated by a comma.
        """
        if not self.may_learn:
            raise ProtocolError(UNAVAILABLE, "learning is switched off by --no-learn")
        destinations = {name: request.fields.get(name, "").lower() for name in ("set", "remove")}
        if "local" in destinations["set"] and "local" in destinations["remove"]:
            raise ProtocolError(PROTOCOL, "TELL has Set: local and Remove: local, expected one of them")
        if "local" in destinations["set"]:
            label = request.fields.get("message-class", "").lower()
            if label not in ("spam", "ham"):
                raise ProtocolError(USAGE, "TELL with Set: local needs Message-class: spam or ham")
            receipt = await self.filtering.learn(request.message, label, user)
            name = "DidSet"
        elif "local" in destinations["remove"]:
            receipt = await self.filtering.forget(request.message, user)
            name = "DidRemove"
        else:
            raise ProtocolError(USAGE, "TELL needs Set: local or Remove: local")
        if isinstance(receipt, Fault):
            return self._answer_fault(receipt)
        self.log.write("learned", action=receipt.action, bytes=len(request.message))
        has_changed = receipt.action in ("learned", "moved", "forgotten")
        return answer_learning(name if has_changed else "")

    def _answer_fault(self, fault: Fault) -> bytes:
        """Answer with a temporary error, so that the client passes the message on unchanged."""
        self.log.write("store-fault", reason=fault.sentence)
        self.metrics.count_fault("store")
        return answer_error(TEMPORARY, fault.sentence)


def _shows_evidence(request: Request) -> bool:
    """Whether the answer has the evidence, which takes longer than the verdict."""
    return request.method in MARKING_METHODS or request.method.startswith("REPORT")


def _write_report(judged: TimedVerdict, score: float, required: float) -> bytes:
    verdict = judged.verdict
    lines = [
        f"{verdict.label}: the probability of spam is {verdict.probability:.4f}",
        f"score {score:.2f}, spam from {required:.2f} on",
        "",
    ]
    lines += [
        f"{part.contribution:+7.2f}  {_make_printable(part.token)}  ({part.view})"
        for part in verdict.strongest[:_MAX_EVIDENCE]
    ]
    return ("\n".join(lines) + "\n").encode("ascii", "backslashreplace")


def _make_printable(token: str) -> str:
    """Replace line ends and control characters, because a sender chose the token, and cut off a long one."""
    return "".join(c if c.isprintable() else "?" for c in token)[:_TOKEN_WIDTH]
