"""Header fields → addresses in a normal form, and whether the sender failed DMARC.

DMARC (RFC 7489) checks whether a signature or the sending host confirms the domain of From.

The raw fields are parsed, not their decoded text: an encoded word is part of a display name, and may decode
to text that looks like an address. The normal form of an address is its local part, unquoted and case-folded
(in the Unicode normalization form NFKC if it is not ASCII), `@`, and its domain in lower case, with labels
that are not ASCII in their ASCII form (`xn--…`).

Mail programs differ in how they read a malformed From. So all addresses that are found outside quoted strings
and comments are returned, up to the limits of this module, and `is_clear` says whether all programs read the
same addresses.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from tamis_mail.message.fields import LONGEST as LONGEST_VALUE
from tamis_mail.message.fields import Fields, read_fields
from tamis_mail.records import record  # as `dataclasses.dataclass`

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
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_ATOM = r'(?:[^\x00-\x20\x7f"(),.:;<>@\[\\\]]++|"")'
_LOCAL = re.compile(rf"{_ATOM}(?:\.{_ATOM})*+")  # a local part with `""` for each quoted string
_IN_COMMENT = re.compile(r"[^()\\]*+(?:\\.[^()\\]*+)*+\\?([()]?)", re.DOTALL)
_DOMAIN = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*|\[[0-9a-z.:_-]{1,60}\]")
_DMARC = re.compile(r"\s*dmarc\s*(?:/\s*\d{1,9}\s*)?=\s*([a-z]{1,20})\b")
_RECIPIENT_FIELDS = ("to", "cc", "bcc")
_FROM = re.compile(rb"\nfrom[ \t]*+:[ \t]*+([^\n]*+(?:\n[ \t][^\n]*+)*+)", re.IGNORECASE)


@record(frozen=True, slots=True)
class Senders:
    """The addresses in From, and whether they failed DMARC."""

    addresses: tuple[str, ...]
    is_clear: bool
    """Whether each From field was read completely and is well-formed, as `parse_addresses` says.

    A mail program that shows one of several From fields shows some of `addresses`.
    """
    fails_dmarc: bool
    """Whether an Authentication-Results says dmarc=fail, of the server that wrote the topmost such field."""


def read_senders(canonical: bytes) -> Senders:
    """Read the senders of a message in canonical form.

    >>> read_senders(b'From: "ann@example.org" <Eve@Example.NET>\\n\\n').addresses
    ('eve@example.net',)
    """
    fields = _read_header(canonical)
    values = [value for name, value in fields if name == "from"]
    parsed_fields = [parse_addresses(value) for value in values[:FROM_FIELDS]]
    distinct = tuple(dict.fromkeys(address for addresses, _ in parsed_fields for address in addresses))
    is_clear = (
        0 < len(values) <= FROM_FIELDS
        and 0 < len(distinct) <= SENDERS
        and all(is_well_formed for _, is_well_formed in parsed_fields)
        and not _has_unread_from(canonical, len(values))
    )
    return Senders(distinct[:SENDERS], is_clear, _fails_dmarc(fields))


def read_recipients(canonical: bytes) -> tuple[str, ...]:
    """Return the addresses in To, Cc and Bcc of a message in canonical form.

    There are none if Auto-Submitted says that a program wrote the message, such as an automatic reply.

    >>> read_recipients(b"To: Ann <ann@example.org>, bob@example.org\\nCc: Ann <ANN@example.org>\\n\\n")
    ('ann@example.org', 'bob@example.org')
    """
    fields = _read_header(canonical)
    for name, value in fields:
        if name == "auto-submitted" and not _remove_strings(value[:FIELD]).lower().strip().startswith("no"):
            return ()
    values = islice((value for name, value in fields if name in _RECIPIENT_FIELDS), RECIPIENT_FIELDS)
    addresses = dict.fromkeys(
        address for value in values for address in parse_addresses(value, with_names=False)[0]
    )
    return tuple(islice(addresses, RECIPIENTS))


def _has_unread_from(canonical: bytes, count: int) -> bool:
    """Whether the header has more than `count` From fields, or one that `_read_header` truncated.

    Not all From fields are read if there are too many fields, or if a line before them is no field.
    """
    end = 0 if canonical.startswith(b"\n") else canonical.find(b"\n\n")
    values = _FROM.findall(b"\n" + (canonical if end < 0 else canonical[:end]))
    return len(values) > count or any(len(value) > LONGEST_VALUE for value in values)


def _read_header(canonical: bytes) -> Fields:
    """Return the fields: names in lower case, and raw values, unfolded."""
    fields, _ = read_fields(canonical, 0, len(canonical), faults=set())
    return fields


def parse_addresses(value: str, *, with_names: bool = True) -> tuple[list[str], bool]:
    """Return the addresses of a raw field, and whether it is well-formed.

    An address in a display name without quotes, which some programs take for the address, is returned after
    that in angle brackets, unless `with_names` is False.

    Well-formed is what RFC 5322 allows, with its obsolete forms, RFC 6532 (UTF-8) and RFC 6854 (groups). Also
    well-formed, because mail has them and all programs read the same address, are a display name with square
    brackets or with bytes that are not UTF-8, or that is the address itself, and a domain with a dot at its
    end. A local part with an encoded word is not well-formed: some programs decode it.

    >>> parse_addresses('Ann (at work) <Ann@Example.org>, "Bob" <"bob"@example.org>')
    (['ann@example.org', 'bob@example.org'], True)
    >>> parse_addresses("ann@example.org, <eve@example.net")
    (['ann@example.org', 'eve@example.net'], False)
    """
    reader = _Reader(with_names)
    reader.is_well_formed = len(value) <= FIELD and not _CONTROL.search(value)
    if not value.isascii():
        value = value.encode("latin-1", "replace").decode("utf-8", "replace")
    for kind, text in _split_pieces(value[:FIELD]):
        reader.read(kind, text)
    reader.end_field()
    return reader.addresses, reader.is_well_formed


# Kinds of pieces: a quoted string, an unclosed quoted string, a special character, white space or a comment,
# other characters, and an unclosed comment.
_QUOTED, _UNCLOSED, _SPECIAL, _SPACE, _WORD, _OPEN_COMMENT = range(6)


def _split_pieces(value: str) -> Iterator[tuple[int, str]]:
    """Split a field into pieces (kind and text); a closed comment becomes a space."""
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
            yield (_SPACE, " ") if is_closed else (_OPEN_COMMENT, "")
        elif special:
            yield _SPECIAL, special
        else:
            yield (_SPACE, space) if space else (_WORD, word)


def _skip_comment(value: str, position: int) -> tuple[int, bool]:
    """Return the end of a comment, and whether it is closed; `position` is after its opening parenthesis.

    Comments may be nested.
    """
    depth = 1
    while depth and position < len(value):
        match = _IN_COMMENT.match(value, position)
        if match is None or match.end() == position:
            break
        position = match.end()
        depth += {"(": 1, ")": -1, "": 0}[match[1]]
    return position, not depth


_Words = list[tuple[bool, str]]  # whether a word is a quoted string, and its text


class _Reader:
    """The state while a list of mailboxes and groups is read.

    A mailbox is an address, or a display name with an address in angle brackets. A group is a name, a colon,
    mailboxes and a semicolon.
    """

    def __init__(self, with_names: bool) -> None:
        self._with_names = with_names
        self.addresses: list[str] = []
        self.is_well_formed = True
        # What was read since the last special character, part of an address or of a name; (False, " ") stands
        # for white space between two words.
        self._words: _Words = []
        self._name: _Words = []  # the display name, if it has an at sign outside quotes
        self._is_in_angle = False
        self._has_angle = False  # the mailbox has an address in angle brackets
        self._has_space = False  # there is white space after the last word
        self._has_comma = False  # in angle brackets: domains of a route were read, but not its colon
        self._has_route = False  # in angle brackets: a route and its colon were read
        self._is_in_group = False
        self._is_after_group = False

    def read(self, kind: int, text: str) -> None:
        """Read the next piece of the field: its kind, such as _QUOTED, and its text."""
        if kind in (_UNCLOSED, _OPEN_COMMENT) or (kind == _WORD and "\\" in text):
            self.is_well_formed = False
        if self._is_after_group and kind != _SPACE and text != ",":
            self.is_well_formed = False
        if kind in (_QUOTED, _UNCLOSED, _WORD):
            is_quoted = kind != _WORD
            if self._has_space and self._words and not self._is_joined(is_quoted, text):
                self._words.append((False, " "))
            self._words.append((is_quoted, text))
            self._has_space = False
        elif kind == _SPECIAL:
            self._read_special(text)
        elif text.isascii():
            self._has_space = True
        else:  # white space for some programs, and part of the address for others
            self._words.append((False, " "))

    def _is_joined(self, is_quoted: bool, text: str) -> bool:
        """Whether an at sign or a dot outside quotes joins the next word to the last one."""
        was_quoted, last = self._words[-1]
        return (not is_quoted and text[:1] in ("@", ".")) or (not was_quoted and last[-1:] in ("@", "."))

    def _read_special(self, sign: str) -> None:
        """Read one of the characters < > , ; : and )."""
        if sign == "<":
            self._begin_angle()
        elif sign == ">":
            if self._is_in_angle:
                self._end_angle()
            else:
                self.is_well_formed = False
        elif sign in ",:" and self._is_in_angle:
            self._read_route(sign)
        elif sign == ":":
            self._begin_group()
        elif sign in ",;":
            self._end_mailbox()
            if sign == ";":
                self.is_well_formed = self.is_well_formed and self._is_in_group
                self._is_in_group = False
            self._is_after_group = sign == ";"
        else:
            self.is_well_formed = False  # a closing parenthesis
        self._has_space = False

    def _begin_angle(self) -> None:
        if self._is_in_angle or self._has_angle:
            self.is_well_formed = False
            self._add_words()
        else:
            self._check_name()
            self._name = self._words if _has_at(self._words) else []
        self._words, self._is_in_angle, self._has_angle = [], True, True
        self._has_comma = self._has_route = False

    def _end_angle(self) -> None:
        """Add the address in angle brackets, and those in a display name that is not quoted."""
        if self._has_comma:
            self.is_well_formed = False
        first = len(self.addresses)
        self._add_words()
        count = len(self.addresses)
        if self._name:
            self._words = self._name
            self._add_words()
            if self.addresses[first:count] != self.addresses[count:]:
                self.is_well_formed = False
            names = self.addresses[count:] if self._with_names else []
            self.addresses[first:] = dict.fromkeys([*self.addresses[first:count], *names])
        self._words, self._name, self._is_in_angle = [], [], False

    def _read_route(self, sign: str) -> None:
        """Read a comma or the colon of an obsolete route, as in <@a,@b:address>."""
        is_domain = _is_domain_of_route(self._words)
        if self._has_route or not (is_domain or (sign == "," and not self._words)):
            self.is_well_formed = False
            if self._words and not is_domain:
                self._add_words()
        self._words, self._has_comma, self._has_route = [], sign == ",", sign == ":"

    def _begin_group(self) -> None:
        if self._has_angle or self._is_in_group or not self._words:
            self.is_well_formed = False
        self._check_name()
        if _has_at(self._words):
            self.is_well_formed = False
            self._add_words()
        self._words, self._has_angle, self._is_in_group = [], False, True

    def _check_name(self) -> None:
        """Special characters in square brackets are part of a name for some programs only."""
        if any(not is_quoted and set(text) & _SPECIALS for is_quoted, text in self._words):
            self.is_well_formed = False

    def _end_mailbox(self) -> None:
        """End a mailbox, as at a comma or at the end of the field."""
        if self._is_in_angle or (self._has_angle and self._words):
            self.is_well_formed = False  # no closing bracket, or words after it
        if self._is_in_angle:
            self._end_angle()
        elif self._words:
            self._add_words(is_needed=not self._has_angle)
        self._words, self._has_angle, self._has_space = [], False, False

    def end_field(self) -> None:
        """End the last mailbox."""
        self._end_mailbox()
        if self._is_in_group:
            self.is_well_formed = False

    def _add_words(self, is_needed: bool = True) -> None:
        """Add the words as an address, or as several addresses if there are spaces between them.

        Words that are no address are ignored if none is needed, as after angle brackets.
        """
        if not is_needed and not _has_at(self._words):
            return
        spaces = [index for index, word in enumerate(self._words) if word == (False, " ")]
        if spaces:
            self.is_well_formed = False
        for start, end in zip([-1, *spaces], [*spaces, len(self._words)], strict=True):
            self._add_address(self._words[start + 1 : end])

    def _add_address(self, words: _Words) -> None:
        """Join words to an address, and add it; the last at sign outside quotes separates the domain."""
        with_at = [index for index, (is_quoted, text) in enumerate(words) if not is_quoted and "@" in text]
        if not with_at:
            self.is_well_formed = False
            return
        last = with_at[-1]
        before, _, after = words[last][1].rpartition("@")
        local_words, rest = [*words[:last], (False, before)], words[last + 1 :]
        local = "".join(text for _, text in local_words)
        domain = after + "".join(text for _, text in rest)
        local_without_strings = "".join('""' if is_quoted else text for is_quoted, text in local_words)
        if (
            not _LOCAL.fullmatch(local_without_strings)
            or "=?" in local
            or any(is_quoted for is_quoted, _ in rest)
        ):
            self.is_well_formed = False
        address = normalise_address(local, domain)
        if address is None:
            self.is_well_formed = False
        else:
            self.addresses.append(address)


_SPECIALS = frozenset('<>,;:"()')


def _has_at(words: _Words) -> bool:
    return any(not is_quoted and "@" in text for is_quoted, text in words)


def _is_domain_of_route(words: _Words) -> bool:
    """Whether words are an at sign and a domain."""
    text = "".join(text for _, text in words)
    is_quoted = any(is_quoted for is_quoted, _ in words)
    return text.startswith("@") and not is_quoted and normalise_domain(text[1:]) is not None


def normalise_address(local: str, domain: str) -> str | None:
    """Return the normal form of an address, or None if it has none.

    It has none if it is too long, or has no local part, or characters that no address has. No other rules of
    addresses are checked: `ann.@-a-.b` is a normal form.

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
    return address if len(address) <= LONGEST else None


def _fold(text: str) -> str:
    """Return the local part of an address that is not ASCII in a form without case."""
    return _normalise_text(_normalise_text(text).casefold())


def normalise_domain(domain: str) -> str | None:
    """Return a domain, or an address literal, in lower case and in ASCII, or None if it cannot be one.

    It cannot be one if it is too long, or has a label that is empty, too long, or of other characters than
    letters, digits, hyphens and underscores.

    >>> normalise_domain("Mail.Example.ORG."), normalise_domain("a b")
    ('mail.example.org', None)
    """
    if len(domain) > LONGEST:
        return None
    if not domain.isascii():
        # NFKC makes dots, or ideographic full stops, of other full stops, such as U+FF0E and U+FF61.
        domain = _normalise_text(domain).replace("\u3002", ".").lower()
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

    A server may write several such fields, one per check. The user's server, if it writes any, writes them at
    the top; a sender can forge those further down. Fields of other servers are ignored. If a sender forges a
    failure in the name of the user's server, that harms only the sender.
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
