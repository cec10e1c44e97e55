"""The sample mailbox: a seed's bytes, all kinds and tongues, no real address, and what a kit gets wrong."""

import email
import email.message
import email.policy
import hashlib
import re
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from email.header import decode_header, make_header
from pathlib import Path

import pytest

from tamis_mail.sample import Sample, messages, write
from tamis_mail.sample.attachments import make_file
from tamis_mail.sample.dice import Dice
from tamis_mail.sample.recipes import recipes
from tamis_mail.sample.slots import Slots
from tamis_mail.sample.wire import encode_words, make_text_part

RESERVED_HOST = re.compile(r"(^|\.)(example(\.(com|org|net))?|test|invalid)$")
RESERVED_ADDRESS = re.compile(r"(192\.0\.2|198\.51\.100|203\.0\.113)\.\d+$")
LANGUAGES = {
    "ar",
    "cs",
    "de",
    "el",
    "en",
    "es",
    "fr",
    "he",
    "hi",
    "it",
    "ja",
    "ko",
    "pl",
    "pt",
    "ru",
    "tr",
    "zh",
}
CHARSETS = ("utf-8", "iso-8859-1", "iso-8859-2", "koi8-r", "windows-1251", "iso-2022-jp", "gb18030", "euc-kr")


@pytest.fixture(scope="module")
def mailbox() -> list[Sample]:
    return list(messages())


def texts(message: email.message.Message) -> Iterator[str]:
    """Every text of a message, decoded as far as it lets itself be decoded."""
    for part in message.walk():
        if part.get_content_maintype() == "text":
            raw = part.get_payload(decode=True)
            assert isinstance(raw, bytes)
            try:
                yield raw.decode(part.get_content_charset("utf-8"), "replace")
            except LookupError:
                yield raw.decode("utf-8", "replace")


def subject(message: email.message.Message) -> str:
    return str(make_header(decode_header(str(message["Subject"]))))


def everything(sample: Sample) -> str:
    """The headers as they are, the subject and the texts decoded; style sheets are left out."""
    message = email.message_from_bytes(sample.raw)
    head = sample.raw.replace(b"\r\n", b"\n").partition(b"\n\n")[0].decode("utf-8")
    return re.sub(r"(?s)<style>.*?</style>", "", "\n\n".join([head, subject(message), *texts(message)]))


def test_a_seed_is_a_mailbox(mailbox: list[Sample]) -> None:
    assert mailbox == list(messages())
    other = list(messages(seed=7))
    assert len(other) == len(mailbox)
    assert not {sample.raw for sample in other} & {sample.raw for sample in mailbox}


def test_its_bytes_are_those_of_every_other_machine(mailbox: list[Sample]) -> None:
    """Texts may be mended: then this changes, on purpose."""
    digest = hashlib.sha256(b"\0".join(sample.raw for sample in mailbox)).hexdigest()
    assert digest[:16] == "08cc7c9b9855b461"


def test_there_is_about_one_spam_for_two_hams(mailbox: list[Sample]) -> None:
    count = Counter(sample.label for sample in mailbox)
    assert 310 <= count["ham"] <= 350
    assert 155 <= count["spam"] <= 185


def test_every_kind_and_language_is_there_on_both_sides(mailbox: list[Sample]) -> None:
    kinds = {(sample.label, sample.kind) for sample in mailbox}
    assert kinds == {(recipe.label, recipe.kind) for recipe in recipes()}
    assert len([kind for label, kind in kinds if label == "ham"]) >= 35
    assert len([kind for label, kind in kinds if label == "spam"]) >= 18
    for label in ("ham", "spam"):
        assert {recipe.language for recipe in recipes() if recipe.label == label} == LANGUAGES


def test_charsets_and_encodings_are_many(mailbox: list[Sample]) -> None:
    for label in ("ham", "spam"):
        raw = b"\n".join(sample.raw for sample in mailbox if sample.label == label).lower()
        for charset in CHARSETS:
            assert b"charset=" + charset.encode() in raw, (label, charset)
        for encoding in (b"quoted-printable", b"base64", b"8bit", b"7bit"):
            assert b"content-transfer-encoding: " + encoding in raw
    assert any(b"charset=iso-8859-15" in sample.raw for sample in mailbox)


def test_no_two_messages_say_the_same(mailbox: list[Sample]) -> None:
    said: Counter[str] = Counter()
    for sample in mailbox:
        message = email.message_from_bytes(sample.raw)
        page = re.sub(r"<[^>]*>|https?://\S+", "", "\n".join(texts(message)))
        images = [
            str(part.get_payload()) for part in message.walk() if part.get_content_maintype() == "image"
        ]
        said["\n".join([subject(message), page, *images])] += 1
    assert [text for text, times in said.items() if times > 1] == []


def test_nothing_of_a_template_is_left(mailbox: list[Sample]) -> None:
    for sample in mailbox:
        text = everything(sample)
        assert not re.search(r"\{[a-z_]+\d*\}|\[[^\]\n]*\||~| => |\n%% ", text), (sample.kind, text)


def test_every_host_and_address_is_reserved(mailbox: list[Sample]) -> None:
    for sample in mailbox:
        text = everything(sample)
        hosts = set(re.findall(r"(?:@|://)([\w.-]*\w)", text))
        hosts |= set(
            re.findall(r"(?<![\w@.-])((?:[\w-]+\.)+(?:com|org|net|info|biz|io|de|ru|cn|uk|example))\b", text)
        )
        hosts |= set(re.findall(r"(?:Received: from|\tby|Received: by) ([\w-]+\.[\w.-]*\w)", text))
        for host in hosts:
            if "." not in host:  # a kit's Message-ID: no host at all
                assert sample.label == "spam"
            elif not RESERVED_ADDRESS.match(host):
                assert RESERVED_HOST.search(host.lower()), (sample.kind, host)
        for address in re.findall(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])", text):
            assert RESERVED_ADDRESS.match(address), (sample.kind, address)


def test_ham_is_well_formed(mailbox: list[Sample]) -> None:
    for sample in mailbox:
        message = email.message_from_bytes(sample.raw, policy=email.policy.default)
        if sample.label == "ham":
            assert [part.defects for part in message.walk() if part.defects] == []
            assert all(message[name] for name in ("From", "Date", "Message-ID", "MIME-Version", "Subject"))
            assert all(not header.defects for header in message.values())
            assert "\N{REPLACEMENT CHARACTER}" not in "".join(texts(message))
        assert max(map(len, sample.raw.split(b"\n"))) < 1000


def test_spam_has_the_faults_of_its_kits(mailbox: list[Sample]) -> None:
    spam = [sample.raw for sample in mailbox if sample.label == "spam"]
    parsed = [email.message_from_bytes(raw, policy=email.policy.compat32) for raw in spam]
    assert any(message["Message-ID"] is None for message in parsed)
    assert any("1970" in str(message["Date"]) for message in parsed)
    assert any(part.defects for message in parsed for part in message.walk())
    pages = "\n".join(text for message in parsed for text in texts(message))
    assert all(trick in pages for trick in ("\u200b", "<b></b>", "font-size:1px", "cid:"))
    assert re.search(r"[a-z][а-я][a-z]", pages)


def test_messages_arrive_in_order(mailbox: list[Sample]) -> None:
    days = [re.search(rb"\tfor <[^>]*>; \w+, (.*?) \d\d:", sample.raw) for sample in mailbox]
    months = [day[1].split()[1] for day in days if day]
    assert len(months) == len(mailbox)
    assert list(dict.fromkeys(months)) == [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun"]


def test_writing_twice_is_writing_once(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "sample"
    assert write(folder) == write(str(folder))
    files = sorted(folder.rglob("*.eml"))
    assert {file.read_bytes() for file in files} == {sample.raw for sample in messages()}
    assert {file.parent.name for file in files} == {"ham", "spam"}
    assert re.fullmatch(r"\d{4}-[a-z-]+\.eml", files[0].name)
    files[0].unlink()
    write(folder)
    assert files[0].exists()


@pytest.mark.parametrize("name", ["notes.txt", "ham/0001-letter.eml", "spam/mine/a.eml", ".hidden", "ham"])
def test_the_files_of_others_are_left_alone(name: str, tmp_path: Path) -> None:
    stranger = tmp_path / name
    stranger.parent.mkdir(parents=True, exist_ok=True)
    stranger.write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(
        FileExistsError, match=r"^[^\n]* is not of sample mailbox 2026: expected [^\n]*; name another$"
    ):
        write(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    assert stranger.read_text() == "mine"


def test_another_seed_is_another_mailbox_and_so_a_stranger(tmp_path: Path) -> None:
    write(tmp_path, seed=1)
    with pytest.raises(FileExistsError, match="sample mailbox 2"):
        write(tmp_path, seed=2)


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError, match="file is not of sample mailbox"):
        write(tmp_path / "file")


def test_linked_choices_are_the_same_choice() -> None:
    for turn, text in enumerate(("axA", "bxB", "cxC", "axA")):
        slots = Slots(Dice("a"), "en", datetime(2026, 1, 5, tzinfo=UTC), turn, {})
        assert slots.fill("[1:a|b|c][x|x][1:A|B|C]") == text
    with pytest.raises(ValueError, match=r"has 2 alternatives: expected 3"):
        slots.fill("[1:a|b]")


@pytest.mark.parametrize("charset", ["utf-8", "iso-2022-jp", "euc-jp"])
@pytest.mark.parametrize("base64", [True, False])
def test_encoded_words_are_short_and_come_back(charset: str, base64: bool) -> None:
    text = "ご注文の確認 and then some ASCII, そして長い長い長い件名が続きます = ? _"
    words = encode_words(text, charset, base64=base64)
    assert max(map(len, words.split(" "))) <= 75
    assert email.message_from_string(f"Subject: {words}\n\n", policy=email.policy.default)["Subject"] == text


def test_quoted_printable_comes_back() -> None:
    text = "a=b \nlong " + "ä" * 200 + "\n\ttab\n" + "x" * 76 + "\n" + "y" * 77 + "\n"
    part = make_text_part(text, "plain", "utf-8", "quoted-printable")
    assert max(map(len, part.payload.split(b"\n"))) <= 76
    head = "".join(f"{name}: {value}\n" for name, value in part.headers).encode()
    message = email.message_from_bytes(head + b"\n" + part.payload)
    assert message.get_payload(decode=True) == text.encode()


def test_pictures_are_pictures() -> None:
    png, jpg = make_file("png", Dice("a")), make_file("jpg", Dice("a"))
    start = png.index(b"IDAT")
    (length,) = struct.unpack(">I", png[start - 4 : start])
    width, height = struct.unpack(">II", png[16:24])
    assert len(zlib.decompress(png[start + 4 : start + 4 + length])) == (width + 1) * height
    assert jpg.startswith(b"\xff\xd8\xff\xe0")
    assert jpg.endswith(b"\xff\xd9")
