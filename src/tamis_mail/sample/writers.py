"""A letter → the headers that its writer's software gives it: phones, webmail, lists, shops, spam kits.

Programs are invented; their habits are not: the order of headers, the shape of Message-IDs, what is left out.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from tamis_mail.sample.dice import Dice
from tamis_mail.sample.letters import Letter, date_of, ip_of
from tamis_mail.sample.wire import Headers

__all__ = ["WRITERS", "Writer"]


@dataclass(frozen=True)
class Writer:
    """A program that writes mail: its headers, and how it likes to put a body."""

    headers: Callable[[Letter, Dice], Headers]
    forms: tuple[str, ...]
    skins: tuple[str, ...]
    encodings: tuple[str, ...]
    boundary: Callable[[Dice], str]
    width: int = 0
    faulty: bool = False


def _hop(letter: Letter, dice: Dice, source: str, protocol: str = "ESMTPSA") -> tuple[str, str]:
    return (
        "Received",
        f"from {source}\n\tby mail.{letter.domain} with {protocol} id {dice.token(10)};\n\t{letter.date}",
    )


def _signature(letter: Letter, dice: Dice, selector: str) -> tuple[str, str]:
    """The look of a DKIM signature; the values are noise."""
    body, lines = dice.token(43) + "=", [dice.token(64), dice.token(64), dice.token(42) + "=="]
    return (
        "DKIM-Signature",
        f"v=1; a=rsa-sha256; c=relaxed/relaxed;\n\td={letter.domain}; s={selector};\n"
        f"\th=from:to:subject:date:message-id:mime-version;\n\tbh={body};\n\tb=" + "\n\t ".join(lines),
    )


def _core(letter: Letter, identity: str, *, order: str = "dfts") -> Headers:
    fields = {
        "d": ("Date", letter.date),
        "f": ("From", letter.sender),
        "t": ("To", letter.to),
        "s": ("Subject", letter.subject),
        "m": ("Message-ID", identity),
    }
    return tuple(fields[sign] for sign in order if fields[sign][1])


def _version(dice: Dice) -> str:
    return f"{dice.between(3, 14)}.{dice.between(0, 9)}"


def _desktop(letter: Letter, dice: Dice) -> Headers:
    groups = (
        dice.hexadecimal(8),
        dice.hexadecimal(4),
        "4" + dice.hexadecimal(3),
        "a" + dice.hexadecimal(3),
        dice.hexadecimal(12),
    )
    return (
        _hop(letter, dice, f"[{ip_of(letter.address)}] (helo=desk)"),
        ("Message-ID", f"<{'-'.join(groups)}@{letter.domain}>"),
        ("Date", letter.date),
        ("MIME-Version", "1.0"),
        ("User-Agent", f"Nightjar/{dice.pick(('128.4', '128.7', '115.10'))}"),
        *_core(letter, "", order="fts"),
        ("Content-Language", letter.language),
        *letter.extra,
    )


def _phone(letter: Letter, dice: Dice) -> Headers:
    groups = "-".join(dice.string(size, "0123456789ABCDEF") for size in (8, 4, 4, 4, 12))
    return (
        _signature(letter, dice, "s1"),
        _hop(letter, dice, f"smtpclient.local.test ([{ip_of(letter.address)}])"),
        ("From", letter.sender),
        ("Mime-Version", "1.0 (1.0)"),
        ("Subject", letter.subject),
        ("Message-Id", f"<{groups}@{letter.domain}>"),
        ("Date", letter.date),
        *letter.extra,
        ("To", letter.to),
        ("X-Mailer", f"Pocket Mail ({dice.pick(('21F90', '21H16', '22B83', '20H115'))})"),
    )


def _webmail(letter: Letter, dice: Dice) -> Headers:
    return (
        _signature(letter, dice, dice.pick(("20251104", "20260101"))),
        ("X-Webmail-State", f"AOJu0Y{dice.token(40)}"),
        (
            "X-Received",
            f"by {ip_of('core ' + letter.domain)} with SMTP id {dice.hexadecimal(14)};\n\t{letter.date}",
        ),
        ("MIME-Version", "1.0"),
        *letter.extra,
        ("From", letter.sender),
        ("Date", letter.date),
        ("Message-ID", f"<CA{dice.pick('+-_')}{dice.token(36)}@mail.{letter.domain}>"),
        ("Subject", letter.subject),
        ("To", letter.to),
    )


def _office(letter: Letter, dice: Dice) -> Headers:
    site = dice.string(6, "ABCDEFGHKLMNPR") + "01"
    return (
        _hop(letter, dice, f"{site.lower()}.{letter.domain} ([{ip_of(site)}])", "HTTP via cluster"),
        *_core(letter, "", order="fts"),
        ("Thread-Topic", letter.subject.removeprefix("Re: ").removeprefix("RE: ")),
        ("Thread-Index", f"Ad{dice.token(26)}=="),
        ("Date", letter.date),
        ("Message-ID", f"<{site}{dice.string(24, '0123456789ABCDEF')}@{site}.{letter.domain}>"),
        ("Accept-Language", f"{letter.language}, en-GB"),
        *letter.extra,
        ("MIME-Version", "1.0"),
    )


def _bulk(letter: Letter, dice: Dice) -> Headers:
    campaign = dice.digits(7)
    return (
        _signature(letter, dice, dice.pick(("k1", "mailer", "selector2"))),
        *_core(
            letter, f"<{campaign}.{dice.digits(9)}.{dice.hexadecimal(10)}@{letter.domain}>", order="dftms"
        ),
        ("MIME-Version", "1.0"),
        (
            "List-Unsubscribe",
            f"<https://{letter.domain}/u/{dice.token(18)}>,\n <mailto:leave-{campaign}@{letter.domain}>",
        ),
        *((("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),) if dice.chance(0.6) else ()),
        ("Precedence", "bulk"),
        ("X-Campaign", f"{campaign}:{dice.digits(4)}"),
        *((("Feedback-ID", f"{campaign}:{dice.token(6)}:bulk"),) if dice.chance(0.5) else ()),
        *letter.extra,
    )


def _robot(letter: Letter, dice: Dice) -> Headers:
    return (
        _hop(letter, dice, f"app{dice.between(1, 6)}.{letter.domain}", "ESMTP"),
        *_core(
            letter,
            f"<{dice.digits(10)}.{dice.digits(5)}.{dice.digits(13)}@app.{letter.domain}>",
            order="dftms",
        ),
        ("MIME-Version", "1.0"),
        *((("Auto-Submitted", "auto-generated"),) if dice.chance(0.7) else ()),
        *letter.extra,
    )


def _script(letter: Letter, dice: Dice) -> Headers:
    """A page on a rented server that calls mail(): small clubs and shops, and whoever broke into one."""
    source = f"by web{dice.between(1, 30)}.{letter.domain} (local, from userid {dice.between(1001, 1090)})"
    page = dice.pick(("contact.php", "mailer.php", "send.php", "wp-mail.php"))
    return (
        ("Received", f"{source}\n\tid {dice.hexadecimal(9)}; {letter.date}"),
        *_core(letter, "", order="ts"),
        ("X-Script", f"{page} for {letter.domain}"),
        *_core(letter, f"<{dice.hexadecimal(32)}@{letter.domain}>", order="dfm"),
        ("X-Mailer", f"WebPostman {_version(dice)}"),
        *letter.extra,
        ("MIME-Version", "1.0"),
    )


def _list(letter: Letter, dice: Dice) -> Headers:
    """List software: the poster's headers, then its own; the recipe's `List` header says which list."""
    name = letter.list_address
    local, _, host = name.partition("@")
    return (
        _hop(
            replace(letter, domain=host), dice, f"mail.{letter.domain} ([{ip_of(letter.address)}])", "ESMTPS"
        ),
        ("Date", letter.date),
        ("From", letter.sender),
        ("To", name),
        ("Message-ID", f"<{letter.when:%Y%m%d%H%M%S}.{dice.token(8)}@{letter.domain}>"),
        *((key, value) for key, value in letter.extra if key != "List"),
        ("Subject", letter.subject),
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


def _kit(letter: Letter, dice: Dice) -> Headers:
    """A kit that plays an old desktop program, and overdoes it."""
    lie = timedelta(hours=dice.pick((-400, -9, -3, 2, 7, 30)))
    claimed = date_of(letter.when + lie, dice.pick((-480, 0, 180, 480)))
    source = f"from {dice.string(7)} ([{ip_of(dice.string(5))}])"
    groups = "$".join(dice.hexadecimal(size) for size in (12, 8, 8))
    return (
        ("Received", f"{source}\n\tby {letter.domain} with SMTP id {dice.digits(8)};\n\t{claimed}"),
        ("Message-ID", f"<{groups}@{dice.string(8)}>"),
        *_core(letter, "", order="fts"),
        ("Date", claimed),
        ("MIME-Version", "1.0"),
        ("X-Priority", dice.pick(("3", "1", "3"))),
        (
            "X-Mailer",
            dice.pick(("Courier Express 6.00", "The Owl! (v3.0)", f"Swift Sender {_version(dice)}")),
        ),
        *letter.extra,
    )


def _bare(letter: Letter, dice: Dice) -> Headers:
    """As little as a server will take: often no Message-ID, no Date, or a Date from nowhere."""
    identity = f"<{dice.digits(14)}@{letter.domain}>" if dice.chance(0.35) else ""
    nowhere = ("Thu, 1 Jan 1970 00:00:00 +0000", f"{letter.when:%Y-%m-%d %H:%M}", "")
    date = letter.date if dice.chance(0.5) else dice.pick(nowhere)
    return (
        *((("Date", date),) if date else ()),
        *_core(letter, identity, order=dice.pick(("mfts", "sftm", "tfs"))),
        *letter.extra,
        ("MIME-Version", "1.0"),
    )


def _long_boundary(dice: Dice) -> str:
    return f"----=_Part_{dice.digits(6)}_{dice.digits(9)}.{dice.digits(13)}"


_SOFT = ("quoted-printable", "quoted-printable", "8bit", "base64")

WRITERS = {
    "desktop": Writer(
        _desktop,
        ("plain", "plain", "both"),
        ("webmail",),
        ("8bit", "8bit", "quoted-printable"),
        lambda d: "-" * 12 + d.token(24),
        width=72,
    ),
    "phone": Writer(
        _phone,
        ("plain", "plain", "both"),
        ("webmail",),
        ("quoted-printable",),
        lambda d: f"Pocket-Mail-{d.string(32, '0123456789ABCDEF')}",
    ),
    "webmail": Writer(
        _webmail, ("both", "both", "plain"), ("webmail",), _SOFT, lambda d: "0000000000" + d.hexadecimal(18)
    ),
    "office": Writer(
        _office,
        ("both", "html", "both"),
        ("office",),
        ("quoted-printable", "base64"),
        lambda d: f"_000_{d.string(30, '0123456789ABCDEF')}_",
    ),
    "bulk": Writer(
        _bulk, ("both", "html"), ("shop",), ("quoted-printable", "base64", "8bit"), _long_boundary
    ),
    "robot": Writer(_robot, ("plain", "plain", "both"), ("shop", "webmail"), _SOFT, _long_boundary),
    "script": Writer(
        _script,
        ("plain", "html", "both"),
        ("shop", "webmail", "kit"),
        ("8bit", "quoted-printable"),
        lambda d: "b1_" + d.hexadecimal(32),
    ),
    "list": Writer(
        _list,
        ("plain",),
        ("webmail",),
        ("8bit", "quoted-printable"),
        lambda d: "=" * 15 + d.digits(19) + "==",
        width=76,
    ),
    "kit": Writer(
        _kit,
        ("html", "both", "html"),
        ("kit",),
        ("quoted-printable", "8bit", "base64"),
        lambda d: f"----=_NextPart_000_{d.string(4, '0123456789ABCDEF')}",
        faulty=True,
    ),
    "bare": Writer(
        _bare, ("plain", "html"), ("kit", "webmail"), ("8bit", "base64"), lambda d: d.digits(16), faulty=True
    ),
}
