"""Text files → recipes and word lists.

A recipe opens with a line `%% kind language option=value …`; the kind is a sort of mail, such as letter or
bank. Headers as in mail, a blank line and a body follow. `[this|that]` is a choice, `[1:this|that]` is the
same choice wherever the number is the same (so that a subject fits its body), and `{slot}` is filled in
later. The file's name begins with ham or spam. Options, whose values are separated by commas:

- times: how many messages are made of the recipe;
- by (the program that writes the message, a name in `writers.WRITERS`), form (of the body: plain, html, both
  or image), charset, encoding (Content-Transfer-Encoding): each message has one of the values;
- trick (a disguise of words, a name in `tricks`, or padding or hidden, which `composing` adds): each message
  has all of them.
"""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

Label = Literal["spam", "ham"]

_TIMES = 2  # messages per recipe, unless it sets another number


@dataclass(frozen=True)
class Recipe:
    """The text of a message with its alternatives."""

    label: Label
    kind: str  # of mail, such as "letter"
    language: str
    options: dict[str, tuple[str, ...]]
    headers: tuple[tuple[str, str], ...]
    body: str

    @property
    def times(self) -> int:
        return int(self.options.get("times", (str(_TIMES),))[0])

    def header(self, name: str, default: str = "") -> str:
        return next((value for key, value in self.headers if key == name), default)


def _read_text(name: str) -> str:
    return files(__package__).joinpath("texts", name).read_text(encoding="utf-8")


def _parse_recipe(label: Label, text: str) -> Recipe:
    """Read a recipe, from its opening line, without the signs %%, to the end of its body."""
    opening, _, rest = text.partition("\n")
    head, _, body = rest.partition("\n\n")
    kind, language, *options = opening.split()
    return Recipe(
        label=label,
        kind=kind,
        language=language,
        options={key: tuple(value.split(",")) for key, _, value in (word.partition("=") for word in options)},
        headers=tuple(
            (key, value.strip()) for key, _, value in (line.partition(":") for line in head.split("\n"))
        ),
        body=body.strip("\n"),
    )


@cache
def recipes() -> tuple[Recipe, ...]:
    """Read all recipes, in the order of file names and lines."""
    names = sorted(entry.name for entry in files(__package__).joinpath("texts").iterdir())
    labels: tuple[Label, ...] = ("ham", "spam")
    return tuple(
        _parse_recipe(label, text)
        for label in labels
        for name in names
        if name.startswith(f"{label}-")
        for text in ("\n" + _read_text(name)).split("\n%% ")[1:]
    )


@cache
def words() -> dict[str, tuple[str, ...]]:
    """Read the word lists by `language.slot`; lines of `words.txt` with the same key are joined."""
    lists: dict[str, tuple[str, ...]] = {}
    for line in _read_text("words.txt").splitlines():
        if line.strip() and not line.startswith("#"):
            key, _, values = line.partition(" = ")
            lists[key] = lists.get(key, ()) + tuple(value.strip() for value in values.split(" | "))
    return lists
