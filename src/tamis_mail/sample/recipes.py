"""Text files → recipes and word lists.

A recipe opens with a line `%% kind language option=value …`, has headers like a mail, a blank line, a body.
In all of it `[this|that]` is a choice, `[1:this|that]` the same choice wherever the number is the same (so
that a subject fits its body), and `{slot}` is filled in later. The file's name says if it is ham or spam.
Options, where commas part several: times (how many messages), by (writers), form, charset, encoding, trick.
"""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

__all__ = ["Label", "Recipe", "recipes", "words"]

Label = Literal["spam", "ham"]

_TIMES = 2  # the alternatives of a text are enough for this many messages unless it says more


@dataclass(frozen=True)
class Recipe:
    """What a message will be made of: everything that a person had to write."""

    label: Label
    kind: str
    language: str
    options: dict[str, tuple[str, ...]]
    headers: tuple[tuple[str, str], ...]
    body: str

    @property
    def times(self) -> int:
        return int(self.options.get("times", (str(_TIMES),))[0])

    def header(self, name: str, default: str = "") -> str:
        return next((value for key, value in self.headers if key == name), default)


def _read(name: str) -> str:
    return files(__package__).joinpath("texts", name).read_text(encoding="utf-8")


def _recipe(label: Label, text: str) -> Recipe:
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
    """Every recipe, in the order of the files' names and of the lines in them."""
    names = sorted(entry.name for entry in files(__package__).joinpath("texts").iterdir())
    labels: tuple[Label, ...] = ("ham", "spam")
    return tuple(
        _recipe(label, text)
        for label in labels
        for name in names
        if name.startswith(f"{label}-")
        for text in ("\n" + _read(name)).split("\n%% ")[1:]
    )


@cache
def words() -> dict[str, tuple[str, ...]]:
    """Word lists by `language.slot`; lines of `words.txt` with the same key add up."""
    lists: dict[str, tuple[str, ...]] = {}
    for line in _read("words.txt").splitlines():
        if line.strip() and not line.startswith("#"):
            key, _, values = line.partition(" = ")
            lists[key] = lists.get(key, ()) + tuple(value.strip() for value in values.split(" | "))
    return lists
