"""One message, one digest: by whichever route it comes.

    python -m benchmarks.mail_identity FOLDER … [--procmail --jobs 40]

Each file of the folders is a message. It is written the way each kind of mailbox and delivery agent stores
it, and read back from there; the digest must be that of the message on standard input. With --procmail
(Debian: `apt install procmail`) the real procmail delivers it, too, into an mbox, a Maildir and an MH
folder. procmail sleeps for a second after it has written to an mbox, so many deliveries run at once
(`--jobs`). The table has a line for each route, with the number of messages and of other digests.
"""

import argparse
import bz2
import gzip
import lzma
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

from tamis_mail.mailbox import SourceError, open_source
from tamis_mail.message import canonical, digest
from tamis_mail.message.envelope import envelope_end

__all__ = ["PROCMAIL_ROUTES", "ROUTES", "Route", "digests"]

Route = Callable[[bytes, Path], Path]  # a message and an empty folder → the mailbox it was stored in

_LARGEST = 60 << 20  # a file above is an archive, not a message
_POSTMARK = b"From someone@example.org Thu Jan  1 00:00:00 2026\n"
_BEFORE = b"Subject: the one before\n\nIts body.\n"
_AFTER = b"Subject: the one after\n\nIts body.\n"


def _message(raw: bytes) -> bytes:
    """A message as a delivery agent gets it: without a postmark, and with an end of its last line."""
    raw = raw[envelope_end(raw) :]
    return raw if raw.endswith(b"\n") else raw + b"\n"


def _store_file(name: str, pack: Callable[[bytes], bytes]) -> Route:
    def store(raw: bytes, folder: Path) -> Path:
        (folder / name).write_bytes(pack(raw))
        return folder / name

    return store


def _store_maildir(raw: bytes, folder: Path) -> Path:
    for part in ("cur", "new", "tmp"):
        (folder / part).mkdir()
    (folder / "cur" / "1767225600.M1P1.host:2,S").write_bytes(raw)
    return folder


def _store_mh(raw: bytes, folder: Path) -> Path:
    (folder / "1").write_bytes(raw)
    return folder


def _store_mbox(write: Callable[[bytes], bytes]) -> Route:
    def store(raw: bytes, folder: Path) -> Path:
        stored = b"".join(_POSTMARK + write(one) + b"\n" for one in (_BEFORE, _message(raw), _AFTER))
        (folder / "mbox").write_bytes(stored)
        return folder / "mbox"

    return store


def _quote_some(message: bytes) -> bytes:
    """The dialect mboxo: "From " becomes ">From "."""
    return re.sub(rb"(?m)^From ", rb">From ", message)


def _quote_all(message: bytes) -> bytes:
    """The dialect mboxrd: ">From " becomes ">>From ", too."""
    return re.sub(rb"(?m)^(>*From )", rb">\1", message)


def _count_length(message: bytes) -> bytes:
    """The dialect mboxcl2: nothing is quoted, lines end in LF, and a field says how long the body is."""
    message = message.replace(b"\r\r\n", b"\n").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if message.startswith(b"\n"):
        head, body = b"", message[1:]
    else:
        head, _, body = message.partition(b"\n\n")
        head = head.rstrip(b"\n") + b"\n"
    head = re.sub(rb"(?mi)^content-length[ \t]*:[^\n]*\n(?:[ \t][^\n]*\n)*", b"", head)
    return head + b"Content-Length: %d\n\n" % len(body) + body


ROUTES: dict[str, Route] = {
    "path": _store_file("message", bytes),
    "path, lines end in CR LF": _store_file("message", lambda raw: re.sub(rb"(?<!\r)\n", b"\r\n", raw)),
    "path, one more newline": _store_file("message", lambda raw: raw + b"\n"),
    "gzip": _store_file("message.gz", lambda raw: gzip.compress(raw, 1, mtime=0)),
    "bzip2": _store_file("message.bz2", bz2.compress),
    "xz": _store_file("message.xz", lambda raw: lzma.compress(raw, preset=0)),
    "Maildir": _store_maildir,
    "MH": _store_mh,
    "mboxo": _store_mbox(_quote_some),
    "mboxrd": _store_mbox(_quote_all),
    "mboxcl": _store_mbox(lambda message: _count_length(_quote_some(message))),
    "mboxcl2": _store_mbox(_count_length),
}


def _deliver_by_procmail(target: str) -> Route:
    def store(raw: bytes, folder: Path) -> Path:
        rules = folder / "procmailrc"
        rules.write_text(f"MAILDIR={folder}\nDEFAULT={folder}/{target}\nLOGFILE={folder}/log\nUMASK=077\n")
        rules.chmod(0o600)
        # A mail server gives a delivery agent lines that end in LF, and no postmark.
        message = _message(raw).replace(b"\r\n", b"\n")
        subprocess.run(["procmail", "-f-", str(rules)], input=message, check=True, capture_output=True)
        return folder / target.rstrip("/.")

    return store


PROCMAIL_ROUTES: dict[str, Route] = {
    "procmail → mbox": _deliver_by_procmail("inbox"),
    "procmail → Maildir": _deliver_by_procmail("maildir/"),
    "procmail → MH": _deliver_by_procmail("mh/."),
}


def digests(store: Route, raw: bytes) -> list[bytes]:
    """The digests of the messages that are read from a mailbox in which one message was stored."""
    with tempfile.TemporaryDirectory() as folder:
        mailbox = store(raw, Path(folder))
        found = [digest(canonical(letter.raw)) for letter in open_source(mailbox)]
    others = {digest(canonical(_BEFORE)), digest(canonical(_AFTER))}
    return [one for one in found if one not in others]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--procmail", action="store_true", help="let procmail deliver each message, too")
    parser.add_argument("--jobs", type=int, default=1, help="how many messages to deliver at once")
    parser.add_argument("--show", type=int, default=10, help="how many of the messages that differ to name")
    options = parser.parse_args()
    routes = ROUTES | (PROCMAIL_ROUTES if options.procmail else {})
    counts: Counter[str] = Counter()
    differing: list[str] = []
    with ThreadPoolExecutor(options.jobs) as threads:
        for batch in _batches(_files(options.folders), 10 * options.jobs):
            for own_counts, own_differing in threads.map(lambda file: _compare(file, routes), batch):
                counts += own_counts
                differing += own_differing
    sys.stdout.write(
        f"{counts['messages']:,} messages (left out: {counts['several']} files that hold several, "
        f"{counts['no mail']} that are no mail)\n\n"
        "| route | messages with another digest than on stdin |\n|---|---|\n"
    )
    sys.stdout.writelines(f"| {name} | {counts[name]} |\n" for name in routes)
    sys.stdout.writelines(f"{line}\n" for line in differing[: options.show])
    return int(bool(differing))


def _batches(files: Iterator[tuple[Path, bytes]], size: int) -> Iterator[list[tuple[Path, bytes]]]:
    while batch := list(islice(files, size)):
        yield batch


def _compare(file: tuple[Path, bytes], routes: dict[str, Route]) -> tuple[Counter[str], list[str]]:
    """Count what kind of file this is and the routes by which its message has another digest; name these."""
    path, raw = file
    try:
        by_path = digests(ROUTES["path"], raw)
    except SourceError:
        by_path = []
    if not by_path or not digests(_store_maildir, raw):
        return Counter(["no mail"]), []  # a picture or a database, which is refused, or left out of a folder
    if len(by_path) > 1:
        return Counter(["several"]), []  # an mbox
    differing = [name for name, store in routes.items() if digests(store, raw) != [digest(canonical(raw))]]
    return Counter(["messages", *differing]), [f"{name}: {path}" for name in differing]


def _files(folders: list[Path]) -> Iterator[tuple[Path, bytes]]:
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink() and path.stat().st_size < _LARGEST:
                raw = path.read_bytes()
                if canonical(raw):  # an empty file is no message
                    yield path, raw


if __name__ == "__main__":
    sys.exit(main())
