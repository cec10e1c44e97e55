"""The programs that write the sample mail: of phones, webmail, mailing lists and shops, and spam kits.

A spam kit is a program that sends spam.

A program turns a `Draft` into its headers, in an order of its own, with those that its server adds (Received,
DKIM-Signature), and has its forms, encodings and boundaries of bodies. The programs are invented; their
properties are those of real ones.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from tamis_mail.sample.dice import Dice
from tamis_mail.sample.draft import Draft, choose_ip, format_date
from tamis_mail.sample.wire import Headers


@dataclass(frozen=True)
class Writer:
    """A program that writes mail.

    Of `forms`, `skins` and `encodings`, each message gets one at random: an entry that is repeated is picked
    more often.
    """

    headers: Callable[[Draft, Dice], Headers]
    forms: tuple[str, ...]  # of the body: plain, html or both
    skins: tuple[str, ...]  # styles of HTML (`pages.SKINS`)
    encodings: tuple[str, ...]  # Content-Transfer-Encodings of texts
    boundary: Callable[[Dice], str]
    width: int = 0  # of lines of plain text; 0 if they are not wrapped
    faulty: bool = False  # it is a spammer's: messages may have faults (`composing`) and fail SPF


def _make_received_field(draft: Draft, dice: Dice, source: str, protocol: str = "ESMTPSA") -> tuple[str, str]:
    """Return the Received field of the sender's server, which got the message from the host `source`."""
    return (
        "Received",
        f"from {source}\n\tby mail.{draft.domain} with {protocol} id {dice.token(10)};\n\t{draft.date}",
    )


def _make_signature_field(draft: Draft, dice: Dice, selector: str) -> tuple[str, str]:
    """Return a DKIM signature with random values."""
    body, lines = dice.token(43) + "=", [dice.token(64), dice.token(64), dice.token(42) + "=="]
    return (
        "DKIM-Signature",
        f"v=1; a=rsa-sha256; c=relaxed/relaxed;\n\td={draft.domain}; s={selector};\n"
        f"\th=from:to:subject:date:message-id:mime-version;\n\tbh={body};\n\tb=" + "\n\t ".join(lines),
    )


def _make_basic_fields(draft: Draft, identity: str, *, order: str) -> Headers:
    """Return those fields whose letters are in `order`, in this order, without empty ones.

    The letters are d (Date), f (From), t (To), s (Subject) and m (Message-ID, which is `identity`).
    """
    fields = {
        "d": ("Date", draft.date),
        "f": ("From", draft.sender),
        "t": ("To", draft.to),
        "s": ("Subject", draft.subject),
        "m": ("Message-ID", identity),
    }
    return tuple(fields[sign] for sign in order if fields[sign][1])


def _draw_version(dice: Dice) -> str:
    return f"{dice.draw_between(3, 14)}.{dice.draw_between(0, 9)}"


def _make_desktop_headers(draft: Draft, dice: Dice) -> Headers:
    groups = (
        dice.hexadecimal(8),
        dice.hexadecimal(4),
        "4" + dice.hexadecimal(3),
        "a" + dice.hexadecimal(3),
        dice.hexadecimal(12),
    )
    return (
        _make_received_field(draft, dice, f"[{choose_ip(draft.address)}] (helo=desk)"),
        ("Message-ID", f"<{'-'.join(groups)}@{draft.domain}>"),
        ("Date", draft.date),
        ("MIME-Version", "1.0"),
        ("User-Agent", f"Nightjar/{dice.pick(('128.4', '128.7', '115.10'))}"),
        *_make_basic_fields(draft, "", order="fts"),
        ("Content-Language", draft.language),
        *draft.extra,
    )


def _make_phone_headers(draft: Draft, dice: Dice) -> Headers:
    groups = "-".join(dice.string(size, "0123456789ABCDEF") for size in (8, 4, 4, 4, 12))
    return (
        _make_signature_field(draft, dice, "s1"),
        _make_received_field(draft, dice, f"smtpclient.local.test ([{choose_ip(draft.address)}])"),
        ("From", draft.sender),
        ("Mime-Version", "1.0 (1.0)"),
        ("Subject", draft.subject),
        ("Message-Id", f"<{groups}@{draft.domain}>"),
        ("Date", draft.date),
        *draft.extra,
        ("To", draft.to),
        ("X-Mailer", f"Pocket Mail ({dice.pick(('21F90', '21H16', '22B83', '20H115'))})"),
    )


def _make_webmail_headers(draft: Draft, dice: Dice) -> Headers:
    return (
        _make_signature_field(draft, dice, dice.pick(("20251104", "20260101"))),
        ("X-Webmail-State", f"AOJu0Y{dice.token(40)}"),
        (
            "X-Received",
            f"by {choose_ip('core ' + draft.domain)} with SMTP id {dice.hexadecimal(14)};\n\t{draft.date}",
        ),
        ("MIME-Version", "1.0"),
        *draft.extra,
        ("From", draft.sender),
        ("Date", draft.date),
        ("Message-ID", f"<CA{dice.pick('+-_')}{dice.token(36)}@mail.{draft.domain}>"),
        ("Subject", draft.subject),
        ("To", draft.to),
    )


def _make_office_headers(draft: Draft, dice: Dice) -> Headers:
    """Return the headers of an office's mail program and server, with fields that Outlook writes."""
    site = dice.string(6, "ABCDEFGHKLMNPR") + "01"
    return (
        _make_received_field(
            draft, dice, f"{site.lower()}.{draft.domain} ([{choose_ip(site)}])", "HTTP via cluster"
        ),
        *_make_basic_fields(draft, "", order="fts"),
        ("Thread-Topic", draft.subject.removeprefix("Re: ").removeprefix("RE: ")),
        ("Thread-Index", f"Ad{dice.token(26)}=="),
        ("Date", draft.date),
        ("Message-ID", f"<{site}{dice.string(24, '0123456789ABCDEF')}@{site}.{draft.domain}>"),
        ("Accept-Language", f"{draft.language}, en-GB"),
        *draft.extra,
        ("MIME-Version", "1.0"),
    )


def _make_bulk_headers(draft: Draft, dice: Dice) -> Headers:
    """Return the headers of a service that sends newsletters."""
    campaign = dice.digits(7)
    return (
        _make_signature_field(draft, dice, dice.pick(("k1", "mailer", "selector2"))),
        *_make_basic_fields(
            draft, f"<{campaign}.{dice.digits(9)}.{dice.hexadecimal(10)}@{draft.domain}>", order="dftms"
        ),
        ("MIME-Version", "1.0"),
        (
            "List-Unsubscribe",
            f"<https://{draft.domain}/u/{dice.token(18)}>,\n <mailto:leave-{campaign}@{draft.domain}>",
        ),
        *((("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),) if dice.chance(0.6) else ()),
        ("Precedence", "bulk"),
        ("X-Campaign", f"{campaign}:{dice.digits(4)}"),
        *((("Feedback-ID", f"{campaign}:{dice.token(6)}:bulk"),) if dice.chance(0.5) else ()),
        *draft.extra,
    )


def _make_robot_headers(draft: Draft, dice: Dice) -> Headers:
    """Return the headers of a program that sends automatic mail, such as receipts."""
    return (
        _make_received_field(draft, dice, f"app{dice.draw_between(1, 6)}.{draft.domain}", "ESMTP"),
        *_make_basic_fields(
            draft, f"<{dice.digits(10)}.{dice.digits(5)}.{dice.digits(13)}@app.{draft.domain}>", order="dftms"
        ),
        ("MIME-Version", "1.0"),
        *((("Auto-Submitted", "auto-generated"),) if dice.chance(0.7) else ()),
        *draft.extra,
    )


def _make_script_headers(draft: Draft, dice: Dice) -> Headers:
    """Return the headers of a PHP script on a web server, written by its owner or by an intruder."""
    server, user = dice.draw_between(1, 30), dice.draw_between(1001, 1090)
    source = f"by web{server}.{draft.domain} (local, from userid {user})"
    page = dice.pick(("contact.php", "mailer.php", "send.php", "wp-mail.php"))
    return (
        ("Received", f"{source}\n\tid {dice.hexadecimal(9)}; {draft.date}"),
        *_make_basic_fields(draft, "", order="ts"),
        ("X-Script", f"{page} for {draft.domain}"),
        *_make_basic_fields(draft, f"<{dice.hexadecimal(32)}@{draft.domain}>", order="dfm"),
        ("X-Mailer", f"WebPostman {_draw_version(dice)}"),
        *draft.extra,
        ("MIME-Version", "1.0"),
    )


def _make_list_headers(draft: Draft, dice: Dice) -> Headers:
    """Return the author's headers and those of list software; the recipe's `List` header names the list."""
    name = draft.list_address
    local, _, host = name.partition("@")
    return (
        _make_received_field(
            replace(draft, domain=host), dice, f"mail.{draft.domain} ([{choose_ip(draft.address)}])", "ESMTPS"
        ),
        ("Date", draft.date),
        ("From", draft.sender),
        ("To", name),
        ("Message-ID", f"<{draft.when:%Y%m%d%H%M%S}.{dice.token(8)}@{draft.domain}>"),
        *((key, value) for key, value in draft.extra if key != "List"),
        ("Subject", draft.subject),
        ("X-BeenThere", name),
        ("X-List-Version", "Listkeeper 3.3.9"),
        ("Precedence", "list"),
        ("List-Id", f"<{local}.{host}>"),
        ("List-Unsubscribe", f"<https://{host}/options/{local}>,\n <mailto:{local}-leave@{host}>"),
        ("List-Post", f"<mailto:{name}>"),
        ("List-Help", f"<mailto:{local}-request@{host}?subject=help>"),
        ("Errors-To", f"{local}-bounces@{host}"),
        ("Sender", f"{local}-bounces@{host}"),
        ("MIME-Version", "1.0"),
    )


def _make_kit_headers(draft: Draft, dice: Dice) -> Headers:
    """Return the headers of a spam kit that imitates an old desktop program, badly."""
    clock_error = timedelta(hours=dice.pick((-400, -9, -3, 2, 7, 30)))
    date = format_date(draft.when + clock_error, dice.pick((-480, 0, 180, 480)))
    source = f"from {dice.string(7)} ([{choose_ip(dice.string(5))}])"
    groups = "$".join(dice.hexadecimal(size) for size in (12, 8, 8))
    return (
        ("Received", f"{source}\n\tby {draft.domain} with SMTP id {dice.digits(8)};\n\t{date}"),
        ("Message-ID", f"<{groups}@{dice.string(8)}>"),
        *_make_basic_fields(draft, "", order="fts"),
        ("Date", date),
        ("MIME-Version", "1.0"),
        ("X-Priority", dice.pick(("3", "1", "3"))),
        (
            "X-Mailer",
            dice.pick(("Courier Express 6.00", "The Owl! (v3.0)", f"Swift Sender {_draw_version(dice)}")),
        ),
        *draft.extra,
    )


def _make_minimal_headers(draft: Draft, dice: Dice) -> Headers:
    """Return few headers: often no Message-ID, and as often as not a wrong, an invalid or no Date."""
    identity = f"<{dice.digits(14)}@{draft.domain}>" if dice.chance(0.35) else ""
    invalid_dates = ("Thu, 1 Jan 1970 00:00:00 +0000", f"{draft.when:%Y-%m-%d %H:%M}", "")
    date = draft.date if dice.chance(0.5) else dice.pick(invalid_dates)
    return (
        *((("Date", date),) if date else ()),
        *_make_basic_fields(draft, identity, order=dice.pick(("mfts", "sftm", "tfs"))),
        *draft.extra,
        ("MIME-Version", "1.0"),
    )


def _draw_long_boundary(dice: Dice) -> str:
    return f"----=_Part_{dice.digits(6)}_{dice.digits(9)}.{dice.digits(13)}"


_COMMON_ENCODINGS = ("quoted-printable", "quoted-printable", "8bit", "base64")

WRITERS = {
    "desktop": Writer(
        headers=_make_desktop_headers,
        forms=("plain", "plain", "both"),
        skins=("webmail",),
        encodings=("8bit", "8bit", "quoted-printable"),
        boundary=lambda dice: "-" * 12 + dice.token(24),
        width=72,
    ),
    "phone": Writer(
        headers=_make_phone_headers,
        forms=("plain", "plain", "both"),
        skins=("webmail",),
        encodings=("quoted-printable",),
        boundary=lambda dice: f"Pocket-Mail-{dice.string(32, '0123456789ABCDEF')}",
    ),
    "webmail": Writer(
        headers=_make_webmail_headers,
        forms=("both", "both", "plain"),
        skins=("webmail",),
        encodings=_COMMON_ENCODINGS,
        boundary=lambda dice: "0000000000" + dice.hexadecimal(18),
    ),
    "office": Writer(
        headers=_make_office_headers,
        forms=("both", "html", "both"),
        skins=("office",),
        encodings=("quoted-printable", "base64"),
        boundary=lambda dice: f"_000_{dice.string(30, '0123456789ABCDEF')}_",
    ),
    "bulk": Writer(
        headers=_make_bulk_headers,
        forms=("both", "html"),
        skins=("shop",),
        encodings=("quoted-printable", "base64", "8bit"),
        boundary=_draw_long_boundary,
    ),
    "robot": Writer(
        headers=_make_robot_headers,
        forms=("plain", "plain", "both"),
        skins=("shop", "webmail"),
        encodings=_COMMON_ENCODINGS,
        boundary=_draw_long_boundary,
    ),
    "script": Writer(
        headers=_make_script_headers,
        forms=("plain", "html", "both"),
        skins=("shop", "webmail", "kit"),
        encodings=("8bit", "quoted-printable"),
        boundary=lambda dice: "b1_" + dice.hexadecimal(32),
    ),
    "list": Writer(
        headers=_make_list_headers,
        forms=("plain",),
        skins=("webmail",),
        encodings=("8bit", "quoted-printable"),
        boundary=lambda dice: "=" * 15 + dice.digits(19) + "==",
        width=76,
    ),
    "kit": Writer(
        headers=_make_kit_headers,
        forms=("html", "both", "html"),
        skins=("kit",),
        encodings=("quoted-printable", "8bit", "base64"),
        boundary=lambda dice: f"----=_NextPart_000_{dice.string(4, '0123456789ABCDEF')}",
        faulty=True,
    ),
    "bare": Writer(
        headers=_make_minimal_headers,
        forms=("plain", "html"),
        skins=("kit", "webmail"),
        encodings=("8bit", "base64"),
        boundary=lambda dice: dice.digits(16),
        faulty=True,
    ),
}
