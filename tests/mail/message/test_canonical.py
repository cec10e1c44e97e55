"""The bytes that are learned are the same each time a message is met."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis_mail.message import canonical, canonical_reference, digest, is_verdict_header, parse

MESSAGE = (
    b"Received: from a.example\n\tby b.example; Mon, 1 Jan 2024 00:00:00 +0000\n"
    b"From: Ann <ann@a.example>\nSubject: lunch\nX-Mailer: Mutt\n\nStatus: fine\nFrom here on, X-Spam: no."
)
VERDICTS = [
    b"X-Spam-Flag: YES",
    b"X-Spam-Status: Yes, score=7.3 required=5.0\n\ttests=BAYES_99,\n\tHTML_MESSAGE autolearn=no",
    b"X-Spam: Yes",
    b"X-Spamd-Result: default: False [1.00 / 15.00]",
    b"X-Rspamd-Server: mx",
    b"X-Bogosity: Spam, tests=bogofilter, spamicity=0.999964, version=1.2.5",
    b"X-Spambayes-Classification: spam; 1.00",
    b"X-DSPAM-Result: Innocent",
    b"X-CRM114-Status: SPAM",
    b"X-SpamProbe: GOOD 0.0000030",
    b"X-Text-Classification: spam",
    b"X-POPFile-Link: http://127.0.0.1:8080/",
    b"X-Mox-Reason: junk",
    b"X-MS-Exchange-Organization-SCL: 5",
    b"X-Microsoft-Antispam-Mailbox-Delivery: ucf:0",
    b"X-Forefront-Antispam-Report: CIP:1.2.3.4",
    b"X-Barracuda-Spam-Score: 0.00",
    b"X-Ham-Report: none",
    b"X-Virus-Scanned: clamav",
    b"X-Old-Spam-Flag: NO",
    b"X-Old-X-Spam-Flag: NO",
    b"x-old-x-bogosity: Ham",
]
STORAGE_FIELDS = [
    b"Status: RO",
    b"X-Status: A",
    b"X-UID: 12",
    b"X-UIDL: abc",
    b"X-Keywords: $Forwarded",
    b"X-Mozilla-Status: 0001",
    b"X-Evolution-Source: 1",
    b"X-Gnus-Mail-Source: file",
    b"X-VM-v5-Data: ([nil])",
    b"X-IMAPbase: 1 2",
    b"Content-Length: 120",
    b"Lines: 4",
    b"X-Folder: inbox",
]


@pytest.mark.parametrize("field", VERDICTS + STORAGE_FIELDS)
def test_a_field_that_was_written_over_it_is_left_out_with_its_folds(field: bytes) -> None:
    first, _, rest = MESSAGE.partition(b"From: ")
    assert canonical(field + b"\n" + MESSAGE) == MESSAGE
    assert canonical(first + field + b"\nFrom: " + rest) == MESSAGE
    assert canonical(MESSAGE.replace(b"\n\n", b"\n" + field + b"\n\n", 1)) == MESSAGE


@pytest.mark.parametrize("field", VERDICTS)
def test_a_verdict_is_known_by_its_name(field: bytes) -> None:
    name = field.partition(b":")[0]
    assert is_verdict_header(name)
    assert is_verdict_header(name.decode().upper())


@pytest.mark.parametrize("name", ["Subject", "Status", "X-Mailer", "X-Sp", "", "X-Old-Subject", "Spam"])
def test_other_fields_are_no_verdicts(name: str) -> None:
    assert not is_verdict_header(name)
    assert not is_verdict_header(name.encode())


def test_a_forged_verdict_that_a_filter_renames_changes_nothing() -> None:
    forged = b"X-Spam-Flag: NO\nX-Bogosity: Ham\n" + MESSAGE
    passed = b"X-Bogosity: Spam\n" + forged.replace(b"X-", b"X-Old-X-", 2)
    assert canonical(passed) == canonical(forged) == MESSAGE


def test_the_body_is_not_touched() -> None:
    assert canonical(MESSAGE) == MESSAGE
    assert canonical(b"Subject: a\n\n" + MESSAGE) == b"Subject: a\n\n" + MESSAGE


@pytest.mark.parametrize(
    "lead", [b"\n", b"\r\n\n", b"\xef\xbb\xbf", b"\n\nFrom a Mon Jan  5 10:00:00 2026\n"]
)
def test_blank_lines_and_marks_before_the_first_field_are_no_part_of_it(lead: bytes) -> None:
    assert canonical(lead + MESSAGE) == MESSAGE


def test_a_line_that_only_begins_like_a_field_stays() -> None:
    raw = b"Subject: a\nX-Spam is great\nStatus quo\n\nbody"
    assert canonical(raw) == raw


@pytest.mark.parametrize("line", [b"From ann Mon Jan  1 00:00:00 2024", b">From ann Mon", b"From a\nFrom b"])
def test_the_line_of_an_mbox_is_no_part_of_it(line: bytes) -> None:
    assert canonical(line + b"\n" + MESSAGE) == MESSAGE
    assert canonical(b"Status: RO\n" + line + b"\n" + MESSAGE) == MESSAGE


@pytest.mark.parametrize("end", [b"\r\n", b"\r", b"\r\r\n"])
def test_however_lines_end_it_is_the_same_message(end: bytes) -> None:
    assert canonical(MESSAGE.replace(b"\n", end)) == MESSAGE
    assert digest(canonical(MESSAGE.replace(b"\n", end))) == digest(MESSAGE)


def test_a_digest_tells_messages_apart() -> None:
    assert len(digest(b"")) == 16
    assert len({digest(MESSAGE[:length]) for length in range(len(MESSAGE))}) == len(MESSAGE)


PIECES = st.sampled_from(
    [
        *(field + b"\n" for field in VERDICTS + STORAGE_FIELDS),
        *[
            b"Subject: a\n",
            b" folded\n",
            b"\t\n",
            b"\n",
            b"From x\n",
            b">From y\n",
            b"no field\n",
            b"X-Spam\n",
            b":\n",
        ],
        *[
            b"x-old-",
            b"X-Spam-",
            b"x" * 70,
            b": ",
            b"status :x\n",
            b" status: x\n",
            b"\r",
            b"\0",
            b"\xff",
            b"Status: x",
        ],
    ]
)
ANY = st.one_of(st.binary(max_size=80), st.lists(PIECES, max_size=12).map(b"".join))


@settings(max_examples=400, deadline=None)
@given(ANY)
def test_what_is_canonical_stays_as_it_is(raw: bytes) -> None:
    once = canonical(raw)
    assert canonical(once) == once
    assert b"\r" not in once


@settings(max_examples=200, deadline=None)
@given(ANY)
def test_many_fields_are_left_out_as_few_are(raw: bytes) -> None:
    block = canonical(raw).replace(b"\n\n", b"\n") + raw.replace(b"\r", b"").replace(b"\n\n", b"\n").replace(
        b"\n\n", b"\n"
    )
    few = b"Subject: x\n" + block
    many = b"A: bcdefgh\n" * 6000 + few
    assert canonical(many).replace(b"A: bcdefgh\n", b"") == canonical(few)


@settings(max_examples=100, deadline=None)
@given(ANY, st.sampled_from(VERDICTS))
def test_a_digest_knows_no_verdicts(body: bytes, field: bytes) -> None:
    raw = b"Subject: a\nTo: b\n\n" + body
    assert digest(canonical(b"Subject: a\n" + field + b"\nTo: b\n\n" + body)) == digest(canonical(raw))
    assert parse(canonical(raw)).headers == (("subject", "a"), ("to", "b"))


MARK = b"\xef\xbb\xbf"
PIECES_OF_A_BEGINNING = [
    *(
        b"\r",
        b"\n",
        b"\r\n",
        b" ",
        b"\t",
        b"a: b",
        b"From x",
        b">",
        b"X-Spam-Flag: y",
        b"Status: RO",
        b"x",
        MARK,
    ),
]


@pytest.mark.parametrize(
    "raw",
    [
        b"\n" + MARK + b"X-Spam-Flag: YES\nSubject: x\n\nbody",
        MARK + MARK + b"Subject: x\n\nbody",
        b"From me\n" + MARK + b"Subject: x\n\nbody",
        b"Status: RO\n" + MARK + b"X-Spam-Flag: YES\n" + MARK + b"Subject: x\n\nbody",
    ],
)
def test_byte_order_marks_before_a_message_are_no_part_of_it(raw: bytes) -> None:
    assert canonical(raw) == b"Subject: x\n\nbody"


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PIECES_OF_A_BEGINNING), max_size=12).map(b"".join))
def test_canonical_bytes_stay_the_same_however_a_message_begins(raw: bytes) -> None:
    assert canonical(canonical(raw)) == canonical(raw)


def test_a_message_of_volatile_headers_alone_is_empty_and_little_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[int] = []
    search = canonical_reference._remove_volatile_fields

    def note_and_search(header: bytes) -> bytes:
        searched.append(len(header))
        result: bytes = search(header)
        return result

    monkeypatch.setattr(canonical_reference, "_remove_volatile_fields", note_and_search)
    for make in (canonical, canonical_reference.canonical):
        assert make(b"X-Spam: y\n\n" * 999 + b"Subject: a") == b"Subject: a"
        searched.clear()
        assert make(b"X-Spam: y\n\n" * 100_000 + b"Subject: a") == b""
    assert len(searched) == 1000
