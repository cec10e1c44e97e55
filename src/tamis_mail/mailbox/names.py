"""Guess from the name of a folder or an mbox whether it holds spam, ham (wanted mail), or neither."""
# Importing pathlib would take 8 ms of a process that judges one message.
# ruff: noqa: PTH100, PTH119

import os
from importlib import import_module


def _split_words(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Words of the names of folders, as mail programs and people write them, in lower case.
_SPAM = _split_words("""
    spam spams junk bulk caughtspam spamverdacht pourriel pourriels indésirable indésirables indesiderata
    unerwünscht unerwünschte deseado lixo ongewenst ongewenste skräppost søppelpost uønsket roskaposti спам
    нежелательная 垃圾邮件 垃圾郵件 迷惑メール スパム 스팸 śmieci nevyžádaná
""")
_INBOX = _split_words("inbox maildir mbox posteingang входящие 收件箱")
_SENT = _split_words("""
    sent outbox unsent gesendet gesendete envoyé envoyés enviado enviados enviada enviadas inviata inviati
    verzonden skickat skickade sendt sendte lähetetyt wysłane odeslaná отправленные 已发送
    已傳送 寄件備份 送信済み 보낸편지함
""")
_DRAFTS = _split_words("""
    draft drafts templates entwurf entwürfe brouillon brouillons borradores rascunhos bozze concepten utkast
    kladder luonnokset szkice koncepty черновики 草稿 草稿箱 下書き
""")
_TRASH = _split_words("""
    trash deleted bin papierkorb gelöscht gelöschte corbeille supprimé supprimés papelera lixeira cestino
    prullenbak papperskorg papirkurv roskakori kosz koš корзина удаленные 已删除 垃圾桶 ゴミ箱 휴지통
""")
_ARCHIVE = _split_words(
    "archive archives archiv archivio archivo arquivo archief arkiv arkisto архив 归档 封存"
)
_HAM = _INBOX | _ARCHIVE | {"ham", "saved", "kept", "notspam", "nonspam"}
_NEITHER = _SENT | _DRAFTS | _TRASH | {"chats"}
_ROLES = {"sent": _SENT, "drafts": _DRAFTS, "trash": _TRASH, "archive": _ARCHIVE, "inbox": _INBOX}
_NOT = _split_words("not non no nicht kein")
# Endings of the names of files and folders that are removed; Thunderbird names folders of folders "….sbd".
_ENDINGS = (".gz", ".bz2", ".xz", ".mbox", ".mbx", ".sbd", ".eml", ".txt")


def guess_label(path: str | os.PathLike[str]) -> str | None:
    """Guess "spam" or "ham" from the name of a folder or mbox; None for Sent, Drafts, Trash and all others.

    >>> (
    ...     guess_label("Maildir/.Junk"),
    ...     guess_label("easy_ham"),
    ...     guess_label("not-spam.mbox"),
    ...     guess_label("Work"),
    ... )
    ('spam', 'ham', 'ham', None)
    """
    words = _split_file_name(path)
    if not words or not words.isdisjoint(_NEITHER):
        return None
    if not words.isdisjoint(_SPAM):
        # "Correo no deseado" contains "no" and means spam.
        return "ham" if not words.isdisjoint(_NOT) and "deseado" not in words else "spam"
    return None if words.isdisjoint(_HAM) else "ham"


def guess_role(name: str) -> str | None:
    """Guess the role of a folder from its name: junk, sent, drafts, trash, archive or inbox; None if unknown.

    >>> [guess_role(name) for name in ("Junk E-mail", "Entw&APw-rfe", "Not Junk", "Deleted Items", "Work")]
    ['junk', 'drafts', None, 'trash', None]
    """
    words = _split_name(name)
    for role, known in _ROLES.items():
        if not words.isdisjoint(known):
            return role
    return "junk" if guess_label(name) == "spam" else None


def is_neither(path: str | os.PathLike[str]) -> bool:
    """Whether a name, such as Sent, Drafts or Trash, means neither spam nor wanted incoming mail."""
    return not _split_file_name(path).isdisjoint(_NEITHER)


def reason_to_leave_out(path: str, root: str, label: str) -> str | None:
    """Return why a folder or mbox below a root must not be learned with the root's label; None if it may.

    Below a root whose name means spam, everything may be learned as spam, whatever the names are.

    >>> reason_to_leave_out("Mail/Junk", "Mail", "ham")
    'its name says spam'
    >>> reason_to_leave_out("Junk/Archive", "Junk", "spam") is None
    True
    """
    if label == guess_label(root) == "spam":
        return None
    if is_neither(path):
        return "its name says neither spam nor ham"
    guessed = guess_label(path)
    return f"its name says {guessed}" if guessed == ("ham" if label == "spam" else "spam") else None


def _split_file_name(path: str | os.PathLike[str]) -> frozenset[str]:
    """Return the words of the last component of a path, in lower case, without endings such as .mbox."""
    name = os.path.basename(os.path.abspath(os.fspath(path)))
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return _split_name(name)


def _split_name(name: str) -> frozenset[str]:
    """Return the words of a name, in lower case."""
    name = decode_utf7(name).casefold()
    return frozenset("".join(c if c.isalnum() else " " for c in name).split())


def decode_utf7(name: str) -> str:
    """Decode modified UTF-7, in which IMAP servers write names of folders (RFC 3501).

    A name that is not valid in this encoding is returned as it is.

    >>> decode_utf7("ind&AOk-sirable"), decode_utf7("R & D")
    ('indésirable', 'R & D')
    """
    if "&" not in name or not name.isascii():
        return name
    pieces, rest = [], name
    while rest:
        plain, mark, rest = rest.partition("&")
        pieces.append(plain)
        code, end, rest = rest.partition("-") if mark else ("", "", "")
        if mark and not end:
            return name
        try:
            pieces.append(f"+{code.replace(',', '/')}-".encode("ascii").decode("utf-7") if code else mark)
        except UnicodeDecodeError:
            return name
    return "".join(pieces)


def encode_utf7(name: str) -> str:
    """Encode the name of a folder in modified UTF-7.

    >>> encode_utf7("indésirable"), encode_utf7("R & D")
    ('ind&AOk-sirable', 'R &- D')
    """
    pieces: list[str] = []
    coded = ""
    for character in f"{name}\n":  # the end of line, which no name has, ends the last coded text
        if character.isascii():
            if coded:
                code: bytes = import_module("base64").b64encode(coded.encode("utf-16-be", "surrogatepass"))
                pieces.append(f"&{code.decode('ascii').rstrip('=').replace('/', ',')}-")
                coded = ""
            pieces.append("&-" if character == "&" else character)
        else:
            coded += character
    return "".join(pieces)[:-1]
