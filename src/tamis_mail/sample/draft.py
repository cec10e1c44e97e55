"""`Draft`, the addresses, subject and date of a message, and the fields that the receiving server adds."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from tamis_mail.sample.dice import Dice
from tamis_mail.sample.wire import Headers

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NETWORKS = ("192.0.2.", "198.51.100.", "203.0.113.")


@dataclass(frozen=True)
class Draft:
    """What a program is given to write the headers of a message (`writers`).

    Names and subject are already in the form of headers, as encoded words where necessary.
    """

    sender: str  # the From field
    address: str  # of the sender
    domain: str  # of that address
    to: str  # the To field
    mailbox: str  # the address of delivery
    subject: str
    when: datetime  # in UTC
    zone: int  # minutes east of Greenwich
    language: str
    extra: Headers = ()  # further fields that the recipe gives

    @property
    def list_address(self) -> str:
        """The mailing list, or empty."""
        return next((value for key, value in self.extra if key == "List"), "")

    @property
    def envelope(self) -> tuple[str, str]:
        """The envelope sender: its address and host."""
        if self.list_address:
            local, _, host = self.list_address.partition("@")
            return f"{local}-bounces@{host}", host
        return self.address, self.domain

    @property
    def date(self) -> str:
        return format_date(self.when, self.zone)


def format_date(when: datetime, zone: int = 0) -> str:
    """Format a time in UTC as a Date field, in a zone of `zone` minutes east of Greenwich."""
    local, sign = when + timedelta(minutes=zone), "-" if zone < 0 else "+"
    clock = (
        f"{local.hour:02}:{local.minute:02}:{local.second:02} {sign}{abs(zone) // 60:02}{abs(zone) % 60:02}"
    )
    return f"{_DAYS[local.weekday()]}, {local.day} {_MONTHS[local.month - 1]} {local.year} {clock}"


def choose_ip(host: str) -> str:
    """Choose an IPv4 address that is reserved for documentation, always the same one for a name."""
    dice = Dice(f"address of {host}")
    return dice.pick(_NETWORKS) + str(dice.draw_between(2, 250))


def make_arrival_fields(draft: Draft, dice: Dice, *, may_fail_checks: bool) -> Headers:
    """Return the fields of the receiving server.

    With `may_fail_checks`, the sending host may have no name, and may fail SPF (RFC 7208: the sender's
    domain allows the host to send its mail).
    """
    sender, host = draft.envelope
    relay = dice.pick(("mail.", "smtp.", "out1.", "mx2.", "")) + host
    address, queue = choose_ip(relay), dice.string(11, "0123456789ABCDEF")
    name = relay if not may_fail_checks or dice.chance(0.6) else "unknown"
    received = format_date(draft.when + timedelta(seconds=dice.draw_between(1, 40)), 60)
    results = ("pass", "softfail", "none", "fail") if may_fail_checks else ("pass", "pass", "pass", "none")
    hop = f"from {relay} ({name} [{address}])\n\tby mx.tavast.example with ESMTPS id {queue}"
    return (
        ("Return-Path", f"<{sender}>"),
        ("Delivered-To", draft.mailbox),
        ("Received", f"{hop}\n\tfor <{draft.mailbox}>; {received}"),
        ("Authentication-Results", f"mx.tavast.example; spf={dice.pick(results)}\n\tsmtp.mailfrom={sender}"),
    )
