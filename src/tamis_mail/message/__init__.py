"""bytes → Message: the fields, parts and text of a message, however malformed.

Any bytes are a message: no function here raises or recurses, and time is linear and memory bounded.
"""

from tamis_mail.message.canonical import canonical, digest
from tamis_mail.message.folding import fold_text
from tamis_mail.message.heading import Heading, read_heading
from tamis_mail.message.html import read_html
from tamis_mail.message.styles import remove_style_sheet
from tamis_mail.message.tree import parse
from tamis_mail.message.values import Message, Page, Part
from tamis_mail.message.volatile import is_verdict_header

__all__ = [
    "Heading",
    "Message",
    "Page",
    "Part",
    "canonical",
    "digest",
    "fold_text",
    "is_verdict_header",
    "parse",
    "read_heading",
    "read_html",
    "remove_style_sheet",
]
