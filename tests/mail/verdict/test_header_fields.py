"""A message that passes through is the same message: our fields are added, and can be taken off again."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis_mail.message import canonical
from tamis_mail.verdict import Evidence, Judgement, Verdict
from tamis_mail.verdict.header_fields import DIALECTS, add_verdict, fields, remove_verdict, score_of


def verdict(label: str = "spam", log_odds: float = 7.3, evidence: tuple[Evidence, ...] = ()) -> Verdict:
    return Verdict(Judgement(label, 0.9993, log_odds, {"spam": 0.9993, "ham": 0.0007}), lambda: evidence)


WORDS = (
    Evidence("subject:offer", "headers", 2.1, 10, 0),
    Evidence("Cial", "grams", 1.9, 10, 0),
    Evidence("lunch", "words", -0.4, 0, 10),
)
HOSTILE = tuple(
    Evidence(token, "words", 1.0, 1, 0)
    for token in (
        "a\r\nX-Spam-Flag: NO",
        "\x00\x1b[31m",
        "=?utf-8?q?x?=",
        "ü" * 400,
        "\u202e",
        "a'b;c",
        "\ud800",
        "(",
    )
)
VERDICTS = [
    verdict(evidence=WORDS),
    verdict("ham", -300.0, HOSTILE),
    verdict("unsure", 0.1),
    verdict("arbeit & büro", -3.0),
]
ODD = [
    b"",
    b"\n",
    b"\r\n",
    b"Subject: no newline at the end",
    b"Subject: x\n\nbody\n",
    b"Subject: x\r\n\r\nbody\r\n",
    b"Subject: x\rFrom: y\r\rbody\r",
    b"Subject: x\r\r\nFrom: y\r\r\n\r\r\nbody",
    b"Subject: a\0b\n\n\0\0",
    b"just a body, without a header\nand more of it\n",
    b"Subject: only\nTo: headers\n",
    b"Subject: \xe4\xf6\xfc\nTo: \xff\n\n\xfe\n",
    b"From me Mon Jan  5 10:00:00 2026\nSubject: x\n\nFrom here on\n",
    b"From me Mon Jan  5 10:00:00 2026\nSubject: x\r\n\r\nbody",
    b"From me, without an end",
    b"From me\r",
    b"From me\r\rSubject: x",
    b" begins with a space\nSubject: x\n\nbody",
    b" begins with a space\r\r\r\n and was converted three times\r\r\r\n\r\r\r\nbody",
    b" four returns\r\r\r\r\n ",
    b"\tbegins with a tab\n",
    b"\n\nX-Spam-Flag: YES in the body\n",
    b"X-Spam-Flag: YES\nX-Spam-Status: No, forged\n\tfolded\nx-bogosity : Ham\nTo: x\n\nX-Spam-Flag: body\n",
    b"X-Old-X-Spam-Flag: YES\nx-old-x-spam-flag: no\nX-Old-X-Old-X-Bogosity: twice\nX-Old-Spam: other\n\n",
    b"X-Spam-Level: **\nX-Spam-Status: Yes, a message that passed through twice\nSubject: x\n\n",
    b"X-Bogosity: Spam\n",
    b"X-Spam-Status: Yes",
]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("judged", VERDICTS, ids=lambda v: v.label)
@pytest.mark.parametrize("raw", ODD)
def test_what_was_added_can_be_removed(raw: bytes, judged: Verdict, dialect: str) -> None:
    passed = add_verdict(raw, judged, dialect=dialect, required=0.9, version="1.2")
    assert passed != raw
    assert remove_verdict(passed) == raw
    again = add_verdict(passed, judged, dialect=dialect, required=0.9, version="1.2")
    assert remove_verdict(again) == passed


LINE_ENDS = [b"\r", b"\n", b"\r\n", b"\r\r\n", b"\r\r\r\n"]
NAMES = [
    b"X-Spam-Flag",
    b"X-Spam-Level",
    b"X-Spam-Evidence",
    b"X-Spam-Status",
    b"x-bogosity",
    b"X-Old-",
    b"x-old-",
]
OTHERS = [b"From ", b": ", b":", b" ", b"\t", b" *", b"Subject: x", b"body", b"\0", b"\xff", b" Yes"]
PIECES = st.sampled_from([*LINE_ENDS, *NAMES, *OTHERS])


@given(
    st.lists(PIECES, max_size=14).map(b"".join) | st.binary(max_size=60),
    st.sampled_from(VERDICTS),
    st.sampled_from(DIALECTS),
)
def test_any_bytes_come_back(raw: bytes, judged: Verdict, dialect: str) -> None:
    assert remove_verdict(add_verdict(raw, judged, dialect=dialect, required=0.9, version="1.2")) == raw


@given(st.lists(PIECES, max_size=14).map(b"".join))
def test_nothing_but_fields_and_x_old_is_added(raw: bytes) -> None:
    passed = add_verdict(raw, VERDICTS[0], dialect="bogofilter", required=0.9, version="1.2")
    block = b"X-Bogosity: Spam, tests=bogofilter, spamicity=0.999300, version=1.2"
    assert passed.count(block) == 1
    rest = re.sub(re.escape(block) + rb"\r?\n|\r?\n" + re.escape(block) + rb"\Z", b"", passed, count=1)
    assert rest.replace(b"X-Old-", b"") == raw.replace(b"X-Old-", b"")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("raw", ODD)
def test_a_message_that_passed_through_is_still_the_message_that_is_learned(raw: bytes, dialect: str) -> None:
    passed = add_verdict(raw, VERDICTS[0], dialect=dialect, required=0.9, version="1.2")
    assert canonical(passed) == canonical(raw)


@given(
    st.lists(PIECES, max_size=14).map(b"".join) | st.binary(max_size=60),
    st.sampled_from(VERDICTS),
    st.sampled_from(DIALECTS),
)
def test_passing_through_changes_the_identity_of_no_bytes(raw: bytes, judged: Verdict, dialect: str) -> None:
    assert canonical(add_verdict(raw, judged, dialect=dialect, required=0.9, version="1.2")) == canonical(raw)


@pytest.mark.parametrize("raw", [b" begins with a space\nSubject: x\n\nbody", b"\ttab", b" a\r\n b"])
def test_a_line_that_begins_with_a_blank_does_not_continue_our_fields(raw: bytes) -> None:
    passed = add_verdict(raw, VERDICTS[0], dialect="bogofilter", required=0.9, version="1.2")
    assert re.search(rb"^X-Bogosity: [^\r\n]*(?:\r?\n(?![ \t])|\Z)", passed, re.MULTILINE)


def test_the_fields_are_those_that_filters_write() -> None:
    raw = b"From me Mon\r\nX-Spam-Flag: NO\r\nSubject: x\r\n\r\nX-Spam-Flag: in the body\r\n"
    assert add_verdict(raw, VERDICTS[0], dialect="spamassassin", required=0.9, version="1.2") == (
        b"From me Mon\r\n"
        b"X-Spam-Flag: YES\r\n"
        b"X-Spam-Level: *******\r\n"
        b"X-Spam-Evidence: 'subject:offer' +2.10; 'lunch' -0.40\r\n"
        b"X-Spam-Status: Yes, score=7.30 required=2.20 tests=tamis version=1.2\r\n"
        b"X-Old-X-Spam-Flag: NO\r\nSubject: x\r\n\r\nX-Spam-Flag: in the body\r\n"
    )
    for label, said in (("ham", "No"), ("unsure", "Unsure")):
        written = fields(verdict(label, -1.0), dialect="spamassassin", required=0.9, version="1.2")
        assert written == [
            b"X-Spam-Level:",
            f"X-Spam-Status: {said}, score=-1.00 required=2.20 tests=tamis version=1.2".encode(),
        ]
    (line,) = fields(verdict("work", -3.0), dialect="bogofilter", required=0.9, version="1.2")
    assert line == b"X-Bogosity: Ham, tests=bogofilter, spamicity=0.999300, version=1.2"


def test_what_is_no_spam_stays_below_what_is_required() -> None:
    *_, status = fields(verdict("unsure", 2.19722), dialect="spamassassin", required=0.9, version="1")
    assert b"score=2.19 required=2.20" in status


@pytest.mark.parametrize(("label", "required"), [("spam", 0.0), ("unsure", 1.0)])
def test_the_required_probability_may_be_zero_or_one(label: str, required: float) -> None:
    score, threshold = score_of(verdict(label, -4.0), required)
    assert score == -4.0
    assert (score >= threshold) == (label == "spam")


def test_evidence_cannot_forge_or_break_a_field() -> None:
    judged = verdict(evidence=HOSTILE * 100)
    lines = fields(judged, dialect="spamassassin", required=0.9, version="1.2")
    text = b"\n".join(lines)
    assert all(re.fullmatch(rb"\t?[ -~]*", line) and len(line) <= 78 for line in lines)
    assert b"=?" not in text
    assert sum(line.startswith(b"X-Spam-Flag") for line in lines) == 1
    assert len(text) < 1000


def test_a_label_of_ones_own_is_told_in_ascii() -> None:
    *_, status = fields(verdict("büro\n", -3.0), dialect="spamassassin", required=0.9, version="1")
    assert b" label=b\\xfcro." in status
