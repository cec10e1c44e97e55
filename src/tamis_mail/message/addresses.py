"""Header fields → addresses in a normal form, and whether the sender failed DMARC.

The raw fields are parsed, not their decoded text: an encoded word is part of a display name, and may decode
to text that looks like an address. The normal form of an address is its local part, case-folded and unquoted,
`@`, and its domain in lower case, with labels of other scripts in the ASCII form (`xn--…`).

Mail programs differ in how they read a malformed From. So every address that one of them may show as the
sender is returned, within the limits below, and `is_clear` says whether all programs would agree.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from tamis_mail.message.fields import Fields, read_fields
from tamis_mail.records import record

# Limits; what exceeds them is ignored.
LONGEST: Final = 254  # characters of an address; RFC 5321 allows no more
FROM_FIELDS: Final = 10  # From fields of a message that are read; a valid message has one
SENDERS: Final = 20  # addresses in From that are used
RECIPIENT_FIELDS: Final = 100  # To, Cc and Bcc fields of a message that are read
RECIPIENTS: Final = 200  # recipients of a message that are used
FIELD: Final = 8000  # characters of a field that are read
_RESULTS = 20  # Authentication-Results fields that are read

_PIECE = re.compile(
    r'"((?:[^"\\]++|\\.)*+)("?)'  # a quoted string, which may be unclosed
    r"|([()<>,;:])"
    r"|(\s++)"
    r"|(\[[^\[\]\\\s]*+\]|\[|(?:[^\"()<>,;:\s\\\[]++|\\.?)++)",
    re.DOTALL,
)
_IN_COMMENT = re.compile(r"[^()\\]*+(?:\\.[^()\\]*+)*+\\?([()]?)", re.DOTALL)
_DOMAIN = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*|\[[0-9a-z.:_-]{1,60}\]")
_DMARC = re.compile(r"\s*dmarc\s*(?:/\s*\d{1,9}\s*)?=\s*([a-z]{1,20})\b")
_RECIPIENT_FIELDS = ("to", "cc", "bcc")
_FROM = re.compile(rb"\nfrom[ \t]*+:")


@record(frozen=True, slots=True)
class Senders:
    """The addresses in From, and whether they failed DMARC at the user's server."""

    addresses: tuple[str, ...]
    is_clear: bool
    """Whether From is well-formed and was read completely, and so means the same to all mail programs."""
    fails_dmarc: bool
    """Whether the topmost Authentication-Results says dmarc=fail."""


def read_senders(canonical: bytes) -> Senders:
    """Read the senders of a message in canonical form.

    >>> read_senders(b'From: "ann@example.org" <Eve@Example.NET>\\n\\n').addresses
    ('eve@example.net',)
    """
    fields = _read_header(canonical)
    values = [value for name, value in fields if name == "from"]
    addresses: list[str] = []
    # A From that is not among the fields, because there are too many or a line before it is no field, may be
    # what a mail program shows.
    is_clear = 0 < len(values) <= FROM_FIELDS and not _has_more_from_lines(canonical, len(values))
    for value in values[:FROM_FIELDS]:
        addresses_of_field, is_well_formed = parse_addresses(value)
        addresses += addresses_of_field
        is_clear = is_clear and is_well_formed
    distinct = tuple(dict.fromkeys(addresses))
    is_clear = is_clear and 0 < len(distinct) <= SENDERS
    return Senders(distinct[:SENDERS], is_clear, _fails_dmarc(fields))


def read_recipients(canonical: bytes) -> tuple[str, ...]:
    """Return the addresses in To, Cc and Bcc of a message in canonical form, and none for an automatic reply.

    >>> read_recipients(b"To: Ann <ann@example.org>, bob@example.org\\nCc: Ann <ANN@example.org>\\n\\n")
    ('ann@example.org', 'bob@example.org')
    """
    fields = _read_header(canonical)
    for name, value in fields:
        if name == "auto-submitted" and not value.lower().startswith("no"):
            return ()
    values = islice((value for name, value in fields if name in _RECIPIENT_FIELDS), RECIPIENT_FIELDS)
    addresses = dict.fromkeys(address for value in values for address in parse_addresses(value)[0])
    return tuple(islice(addresses, RECIPIENTS))


def _has_more_from_lines(canonical: bytes, count: int) -> bool:
    """Whether more lines than `count` look like a From before the first empty line."""
    end = canonical.find(b"\n\n")
    header = b"\n" + canonical[: end if end >= 0 else len(canonical)].lower()
    # The count of a fixed text takes a tenth of the time of the pattern, and excludes nearly all messages.
    return header.count(b"\nfrom") > count and len(_FROM.findall(header)) > count


def _read_header(canonical: bytes) -> Fields:
    return read_fields(canonical, 0, len(canonical), set())[0]


def parse_addresses(value: str) -> tuple[list[str], bool]:
    """Return the addresses of a raw field, and whether it is well-formed.

    >>> parse_addresses('Ann (at work) <Ann@Example.org>, "Bob" <"bob"@example.org>')
    (['ann@example.org', 'bob@example.org'], True)
    >>> parse_addresses("ann@example.org, <eve@example.net")
    (['ann@example.org', 'eve@example.net'], False)
    """
    reader = _Reader()
    reader.is_well_formed = len(value) < FIELD
    if not value.isascii():
        value = value.encode("latin-1", "replace").decode("utf-8", "replace")
    for kind, text in _split_pieces(value[:FIELD]):
        reader.read(kind, text)
    reader.end_mailbox()
    return reader.addresses, reader.is_well_formed


# Kinds of pieces: a quoted string, an unclosed quoted string, a special character, white space or a comment,
# other characters, and an unclosed comment.
_QUOTED, _UNCLOSED, _SPECIAL, _SPACE, _WORD, _OPEN_COMMENT = range(6)


def _split_pieces(value: str) -> Iterator[tuple[int, str]]:
    """Split a field into pieces (kind and text); a comment becomes a space."""
    position = 0
    while position < len(value):
        match = _PIECE.match(value, position)
        if match is None:
            raise AssertionError("every character begins a piece")
        position = match.end()
        quoted, closing, special, space, word = match.groups()
        if quoted is not None:
            yield (_QUOTED if closing else _UNCLOSED), re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
        elif special == "(":
            position, is_closed = _skip_comment(value, position)
            yield (_SPACE if is_closed else _OPEN_COMMENT), ""
        elif special:
            yield _SPECIAL, special
        else:
            yield (_SPACE, "") if space else (_WORD, word)


def _skip_comment(value: str, position: int) -> tuple[int, bool]:
    """Return the end of the comment at a position, and whether it is closed; comments may be nested."""
    depth = 1
    while depth and position < len(value):
        match = _IN_COMMENT.match(value, position)
        if match is None or match.end() == position:
            break
        position = match.end()
        depth += {"(": 1, ")": -1, "": 0}[match[1]]
    return position, not depth


class _Reader:
    """The state while a list of mailboxes is read: a mailbox is an address with or without a display name."""

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.is_well_formed = True
        # Pieces of the current address: whether each was quoted, and its text.
        self._items: list[tuple[bool, str]] = []
        self._is_in_angle = False
        self._has_angle = False  # the mailbox has an address in angle brackets
        self._has_space = False  # there is white space after the last item

    def read(self, kind: int, text: str) -> None:
        """Read the next piece of the field: one of the kinds above, such as _QUOTED, and its text."""
        if kind in (_UNCLOSED, _OPEN_COMMENT):
            self.is_well_formed = False
        if kind in (_QUOTED, _UNCLOSED, _WORD):
            if self._has_space and self._items and not self._is_joined(text):
                self._items.append((False, " "))
            self._items.append((kind != _WORD, text))
            self._has_space = False
        elif kind == _SPECIAL:
            self._read_special(text)
        else:
            self._has_space = True

    def _is_joined(self, text: str) -> bool:
        """Whether an at sign or a dot joins the next word to the last one."""
        return text[:1] in ("@", ".") or self._items[-1][1][-1:] in ("@", ".")

    def _read_special(self, sign: str) -> None:
        """Read one of the characters < > , ; : and )."""
        if sign == "<":
            if self._is_in_angle or self._has_angle:
                self.is_well_formed = False
                self._add_items()
            self._items, self._is_in_angle, self._has_angle = [], True, True
        elif sign == ">":
            if self._is_in_angle:
                self._add_items()
                self._items, self._is_in_angle = [], False
            else:
                self.is_well_formed = False
        elif sign == ":":  # the items before it are the name of a group, or a route
            if not self._is_in_angle and any(
                not is_quoted and "@" in text for is_quoted, text in self._items
            ):
                self.is_well_formed = False
                self._add_items()
            self._items = []
        elif sign == "," and self._is_in_angle:
            if any(text[:1] != "@" for _, text in self._items):  # otherwise it is a route: <@a,@b:address>
                self.is_well_formed = False
                self._add_items()
            self._items = []
        elif sign in ",;":
            self.end_mailbox()
        else:
            self.is_well_formed = False  # a closing parenthesis
        self._has_space = False

    def end_mailbox(self) -> None:
        """End a mailbox, as at a comma or at the end of the field."""
        if self._is_in_angle or (self._has_angle and self._items):
            self.is_well_formed = False  # no closing bracket, or words after it
        if self._is_in_angle or (self._items and not self._has_angle):
            self._add_items()
        self._items, self._is_in_angle, self._has_angle, self._has_space = [], False, False, False

    def _add_items(self) -> None:
        """Add the current items as an address, or as several addresses if there are spaces between them."""
        spaces = [index for index, item in enumerate(self._items) if item == (False, " ")]
        if spaces:
            self.is_well_formed = False
        for start, end in zip([-1, *spaces], [*spaces, len(self._items)], strict=True):
            self._add_address(self._items[start + 1 : end])

    def _add_address(self, items: list[tuple[bool, str]]) -> None:
        """Add the address that these items are; its last at sign outside quotes separates the domain."""
        with_at = [index for index, (is_quoted, text) in enumerate(items) if not is_quoted and "@" in text]
        if not with_at:
            self.is_well_formed = False
            return
        last = with_at[-1]
        before, _, after = items[last][1].rpartition("@")
        local = "".join(text for _, text in items[:last]) + before
        domain = after + "".join(text for _, text in items[last + 1 :])
        if "@" in before or len(with_at) > 1:
            self.is_well_formed = False
        address = normalise_address(local, domain)
        if address is None:
            self.is_well_formed = False
        else:
            self.addresses.append(address)


def normalise_address(local: str, domain: str) -> str | None:
    """Return the normal form of an address, or None if it is not valid.

    >>> normalise_address("Ann", "M\\xfcnchen.example")
    'ann@xn--mnchen-3ya.example'
    """
    normal_domain = normalise_domain(domain)
    if normal_domain is None or not 0 < len(local) <= LONGEST:
        return None
    local = local.lower() if local.isascii() else _fold(local)
    if not local.isprintable() or local.startswith("@") or "\ufffd" in local:
        return None
    address = f"{local}@{normal_domain}"
    # A few sequences of combining marks change each time they are folded, so they have no normal form.
    is_stable = local.isascii() or _fold(local) == local
    return address if is_stable and len(address) <= LONGEST else None


def _fold(text: str) -> str:
    """Return the local part of an address that is not ASCII in a form without case."""
    return _normalise_text(_normalise_text(text).casefold())


def normalise_domain(domain: str) -> str | None:
    """Return a domain in lower case and in ASCII, or None if it is not valid.

    >>> normalise_domain("Mail.Example.ORG."), normalise_domain("a b")
    ('mail.example.org', None)
    """
    if len(domain) > LONGEST:
        return None
    if not domain.isascii():
        domain = _normalise_text(domain.replace("\u3002", ".")).lower()
        labels = [label if label.isascii() else _to_ascii(label) for label in domain.split(".")]
        domain = ".".join(labels)
    domain = domain.lower().removesuffix(".")
    return domain if _DOMAIN.fullmatch(domain) and len(domain) <= LONGEST else None


def _normalise_text(text: str) -> str:
    from unicodedata import normalize  # noqa: PLC0415 (not loaded for ASCII)

    return normalize("NFKC", text)


def _to_ascii(label: str) -> str:
    # The codec "idna" follows IDNA 2003, which replaces letters that IDNA 2008 allows, such as the German ß.
    return "xn--" + label.encode("punycode").decode("ascii")


def split_domain(address: str) -> list[str]:
    """Return the domain of an address and the domains above it, the most specific first.

    >>> split_domain("ann@mail.example.org")
    ['mail.example.org', 'example.org', 'org']
    """
    domain = address.rpartition("@")[2]
    if domain.startswith("["):
        return [domain]
    labels = domain.split(".")
    return [".".join(labels[first:]) for first in range(len(labels))]


def _fails_dmarc(fields: Fields) -> bool:
    """Whether the topmost server that wrote Authentication-Results says dmarc=fail.

    A server may write several such fields, one per check. A sender can forge fields of other servers, which
    are ignored here, or add a failure, which only harms the sender.
    """
    topmost: str | None = None
    for value in islice((value for name, value in fields if name == "authentication-results"), _RESULTS):
        server, *results = _remove_strings(value[:FIELD]).lower().split(";")
        if "=" in server:  # some servers do not write their name
            server, results = "", [server, *results]
        server = server.strip().partition(" ")[0]
        topmost = server if topmost is None else topmost
        if server == topmost and any(
            (match := _DMARC.match(result)) and match[1] == "fail" for result in results
        ):
            return True
    return False


def _remove_strings(value: str) -> str:
    """Remove quoted strings and comments, because they may contain any text."""
    return "".join(
        text if kind in (_WORD, _SPECIAL) else " " if kind == _SPACE else ""
        for kind, text in _split_pieces(value)
    )
