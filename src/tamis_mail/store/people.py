"""People in the store: allowed and blocked senders, and the people to whom the user writes.

`listed` holds the user's decisions: an address or a domain is allowed, or it is blocked. `sent` holds the
addresses of each learned message of a Sent folder. `correspondent` counts them, so that a verdict needs one
query; the counts always equal the sum over `sent`, and forgetting a sent message restores them exactly.
"""

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tamis_mail.message.addresses import (
    normalise_address,
    normalise_domain,
    parse_addresses,
    split_domain,
)
from tamis_mail.records import record
from tamis_mail.schema import (
    MAX_ENTRY_LENGTH,
    MAX_RECIPIENTS_LENGTH,
    MAX_SENDERS_LENGTH,
    TABLES,
    find_row_fault,
)
from tamis_mail.store.database import StoreError
from tamis_mail.store.store import Store

_NAMES = 400  # entries of one query, each bound twice; older versions of SQLite allow 999 bound values
_MAX_FAULTS = 20  # faults that are listed
_PLAIN_ADDRESS = re.compile(r'[^\s"(),:;<>@\[\\\]]+@[^\s"(),:;<>@\[\\\]]+')


@record(frozen=True, slots=True)
class People:
    """The entries of the lists and the correspondents among some addresses."""

    listed: Mapping[str, bool]  # entry → whether it is allowed (True) or blocked (False)
    correspondents: Mapping[str, tuple[int, int]]  # address → numbers of sent messages to it and from it


@record(frozen=True, slots=True)
class PeopleCounts:
    """The lists and the correspondents of a store in numbers."""

    allowed: int
    blocked: int
    sent: int  # messages of Sent folders
    correspondents: int  # addresses that the user wrote to, without the user's own


def parse_entry(text: str) -> str:
    """Return the normal form of an entry that the user wrote; raise ValueError if it is none.

    >>> parse_entry("Ann <Ann@Example.org>"), parse_entry("Example.ORG"), parse_entry(".top")
    ('ann@example.org', '@example.org', '@top')
    """
    given = " ".join(text.split())
    shown = ascii(given[:60])
    if "/" in given or "\\" in given:
        raise ValueError(f"{shown} is a path, expected an address or a domain: --from FILE reads a file")
    if given.startswith("*."):
        raise ValueError(
            f"{shown} is a pattern, expected a domain, which covers its sub-domains: leave *. out"
        )
    name = given.removeprefix("*").removeprefix("mailto:").rstrip("; ")
    if "@" not in name.removeprefix("@"):
        domain = normalise_domain(name.removeprefix("@").removeprefix("."))
        if domain is None or (not name.startswith(("@", ".")) and "." not in domain):
            raise ValueError(
                f"{shown} is no address and no domain, expected ann@example.org or example.org; "
                "a top-level domain needs a dot before it, as .example"
            )
        return f"@{domain}"
    # `parse_addresses` takes the raw value of a field: a character for each byte.
    addresses, is_well_formed = parse_addresses(name.encode().decode("latin-1"))
    # Some servers have addresses such as ann..x@example.org, which RFC 5322 does not allow.
    if len(addresses) != 1 or not (is_well_formed or _PLAIN_ADDRESS.fullmatch(name)):
        raise ValueError(f"{shown} is not one address, expected one such as ann@example.org")
    return addresses[0]


def look_up(store: Store, addresses: Iterable[str]) -> People:
    """Return the entries that cover these addresses, and which of the addresses are in sent mail."""
    names = list(dict.fromkeys(name for address in addresses for name in _list_covering_entries(address)))
    listed: dict[str, bool] = {}
    correspondents: dict[str, tuple[int, int]] = {}
    with store.snapshot():
        for start in range(0, len(names), _NAMES):
            part = names[start : start + _NAMES]
            placeholders = ", ".join("?" * len(part))
            rows = store.connection.execute(
                f"SELECT entry, is_allowed, NULL FROM listed WHERE entry IN ({placeholders}) UNION ALL "
                f"SELECT address, received, wrote FROM correspondent WHERE address IN ({placeholders})",
                part * 2,
            )
            for name, number, wrote in rows:
                if wrote is None:
                    _refuse_fault(store, find_row_fault("listed", {"entry": name, "is_allowed": number}))
                    listed[name] = bool(number)
                else:
                    counts = {"address": name, "received": number, "wrote": wrote}
                    _refuse_fault(store, find_row_fault("correspondent", counts))
                    correspondents[name] = (number, wrote)
    return People(listed, correspondents)


def _list_covering_entries(address: str) -> list[str]:
    """List the possible entries that cover an address: itself, and @ with its domain or one above that."""
    return [address, *(f"@{domain}" for domain in split_domain(address))]


def _refuse_fault(store: Store, fault: str | None) -> None:
    if fault:
        raise StoreError(
            f"the store {store.name} is damaged ({fault}): restore a backup (tamis store restore)"
        )


def list_entries(store: Store, *, is_allowed: bool) -> list[str]:
    """List the allowed, or the blocked, entries, ordered by domain; a domain comes before its addresses."""
    with store.snapshot():
        rows = store.connection.execute("SELECT entry FROM listed WHERE is_allowed = ?", (int(is_allowed),))
        entries = [str(entry) for (entry,) in rows]
    return sorted(entries, key=lambda entry: (entry.rpartition("@")[2], entry))


def add_entries(store: Store, entries: Sequence[str], *, is_allowed: bool) -> dict[str, bool | None]:
    """Allow or block entries in one transaction; an earlier decision on an entry is replaced.

    Return for each entry whether it was allowed (True) or blocked (False) before; None if it is new.
    """
    return _change_entries(store, "INSERT OR REPLACE INTO listed VALUES (?, ?)", entries, is_allowed)


def remove_entries(store: Store, entries: Sequence[str], *, is_allowed: bool) -> dict[str, bool | None]:
    """Remove entries from the allowed or from the blocked ones; return the same as `add_entries`."""
    return _change_entries(
        store, "DELETE FROM listed WHERE entry = ? AND is_allowed = ?", entries, is_allowed
    )


def _change_entries(
    store: Store, statement: str, entries: Sequence[str], is_allowed: bool
) -> dict[str, bool | None]:
    """Run a statement for each distinct entry, in one transaction; return what each entry was before."""
    before: dict[str, bool | None] = {}
    with store.transaction():
        for entry in entries:
            if entry not in before:
                before[entry] = _find_decision(store, entry)
                store.connection.execute(statement, (entry, int(is_allowed)))
    return before


def _find_decision(store: Store, entry: str) -> bool | None:
    row = store.connection.execute("SELECT is_allowed FROM listed WHERE entry = ?", (entry,)).fetchone()
    return None if row is None else bool(row[0])


def find_contradictions(store: Store, other: Store) -> list[tuple[str, bool]]:
    """List entries that one store allows and the other blocks, with the decision of the first store."""
    with store.snapshot(), other.snapshot():
        decisions = dict(other.connection.execute("SELECT entry, is_allowed FROM listed"))
        return [
            (str(entry), bool(is_allowed))
            for entry, is_allowed in store.connection.execute("SELECT * FROM listed ORDER BY entry")
            if decisions.get(entry, is_allowed) != is_allowed
        ]


def record_sent(store: Store, digest: bytes, senders: Iterable[str], recipients: Iterable[str]) -> bool:
    """Record the addresses of a sent message, inside a transaction; return False if it is there already."""
    row = (digest.hex(), _join(senders, MAX_SENDERS_LENGTH), _join(recipients, MAX_RECIPIENTS_LENGTH))
    is_new = store.connection.execute("INSERT OR IGNORE INTO sent VALUES (?, ?, ?)", row).rowcount > 0
    if is_new:
        _add_counts(store.connection, *row[1:], sign=1)
    return is_new


def _join(addresses: Iterable[str], max_length: int) -> str:
    """Join addresses, one per line, up to the first that would exceed the maximum length."""
    text = "\n".join(addresses)
    return text if len(text) <= max_length else text[: max_length + 1].rpartition("\n")[0]


def remove_sent(store: Store, digest: bytes) -> bool:
    """Remove a sent message and its counts, inside a transaction; return False if it was not recorded."""
    connection = store.connection
    row = connection.execute(
        "SELECT senders, recipients FROM sent WHERE digest = ?", (digest.hex(),)
    ).fetchone()
    if row is None:
        return False
    connection.execute("DELETE FROM sent WHERE digest = ?", (digest.hex(),))
    senders, recipients = row
    _refuse_fault(store, find_row_fault("sent", {"senders": senders, "recipients": recipients}))
    _add_counts(connection, senders, recipients, sign=-1)
    return True


def _add_counts(connection: sqlite3.Connection, senders: str, recipients: str, *, sign: int) -> None:
    """Add a sent message to the counts of its correspondents (sign 1), or subtract it (sign -1)."""
    received, wrote = set(recipients.splitlines()), set(senders.splitlines())
    for address in received | wrote:
        row = (address, sign * (address in received), sign * (address in wrote))
        connection.execute(
            "INSERT INTO correspondent VALUES (?, ?, ?) ON CONFLICT (address) "
            "DO UPDATE SET received = received + excluded.received, wrote = wrote + excluded.wrote",
            row,
        )
    if sign < 0:
        connection.executemany(
            "DELETE FROM correspondent WHERE address = ? AND received = 0 AND wrote = 0",
            [(address,) for address in received | wrote],
        )


def recount_correspondents(store: Store) -> None:
    """Count the correspondents again after rows were added; raise StoreError if a row is invalid."""
    connection = store.connection
    for row in connection.execute("SELECT * FROM sent"):
        _refuse_fault(store, find_row_fault("sent", dict(zip(TABLES["sent"], row, strict=True))))
    received, wrote = _count_sent(connection)
    connection.execute("DELETE FROM correspondent")
    connection.executemany(
        "INSERT INTO correspondent VALUES (?, ?, ?)",
        [(address, received[address], wrote[address]) for address in sorted(received.keys() | wrote.keys())],
    )
    for fault in _find_bad_names(connection):
        raise StoreError(f"{fault}; nothing was added to the store {store.name}")


def _count_sent(connection: sqlite3.Connection) -> tuple[Counter[str], Counter[str]]:
    """Return, by address, the number of sent messages to it, and of those from it."""
    received: Counter[str] = Counter()
    wrote: Counter[str] = Counter()
    for senders, recipients in connection.execute("SELECT senders, recipients FROM sent"):
        received.update(set(recipients.splitlines()))
        wrote.update(set(senders.splitlines()))
    return received, wrote


def count_people(store: Store) -> PeopleCounts:
    """Count entries, sent messages and correspondents."""
    queries = (
        "SELECT count(*) FROM listed WHERE is_allowed = 1",
        "SELECT count(*) FROM listed WHERE is_allowed = 0",
        "SELECT count(*) FROM sent",
        "SELECT count(*) FROM correspondent WHERE received > 0 AND wrote = 0",
    )
    with store.snapshot():
        return PeopleCounts(*(store.connection.execute(query).fetchone()[0] for query in queries))


def find_faults(connection: sqlite3.Connection) -> list[str]:
    """List entries and addresses that are not in normal form or, if there are none, wrong counts."""
    faults = list(_find_bad_names(connection))[:_MAX_FAULTS]
    if faults:
        return faults
    received, wrote = _count_sent(connection)
    counts = {name: (received[name], wrote[name]) for name in received.keys() | wrote.keys()}
    rows = connection.execute("SELECT address, received, wrote FROM correspondent")
    stored = {address: (received_count, wrote_count) for address, received_count, wrote_count in rows}
    return [
        f"correspondent {ascii(name)[:60]} has the numbers {stored.get(name, (0, 0))} of sent messages to it "
        f"and from it, expected {counts.get(name, (0, 0))}"
        for name in sorted(counts.keys() | stored.keys())
        if counts.get(name) != stored.get(name)
    ][:_MAX_FAULTS]


def _find_bad_names(connection: sqlite3.Connection) -> Iterator[str]:
    for (entry,) in connection.execute("SELECT entry FROM listed"):
        if not _is_normal(entry):
            yield f"the listed entry {ascii(entry)[:60]} is no address and no domain"
    for digest, senders, recipients in connection.execute("SELECT * FROM sent"):
        if not _is_digest(digest):
            yield f"the digest of a sent message is {ascii(digest)[:60]}, expected hexadecimal digits"
        for address in (*senders.splitlines(), *recipients.splitlines()):
            if address.startswith("@") or not _is_normal(address):
                yield f"the sent message {ascii(digest)[:60]} has the address {ascii(address)[:60]}"


def _is_normal(entry: str) -> bool:
    """Whether an address, or @ and a domain, is in its normal form."""
    local, _, domain = entry.rpartition("@")
    if len(entry) > MAX_ENTRY_LENGTH or not domain:
        return False
    return (f"@{normalise_domain(domain)}" if not local else normalise_address(local, domain)) == entry


def _is_digest(digest: str) -> bool:
    # `message.digest` gives 32 digits; the schema allows 64.
    return len(digest) % 2 == 0 and 0 < len(digest) <= 64 and not digest.strip("0123456789abcdef")
