"""The security of the page: sessions, tokens, checks of each request, and security headers.

    The Host header names this server → the request has a valid session → a request that changes something
    comes from our own page → the answer has security headers.

- The page is opened by an address with a token, which is valid once, for ten minutes, and begins a session: a
  cookie that no script reads and no other site sends.
- A request that changes something has the session's CSRF token, a secret that only our pages have, in the
  header `X-CSRF-Token` or in the field `csrf` of a form, and does not come from another site.
- A program may send `Authorization: Bearer` with the API's token instead of a session; no other site can
  make a browser send that, so it needs no CSRF token.
- A browser sends the cookies of a host to every port of it, also to a server that another user of this
  machine runs. So the page has a name of its own, `tamis-….localhost`, which nobody else knows; browsers
  take all names below localhost for this machine.
- Only requests whose Host is this name, a loopback name, or a name given by `--host-name`, are answered, so
  that another site's name that resolves to this machine (DNS rebinding) reaches nothing.
"""

import asyncio
import secrets
import sys
import time
import traceback
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_STATIC_HEADERS = {"cache-control": "private, max-age=300"}  # our own scripts and styles, which have no mail
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_MAX_SESSIONS = 32  # if there are more, the oldest session ends
_SAFE_METHODS = frozenset({"GET", "HEAD"})
_OPEN_PATHS = frozenset({"/enter"})  # answered without a session, as are static files
_STATIC_PATH = "/static/"
_UPLOADS = frozenset({"/imports", "/api/v1/imports"})  # paths to which mailboxes are sent
_MESSAGES = frozenset({"/api/v1/verdicts", "/api/v1/learned"})  # paths to which one message is sent
_ENTRY_SECONDS = 600.0  # time in which the address with the token must be opened


class TooLargeError(Exception):
    """The body of a request is larger than the limit."""


@dataclass(frozen=True, slots=True)
class Limits:
    body: int = 1 << 20  # bytes of a form or of JSON
    message: int = 64 << 20  # bytes of one message that is sent to the API
    upload: int = 4 << 30  # bytes of a mailbox, packed or not
    seconds: float = 60.0  # maximum time until an answer begins
    idle_seconds: float = 30.0  # maximum pause while a body is received


@dataclass(slots=True)
class Session:
    """The session of one browser: its cookie, its CSRF token, and its notices, the results of actions."""

    key: str  # the value of the cookie
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    notices: list[dict[str, Any]] = field(default_factory=list)  # shown on the next page, then dropped


class Security:
    """The tokens, the sessions, and the host names under which requests are answered."""

    def __init__(
        self,
        port: int,
        *,
        host_names: Iterable[str] = (),
        api_token: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.cookie = f"tamis_session_{port}"  # cookies are shared by all ports of a host
        self._api_token = api_token
        self.host_name = f"tamis-{secrets.token_hex(8)}.localhost"
        self._entry_tokens: dict[str, float] = {}  # token → the time until which it is valid
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        given = [name.lower() for name in host_names]
        # Behind a proxy at port 80 or 443, Host has no port: a given name is accepted without one, too.
        self._hosts = frozenset(
            (*given, *(f"{name}:{port}" for name in (self.host_name, *_LOOPBACK_NAMES, *given)))
        )

    def make_entry_token(self) -> str:
        """Return a token that opens the page once."""
        token = secrets.token_urlsafe(32)
        self._entry_tokens[token] = time.monotonic() + _ENTRY_SECONDS
        return token

    def enter(self, token: str) -> Session | None:
        """Return a new session if the token is valid, else None; the token becomes invalid."""
        matching = next((known for known in self._entry_tokens if _are_equal(known, token)), None)
        if matching is None or self._entry_tokens.pop(matching) < time.monotonic():
            return None
        session = Session(secrets.token_urlsafe(32))
        self._sessions[session.key] = session
        while len(self._sessions) > _MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return session

    def set_cookie(self, response: Response, session: Session) -> None:
        response.set_cookie(self.cookie, session.key, path="/", httponly=True, samesite="strict")

    def is_own_host(self, host: str) -> bool:
        return host.lower() in self._hosts

    def find_session(self, headers: Headers) -> Session | None:
        """Return the session of a request's cookie, or None; cookies of other servers may be malformed."""
        key = cookie_parser(headers.get("cookie", "")).get(self.cookie, "")
        return self._sessions.get(key)

    def has_api_token(self, headers: Headers) -> bool:
        kind, _, token = headers.get("authorization", "").partition(" ")
        return (
            self._api_token is not None
            and kind.lower() == "bearer"
            and _are_equal(self._api_token, token.strip())
        )


def _are_equal(expected: str, given: str) -> bool:
    return secrets.compare_digest(expected.encode(), given.encode("utf-8", "replace"))


class Guard:
    """The middleware: refuses requests that `Security` does not allow, and limits their size and time."""

    def __init__(self, app: ASGIApp, security: Security) -> None:
        self._app = app
        self._security = security

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # there are no web sockets
        sender = _ResponseSender(send, is_static=scope["path"].startswith(_STATIC_PATH))
        response: Response | None
        try:
            async with asyncio.timeout(self._find_time_limit(scope)) as timeout:
                sender.timeout = timeout
                response, receive = await self._check(scope, receive)
                if response is None:
                    await self._app(scope, receive, sender.send)
                    return
        except TooLargeError as error:
            response = _refuse(scope, 413, str(error))
        except TimeoutError:
            response = _refuse(scope, 503, "the request took too long: try again")
        except Exception:  # noqa: BLE001 (the answer to an error of the program has the headers, too)
            traceback.print_exc(file=sys.stderr)
            reason = "the program has failed: the terminal in which tamis serve web runs shows the error"
            response = _refuse(scope, 500, reason)
        if not sender.has_begun:
            sender.timeout = None
            await response(scope, receive, sender.send)

    def _find_time_limit(self, scope: Scope) -> float | None:
        """Return the maximum seconds of a request; None for an upload, which ends when no more bytes come."""
        is_upload = scope["method"] == "POST" and scope["path"] in _UPLOADS
        return None if is_upload else self._security.limits.seconds

    async def _check(self, scope: Scope, receive: Receive) -> tuple[Response | None, Receive]:
        """Return the refusal of a request, or None, and the function that receives its body."""
        headers = Headers(scope=scope)
        security = self._security
        if len(headers.getlist("host")) != 1 or not security.is_own_host(headers["host"]):
            reason = "this name is not served here: see tamis serve web --host-name"
            return _refuse(scope, 421, reason), receive  # Misdirected Request
        receive = self._limit_body(scope, receive, headers)
        scope["session"] = session = security.find_session(headers)
        is_open = scope["path"] in _OPEN_PATHS or scope["path"].startswith(_STATIC_PATH)
        is_safe = scope["method"] in _SAFE_METHODS
        is_program = scope["path"].startswith("/api/") and security.has_api_token(headers)
        if is_program or (is_open and is_safe):
            return None, receive
        if session is None:
            reason = "there is no session: open the address that tamis serve web has printed"
            return _refuse(scope, 401, reason), receive
        if is_safe:
            return None, receive
        if not _comes_from_own_page(headers):
            return _refuse(scope, 403, "the request comes from another site"), receive
        token = headers.get("x-csrf-token")
        if token is None and headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
            body = await _read_all(receive)
            receive = _replay(body)
            token = parse_qs(body.decode("utf-8", "replace")).get("csrf", [""])[0]
        if token is None or not _are_equal(session.csrf, token):
            return _refuse(scope, 403, "the CSRF token is missing or wrong: load the page again"), receive
        return None, receive

    def _limit_body(self, scope: Scope, receive: Receive, headers: Headers) -> Receive:
        """Return a function that receives a body with limits of its size and of pauses."""
        limits = self._security.limits
        largest = limits.body
        if scope["path"] in _UPLOADS:
            largest = limits.upload
        elif scope["path"] in _MESSAGES:
            largest = limits.message
        sentence = f"the body is larger than {largest} bytes"
        length = headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length) > largest:
            raise TooLargeError(sentence)
        size = 0
        is_complete = False

        async def receive_bounded() -> Message:
            nonlocal size, is_complete
            if is_complete:  # wait for the end of the connection without a limit
                return await receive()
            async with asyncio.timeout(limits.idle_seconds):
                message = await receive()
            size += len(message.get("body", b""))
            if size > largest:
                raise TooLargeError(sentence)
            is_complete = not message.get("more_body", False)
            return message

        return receive_bounded


class _ResponseSender:
    """Sends an answer with the security headers; once it has begun, it has no time limit any more."""

    def __init__(self, send: Send, *, is_static: bool) -> None:
        self._send = send
        self._headers = _HEADERS | _STATIC_HEADERS if is_static else _HEADERS
        self.has_begun = False
        self.timeout: asyncio.Timeout | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            if self.timeout is not None:
                self.timeout.reschedule(None)  # a large download over a slow line takes longer
            headers = MutableHeaders(scope=message)
            for name, value in self._headers.items():
                headers[name] = value
        await self._send(message)


def _comes_from_own_page(headers: Headers) -> bool:
    """Whether a request comes from one of our pages, according to the headers of the browser.

    Our pages send no referrer, so Origin is null for their forms: Sec-Fetch-Site must then be same-origin.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site not in (None, "same-origin", "none"):  # none: by the address bar or a bookmark
        return False
    if origin is None or (origin == "null" and site == "same-origin"):
        return True
    host = headers["host"].lower()
    return origin.lower() in (f"http://{host}", f"https://{host}")


async def _read_all(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False):
            return b"".join(parts)


def _replay(body: bytes) -> Receive:
    """Return a function that receives a body that was read already."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    return receive


def _refuse(scope: Scope, status: int, reason: str) -> Response:
    if scope["path"].startswith("/api/"):
        return JSONResponse({"error": reason}, status)
    return PlainTextResponse(f"{reason[0].upper()}{reason[1:]}.\n", status)
