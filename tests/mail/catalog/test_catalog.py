"""The catalog lists each message once, in the order that was asked for, and finds its text again."""

import gzip
import mailbox
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tamis_mail.catalog import (
    Catalog,
    CatalogError,
    Cursor,
    Query,
    Row,
    read_message,
    remove_missing,
    scan_path,
)
from tamis_mail.catalog.catalog import NewMessage
from tamis_mail.message import canonical, digest
from tamis_mail.sieve import Sieve
from tamis_mail.store.log import EventLog

WORDS = ("offer", "Lunch", "Größe", "invoice", "ÉTÉ", "a%b_c", 'say "hi"')


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = Catalog(tmp_path / "mail.tamis.catalog")
    yield opened
    opened.close()


def fill(catalog: Catalog, n_messages: int) -> list[Row]:
    """Add messages with many equal dates and probabilities; return all rows."""
    dice = random.Random(3)
    source = catalog.add_source("/mail")
    file = catalog.note_file(source, "/mail/inbox", 1, 1)
    entries = [
        NewMessage(
            number.to_bytes(16, "big"),
            f"{dice.choice(WORDS)} <{number % 7}@host.example>",
            " ".join(dice.choices(WORDS, k=3)),
            1_700_000_000 + dice.randrange(20),
            100,
            file if number % 3 else None,
        )
        for number in range(n_messages)
    ]
    catalog.add_messages(entries)
    judged = [one.digest for one in entries if dice.random() < 0.9]
    catalog.note_verdicts(
        (name, label, {"spam": 0.99, "ham": 0.02, "unsure": dice.choice((0.4, 0.5))}[label])
        for name in judged
        for label in [dice.choice(("spam", "ham", "unsure"))]
    )
    catalog.note_labels((name, "spam") for name in judged[::5])
    return catalog.list_page(Query(order="newest"), limit=500).rows


def read_all(catalog: Catalog, query: Query, limit: int) -> list[Row]:
    """Read a list page by page, forwards."""
    rows: list[Row] = []
    listing = catalog.list_page(query, limit=limit)
    while True:
        rows += listing.rows
        if not listing.has_next:
            return rows
        listing = catalog.list_page(query, after=Cursor.of(rows[-1]), limit=limit)


@pytest.mark.parametrize("order", ["doubt", "newest"])
@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"verdict": "unsure"},
        {"verdict": "none"},
        {"label": "spam"},
        {"label": "none", "verdict": "ham"},
        {"source": 1},
        {"text": "größe"},
        {"text": "été OFFER"},
        {"text": "a%b_c"},
        {"text": '"hi"'},
        {"text": "hi"},
        {"text": "host.example", "verdict": "spam"},
        {"text": "nothing"},
    ],
    ids=str,
)
def test_pages_have_each_matching_message_once_and_in_order(
    catalog: Catalog, order: str, filters: dict[str, str]
) -> None:
    rows = fill(catalog, 400)
    query = Query(order=order, **filters)  # type: ignore[arg-type]

    def is_wanted(row: Row) -> bool:
        heading = f"{row.sender}\n{row.subject}".casefold()
        return (
            all(word in heading for word in query.text.casefold().split())
            and query.verdict in ("", row.verdict or "none")
            and query.label in ("", row.label or "none")
            and (not query.source or row.has_file)
        )

    expected = sorted(
        filter(is_wanted, rows), key=lambda row: (row.doubt * (order == "doubt"), -row.date, row.number)
    )
    assert read_all(catalog, query, 37) == expected
    if len(expected) > 100:
        back = catalog.list_page(query, before=Cursor.of(expected[80]), limit=30)
        assert back.rows == expected[50:80]
        assert back.has_previous


def test_a_rare_word_is_found_without_reading_all_rows(catalog: Catalog) -> None:
    fill(catalog, 400)
    catalog.add_messages([NewMessage(b"x" * 16, "Xanthippe <x@y.example>", "Zythum", 1_600_000_000)])
    assert [row.sender for row in catalog.list_page(Query(text="ZYTH")).rows] == ["Xanthippe <x@y.example>"]
    catalog.remove_source(1)
    assert catalog.list_page(Query(text="xanthippe")).rows
    assert not catalog.list_page(Query(source=1)).rows


MESSAGES = [
    f"Subject: Number {number}\nFrom: a@b.example\nDate: Mon, 1 Jan 2024 0{number}:00:00 +0000\n\n"
    f"Text {number}\nFrom here on\n>From quoted\n".encode()
    for number in range(5)
]


def write_mailbox(kind: str, folder: Path) -> Path:
    path = folder / kind
    if kind == "mbox":
        path.write_bytes(b"".join(b"From a Mon Jan  1 00:00:00 2024\n" + raw + b"\n" for raw in MESSAGES))
    elif kind == "packed":
        path.write_bytes(gzip.compress(write_mailbox("mbox", folder).read_bytes()))
    elif kind == "maildir":
        box = mailbox.Maildir(path)
        for raw in MESSAGES:
            box.add(raw)
    elif kind == "mh":
        mh = mailbox.MH(path)
        for raw in MESSAGES:
            mh.add(raw)
    else:
        path.write_bytes(MESSAGES[0])
    return path


@pytest.mark.parametrize("kind", ["mbox", "packed", "maildir", "mh", "message"])
def test_messages_of_every_kind_of_mailbox_are_read_again(
    catalog: Catalog, tmp_path: Path, kind: str
) -> None:
    path = write_mailbox(kind, tmp_path)
    source = catalog.add_source(str(path))
    found = [*scan_path(catalog, source, str(path))]
    catalog.add_messages(one.entry for one in found)
    assert len(found) == (1 if kind == "message" else 5)
    for one in found:
        assert read_message(catalog, digest(canonical(one.raw))) == one.raw
    assert not [*scan_path(catalog, source, str(path))]  # nothing has changed
    assert {row.subject for row in catalog.list_page(Query(text="number")).rows} == {
        f"Number {number}" for number in range(len(found))
    }


def test_a_message_of_a_maildir_is_found_after_its_flags_changed(catalog: Catalog, tmp_path: Path) -> None:
    path = write_mailbox("maildir", tmp_path)
    found = [*scan_path(catalog, catalog.add_source(str(path)), str(path))]
    catalog.add_messages(one.entry for one in found)
    for file in [*(path / "new").iterdir()]:
        file.rename(path / "cur" / f"{file.name}:2,S")
    assert {read_message(catalog, one.entry.digest) for one in found} == {one.raw for one in found}


def test_deleted_mail_leaves_the_list_unless_it_was_learned(catalog: Catalog, tmp_path: Path) -> None:
    path = write_mailbox("maildir", tmp_path)
    source = catalog.add_source(str(path))
    found = [*scan_path(catalog, source, str(path))]
    catalog.add_messages(one.entry for one in found)
    catalog.note_labels([(found[0].entry.digest, "spam")])
    for file in [*(path / "new").iterdir()]:
        raw = file.read_bytes()
        if b"Number 0" in raw or raw == found[0].raw:
            file.unlink()
        else:
            file.rename(path / "cur" / f"{file.name}:2,S")
    catalog.add_messages([one.entry for one in scan_path(catalog, source, str(path))])
    remove_missing(catalog, source)
    kept = {row.digest: row.has_file for row in catalog.list_page(Query()).rows}
    gone = {digest(canonical(raw)) for raw in (MESSAGES[0], found[0].raw)}
    assert kept.pop(found[0].entry.digest) is False
    assert kept.keys() == {one.entry.digest for one in found} - gone
    assert all(kept.values())
    assert not catalog.list_page(Query(text="Number 0", label="none")).rows


def test_a_message_that_has_changed_is_not_shown_as_the_old_one(catalog: Catalog, tmp_path: Path) -> None:
    path = write_mailbox("message", tmp_path)
    (found,) = scan_path(catalog, catalog.add_source(str(path)), str(path))
    catalog.add_messages([found.entry])
    path.write_bytes(MESSAGES[1])
    with pytest.raises(CatalogError, match="cannot be read from"):
        read_message(catalog, found.entry.digest)


def test_the_catalog_follows_verdicts_and_learning_of_the_log(tmp_path: Path) -> None:
    store = tmp_path / "mail.tamis"
    log = EventLog.of(store)
    with Sieve.open(store) as sieve:
        catalog = Catalog.of(store)
        catalog.follow(log)  # there is none yet
        sieve.log_verdict(MESSAGES[0], sieve.sort(MESSAGES[0]))
        sieve.flush_log()
        catalog.follow(log)
        (row,) = catalog.list_page(Query()).rows
        assert (row.verdict, row.label, row.has_file) == ("unsure", "", False)
        sieve.learn(MESSAGES[0], "spam")
        catalog.follow(log)
        assert [row.label for row in catalog.list_page(Query()).rows] == ["spam"]
        sieve.forget(MESSAGES[0])
        catalog.follow(log)
        assert not catalog.list_page(Query()).rows  # it was known from the log only
        catalog.close()


def test_a_verdict_is_stale_when_a_log_that_began_again_has_learned(tmp_path: Path) -> None:
    store, path = tmp_path / "mail.tamis", write_mailbox("message", tmp_path)
    with Sieve.open(store) as sieve:
        catalog = Catalog.of(store)
        (found,) = scan_path(catalog, catalog.add_source(str(path)), str(path))
        catalog.add_messages([found.entry])
        for message in MESSAGES[1:4]:
            sieve.learn(message, "ham")
        sieve.log_verdict(found.raw, sieve.sort(found.raw))
        sieve.flush_log()
        catalog.follow(EventLog.of(store))

        def is_stale() -> bool:
            (row,) = catalog.list_page(Query(label="none")).rows
            return row.is_stale

        assert not is_stale()
    Path(f"{store}.log").unlink()
    with Sieve.open(store) as sieve:
        sieve.learn(MESSAGES[4], "spam")
        catalog.follow(EventLog.of(store))
    assert is_stale()
    catalog.close()


def test_a_locked_catalog_is_not_to_be_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mail.tamis.catalog"
    Catalog(path).close()
    monkeypatch.setattr("tamis_mail.catalog.catalog._BUSY_SECONDS", 0.01)
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    with pytest.raises(CatalogError, match=r"locked.*: check its disk, and try again"):
        Catalog(path)
    writer.close()


def test_a_catalog_can_be_written_again_after_the_disk_was_full(catalog: Catalog) -> None:
    message = NewMessage(b"x" * 16, "", "long " * 20_000, 1)
    with sqlite3.connect(catalog.path) as other:
        (pages,) = other.execute("PRAGMA page_count").fetchone()
    catalog._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(CatalogError, match=r"full.*: check its disk, and try again"):
        catalog.add_messages([message])
    catalog._connection.execute("PRAGMA max_page_count = 10000")
    catalog.add_messages([message])
    assert catalog.find(message.digest)


def test_a_hostile_date_does_not_stay_on_top_of_the_list(catalog: Catalog) -> None:
    catalog.add_messages([NewMessage(b"x" * 16, "", "", 1 << 60), NewMessage(b"y" * 16, "\ud800", "\0", -5)])
    rows = catalog.list_page(Query(order="newest")).rows
    assert 0 == rows[1].date < rows[0].date < 1 << 40


def test_another_file_is_not_taken_for_a_catalog(tmp_path: Path) -> None:
    path = tmp_path / "mail.tamis.catalog"
    path.write_bytes(b"no database, but a text that somebody wants to keep")
    with pytest.raises(CatalogError, match="cannot be used"):
        Catalog(path)
    assert path.read_bytes().startswith(b"no database")
