"""What well-formed mail says is read as it was written; `email` is the oracle."""

import email
import email.policy
from email.header import decode_header, make_header
from email.message import EmailMessage

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis_mail.message import Message, canonical, parse

JAPANESE = "会議のお知らせ"


def built(text: str = "Grüße, 東京!\n", html: str = "<p>Grüße</p>\n") -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = f"Einladung: {JAPANESE} – ja?"
    message["From"] = "Ann Émile <ann@a.example>"
    message.set_content(text, cte="quoted-printable")
    message.add_alternative(html, subtype="html", cte="base64")
    message.add_attachment(b"\x89PNG\r\n\x1a\n" + bytes(3000), "image", "png", filename="Übersicht 東京.png")
    return message


def read(message: EmailMessage) -> Message:
    return parse(canonical(message.as_bytes()))


def test_alternatives_in_two_encodings_and_a_picture() -> None:
    message = read(built())
    assert message.shape == "multipart/mixed(multipart/alternative(text/plain,text/html),image/png)"
    plain, html, picture = message.parts
    assert (plain.kind, plain.charset, plain.encoding) == ("text/plain", "utf-8", "quoted-printable")
    assert plain.text == "Grüße, 東京!\n"
    assert (html.kind, html.encoding, html.text) == ("text/html", "base64", "<p>Grüße</p>\n")
    assert (picture.kind, picture.disposition, picture.name, picture.text) == (
        "image/png",
        "attachment",
        "Übersicht 東京.png",
        "",
    )
    assert abs(picture.size - 3008) <= 3
    assert message.faults == ()


def test_fields_are_in_order_unfolded_and_decoded() -> None:
    headers = dict(read(built()).headers)
    assert headers["subject"] == f"Einladung: {JAPANESE} – ja?"
    assert headers["from"] == "Ann Émile <ann@a.example>"
    message = parse(b"A: one\n\ttwo\n  three\nb :  x \nA: again\n\n")
    assert message.headers == (("a", "one two  three"), ("b", "x"), ("a", "again"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("=?ISO-2022-JP?B?GyRCMnE1RCROJCpDTiRpJDsbKEI=?=", JAPANESE),
        ("=?utf-8?q?caf=C3=A9_au_lait?=", "café au lait"),
        ("=?iso-8859-1?Q?a?= =?iso-8859-1?Q?b?=", "ab"),
        ("=?iso-8859-1?Q?a?=  c =?iso-8859-2?Q?=B1?=", "a  c ą"),
        ("=?utf-8?b?5p2x?=\n =?utf-8?b?5Lqs?=", "東京"),
        ("=?utf-8?b?5p0=?= =?utf-8?b?seS6rA==?=", "東京"),  # a character in two words
        ("=?utf-8*en?q?hi?=", "hi"),
        ("=?windows-1251?B?z/Do4uXy?=", "Привет"),
        ("(=?utf-8?q?a?=)", "(a)"),
        ("plain =? text ?=", "plain =? text ?="),
    ],
)
def test_encoded_words(value: str, text: str) -> None:
    assert parse(f"Subject: {value}\n\n".encode()).headers == (("subject", text),)


@pytest.mark.parametrize(
    "field",
    [
        "attachment; filename*=utf-8''%e2%82%ac%20rates.txt",
        "attachment; filename*0*=utf-8''%e2%82; filename*1*=%ac%20ra; filename*2=tes.txt",
        "attachment;\n filename*2=tes.txt;\n filename*0*=utf-8''%e2%82;\n filename*1*=%ac%20ra",
        'attachment; filename="=?utf-8?q?=E2=82=AC_rates.txt?="',
        'attachment; filename="€ rates.txt"',
        "attachment; filename=x; filename*=iso-8859-15'en'%A4%20rates.txt",
    ],
)
def test_names_of_files(field: str) -> None:
    (part,) = parse(f"Content-Type: text/plain\nContent-Disposition: {field}\n\nx".encode()).parts
    assert (part.name, part.disposition) == ("€ rates.txt", "attachment")


def test_a_name_may_stand_in_the_type_and_have_quotes() -> None:
    (part,) = parse(b'Content-Type: application/pdf;\n\tname="a \\"b\\"; c.pdf"\n\nx').parts
    assert (part.kind, part.name, part.disposition, part.text) == ("application/pdf", 'a "b"; c.pdf', "", "")


def test_a_message_in_a_message_is_read() -> None:
    outer = EmailMessage()
    outer["Subject"] = "Fwd"
    outer.set_content("see below\n")
    outer.add_attachment(built())
    message = read(outer)
    assert message.shape == (
        "multipart/mixed(text/plain,message/rfc822("
        "multipart/mixed(multipart/alternative(text/plain,text/html),image/png)))"
    )
    assert [part.text for part in message.parts[:3]] == ["see below\n", "Grüße, 東京!\n", "<p>Grüße</p>\n"]
    assert message.headers[0] == ("subject", "Fwd")


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        ("utf-8", "żółw 東京"),
        ("iso-8859-1", "café"),
        ("windows-1252", "“café” – 5 €"),
        ("iso-8859-2", "żółw"),
        ("koi8-r", "Привет"),
        ("windows-1251", "Привет"),
        ("iso-2022-jp", JAPANESE),
        ("shift_jis", JAPANESE),
        ("euc-jp", JAPANESE),
        ("gb2312", "限时优惠"),
        ("big5", "東京"),
        ("euc-kr", "안녕하세요"),
        ("utf-7", "Grüße, 東京"),
        ("utf-16", "Grüße, 東京"),
        ("utf-16le", "Grüße, 東京"),
        ("utf-32", "Grüße"),
    ],
)
def test_charsets(charset: str, text: str) -> None:
    head = f"Content-Type: text/plain; charset={charset}\n\n".encode()
    (part,) = parse(head + text.encode(charset)).parts
    assert (part.text, part.charset) == (text, charset)


@pytest.mark.parametrize("text", ["żółw", "plain", JAPANESE])
def test_what_declares_no_charset_is_utf_8_if_it_can_be(text: str) -> None:
    assert parse(b"Subject: a\n\n" + text.encode()).parts[0].text == text


@pytest.mark.parametrize("codec", ["iso2022_jp", "utf-16", "utf-32", "utf-8-sig", "utf-16-le", "utf-16-be"])
def test_what_declares_no_charset_is_known_by_its_marks(codec: str) -> None:
    text = JAPANESE if codec == "iso2022_jp" else "Plain words, and some more of them"
    assert parse(b"Subject: a\n\n" + text.encode(codec)).parts[0].text == text


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=60)


@settings(max_examples=150, deadline=None)
@given(TEXTS, TEXTS, st.sampled_from(["quoted-printable", "base64", "8bit"]), st.booleans())
def test_it_reads_as_email_does(subject: str, text: str, encoding: str, alternative: bool) -> None:
    message = EmailMessage(policy=email.policy.SMTP)
    message["Subject"] = subject.strip() or "x"
    message.set_content(text, cte=encoding)
    if alternative:
        message.add_alternative(f"<p>{text}</p>", subtype="html", cte="base64")
    raw = canonical(message.as_bytes())
    ours, oracle = parse(raw), email.message_from_bytes(raw)
    leaves = [part for part in oracle.walk() if not part.is_multipart()]
    assert [part.kind for part in ours.parts] == [part.get_content_type() for part in leaves]
    for part, leaf in zip(ours.parts, leaves, strict=True):
        payload = leaf.get_payload(decode=True)
        assert isinstance(payload, bytes)
        assert part.text == payload.decode().replace("\r\n", "\n").removeprefix("\ufeff")
    expected = " ".join(str(make_header(decode_header(oracle["subject"].replace("\n", "")))).split())
    assert " ".join(dict(ours.headers)["subject"].split()) == expected
