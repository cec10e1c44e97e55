"""A folder's name → whether people keep spam in it, or mail they wanted, or neither."""
# pathlib would cost a cold process 8 ms.
# ruff: noqa: PTH100, PTH116, PTH119

import os

from tamis_mail.mailbox import folders
from tamis_mail.mailbox.source import is_mbox_file

__all__ = ["guess_label", "labelled_folders"]


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Whole words of names, as mail programs and people write them.
_SPAM = _listed("""
    spam spams junk bulk caughtspam spamverdacht pourriel pourriels indésirable indésirables indesiderata
    unerwünscht unerwünschte deseado lixo ongewenst ongewenste skräppost søppelpost uønsket roskaposti спам
    нежелательная 垃圾邮件 垃圾郵件 迷惑メール スパム 스팸 śmieci nevyžádaná
""")
_HAM = _listed("""
    ham inbox maildir mbox archive archives archiv archivio archivo saved kept notspam nonspam
    posteingang входящие 收件箱
""")
_NEITHER = _listed("""
    sent outbox draft drafts trash deleted templates unsent chats
    gesendet gesendete entwürfe papierkorb gelöscht envoyés brouillons corbeille supprimés
    enviados borradores papelera inviata bozze cestino отправленные черновики корзина
""")
_NOT = _listed("not non no nicht kein")
_ENDINGS = (".gz", ".bz2", ".xz", ".mbox", ".mbx", ".sbd", ".eml", ".txt")


def guess_label(path: str | os.PathLike[str]) -> str | None:
    """ "spam" or "ham", by the name of the folder or mbox alone; None for Sent, Drafts, Trash and all others.

    >>> (
    ...     guess_label("Maildir/.Junk"),
    ...     guess_label("easy_ham"),
    ...     guess_label("not-spam.mbox"),
    ...     guess_label("Work"),
    ... )
    ('spam', 'ham', 'ham', None)
    """
    words = _words(path)
    if not words or not words.isdisjoint(_NEITHER):
        return None
    if not words.isdisjoint(_SPAM):
        # "Correo no deseado" says no, and means spam.
        return "ham" if not words.isdisjoint(_NOT) and "deseado" not in words else "spam"
    return None if words.isdisjoint(_HAM) else "ham"


def labelled_folders(root: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """The mailboxes in a tree, itself included, whose names tell what is in them: paths and labels.

    The root of a Maildir tree is the inbox, whatever it is called. Below Sent, Drafts and Trash nothing is
    looked for, and all below a plain folder with a label is of that label.
    """
    found: list[tuple[str, str]] = []
    visited: set[tuple[int, int]] = set()
    start = os.fspath(root)
    waiting = [start]
    while waiting:
        path = waiting.pop()
        label = guess_label(path)
        try:
            status = os.stat(path)
            entries = folders.list_folder(path)
        except NotADirectoryError:
            if label and is_mbox_file(path):
                found.append((path, label))
            continue
        except OSError:
            continue
        if (status.st_dev, status.st_ino) in visited:
            continue
        visited.add((status.st_dev, status.st_ino))
        kind = folders.kind_of(entries)
        if kind == "maildir":
            if path == start and not _is_neither(path):
                label = label or "ham"
            if label:
                found.append((path, label))
            entries = [e for e in entries if e.name not in ("cur", "new", "tmp") and folders.is_folder(e)]
        elif label and (path != start or kind == "mh"):
            found.append((path, label))
            continue
        else:
            entries = [e for e in entries if not e.name.startswith(".")]
        waiting += [entry.path for entry in entries if not _is_neither(entry.path)]
    if not found and visited and (label := guess_label(start)):
        found.append((start, label))
    return sorted(found)


def _is_neither(path: str) -> bool:
    return not _words(path).isdisjoint(_NEITHER)


def _words(path: str | os.PathLike[str]) -> frozenset[str]:
    """The words of the last name in a path, in lower case."""
    name = os.path.basename(os.path.abspath(os.fspath(path)))
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    name = _decoded(name).casefold()
    return frozenset("".join(c if c.isalnum() else " " for c in name).split())


def _decoded(name: str) -> str:
    """The name as people see it: IMAP servers write "ind&AOk-sirable" (RFC 3501, modified UTF-7)."""
    if "&" not in name or not name.isascii():
        return name
    try:
        return name.replace("+", "+-").replace("&", "+").replace(",", "/").encode("ascii").decode("utf-7")
    except UnicodeDecodeError:
        return name
