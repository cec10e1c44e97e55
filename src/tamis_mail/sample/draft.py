"""A draft of a message, and the fields that the receiving server adds."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from tamis_mail.sample.dice import Dice
from tamis_mail.sample.wire import Headers

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NETWORKS = ("192.0.2.", "198.51.100.", "203.0.113.")


@dataclass(frozen=True)
class Draft:
    """The input of every writer. Names and subject are already encoded; `domain` is the sender's."""

    sender: str
    address: str
    domain: str
    to: str  # the To field
    mailbox: str  # the address of delivery
    subject: str
    when: datetime  # in UTC
    zone: int  # minutes east of Greenwich
    language: str
    extra: Headers = ()  # further fields of the recipe

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
        return date_of(self.when, self.zone)


def date_of(when: datetime, zone: int = 0) -> str:
    local, sign = when + timedelta(minutes=zone), "-" if zone < 0 else "+"
    clock = (
        f"{local.hour:02}:{local.minute:02}:{local.second:02} {sign}{abs(zone) // 60:02}{abs(zone) % 60:02}"
    )
    return f"{_DAYS[local.weekday()]}, {local.day} {_MONTHS[local.month - 1]} {local.year} {clock}"


def ip_of(host: str) -> str:
    dice = Dice(f"address of {host}")
    return dice.pick(_NETWORKS) + str(dice.draw_between(2, 250))


def arrival(draft: Draft, dice: Dice, *, honest: bool) -> Headers:
    """Return the fields of the receiving server.

    The host of a sender who is not `honest` may have no name, and fails authentication more often.
    """
    sender, host = draft.envelope
    relay = dice.pick(("mail.", "smtp.", "out1.", "mx2.", "")) + host
    address, queue = ip_of(relay), dice.string(11, "0123456789ABCDEF")
    name = relay if honest or dice.chance(0.6) else "unknown"
    received = date_of(draft.when + timedelta(seconds=dice.draw_between(1, 40)), 60)
    results = ("pass", "pass", "pass", "none") if honest else ("pass", "softfail", "none", "fail")
    hop = f"from {relay} ({name} [{address}])\n\tby mx.tavast.example with ESMTPS id {queue}"
    return (
        ("Return-Path", f"<{sender}>"),
        ("Delivered-To", draft.mailbox),
        ("Received", f"{hop}\n\tfor <{draft.mailbox}>; {received}"),
        ("Authentication-Results", f"mx.tavast.example; spf={dice.pick(results)}\n\tsmtp.mailfrom={sender}"),
    )
