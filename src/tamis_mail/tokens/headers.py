"""header fields → tokens, each with the name of its field before it.

`message.canonical` has removed the fields that filters write. Only the oldest Received fields are used: the
newest are normally those of the user's servers, which are the same for all mail, and which are missing when
mail is judged before delivery.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from tamis_mail.message import fold_text
from tamis_mail.tokens.words import LONGEST, find_hosts, find_networks, split_words

# Limits; what exceeds them is ignored.
_FIELDS = 200  # fields of a message that are read
_WORDS = 40  # words of a field that are read
_ADDRESSES = 20  # addresses of a field that are read
_VALUE = 5000  # characters of a field that are read
_TOTAL = 100_000  # characters of all fields that are read
_HOPS = 3  # number of the oldest Received fields (hops of the message) that are read
_SELECTED = 2000  # characters of each field that `select_fields` returns

_LOCAL = 100  # characters of an address before the at sign
_NOT_LOCAL = re.compile(r"[\s<>\"'(),:;@\[\]]")
_AT_DOMAIN = re.compile(r"@[\w.\-]{1,200}+")
_NAME_WORD = re.compile(r"\w{2,40}")
_HOST = re.compile(r"[a-z0-9_\-]{1,63}\.[a-z0-9_.\-]{2,190}")
_QUEUE_ID = re.compile(r"\bid [^ ;]+")  # of the message in a server's queue
_VALUE_WORD = re.compile(r"[\w$!][\w.@+\-$!/=]{0,60}")
_ZONE = re.compile(r"[+\-]\d{4}|\b[a-z]{3,4}\b\)?$")
_PROTOCOL = re.compile(r"\bwith (\w{2,12})")
_LETTERS = re.compile(r"[a-z]+")
_DIGITS = re.compile(r"[0-9]+")
_SIGNER = re.compile(r"\bd=([\w.\-]{1,200})")  # the domain of a DKIM signature
_PUNCTUATION = re.compile(r"[!?$]{2,}|[!?$]")

# The values of these fields, such as signatures and keys, are unique: only their presence is used, and the
# domain that a signature names.
_PRESENCE_ONLY_NAMES = """
arc-authentication-results arc-message-signature arc-seal autocrypt delivery-date dkim-signature
domainkey-signature face in-reply-to openpgp references resent-date resent-message-id thread-index x-face
x-gm-message-state x-google-dkim-signature x-google-smtp-source x-message-info
x-microsoft-exchange-diagnostics x-ms-exchange-transport-crosstenantheadersstamped x-original-date x-pgp-key
x-received
"""
_PRESENCE_ONLY = frozenset(_PRESENCE_ONLY_NAMES.split())
_UNCACHED = frozenset(("date", "message-id", "subject"))  # fields whose values are rarely repeated
_ADDRESS_FIELD_NAMES = """
bcc cc delivered-to disposition-notification-to envelope-to errors-to from reply-to resent-from resent-to
return-path sender to x-envelope-from x-original-to x-sender
"""
_ADDRESS_FIELDS = frozenset(_ADDRESS_FIELD_NAMES.split())


def read(fields: Sequence[tuple[str, str]]) -> str:
    """Return the tokens of the header fields, in order, separated by spaces.

    >>> read([("from", "Ann <ann@mail.example.com>"), ("date", "Fri, 23 Aug 2002 23:10:22 +0800")]).split()[
    ...     :4
    ... ]
    ['from:ann@mail.example.com', 'from:@mail.example.com', 'from:@example.com', 'from:ann']
    """
    tokens: list[str] = []
    previous = ""
    hops: list[str] = []
    remaining = _TOTAL
    for name, value in fields[:_FIELDS]:
        value = value[: min(_VALUE, remaining)]
        remaining -= len(value)
        if name == "received":
            hops.append(value)
            if previous == name:
                continue  # in the order of fields, successive Received fields are one
        else:
            tokens.append((_read_field if name in _UNCACHED else _read_cached_field)(name, value))
        tokens.append(f"{previous}>{name}")  # the order of fields is typical of a program
        previous = name
    tokens.append(f"{previous}>")
    tokens.append(f"received~{len(hops)}")
    tokens += [_read_hop(_QUEUE_ID.sub("", hop.partition(";")[0].lower())) for hop in hops[-_HOPS:]]
    return " ".join(tokens)


def select_fields(fields: Sequence[tuple[str, str]]) -> tuple[dict[str, str], list[str]]:
    """Return the value of the first field of each name, and the oldest Received fields, the oldest one last.

    >>> select_fields([("received", "from b"), ("to", "a@b.example"), ("received", "from c"), ("to", "x")])
    ({'received': 'from b', 'to': 'a@b.example'}, ['from b', 'from c'])
    """
    first_values: dict[str, str] = {}
    hops: list[str] = []
    for name, value in fields[:_FIELDS]:
        value = value[:_SELECTED]
        first_values.setdefault(name, value)
        if name == "received":
            hops.append(value)
    return first_values, hops[-_HOPS:]


def _read_field(name: str, value: str) -> str:
    """Return the tokens of one field, separated by spaces."""
    tokens: list[str] = []
    if name in _ADDRESS_FIELDS:
        _read_addresses(name, value, tokens)
    elif name in _PRESENCE_ONLY:
        if "d=" in value:
            tokens += [
                f"{name}:@{host}" for domain in _SIGNER.findall(value.lower()) for host in find_hosts(domain)
            ]
    else:
        _READERS.get(name, _read_words)(name, value, tokens)
    return " ".join(tokens)


def _read_addresses(name: str, value: str, tokens: list[str]) -> None:
    value = value.lower() if value.isascii() else fold_text(value)[0]
    value = value[:_VALUE]
    addresses = find_addresses(value)
    if len(addresses) != 1:
        tokens.append(f"{name}~{len(addresses).bit_length()}")
    for address in addresses[:_ADDRESSES]:
        tokens.append(f"{name}:{address}")
        tokens += [f"{name}:@{host}" for host in find_hosts(address.rpartition("@")[2])]
    words = _NAME_WORD.findall(remove_addresses(value[:1000]))
    tokens += [f"{name}:{word}" for word in words[:_WORDS]]


def find_addresses(value: str) -> list[str]:
    """Return the e-mail addresses in a value."""
    return [value[start:end] for start, end in _locate_addresses(value)]


def remove_addresses(value: str) -> str:
    """Replace each e-mail address in a value by a space."""
    pieces, last = [], 0
    for start, end in _locate_addresses(value):
        pieces.append(value[last:start])
        last = end
    return " ".join([*pieces, value[last:]])


def _locate_addresses(value: str) -> list[tuple[int, int]]:
    """Return the start and end of each address in a value.

    A pattern for a complete address would scan a long word again from each letter, to find an at sign. Here
    each character before an at sign is read once.
    """
    ranges: list[tuple[int, int]] = []
    end = 0
    if "@" in value:
        for domain in _AT_DOMAIN.finditer(value):
            at_sign = domain.start()
            local = _NOT_LOCAL.split(value[max(end, at_sign - _LOCAL) : at_sign])[-1]
            if local:
                end = domain.end()
                ranges.append((at_sign - len(local), end))
    return ranges


def _read_subject(name: str, value: str, tokens: list[str]) -> None:
    folded, tricks = fold_text(value[:1000])
    tokens += [f"{name}:{word[:LONGEST]}" for word in split_words(folded)[:_WORDS]]
    tokens += [f"{name}~{trick}" for trick in tricks]
    tokens += [f"{name}:{signs}" for signs in _PUNCTUATION.findall(value[:1000])]
    letters = sum(map(str.isalpha, value))
    if letters > 5 and sum(map(str.isupper, value)) * 2 > letters:
        tokens.append(f"{name}~loud")  # mostly capital letters


def _read_message_id(name: str, value: str, tokens: list[str]) -> None:
    """Add the pattern of a message id, which is typical of the program that made it."""
    local, _, domain = value.strip(" <>").lower()[:300].rpartition("@")
    tokens.append(f"{name}~" + _DIGITS.sub("9", _LETTERS.sub("a", local)).replace(" ", "")[:LONGEST])
    tokens += [f"{name}:@{host}" for host in find_hosts(domain)]


def _read_date(name: str, value: str, tokens: list[str]) -> None:
    tokens += [f"{name}:{zone}" for zone in _ZONE.findall(value[:200].lower())]


def _read_content_field(name: str, value: str, tokens: list[str]) -> None:
    kind, *parameters = value.lower()[:1000].split(";")[:20]
    tokens.append(f"{name}:{kind.strip()[:60].replace(' ', '_')}")
    for parameter in parameters:
        key, _, parameter_value = parameter.partition("=")
        parameter_value = parameter_value.strip(" \t\"'")
        if key.strip() == "boundary":
            parameter_value = _DIGITS.sub("9", _LETTERS.sub("a", parameter_value))
        tokens.append(f"{name}:{key.strip()}={parameter_value}"[:80].replace(" ", "_").replace("\t", "_"))


def _read_product(name: str, value: str, tokens: list[str]) -> None:
    """Add the name of a program as one token, and its words."""
    tokens.append(f"{name}=" + "_".join(value.lower()[:100].split()))
    _read_words(name, value, tokens)


def _read_words(name: str, value: str, tokens: list[str]) -> None:
    value = value[:2000].lower() if value.isascii() else fold_text(value[:2000])[0]
    tokens += [f"{name}:{word[:LONGEST]}" for word in _VALUE_WORD.findall(value)[:_WORDS]]


@lru_cache(4096)
def _read_hop(value: str) -> str:
    """Return the tokens of a Received field without its date: hosts, addresses and protocols."""
    tokens: list[str] = []
    for host in _HOST.findall(value)[:8]:
        if host.replace(".", "").isdecimal():
            tokens += [f"received:{part}" for part in find_networks(host)]
        elif "." in host.strip("."):
            tokens += [f"received:{domain}" for domain in find_hosts(host)]
    tokens += [f"received:with-{protocol}" for protocol in _PROTOCOL.findall(value)]
    return " ".join(tokens)


_read_cached_field = lru_cache(4096)(_read_field)  # messages of one sender have many equal fields

# The readers of fields, by name; each is given the name and the value, and appends tokens to a list.
_READERS: dict[str, Callable[[str, str, list[str]], None]] = {
    "subject": _read_subject,
    "message-id": _read_message_id,
    "date": _read_date,
    "content-type": _read_content_field,
    "content-disposition": _read_content_field,
    "x-mailer": _read_product,
    "user-agent": _read_product,
    "x-mimeole": _read_product,
    "organization": _read_product,
}
