"""The roles of folders."""

import pytest

from tamis_mail.watching.roles import NamedFolder, Role, find_roles


def roles_of(*names: str, **chosen: list[str]) -> list[str]:
    return [
        role.value for role in find_roles([NamedFolder(tuple(name.split("/"))) for name in names], **chosen)
    ]


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("INBOX", Role.INBOX),
        ("inbox", Role.INBOX),
        ("Junk", Role.JUNK),
        ("Junk E-mail", Role.JUNK),
        ("Bulk Mail", Role.JUNK),
        ("INBOX/Spam", Role.JUNK),
        ("[Gmail]/Spam", Role.JUNK),
        ("[Gmail]/Bin", Role.TRASH),
        ("Courrier indésirable", Role.JUNK),
        ("Correo no deseado", Role.JUNK),
        ("Unerwünschte Werbung", Role.JUNK),
        ("迷惑メール", Role.JUNK),
        ("Papierkorb", Role.TRASH),
        ("Éléments supprimés", Role.TRASH),
        ("Deleted Items", Role.TRASH),
        ("Gesendete Objekte", Role.SENT),
        ("Черновики", Role.DRAFTS),
        ("Archives", Role.ARCHIVE),
        ("Unsure", Role.UNSURE),
        ("Not Junk", Role.OTHER),
        ("Work", Role.OTHER),
        ("Work/Junk", Role.OTHER),
        ("Posteingang", Role.OTHER),
    ],
)
def test_a_well_known_name_says_what_a_folder_is_for(name: str, role: Role) -> None:
    assert roles_of(name) == [role.value]


def test_a_folder_below_junk_is_junk_and_one_below_the_inbox_is_no_inbox() -> None:
    names = ["INBOX", "INBOX/Work", "Junk", "Junk/2026/March", "Trash", "Trash/Junk"]
    assert roles_of(*names) == ["inbox", "other", "junk", "junk", "trash", "trash"]


def test_the_attribute_of_a_server_is_believed_before_a_name() -> None:
    folders = [
        NamedFolder(("Junk",)),
        NamedFolder(("Quarantine",), frozenset({"\\HasNoChildren", "\\Junk"})),
        NamedFolder(("All",), frozenset({"\\All"})),
    ]
    assert find_roles(folders) == [Role.OTHER, Role.JUNK, Role.VIRTUAL]


def test_the_folder_that_the_user_names_is_believed_before_all() -> None:
    folders = [
        NamedFolder(("Junk",), frozenset({"\\Junk"})),
        NamedFolder(("Other", "Bad")),
        NamedFolder(("Other", "Maybe")),
    ]
    roles = find_roles(folders, junk=["Other/Bad"], unsure=["Other/Maybe"])
    assert roles == [Role.OTHER, Role.JUNK, Role.UNSURE]
