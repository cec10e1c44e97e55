"""Render the templates of Jinja2 to HTML.

Mail is untrusted: text is escaped, and deceptive characters become visible marks.
"""

import time
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from tamis_mail.reporting.wording import format_size
from tamis_mail.surfaces.web.security import Session

_FOLDER = Path(__file__).parent
STATIC_FOLDER = _FOLDER / "static"
_KEPT_CHARACTERS = "\n\t"
# The Unicode categories of control and format characters, private use, surrogates and separators of lines.
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})


def show_invisible(text: str, *, keep: str = "") -> str:
    """Replace control characters, bidirectional overrides and invisible characters by visible marks.

    >>> show_invisible("exe." + chr(0x202E) + "fdp" + chr(7))
    'exe.⟨U+202E⟩fdp⟨U+0007⟩'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character
        if character in keep or unicodedata.category(character) not in _HIDDEN_CATEGORIES
        else f"⟨U+{ord(character):04X}⟩"
        for character in text
    )


def _format_time(seconds: int | None) -> str:
    """Format the time of a message (seconds since 1970) in the local time zone; empty if it cannot be shown.

    >>> _format_time(None)
    ''
    """
    if seconds is None:
        return ""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (OSError, OverflowError, ValueError):  # a sender chose the date
        return ""


def _read_address(request: Request) -> str:
    """Return the path and the query of a request, so that a form can lead back to the page."""
    query = request.url.query
    return f"{request.url.path}?{query}" if query and request.method == "GET" else request.url.path


class Pages:
    """Renders templates.

    Each one gets `session` (for the CSRF token `session.csrf`), `path`, `address` and `notices`, the results
    of actions that were not shown yet.
    """

    def __init__(self) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(_FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,  # the line end after a tag of a template is dropped
            lstrip_blocks=True,  # and so are the blanks before one at the start of a line
        )
        filters: dict[str, Callable[..., str]] = {
            "show_invisible": show_invisible,
            "show_invisible_in_text": lambda text: show_invisible(text, keep=_KEPT_CHARACTERS),
            "time": _format_time,
            "size": format_size,
            "number": "{:,}".format,
        }
        self._environment.filters |= filters

    def render(self, request: Request, template: str, values: dict[str, Any], status: int = 200) -> Response:
        """Render a template for the session of a request; notices are shown once."""
        session: Session | None = request.scope.get("session")
        notices: list[dict[str, Any]] = []
        if session is not None:
            notices, session.notices = session.notices, []
        text = self._environment.get_template(template).render(
            session=session, path=request.url.path, address=_read_address(request), notices=notices, **values
        )
        return HTMLResponse(text, status)
