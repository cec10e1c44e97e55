"""A recipe (template) and `Dice` (seeded random choices) → one raw message."""

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tamis_mail.sample import attachments, pages, tricks, wire
from tamis_mail.sample.dice import Dice
from tamis_mail.sample.draft import Draft, make_arrival_fields
from tamis_mail.sample.recipes import Recipe, words
from tamis_mail.sample.slots import Slots
from tamis_mail.sample.wire import Headers, Part
from tamis_mail.sample.writers import WRITERS, Writer

# The recipient, and her addresses.
_ME = "Mirelle Tavast"
_PRIVATE, _WORK, _LISTS = "mirelle@tavast.example", "m.tavast@quillmoor.example", "mtavast@example.org"
_OWN_HEADERS = {"From", "To", "Subject", "Attach", "Calendar"}  # made by this module, not copied

# By language; a charset that is repeated is picked more often.
_CHARSETS = {
    "en": ("utf-8", "utf-8", "iso-8859-1", "windows-1252"),
    "de": ("utf-8", "utf-8", "iso-8859-1", "iso-8859-15"),
    "fr": ("utf-8", "utf-8", "iso-8859-15", "iso-8859-1"),
    "es": ("utf-8", "utf-8", "iso-8859-1"),
    "it": ("utf-8", "iso-8859-1"),
    "pt": ("utf-8", "utf-8", "iso-8859-1"),
    "pl": ("utf-8", "iso-8859-2"),
    "cs": ("utf-8", "iso-8859-2", "windows-1250"),
    "ru": ("utf-8", "koi8-r", "windows-1251"),
    "el": ("utf-8", "iso-8859-7"),
    "tr": ("utf-8", "iso-8859-9"),
    "ar": ("utf-8", "windows-1256"),
    "he": ("utf-8", "windows-1255"),
    "zh": ("utf-8", "gb18030", "gb2312"),
    "ja": ("utf-8", "iso-2022-jp"),
    "ko": ("utf-8", "euc-kr"),
}
# Time zones of senders by language, in minutes east of Greenwich; 60 for other languages.
_ZONES = {"el": 120, "tr": 180, "ru": 180, "he": 120, "ar": 180, "hi": 330, "zh": 480, "ja": 540, "ko": 540}
_ENGLISH_ZONES = (0, 0, 60, 60, -300)
_EMPTY_LINES = re.compile(r"\n[ \n]*\n(?! )")  # left by empty choices


@dataclass(frozen=True)
class _Manner:
    """The program, charset, encoding and tricks of one message."""

    writer: Writer
    charset: str
    encoding: str  # Content-Transfer-Encoding of texts
    base64_words: bool  # whether encoded words have the encoding B (base64); otherwise they have Q
    tricks: tuple[str, ...]  # names of the recipe's option `trick`


def compose(recipe: Recipe, dice: Dice, when: datetime, turn: int) -> bytes:
    """Compose the message that arrives at `when`; another `turn` selects other alternatives of the recipe."""
    values = {"me": _ME.split()[0], "myself": _ME, "private": _PRIVATE, "work": _WORK}
    slots = Slots(dice, recipe.language, when, turn, values)
    sender_template = recipe.header("From", "{contact}")
    name, _, address = slots.fill(sender_template).rstrip(">").rpartition("<")
    name, address = name.strip(), address.lower()
    first_name = name.split(" ")[0]
    slots.set_values(sender=name, given=first_name, address=address, domain=address.partition("@")[2])
    # A known contact signs with the name in From.
    if sender_template.startswith("{") and sender_template.endswith("}"):
        slots.set_values(first=first_name)
    subject = tricks.disguise(
        slots.fill(recipe.header("Subject")), recipe.options.get("trick", ()), dice, html=False
    )
    body = _EMPTY_LINES.sub("\n\n", slots.fill(recipe.body)).strip("\n")
    recipient, mailbox = _choose_recipient(recipe, slots, dice)
    manner = _choose_manner(recipe, dice, subject + name + body, turn)

    draft = Draft(
        sender=wire.format_mailbox(name, address, manner.charset, base64=manner.base64_words),
        address=address,
        domain=address.partition("@")[2],
        to=recipient,
        mailbox=mailbox,
        subject=wire.encode_words(subject, manner.charset, base64=manner.base64_words),
        when=when,
        zone=_choose_zone(recipe.language, address),
        language=recipe.language,
        extra=tuple(
            (key, wire.encode_words(slots.fill(value), manner.charset, base64=manner.base64_words))
            for key, value in recipe.headers
            if key not in _OWN_HEADERS
        ),
    )
    part = _make_content(recipe, slots, body, manner, draft, dice)
    headers = make_arrival_fields(draft, dice, may_fail_checks=manner.writer.faulty)
    headers += manner.writer.headers(draft, dice)
    if manner.writer.faulty:
        headers, part = _add_fault(headers, part, subject, dice)
    head = "\n".join(wire.fold(key, value) for key, value in headers + part.headers)
    raw = head.encode("utf-8", "surrogateescape") + b"\n\n" + part.payload
    return raw.replace(b"\n", b"\r\n") if dice.chance(0.08) else raw


def _choose_zone(language: str, address: str) -> int:
    """Return minutes east of Greenwich; writers of English live anywhere, each address in a fixed zone."""
    return Dice(f"zone of {address}").pick(_ENGLISH_ZONES) if language == "en" else _ZONES.get(language, 60)


def _choose_manner(recipe: Recipe, dice: Dice, text: str, turn: int) -> _Manner:
    """Choose how a message is written; its charset must have all characters of `text`."""
    writers = (
        ("kit", "bare", "bulk", "script", "webmail")
        if recipe.label == "spam"
        else ("desktop", "phone", "webmail")
    )
    writer = WRITERS[dice.pick(recipe.options.get("by", writers))]
    charset = dice.pick(_CHARSETS.get(recipe.language, ("utf-8",)))
    if charsets := recipe.options.get("charset"):
        charset = charsets[turn % len(charsets)]
    try:
        text.encode(charset)
    except UnicodeEncodeError:
        charset = "utf-8"
    trick_names = recipe.options.get("trick", ())
    if set(trick_names) & {"zero-width", "homoglyph"}:
        charset = "utf-8"
    encoding = dice.pick(recipe.options.get("encoding", writer.encodings))
    if charset == "iso-2022-jp":
        encoding = "8bit"  # it is a seven-bit charset
    return _Manner(
        writer, charset, encoding, dice.chance(0.5) or charset in {"iso-2022-jp", "koi8-r"}, trick_names
    )


def _choose_recipient(recipe: Recipe, slots: Slots, dice: Dice) -> tuple[str, str]:
    """Return the To header (empty if there is none), and the mailbox of delivery.

    The To of a recipe is the field itself, or a word for a form of the recipient, such as "work" or "crowd".
    """
    default = "[me|me|work|bare|undisclosed|crowd|work]" if recipe.label == "spam" else "me"
    recipient_form = slots.fill(recipe.header("To", default))
    if recipient_form == "work":
        return f"{_ME} <{_WORK}>" if dice.chance(0.6) else _WORK, _WORK
    if recipient_form == "me":
        return f"{_ME} <{_PRIVATE}>" if dice.chance(0.7) else _PRIVATE, _PRIVATE
    if recipient_form == "bare":
        return dice.pick((_PRIVATE, _WORK, f"<{_PRIVATE}>", f"mirelle <{_PRIVATE}>")), _PRIVATE
    if recipient_form == "undisclosed":
        return dice.pick(("undisclosed-recipients:;", "Undisclosed recipients:;", "")), _PRIVATE
    if recipient_form == "crowd":
        others = [f"{name.lower()}@tavast.example" for name in dice.pick_several(words()["en.first"], 4)]
        return ", ".join(sorted([_PRIVATE, *others])), _PRIVATE
    if recipient_form == "list":
        return "", _LISTS
    return recipient_form, _PRIVATE


def _make_content(recipe: Recipe, slots: Slots, body: str, manner: _Manner, draft: Draft, dice: Dice) -> Part:
    """Make the MIME structure: the body in its forms, an invitation, and attachments, as the recipe says."""
    writer = manner.writer
    form = dice.pick(recipe.options.get("form", writer.forms))
    if "padding" in manner.tricks:
        body += "\n\n" + tricks.make_padding(dice, dice.draw_between(20, 50))
    if form == "image":
        return _make_image_only(body, manner, draft, dice)
    parts = []
    if form in {"plain", "both"}:
        text = tricks.disguise(pages.render_plain(body, writer.width), manner.tricks, dice, html=False)
        parts.append(_make_text(text, "plain", manner))
    if form in {"html", "both"}:
        skin = dice.pick(writer.skins)
        page = tricks.disguise(pages.render_html(body, skin, dice), manner.tricks, dice, html=True)
        if "hidden" in manner.tricks:
            page = tricks.append_hidden_text(page, dice)
        parts.append(_make_text(page, "html", manner))
    if recipe.header("Calendar"):
        event = _make_calendar(slots.fill(recipe.header("Calendar")), draft, dice)
        parts.append(wire.make_text_part(event, "calendar", "utf-8", "quoted-printable", "; method=REQUEST"))
    part = parts[0] if len(parts) == 1 else wire.make_multipart("alternative", writer.boundary(dice), parts)
    files = [_make_attachment(slots.fill(value), dice) for key, value in recipe.headers if key == "Attach"]
    if files:
        preamble = "This is a multi-part message in MIME format." if dice.chance(0.5) else ""
        part = wire.make_multipart("mixed", writer.boundary(dice), [part, *files], preamble)
    return part


def _make_text(text: str, subtype: str, manner: _Manner) -> Part:
    """Make a text part; a text with long lines gets a transfer encoding."""
    charset, encoding = manner.charset, manner.encoding
    if text.isascii() and encoding == "8bit":
        charset = "us-ascii" if charset != "utf-8" else charset
    if encoding == "8bit" and max(map(len, text.encode(charset).split(b"\n"))) > 900:
        encoding = "base64" if charset == "iso-2022-jp" else "quoted-printable"
    return wire.make_text_part(text, subtype, charset, encoding)


def _make_attachment(description: str, dice: Dice) -> Part:
    file_type, _, name = description.partition(" ")
    data = attachments.make_file(file_type, dice)
    return wire.make_attachment(attachments.CONTENT_TYPES[file_type], name, data)


def _make_image_only(body: str, manner: _Manner, draft: Draft, dice: Dice) -> Part:
    """Make a message that is only a picture, linked to the first address of the body."""
    address = next(line.partition(" => ")[2] for line in body.split("\n") if line.startswith("-> "))
    identity = f"{dice.token(12)}@{draft.domain}"
    page = f'<html><body><a href="{address}"><img src="cid:{identity}" border="0"></a></body></html>\n'
    if "hidden" in manner.tricks:
        page = tricks.append_hidden_text(page, dice)
    file_type = dice.pick(("png", "jpg"))
    picture = wire.make_attachment(
        attachments.CONTENT_TYPES[file_type],
        f"{dice.string(8)}.{file_type}",
        attachments.make_file(file_type, dice),
        inline=identity,
    )
    return wire.make_multipart(
        "related", manner.writer.boundary(dice), [_make_text(page, "html", manner), picture]
    )


def _make_calendar(summary: str, draft: Draft, dice: Dice) -> str:
    start = draft.when.replace(hour=dice.draw_between(8, 16), minute=0, second=0) + timedelta(
        days=dice.draw_between(1, 12)
    )
    lines = (
        "BEGIN:VCALENDAR",
        "PRODID:-//Quillmoor//Diary 4//EN",
        "VERSION:2.0",
        "METHOD:REQUEST",
        "BEGIN:VEVENT",
        f"UID:{dice.hexadecimal(32)}",
        f"SUMMARY:{summary}",
        f"DTSTART:{start:%Y%m%dT%H%M%SZ}",
        f"DTEND:{start + timedelta(minutes=dice.pick((30, 45, 60))):%Y%m%dT%H%M%SZ}",
        f"ORGANIZER:mailto:{draft.address}",
        f"ATTENDEE;RSVP=TRUE:mailto:{draft.mailbox}",
        "END:VEVENT",
        "END:VCALENDAR",
    )
    return "\n".join(lines) + "\n"


def _add_fault(headers: Headers, part: Part, subject: str, dice: Dice) -> tuple[Headers, Part]:
    """Add one of the faults that spam kits (programs that send spam) make to headers and body.

    With probability 3/8, or if the message cannot have the fault that was drawn, add none.
    """
    fault = dice.pick(("none", "none", "none", "unclosed", "mismatch", "charset", "raw", "twice"))
    content_type = part.headers[0][1]
    # In this order: no closing boundary, wrong boundary, wrong charset, subject not encoded, two subjects.
    if fault == "unclosed" and content_type.startswith("multipart"):
        return headers, replace(part, payload=part.payload[: part.payload.rindex(b"--", 0, -4)])
    if fault == "mismatch" and content_type.startswith("multipart"):
        return headers, replace(part, headers=(("Content-Type", content_type[:-1] + 'x"'), *part.headers[1:]))
    if fault == "charset" and "charset=" in content_type:
        wrong = content_type.partition("charset=")[0] + dice.pick(
            ("charset=windows-1251", 'charset="chinesebig5"', "charset=DEFAULT")
        )
        return headers, replace(part, headers=(("Content-Type", wrong), *part.headers[1:]))
    if fault == "raw":
        return tuple((key, subject if key == "Subject" else value) for key, value in headers), part
    if fault == "twice":
        return (*headers, ("Subject", next(value for key, value in headers if key == "Subject"))), part
    return headers, part
