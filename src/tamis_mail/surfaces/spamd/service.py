"""Answers requests of the spamd protocol with verdicts of a sieve, and teaches it by TELL."""

import asyncio
from collections.abc import Callable

from tamis_mail.serving.filtering import Fault, Filtering, Judged
from tamis_mail.serving.logs import Log
from tamis_mail.serving.metrics import Metrics
from tamis_mail.surfaces.spamd.codec import (
    TEMPORARY,
    USAGE,
    ProtocolError,
    Request,
    RequestReader,
    answer,
    answer_error,
)
from tamis_mail.verdict.header_fields import add_verdict, score_of, tests_of

__all__ = ["SpamdService"]

_BLOCK = 1 << 16
_EVIDENCE = 15  # lines of a report


class SpamdService:
    """Handles one connection after the other: one request, one answer."""

    def __init__(
        self,
        filtering: Filtering,
        log: Log,
        metrics: Metrics,
        *,
        largest: int,
        version: str,
        may_learn: bool = True,
        user_of: Callable[[str], str] = lambda user: "",
    ) -> None:
        self._filtering = filtering
        self._log = log
        self._metrics = metrics
        self._largest = largest
        self._version = version
        self._may_learn = may_learn
        self._user_of = user_of

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read a request, and write the answer."""
        try:
            request = await self._read(reader)
            reply = await self._answer(request)
        except ProtocolError as error:
            self._log.write("refused", reason=str(error))
            self._metrics.count_fault("protocol")
            reply = answer_error(error.code, str(error))
        writer.write(reply)
        await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    async def _read(self, reader: asyncio.StreamReader) -> Request:
        requests = RequestReader(self._largest)
        while data := await reader.read(_BLOCK):
            request = requests.feed(data)
            if request is not None:
                return request
        return requests.end()

    async def _answer(self, request: Request) -> bytes:
        if request.method == "SKIP":
            return b""
        if request.method == "PING":
            return b"SPAMD/1.5 0 PONG\r\n"
        user = self._user_of(request.user)
        if request.method == "TELL":
            return await self._learn(request, user)
        judged = await self._filtering.judge(request.message, user)
        if isinstance(judged, Fault):
            return self._answer_fault(judged)
        self._metrics.count_verdict(judged.verdict.label, judged.seconds)
        self._log.write(
            "verdict",
            method=request.method,
            label=judged.verdict.label,
            probability=round(judged.verdict.probability, 6),
            bytes=len(request.message),
            seconds=round(judged.seconds, 4),
        )
        return self._format(request, judged)

    def _format(self, request: Request, judged: Judged) -> bytes:
        verdict = judged.verdict
        score, required = score_of(verdict, judged.required)
        is_spam = verdict.label == "spam"
        fields = {"Spam": f"{is_spam} ; {score:.1f} / {required:.1f}"}
        if request.method == "CHECK":
            return answer(fields)
        if request.method == "SYMBOLS":
            return answer(fields, ",".join(tests_of(verdict)).encode("ascii", "replace"))
        if request.method in ("REPORT", "REPORT_IFSPAM"):
            is_wanted = is_spam or request.method == "REPORT"
            return answer(fields, _report(judged, score, required) if is_wanted else b"")
        marked = add_verdict(
            request.message,
            verdict,
            dialect="spamassassin",
            required=judged.required,
            version=self._version,
        )
        if request.method == "HEADERS":
            marked = marked[: len(marked) - _length_of_body(request.message)]
        return answer(fields, marked)

    async def _learn(self, request: Request, user: str) -> bytes:
        """Learn or forget a message: `Set: local` with `Message-class`, or `Remove: local`."""
        if not self._may_learn:
            raise ProtocolError(USAGE, "learning is switched off by --no-learn")
        places = {name: request.fields.get(name, "").lower() for name in ("set", "remove")}
        if "local" in places["set"]:
            label = request.fields.get("message-class", "").lower()
            if label not in ("spam", "ham"):
                raise ProtocolError(USAGE, "TELL with Set: local needs Message-class: spam or ham")
            receipt = await self._filtering.learn(request.message, label, user)
            name = "DidSet"
        elif "local" in places["remove"]:
            receipt = await self._filtering.forget(request.message, user)
            name = "DidRemove"
        else:
            raise ProtocolError(USAGE, "TELL needs Set: local or Remove: local")
        if isinstance(receipt, Fault):
            return self._answer_fault(receipt)
        self._log.write("learned", action=receipt.action, bytes=len(request.message))
        has_changed = receipt.action in ("learned", "moved", "forgotten")
        return answer({name: "local"} if has_changed else {})

    def _answer_fault(self, fault: Fault) -> bytes:
        """Say that there is no verdict now: the client passes the message on unchanged."""
        self._log.write("no-verdict", reason=fault.sentence)
        self._metrics.count_fault("store")
        return answer_error(TEMPORARY, fault.sentence)


def _length_of_body(message: bytes) -> int:
    """Return the bytes after the empty line that ends the header."""
    places = [message.find(mark) + len(mark) for mark in (b"\n\n", b"\n\r\n") if mark in message]
    return len(message) - min(places) if places else 0


def _report(judged: Judged, score: float, required: float) -> bytes:
    verdict = judged.verdict
    lines = [
        f"{verdict.label}: the probability of spam is {verdict.probability:.4f}",
        f"score {score:.2f}, spam from {required:.2f} on",
        "",
    ]
    lines += [
        f"{part.contribution:+7.2f}  {part.token}  ({part.view})" for part in verdict.evidence[:_EVIDENCE]
    ]
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")
