"""bytes → Message: the fields, parts and text of a message, however malformed.

Any bytes are accepted: no function here raises or recurses, the time is linear in the number of bytes, and
memory is bounded.
"""

from importlib import import_module

from tamis_mail.message.canonical import canonical, digest, identify
from tamis_mail.message.heading import Heading, read_heading, read_headings
from tamis_mail.message.values import Message, Page, Part
from tamis_mail.message.volatile import is_verdict_header

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from tamis_mail.message.folding import fold_text
    from tamis_mail.message.html import read_html
    from tamis_mail.message.styles import remove_style_sheet
    from tamis_mail.message.tree import parse

__all__ = [
    "Heading",
    "Message",
    "Page",
    "Part",
    "canonical",
    "digest",
    "fold_text",
    "identify",
    "is_verdict_header",
    "parse",
    "read_heading",
    "read_headings",
    "read_html",
    "remove_style_sheet",
]

# The regular expressions of these modules take milliseconds to compile, and the compiled core reads most
# messages without them.
_MODULES = {
    "fold_text": "tamis_mail.message.folding",
    "parse": "tamis_mail.message.tree",
    "read_html": "tamis_mail.message.html",
    "remove_style_sheet": "tamis_mail.message.styles",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
