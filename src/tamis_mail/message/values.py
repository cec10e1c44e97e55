"""What is read of a message: its fields, its parts and its pages, as values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
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
    """Bytes after the transfer encoding was undone; estimated where nothing needed decoding."""
    text: str
    """What it says, up to a bound; empty for what is no text."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message, read: all in it is bounded in length, depth and number, and every string can be encoded."""

    raw: bytes
    """The canonical bytes it was read from."""
    headers: tuple[tuple[str, str], ...]
    """Name in lower case and decoded value, in order. A line that is no field has an empty name."""
    parts: tuple[Part, ...]
    """The leaves in order, all alternatives among them."""
    shape: str
    """The tree, such as `multipart/alternative(text/plain,text/html)`."""
    faults: tuple[str, ...]
    """Names of what was broken, sorted."""


@dataclass(frozen=True, slots=True)
class Page:
    """What a page of HTML shows, what it hides and where it points."""

    visible: str
    hidden: str
    links: tuple[str, ...]
    images: tuple[str, ...]
    tricks: tuple[str, ...]
    """Names of the ways of obfuscation that were seen, sorted."""
