"""The parsed form of a message: fields, parts and pages of HTML."""

from tamis_mail.records import record


@record(frozen=True, slots=True)
class Part:
    """A leaf of the tree of parts."""

    kind: str
    """Media type, such as `text/html`, in lower case."""
    charset: str
    """As it was declared, in lower case; empty if it was not."""
    encoding: str
    """Content-Transfer-Encoding, in lower case; empty if there is none."""
    name: str
    """File name, decoded; empty if there is none."""
    disposition: str
    """`attachment`, `inline` or empty."""
    size: int
    """Bytes after decoding; estimated where nothing was decoded."""
    text: str
    """The decoded text, up to a bound; empty if the part is not text."""


@record(frozen=True, slots=True)
class Message:
    """A parsed message of bounded length, depth and number of parts; every string can be encoded."""

    raw: bytes
    """The canonical bytes it was read from."""
    headers: tuple[tuple[str, str], ...]
    """Name in lower case and decoded value, in order. A line that is no field has an empty name."""
    parts: tuple[Part, ...]
    """The leaves in order, all alternatives among them."""
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
