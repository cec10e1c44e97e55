"""Folders → their roles: by special-use attribute (RFC 6154), else by well-known names in several languages.

- A folder without a role of its own has that of the folder above it: mail in Junk/2026 is junk. But folders
  below the inbox do not have its role.
- An attribute takes precedence over a name: if the server says which folder is Junk, no other folder is junk
  because of its name. A folder that the user chose for a role takes precedence over both.
- Names are compared with the well-known ones only at the top level, and directly below the inbox or
  "[Gmail]", in which Gmail has its own folders: Projects/Junk has no role.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tamis_mail.mailbox.names import guess_role


class Role(StrEnum):
    """The purpose of a folder."""

    INBOX = "inbox"
    JUNK = "junk"
    UNSURE = "unsure"  # the folder to which the filter moves mail of which it is unsure
    TRASH = "trash"
    SENT = "sent"
    DRAFTS = "drafts"
    ARCHIVE = "archive"
    VIRTUAL = "virtual"  # shows messages of other folders, as All Mail and Starred of Gmail do
    OTHER = "other"


# The roles of folders between which a move can teach something. A move to the trash teaches nothing, because
# spam and other mail are deleted alike; a message that returns from it counts as moved from its last folder
# before the trash.
WATCHED = frozenset({Role.INBOX, Role.JUNK, Role.UNSURE, Role.ARCHIVE, Role.OTHER})

# \Inbox, \Spam, \AllMail and \Starred are older than RFC 6154; \Important is of RFC 8457.
_ATTRIBUTES = {
    "\\inbox": Role.INBOX,
    "\\junk": Role.JUNK,
    "\\spam": Role.JUNK,
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
# The names of folders directly below which names are compared, too.
_CONTAINERS = frozenset({"inbox", "[gmail]", "[google mail]"})
_UNSURE_NAMES = frozenset({"unsure", "maybe junk", "maybe spam", "possible spam", "possible junk"})


@dataclass(frozen=True, slots=True)
class NamedFolder:
    """The components of a folder's name, decoded, and its attributes on the server."""

    parts: tuple[str, ...]
    attributes: frozenset[str] = frozenset()


def find_roles(
    folders: Sequence[NamedFolder], *, junk: Iterable[str] = (), unsure: Iterable[str] = ()
) -> list[Role]:
    """Return the role of each folder.

    `junk` and `unsure` are names of folders, with their components joined by "/", that the user chose for
    that role: then no other folder has it by attribute or name.

    >>> names = ["INBOX", "Junk", "Junk/2026", "Projects/Junk", "Sent Items", "Work"]
    >>> [role.value for role in find_roles([NamedFolder(tuple(name.split("/"))) for name in names])]
    ['inbox', 'junk', 'junk', 'other', 'sent', 'other']
    """
    chosen = dict.fromkeys(junk, Role.JUNK) | dict.fromkeys(unsure, Role.UNSURE)
    roles_by_parts: dict[tuple[str, ...], Role] = {}
    for folder in folders:
        role = chosen.get("/".join(folder.parts)) or _find_role_by_attribute(folder)
        if role is not None and (role not in chosen.values() or "/".join(folder.parts) in chosen):
            roles_by_parts[folder.parts] = role
    assigned = {*roles_by_parts.values(), *chosen.values()}
    for folder in folders:
        if folder.parts not in roles_by_parts:
            role = _find_role_by_name(folder.parts)
            if role is not None and (role not in assigned or role == Role.INBOX):
                roles_by_parts[folder.parts] = role
    return [_inherit(folder.parts, roles_by_parts) for folder in folders]


def _find_role_by_attribute(folder: NamedFolder) -> Role | None:
    roles = [_ATTRIBUTES[name] for name in map(str.lower, folder.attributes) if name in _ATTRIBUTES]
    return min(roles, default=None)  # attributes have no order: choose the same role in every run


def _find_role_by_name(parts: tuple[str, ...]) -> Role | None:
    if len(parts) == 1 and parts[0].casefold() == "inbox":
        return Role.INBOX
    if len(parts) > 2 or (len(parts) == 2 and parts[0].casefold() not in _CONTAINERS):
        return None
    if parts[-1].casefold() in _UNSURE_NAMES:
        return Role.UNSURE
    role_name = guess_role(parts[-1])
    return None if role_name in (None, "inbox") else Role(role_name)


def _inherit(parts: tuple[str, ...], roles_by_parts: dict[tuple[str, ...], Role]) -> Role:
    """Return the role of a folder: its own, or that of the nearest folder above it, except the inbox."""
    for length in range(len(parts), 0, -1):
        role = roles_by_parts.get(parts[:length])
        if role is not None and (length == len(parts) or role != Role.INBOX):
            return role
    return Role.OTHER
