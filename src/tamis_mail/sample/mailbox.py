"""Seed → half a year of one person's mail, with labels; and the same written to files."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from tamis_mail.files import write_file
from tamis_mail.sample.composing import compose
from tamis_mail.sample.dice import Dice
from tamis_mail.sample.recipes import Label, Recipe, recipes

_START = datetime(2026, 1, 5)  # noqa: DTZ001  (in UTC, as all times here; zones are in headers only)
_DAYS = 174  # of mail
# Kinds of recipes that arrive in office hours.
_OFFICES = {"appointment", "bank", "doctor", "estate", "school"}


@dataclass(frozen=True)
class Sample:
    """One message of the mailbox."""

    raw: bytes
    label: Label
    kind: str  # of its recipe


def messages(seed: int = 2026) -> Iterator[Sample]:
    """Yield the messages in order of arrival.

    >>> first = next(messages())
    >>> first.label in {"ham", "spam"}, b"\\nDelivered-To: " in first.raw.replace(b"\\r\\n", b"\\n")
    (True, True)
    """
    # Time of arrival, index, recipe, dice, and the turn, which selects alternatives of the recipe.
    planned: list[tuple[datetime, int, Recipe, Dice, int]] = []
    for recipe in recipes():
        for copy in range(recipe.times):
            dice = Dice(  # the seed of this message
                f"{seed} {recipe.label} {recipe.kind} {recipe.language} {recipe.header('Subject')} {copy}"
            )
            when = _draw_arrival(recipe, dice)
            planned.append((when, len(planned), recipe, dice, seed + copy))
    for when, _, recipe, dice, turn in sorted(planned, key=lambda item: item[:2]):
        yield Sample(compose(recipe, dice, when, turn), recipe.label, recipe.kind)


def _draw_arrival(recipe: Recipe, dice: Dice) -> datetime:
    """Draw a time: spam comes at any hour, friends write by day, offices by day from Monday to Friday."""
    is_office_mail = recipe.label == "ham" and (recipe.header("To") == "work" or recipe.kind in _OFFICES)
    first, last = (0, 23) if recipe.label == "spam" else (7, 17) if is_office_mail else (6, 21)
    day = dice.draw_below(_DAYS)
    if is_office_mail and day % 7 > 4:  # the first day is a Monday
        day -= 2
    return _START + timedelta(days=day, hours=dice.draw_between(first, last), seconds=dice.draw_below(3600))


def write(folder: str | Path, seed: int = 2026) -> tuple[int, int]:
    """Write the mailbox to `folder`/ham and `folder`/spam, one file per message.

    Return the numbers of messages in ham and in spam. Raise FileExistsError, and write nothing, if the folder
    has any other file.
    """
    folder = Path(folder)
    contents = {
        folder / sample.label / f"{number:04}-{sample.kind}.eml": sample.raw
        for number, sample in enumerate(messages(seed), 1)
    }
    if foreign_file := _find_foreign_file(folder, contents):
        raise FileExistsError(
            f"{foreign_file} is not of sample mailbox {seed}: expected an empty or a new folder; name another"
        )
    for label in ("ham", "spam"):
        (folder / label).mkdir(parents=True, exist_ok=True)
    for path, raw in contents.items():
        if not path.exists():
            write_file(path, raw, sync=False)
    ham = sum(path.parent.name == "ham" for path in contents)
    return ham, len(contents) - ham


def _find_foreign_file(folder: Path, contents: dict[Path, bytes]) -> Path | None:
    """Return a file in `folder` that does not belong to the sample, or None."""
    folders = {folder / "ham", folder / "spam"}
    for path in (folder, *sorted(folders)):
        if (path.exists() or path.is_symlink()) and not path.is_dir():
            return path
    if not folder.exists():
        return None
    for path in sorted(folder.rglob("*")):
        if path not in folders and not (
            path in contents and path.is_file() and path.read_bytes() == contents[path]
        ):
            return path
    return None
