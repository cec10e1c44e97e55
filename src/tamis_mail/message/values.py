"""The parsed form of a message: fields, parts and pages of HTML."""

from tamis_mail.records import record


@record(frozen=True, slots=True)
class Part:
    """A leaf of the tree of parts: one that has no parts itself."""

    kind: str
    """Media type, such as `text/html`, in lower case."""
    charset: str
    """The declared charset, in lower case; empty if there is none."""
    encoding: str
    """Content-Transfer-Encoding, in lower case; empty if there is none."""
    name: str
    """File name, decoded; empty if there is none."""
    disposition: str
    """`attachment`, `inline` or empty."""
    size: int
    """Bytes after decoding; an estimate if the part was not decoded."""
    text: str
    """The beginning of the decoded text; empty if the part is not text."""


@record(frozen=True, slots=True)
class Message:
    """A parsed message of bounded length, depth and number of parts, without lone surrogates."""

    raw: bytes
    """The canonical bytes of the message (elsewhere, `raw` are the bytes as they were read)."""
    headers: tuple[tuple[str, str], ...]
    """Name in lower case and decoded value, in order. A line that is not a field has an empty name."""
    parts: tuple[Part, ...]
    """The leaves in order, with all alternatives."""
    shape: str
    """The tree, such as `multipart/alternative(text/plain,text/html)`."""
    faults: tuple[str, ...]
    """Names of the faults that were found, sorted."""


@record(frozen=True, slots=True)
class Page:
    """The visible and hidden text of a page of HTML, and its addresses."""

    visible: str
    hidden: str
    links: tuple[str, ...]
    images: tuple[str, ...]
    tricks: tuple[str, ...]
    """Names of the obfuscation tricks that were found, sorted."""
    outlook: str = ""
    """Text that only Outlook shows. Edition 1 of `read_html` takes it for hidden text."""
