"""Folders → their roles: by special-use attribute (RFC 6154), else by well-known names in several languages.

- A folder below one with a role has that role: mail in Junk/2026 is junk. What is below the inbox is not.
- An attribute is believed before a name: if the server says which folder is Junk, no other folder is junk
  because of its name.
- A name counts at the top, or directly below the inbox or "[Gmail]": Projects/Junk is a folder like others.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tamis_mail.mailbox.names import guess_purpose

__all__ = ["WATCHED", "NamedFolder", "Role", "find_roles"]


class Role(StrEnum):
    """What a folder is for."""

    INBOX = "inbox"
    JUNK = "junk"
    UNSURE = "unsure"  # where the filter puts mail that it is not sure of
    TRASH = "trash"
    SENT = "sent"
    DRAFTS = "drafts"
    ARCHIVE = "archive"
    VIRTUAL = "virtual"  # shows messages of other folders: All Mail, Starred
    OTHER = "other"


# The folders between which a move can teach something. What is put in the trash teaches nothing, whether it
# was spam or not, and what comes back from there is compared with where it was before.
WATCHED = frozenset({Role.INBOX, Role.JUNK, Role.UNSURE, Role.ARCHIVE, Role.OTHER})

_ATTRIBUTES = {
    "\\inbox": Role.INBOX,
    "\\junk": Role.JUNK,
    "\\spam": Role.JUNK,  # of servers before RFC 6154
    "\\trash": Role.TRASH,
    "\\sent": Role.SENT,
    "\\drafts": Role.DRAFTS,
    "\\archive": Role.ARCHIVE,
    "\\all": Role.VIRTUAL,
    "\\allmail": Role.VIRTUAL,
    "\\flagged": Role.VIRTUAL,
    "\\starred": Role.VIRTUAL,
    "\\important": Role.VIRTUAL,
}
_CONTAINERS = frozenset({"inbox", "[gmail]", "[google mail]"})
_UNSURE_NAMES = frozenset({"unsure", "maybe junk", "maybe spam", "possible spam", "possible junk"})


@dataclass(frozen=True, slots=True)
class NamedFolder:
    """The components of a folder's name, decoded, and the attributes that the server gives it."""

    parts: tuple[str, ...]
    attributes: frozenset[str] = frozenset()


def find_roles(
    folders: Sequence[NamedFolder], *, junk: Iterable[str] = (), unsure: Iterable[str] = ()
) -> list[Role]:
    """Return the role of each folder.

    `junk` and `unsure` are what the user calls the first part of a folder's name, or its parts joined by "/":
    then no other folder has that role.

    >>> names = ["INBOX", "Junk", "Junk/2026", "Projects/Junk", "Sent Items", "Work"]
    >>> [role.value for role in find_roles([NamedFolder(tuple(name.split("/"))) for name in names])]
    ['inbox', 'junk', 'junk', 'other', 'sent', 'other']
    """
    chosen = dict.fromkeys(junk, Role.JUNK) | dict.fromkeys(unsure, Role.UNSURE)
    own: dict[tuple[str, ...], Role] = {}
    for folder in folders:
        role = chosen.get("/".join(folder.parts)) or _role_by_attribute(folder)
        if role is not None and (role not in chosen.values() or "/".join(folder.parts) in chosen):
            own[folder.parts] = role
    given = {*own.values(), *chosen.values()}
    for folder in folders:
        if folder.parts not in own:
            role = _role_by_name(folder.parts)
            if role is not None and (role not in given or role == Role.INBOX):
                own[folder.parts] = role
    return [_inherit(folder.parts, own) for folder in folders]


def _role_by_attribute(folder: NamedFolder) -> Role | None:
    roles = [_ATTRIBUTES[name] for each in folder.attributes if (name := each.lower()) in _ATTRIBUTES]
    return min(roles, default=None)


def _role_by_name(parts: tuple[str, ...]) -> Role | None:
    if len(parts) == 1 and parts[0].casefold() == "inbox":
        return Role.INBOX
    if len(parts) > 2 or (len(parts) == 2 and parts[0].casefold() not in _CONTAINERS):
        return None
    if parts[-1].casefold() in _UNSURE_NAMES:
        return Role.UNSURE
    purpose = guess_purpose(parts[-1])
    return None if purpose in (None, "inbox") else Role(purpose)


def _inherit(parts: tuple[str, ...], own: dict[tuple[str, ...], Role]) -> Role:
    for length in range(len(parts), 0, -1):
        role = own.get(parts[:length])
        if role is not None and (length == len(parts) or role != Role.INBOX):
            return role
    return Role.OTHER
