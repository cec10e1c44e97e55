"""A template and `Dice` → text: choices are made and slots are filled, consistently within a message.

`recipes` describes templates.
"""

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from tamis_mail.sample.dice import Dice
from tamis_mail.sample.recipes import words

_CHOICE = re.compile(r"\[([^\[\]]*\|[^\[\]]*)\]")  # the innermost; [PATCH], which has no bar, is no choice
_SLOT = re.compile(r"\{([a-z_]+)(\d*)\}")  # {amount} and {amount2} get values of their own

# Languages that write a decimal comma, and a point between thousands.
_COMMA_LANGUAGES = {"de", "fr", "es", "it", "pt", "pl", "ru", "el", "tr", "cs"}


class Slots:
    """The values of the slots of one message: some are given, others are drawn when they are first used.

    `turn` selects the alternative of numbered choices, so that the messages of one recipe differ.
    """

    def __init__(self, dice: Dice, language: str, when: datetime, turn: int, values: dict[str, str]) -> None:
        self._dice = dice
        self._language = language
        self._when = when
        self._values = dict(values)
        self._turn = turn
        self._alternative_counts: dict[str, int] = {}  # by the number of a choice

    def set_values(self, **values: str) -> None:
        """Set the values of slots by their names."""
        self._values.update(values)

    def fill(self, template: str) -> str:
        """Make the choices of a template and fill its slots."""
        text = template
        while (replaced := _CHOICE.sub(self._choose, text)) != text:
            text = replaced
        while (replaced := _SLOT.sub(self._look_up, text)) != text:
            text = replaced
        return text

    def _choose(self, match: re.Match[str]) -> str:
        """Return one alternative of a choice: by the turn if it is numbered, otherwise at random."""
        number, colon, rest = str(match[1]).partition(":")
        if not (colon and len(number) == 1 and number.isdigit()):
            return self._dice.pick(str(match[1]).split("|"))
        alternatives = rest.split("|")
        expected = self._alternative_counts.setdefault(number, len(alternatives))
        if len(alternatives) != expected:
            raise ValueError(
                f"[{match[1]}] has {len(alternatives)} alternatives: expected {expected}, as before"
            )
        return alternatives[self._turn % len(alternatives)]

    def _look_up(self, match: re.Match[str]) -> str:
        key = match[1] + match[2]
        if key not in self._values:
            self._values[key] = self.fill(self._draw(match[1]))
        return self._values[key]

    def _draw(self, slot: str) -> str:
        """Return a value for a slot, computed or from the word lists; it may contain slots itself."""
        if maker := self._list_makers().get(slot):
            return maker()
        lists = words()
        for language in (self._language, "en", "any"):
            if choices := lists.get(f"{language}.{slot}"):
                return self._dice.pick(self._list_unused(slot, choices))
        raise KeyError(
            f"{{{slot}}} in a text in {self._language}: expected a list in words.txt or a maker in slots.py"
        )

    def _list_unused(self, slot: str, choices: Sequence[str]) -> Sequence[str]:
        """List the choices that no slot of this kind has yet, so that two persons have different names."""
        used_values = {value for key, value in self._values.items() if key.rstrip("0123456789") == slot}
        return [choice for choice in choices if choice not in used_values] or choices

    def _draw_money(self, low: int, high: int, *, cents: bool = True) -> str:
        amount = self._dice.draw_between(low, high)
        cent = self._dice.pick(("00", "50", "90", "99", "95", self._dice.digits(2)))
        digits = f"{amount:,}"
        if self._language in _COMMA_LANGUAGES:
            return digits.replace(",", ".") + ("," + cent if cents else "")
        return digits + ("." + cent if cents else "")

    def _format_date(self, days: int) -> str:
        day = self._when + timedelta(days=days)
        months = words().get(f"{self._language}.month")
        if self._language in {"zh", "ja"}:
            return f"{day.year}年{day.month}月{day.day}日"
        if self._language == "ko":
            return f"{day.year}년 {day.month}월 {day.day}일"
        if months is None:
            return f"{day.day:02}.{day.month:02}.{day.year}"
        separator = {"de": ". ", "cs": ". ", "es": " de ", "pt": " de "}.get(self._language, " ")
        return f"{day.day}{separator}{months[day.month - 1]}{separator.removeprefix('.')}{day.year}"

    def _draw_month(self) -> str:
        months = words().get(f"{self._language}.month") or words()["en.month"]
        return months[(self._when.month - 1 + self._dice.draw_below(2)) % 12]

    def _draw_weekday(self) -> str:
        names = words().get(f"{self._language}.weekday") or words()["en.weekday"]
        return self._dice.pick(self._list_unused("day", names))

    def _draw_time(self) -> str:
        hour, minute = self._dice.draw_between(8, 20), self._dice.pick((0, 0, 15, 30, 30, 45))
        return f"{hour}:{minute:02}"

    def _draw_host(self) -> str:
        """Draw the name of a spammer's host, which is reserved for examples."""
        dice, lists = self._dice, words()
        if dice.chance(0.4):
            return dice.pick(lists["any.known_junk"])  # hosts that several messages share
        name = dice.pick(lists["any.junk"]) + dice.pick(("", "-", "")) + dice.pick(lists["any.junk"])
        if dice.chance(0.4):
            name += dice.digits(dice.draw_between(1, 3))
        if dice.chance(0.3):
            name = dice.pick(("mail", "go", "m", "click", "secure", "e")) + "." + name
        return name + dice.pick(
            (".example", ".example", ".example", ".example.com", ".example.net", ".test", ".invalid")
        )

    def _draw_user(self) -> str:
        dice, lists = self._dice, words()
        first = dice.pick(lists["en.first"]).lower()
        return dice.pick(
            (
                first + dice.digits(3),
                first + "." + dice.string(5),
                dice.string(9),
                f"{first}_{dice.digits(2)}",
            )
        )

    def _list_makers(self) -> dict[str, Callable[[], str]]:
        """Return the functions that compute the values of slots: numbers, dates, codes and addresses."""
        return {
            "amount": lambda: self._draw_money(9, 190),
            "price": lambda: self._draw_money(4, 29),
            "hundreds": lambda: self._draw_money(210, 990),
            "thousands": lambda: self._draw_money(1200, 9800),
            "millions": lambda: self._draw_money(2, 38, cents=False) + self._dice.pick((".5", "", ".2", "")),
            "few": lambda: str(self._dice.draw_between(2, 9)),
            "some": lambda: str(self._dice.draw_between(11, 48)),
            "many": lambda: str(self._dice.draw_between(120, 980)),
            "percent": lambda: str(5 * self._dice.draw_between(2, 16)),
            "number": lambda: self._dice.digits(6),
            "four": lambda: str(self._dice.draw_between(1000, 9999)),
            "code": lambda: self._dice.string(8, "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"),
            "hex": lambda: self._dice.hexadecimal(12),
            "token": lambda: self._dice.token(22),
            # In the form of a Bitcoin address.
            "wallet": lambda: "bc1q" + self._dice.string(38, "acdefghjklmnpqrstuvwxyz023456789"),
            "today": lambda: self._format_date(0),
            "past": lambda: self._format_date(-self._dice.draw_between(2, 20)),
            "soon": lambda: self._format_date(self._dice.draw_between(2, 9)),
            "later": lambda: self._format_date(self._dice.draw_between(14, 60)),
            "day": self._draw_weekday,
            "month": self._draw_month,
            "time": self._draw_time,
            "lastyear": lambda: str(self._when.year - 1),
            "year": lambda: str(self._when.year),
            "junk": self._draw_host,
            "user": self._draw_user,
            "ip": lambda: (
                self._dice.pick(("192.0.2.", "198.51.100.", "203.0.113."))
                + str(self._dice.draw_between(2, 250))
            ),
        }
