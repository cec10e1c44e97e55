"""SpamAssassin's mail, its text in other scripts → streamed through filters: is any script sorted worse than English?

Every message keeps its header fields, but for the letters of its subject, and its parts; text parts are decoded, the
letters a–z in them are replaced, and they are written again as UTF-8, 8bit or base64 by turns. HTML keeps its tags.
Cyrillic, Greek, Arabic and Devanagari: one letter for one letter, so every word stays a word, and spaces stay. Han:
every word becomes one character if it is among the 3,000 most frequent, else two, and the spaces between words go; so
words can no longer be told by spaces. "Latin" is the same rewriting with the letters left as they are: what the rest is
compared with. A message that cannot be parsed or decoded is kept as it is, and counted.

Most of what gives spam away is in header fields that no script changes; so a second table is of messages without them,
with the subject and the text alone (`--alone`).

    python experiments/0007-many-languages/run.py [--data FOLDER] [--messages N] [--filters tamis,bogofilter]
"""

import argparse
import base64
import email
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from email.header import Header, decode_header
from email.message import Message
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.mail_corpus import BUILD, Mail, add_corpus, fingerprint, ordered, read_corpus, tell  # noqa: E402
from benchmarks.mail_filters import refuse_missing  # noqa: E402
from benchmarks.mail_metrics import area, missed, roc_area  # noqa: E402
from benchmarks.mail_stream import Row, read, stream  # noqa: E402
from tamis_mail.labels import SPAM  # noqa: E402

Convert = Callable[[str], str]

LATIN = "abcdefghijklmnopqrstuvwxyz"
ALPHABETS = {
    "Cyrillic": "абцдефгхийклмнопярстувшщыз",
    "Greek": "αβξδεφγηιϳκλμνοπϙρστυϝωχψζ",
    "Arabic": "ابثدهفغحيجكلمنوپقرستعطظخصز",
    "Devanagari": "अबचदएफगहइजकलमनओपखरसतउवडयणझ",
}
COMMON = 3_000  # words that become one character, as the most frequent of Chinese are
FIRST, HAN = 0x4E00, 20_000  # characters there are to choose from

_WORD = re.compile(r"[A-Za-z]+")
_RUN = re.compile(r"[A-Za-z]+(?:[ \t\r\n]+[A-Za-z]+)*")
_TAG = re.compile(r"(<[^<>]*>|&#?\w+;|\b(?:https?|ftp|mailto):[^\s<>\"]+|\b[\w.+-]+@[\w.-]+|\b(?:[\w-]+\.)+[a-z]{2,6}\b)")


_SAID = re.compile(rb"(?i)(?:subject|mime-version|content-[a-z-]+)\s*:")


def by_letter(alphabet: str) -> Convert:
    """One letter for one letter, in upper case where the script has it."""
    assert len(alphabet) == len(set(alphabet)) == len(LATIN), alphabet
    upper = alphabet.upper() if len(alphabet.upper()) == len(LATIN) else alphabet
    return lambda text: text.translate(str.maketrans(LATIN + LATIN.upper(), alphabet + upper))


def by_word(texts: Sequence[str]) -> Convert:
    """One or two characters for a word, and no space between words; the same word is always the same characters."""
    words = Counter(word.lower() for text in texts for word in _WORD.findall(text))
    ranked = [word for word, _ in sorted(words.items(), key=lambda item: (-item[1], item[0]))]
    rest = HAN - COMMON
    signs = {word: chr(FIRST + rank) for rank, word in enumerate(ranked[:COMMON])}
    for rank, word in enumerate(ranked[COMMON:]):
        # Both of the pair from all over the rest: as in Chinese, a character is in many words.
        signs[word] = chr(FIRST + COMMON + rank * 7919 % rest) + chr(FIRST + COMMON + rank // 97 * 31 % rest)

    def run(match: "re.Match[str]") -> str:
        return "".join(signs.get(word.lower(), chr(FIRST)) for word in match[0].split())

    return lambda text: _RUN.sub(run, text)


def outside_tags(convert: Convert, text: str) -> str:
    """Convert what a reader sees: not tags, entities, addresses and URLs."""
    return "".join(part if number % 2 else convert(part) for number, part in enumerate(_TAG.split(text)))


def text_of(part: Message) -> str:
    """The text of a part, by its charset or, where that is wrong, by one that never fails."""
    raw = part.get_payload(decode=True)
    if not isinstance(raw, bytes):
        raise ValueError("no text")
    try:
        return raw.decode(part.get_content_charset() or "ascii")
    except (LookupError, UnicodeDecodeError):
        return raw.decode("cp1252", "replace")


def subject_of(message: Message) -> str | None:
    if message["Subject"] is None:
        return None
    parts = decode_header(str(message["Subject"]))
    return "".join(p.decode(c or "latin-1", "replace") if isinstance(p, bytes) else p for p, c in parts)


def leaves(message: Message) -> list[Message]:
    return [part for part in message.walk() if not part.is_multipart() and part.get_content_maintype() == "text"]


def converted(raw: bytes, convert: Convert, number: int) -> bytes | None:
    """The message in another script; None if it cannot be."""
    try:
        message = email.message_from_bytes(raw)
        subject = subject_of(message)
        if subject is not None:
            made = " ".join(outside_tags(convert, subject).split())
            del message["Subject"]
            message["Subject"] = made if made.isascii() else Header(made, "utf-8", maxlinelen=900).encode()
        for part in leaves(message):
            text = outside_tags(convert, text_of(part)).encode("utf-8", "replace")
            del part["Content-Transfer-Encoding"]
            part.set_param("charset", "utf-8") if part["Content-Type"] else part.add_header(
                "Content-Type", "text/plain", charset="utf-8"
            )
            if number % 2:
                part["Content-Transfer-Encoding"] = "base64"
                part.set_payload(base64.encodebytes(text).decode("ascii"))
            else:
                part["Content-Transfer-Encoding"] = "8bit"
                part.set_payload(text.decode("ascii", "surrogateescape"))
        return message.as_bytes(policy=message.policy.clone(max_line_length=0))
    except Exception:  # whatever the mail did to the parser
        return None


def texts_of(mail: Sequence[Mail]) -> list[str]:
    """All that is converted, for the ranks of words."""
    found = []
    for one in mail:
        try:
            message = email.message_from_bytes(one.raw)
            found += [subject_of(message) or "", *(text_of(part) for part in leaves(message))]
        except Exception:
            continue
    return [part for text in found for part in _TAG.split(text)[::2]]


def bare(raw: bytes) -> bytes:
    """Without the header fields that no script changes: what is left is the subject and the text."""
    head, gap, body = raw.partition(b"\n\n")
    fields = re.split(rb"\n(?![ \t])", head)
    return b"\n".join(field for field in fields if _SAID.match(field)) + gap + body


def rewritten(mail: Sequence[Mail], convert: Convert, alone: bool) -> tuple[list[Mail], int]:
    """The mail in another script, and how many messages were kept as they are."""
    made, kept = [], 0
    for number, one in enumerate(mail):
        raw = converted(one.raw, convert, number)
        if alone:
            raw = bare(one.raw if raw is None else raw)
        kept += raw is None
        made.append(Mail(one.name, one.label, one.raw if raw is None else raw))
    return made, kept


def difference(ours: Sequence[Row], latin: Sequence[Row]) -> str:
    """1-ROCA % above that of Latin, with the 95 % interval of a paired bootstrap over messages, and what that says."""
    spam = np.array([row.label == SPAM for row in ours])
    one, other = (np.array([row.answer.score for row in rows]) for rows in (ours, latin))
    dice = np.random.default_rng(7)
    gaps = []
    for _ in range(1000):
        drawn = dice.integers(len(spam), size=len(spam))
        gaps.append(100 * (roc_area(other[drawn], spam[drawn]) - roc_area(one[drawn], spam[drawn])))
    gap = 100 * (roc_area(other, spam) - roc_area(one, spam))
    low, high = np.quantile(gaps, [0.025, 0.975])
    said = "won" if high < 0 else "lost" if low > 0 else "tied"
    return f"{gap:+.3f} ({low:+.3f} to {high:+.3f}) | {said}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_corpus(parser)
    parser.set_defaults(messages=2000)
    parser.add_argument("--filters", default="tamis,bogofilter")
    parser.add_argument("--alone", action="store_true", help="without header fields but the subject's")
    parser.add_argument("--scripts", default="", help="some of: as it is, Latin, Cyrillic … (default: all)")
    parser.add_argument("--cache", type=Path, default=BUILD / "many_languages", help="CSVs of peers are reused")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write one message in each script, to look at")
    options = parser.parse_args()
    names = options.filters.split(",")
    refuse_missing(names)
    mail = ordered(read_corpus(options), "random")
    scripts: dict[str, Convert | None] = {"as it is": None, "Latin": lambda text: text}
    if options.alone:
        del scripts["as it is"]
    scripts |= {name: by_letter(alphabet) for name, alphabet in ALPHABETS.items()}
    scripts["Han, no spaces"] = by_word(texts_of(mail))
    alone = ", subject and text alone" if options.alone else ""
    print(f"{len(mail):,} messages, {sum(one.is_spam for one in mail):,} of them spam{alone}\n")
    print("| filter | script | kept as they are | 1-ROCA % (95 %) | missed at 0.1 % | at 1 % | against Latin | |")
    print("|---|---|---|---|---|---|---|---|")
    latin: dict[str, list[Row]] = {}
    for script, convert in scripts.items():
        if options.scripts and script not in (*options.scripts.split(","), "Latin"):
            continue
        made, kept = (list(mail), len(mail)) if convert is None else rewritten(mail, convert, options.alone)
        if options.write:
            options.write.mkdir(parents=True, exist_ok=True)
            for one in made[:2]:
                (options.write / f"{script}-{one.name.replace('/', '-')}").write_bytes(one.raw)
        for name in names:
            path = options.cache / f"{name}-{fingerprint(made)}.csv"
            rows = read(path) if path.is_file() and name != "tamis" else stream(name, made, path)
            if script == "Latin":
                latin[name] = rows
            spam = np.array([row.label == SPAM for row in rows])
            scores = np.array([row.answer.score for row in rows])
            gap = difference(rows, latin[name]) if name in latin and script != "Latin" else "|"
            losses = " | ".join(f"{missed(scores, spam, loss):.1f}" for loss in (0.001, 0.01))
            print(f"| {name} | {script} | {kept if convert else '–'} | {area(scores, spam)} | {losses} | {gap} |", flush=True)
        tell(f"{script} done")


if __name__ == "__main__":
    main()
