"""A fuzzer of the reader of mail: real messages that are mutated by their structure, and generated ones.

    python -m benchmarks.fuzz_mail --seconds 60 --corpus FOLDER … [--seed 0] [--save FOLDER]

Each file of the folders is a message. What is checked of each message that is made:

- Nothing raises: `canonical`, `digest`, `parse`, `tokens.read`, `features.hash_tokens`, and, where it is
  learned, `Sieve.sort` and its evidence.
- `canonical` of canonical bytes is the same bytes.
- A message that got the headers of a verdict has the digest it had, and is the same to the byte once they are
  removed.
- To learn a message and to forget it leaves the counts of the store as they were (one message of fifty).
- All stages together take at most 0.3 s of CPU time per MB and 50 ms.
- The process never needs more than its memory at the start and 400 MB (one limit, which the system holds).

A finding is printed with the seed and the number of its message, and saved if a folder for that is given.
"""

import argparse
import random
import resource
import sys
import tempfile
import time
from base64 import encodebytes
from binascii import b2a_qp
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.hostile_mail import CASES
from benchmarks.mail_bounds import allowed_seconds
from tamis_mail import Sieve, features, tokens
from tamis_mail.message import canonical, digest, parse
from tamis_mail.verdict import Verdict, header_fields

__all__ = ["MUTATORS", "Fuzzer", "find_faults", "find_slowness"]

Mutator = Callable[[random.Random, bytes, bytes], bytes]

_LARGEST = 300_000  # bytes of a message that is mutated
_MEMORY = 400 << 20  # bytes beyond what the process has at the start
_LEARNED = 50  # one message of so many is learned and forgotten
_AGAIN = 3  # measurements of a message that seems slow: the least counts
_FRAGMENTS = (
    *(
        b"\n",
        b"\r",
        b"\r\n",
        b"\r\r\n",
        b"\n\n",
        b"\0",
        b" ",
        b"\t",
        b"\n ",
        b"\n\t",
        b":",
        b";",
        b"=",
        b"--",
    ),
    *(
        b"From ",
        b"\nFrom a@b Mon Jan  1 00:00:00 2024\n",
        b"\n>From ",
        b"\n>>From ",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
    ),
    *(b"=?utf-8?q?=C3?=", b"=?utf-8?b?w6k=?=", b"=?iso-2022-jp?b?GyRC?=", b"=?x?q??=", b"=?", b"?="),
    *(
        b"\nX-Spam-Status: Yes",
        b"\nX-Old-X-Spam-Flag: YES\n",
        b"X-Bogosity: Ham\n",
        b"X-Spam-Level:",
        b"\nStatus: RO",
    ),
    *(
        b"\nContent-Type: multipart/mixed; boundary=b\n",
        b"\n--b\n",
        b"\n--b--\n",
        b";boundary=c",
        b"*0*=utf-8''%e2",
    ),
    *(
        b"\nContent-Type: message/rfc822\n\n",
        b"\nContent-Transfer-Encoding: base64\n",
        b"\nbegin 644 a\n",
        b"\nend\n",
    ),
    *(
        b"<!--",
        b"-->",
        b"<script>",
        b"</style>",
        b"<a href='",
        b"<p style='display:none'>",
        b"&#118;",
        b"&copy",
        b"<",
    ),
    *(
        "\u0301".encode() * 40,
        "\uff9e\u0334".encode() * 20,
        "a\u0430".encode(),
        "\u200b".encode(),
        b"\xc3\x28",
    ),
    *(
        b"~{VP~}",
        b"+AGE-",
        b"\x1b$B!!\x1b(B",
        b"\x0e\x0f",
        b"(",
        b")",
        b'"',
        b"\\",
        b"@",
        b"<a@b>",
        b"http://a.b/c",
    ),
)
_CHARSETS = b"utf-8 utf-7 utf-16 iso-2022-jp iso-2022-kr hz-gb-2312 gb2312 big5 cp857 koi8-r x-none".split()
_KINDS = b"text/plain text/html multipart/mixed message/rfc822 image/png text/calendar a/b x".split()
_ENCODINGS = b"base64 quoted-printable 7bit 8bit x-uuencode binary".split()


def _halves(raw: bytes) -> tuple[list[bytes], bytes]:
    """The lines of the header, and what follows."""
    head, gap, body = raw.partition(b"\n\n")
    return head.split(b"\n"), gap + body


def _join(lines: Sequence[bytes], rest: bytes) -> bytes:
    return b"\n".join(lines) + rest


def _place(dice: random.Random, raw: bytes) -> int:
    """A place in a message: at its beginning, in its header, at the end of a line, or anywhere."""
    kind = dice.randrange(5)
    if kind == 0:
        return 0
    if kind == 1:
        return dice.randint(0, min(len(raw), 500))
    if kind == 2:
        return raw.find(b"\n", dice.randint(0, len(raw))) + 1
    return dice.randint(0, len(raw))


def insert_fragment(dice: random.Random, raw: bytes, _: bytes) -> bytes:
    place = _place(dice, raw)
    return raw[:place] + dice.choice(_FRAGMENTS) * dice.choice((1, 1, 1, 2, 30)) + raw[place:]


def delete_span(dice: random.Random, raw: bytes, _: bytes) -> bytes:
    place = _place(dice, raw)
    return raw[:place] + raw[place + dice.choice((1, 2, 10, 200, 5000)) :]


def copy_span(dice: random.Random, raw: bytes, _: bytes) -> bytes:
    start, place = _place(dice, raw), _place(dice, raw)
    return (
        raw[:place] + raw[start : start + dice.choice((5, 50, 1000))] * dice.choice((1, 2, 20)) + raw[place:]
    )


def flip_bytes(dice: random.Random, raw: bytes, _: bytes) -> bytes:
    data = bytearray(raw or b"x")
    for _number in range(dice.choice((1, 3, 20))):
        data[dice.randrange(len(data))] = dice.randrange(256)
    return bytes(data)


def cut_off(dice: random.Random, raw: bytes, _: bytes) -> bytes:
    return raw[: _place(dice, raw)]


def repeat_field(dice: random.Random, raw: bytes, _: bytes) -> bytes:
    lines, rest = _halves(raw)
    lines.insert(dice.randrange(len(lines) + 1), dice.choice(lines))
    return _join(lines, rest)


def delete_field(dice: random.Random, raw: bytes, _: bytes) -> bytes:
    lines, rest = _halves(raw)
    del lines[dice.randrange(len(lines))]
    return _join(lines, rest)


def shuffle_fields(dice: random.Random, raw: bytes, _: bytes) -> bytes:
    lines, rest = _halves(raw)
    dice.shuffle(lines)
    return _join(lines, rest)


def fold_field(dice: random.Random, raw: bytes, _: bytes) -> bytes:
    lines, rest = _halves(raw)
    number = dice.randrange(len(lines))
    lines[number] = lines[number].replace(b" ", dice.choice((b"\n ", b"\n\t", b" \n  ", b"\r\n ")))
    return _join(lines, rest)


def swap_bodies(_dice: random.Random, raw: bytes, other: bytes) -> bytes:
    return _join(_halves(raw)[0], _halves(other)[1])


def change_type(dice: random.Random, raw: bytes, _: bytes) -> bytes:
    lines, rest = _halves(raw)
    line = b"Content-Type: " + dice.choice(_KINDS)
    line += dice.choice(
        (b"", b"; charset=" + dice.choice(_CHARSETS), b'; boundary="b"; boundary=c', b"; name*1=a")
    )
    lines.insert(dice.randrange(len(lines) + 1), line)
    return _join(lines, rest)


def encode_body(dice: random.Random, raw: bytes, _: bytes) -> bytes:
    lines, rest = _halves(raw)
    encoding = dice.choice(_ENCODINGS)
    if encoding == b"base64":
        rest = b"\n\n" + encodebytes(rest)
    elif encoding == b"quoted-printable":
        rest = b"\n\n" + b2a_qp(rest)
    return _join([*lines, b"Content-Transfer-Encoding: " + encoding], rest)


def wrap_in_multipart(dice: random.Random, raw: bytes, other: bytes) -> bytes:
    boundary = dice.choice((b"b", b"b", b"--", b"=_1", b" x"))
    ends = dice.choice((b"--\n", b"\n", b""))
    return b'Subject: x\nContent-Type: multipart/%s; boundary="%s"\n\n--%s\n%s\n--%s\n%s\n--%s%s' % (
        *(dice.choice((b"mixed", b"digest", b"alternative")), boundary),
        *(boundary, raw, boundary, other, boundary, ends),
    )


def wrap_in_message(dice: random.Random, raw: bytes, _: bytes) -> bytes:
    return b"Subject: x\nContent-Type: message/rfc822\n\n" * dice.choice((1, 2, 40)) + raw


def change_line_ends(dice: random.Random, raw: bytes, _: bytes) -> bytes:
    return raw.replace(b"\r\n", b"\n").replace(
        b"\n", dice.choice((b"\r\n", b"\r", b"\r\r\n", b"\n\r", b"\n\n"))
    )


def quote_as_mbox(dice: random.Random, raw: bytes, _: bytes) -> bytes:
    postmark = b"From a@b.example Mon Jan  1 00:00:00 2024\n"
    return (
        postmark * dice.choice((1, 2)) + raw.replace(b"\nFrom ", b"\n>From ") + b"\n" * dice.choice((0, 1, 3))
    )


def generate_hostile(dice: random.Random, _: bytes, other: bytes) -> bytes:
    hostile = dice.choice(list(CASES.values()))(dice.choice((500, 5000, 30_000)))
    return dice.choice((hostile, hostile + b"\n" + other[:2000], other[:500] + b"\n" + hostile))


def generate_fragments(dice: random.Random, _: bytes, __: bytes) -> bytes:
    return b"".join(dice.choice(_FRAGMENTS) for _number in range(dice.randrange(60)))


MUTATORS: tuple[Mutator, ...] = (
    *(
        insert_fragment,
        insert_fragment,
        delete_span,
        copy_span,
        flip_bytes,
        cut_off,
        repeat_field,
        delete_field,
    ),
    *(shuffle_fields, fold_field, swap_bodies, change_type, encode_body, wrap_in_multipart, wrap_in_message),
    *(change_line_ends, quote_as_mbox, generate_hostile, generate_fragments),
)


class Fuzzer:
    """Messages, each a mutation of real ones; the same seed gives the same messages."""

    def __init__(self, corpus: Sequence[bytes], seed: int) -> None:
        self._corpus = corpus
        self._seed = seed

    def message(self, number: int) -> tuple[bytes, str]:
        """The message of a number, and the names of the mutators that made it."""
        dice = random.Random(f"{self._seed}:{number}")
        raw, other = dice.choice(self._corpus), dice.choice(self._corpus)
        names = []
        for _ in range(dice.choice((1, 1, 2, 3, 6))):
            mutate = dice.choice(MUTATORS)
            raw = mutate(dice, raw, other)[:_LARGEST]
            names.append(mutate.__name__)
        return raw, " ".join(names)


def find_faults(raw: bytes, verdict: Verdict, sieve: Sieve | None) -> Iterator[str]:
    """What is wrong with the reading of a message; with a sieve, it is judged, learned and forgotten too."""
    plain = canonical(raw)
    features.hash_tokens(tokens.read(parse(plain)))
    if canonical(plain) != plain:
        yield "canonical bytes are not canonical"
    for dialect in header_fields.DIALECTS:
        written = header_fields.add_verdict(raw, verdict, dialect=dialect, required=0.95, version="1")
        if header_fields.remove_verdict(written) != raw:
            yield f"is not the same after {dialect}'s headers were added and removed"
        if digest(canonical(written)) != digest(plain):
            yield f"has another digest with {dialect}'s headers"
    if sieve:
        yield from _find_faults_of_counts(raw, sieve)


def find_slowness(raw: bytes) -> Iterator[str]:
    """Whether a message takes more CPU time than its size allows."""
    spent = _seconds(raw)
    for _ in range(_AGAIN):
        if spent <= allowed_seconds(len(raw)):
            break
        spent = min(spent, _seconds(raw))
    else:
        yield f"takes {spent:.3f} s of CPU time for {len(raw):,} bytes"


def _find_faults_of_counts(raw: bytes, sieve: Sieve) -> Iterator[str]:
    before = _counts(sieve)
    if sieve.learn(raw, "spam").action != "learned":
        return
    evidence = sieve.sort(raw).evidence
    if any(one.contribution != one.contribution for one in evidence):
        yield "has evidence that is no number"
    if sieve.forget(raw).action != "forgotten":
        yield "is not forgotten"
    if _counts(sieve) != before:
        yield "leaves other counts after it was learned and forgotten"


def _counts(sieve: Sieve) -> dict[int, tuple[int, ...]]:
    """The counts of each feature that has any."""
    counts: dict[int, tuple[int, ...]] = {}
    for table in sieve.store.count_slices():
        rows = zip(table.keys.tolist(), table.counts.tolist(), strict=True)
        counts.update({key: tuple(row) for key, row in rows if any(row)})
    return counts


def _seconds(raw: bytes) -> float:
    start = time.process_time()
    plain = canonical(raw)
    digest(plain)
    features.hash_tokens(tokens.read(parse(plain)))
    return time.process_time() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60, help="how long messages are made")
    parser.add_argument("--corpus", nargs="+", type=Path, metavar="FOLDER", default=[])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--first", type=int, default=0, metavar="NUMBER", help="the first message that is made"
    )
    parser.add_argument(
        "--save", type=Path, metavar="FOLDER", help="where messages with findings are written"
    )
    options = parser.parse_args()
    corpus = [b"Subject: hello\nFrom: ann@a.example\n\nAt noon, as always?\n", *_read_corpus(options.corpus)]
    fuzzer = Fuzzer(corpus, options.seed)
    findings: Counter[str] = Counter()
    made = learned = size = 0
    with tempfile.TemporaryDirectory() as folder, Sieve.open(Path(folder) / "fuzz.tamis") as sieve:
        for number, raw in enumerate(corpus[:20]):
            sieve.learn(raw, ("spam", "ham")[number % 2])
        verdict = sieve.sort(corpus[0])
        _limit_memory()
        end = time.monotonic() + options.seconds
        while time.monotonic() < end:
            number = options.first + made
            raw, names = fuzzer.message(number)
            made += 1
            size += len(raw)
            learns = number % _LEARNED == 0
            learned += learns
            try:
                faults = [*find_slowness(raw), *find_faults(raw, verdict, sieve if learns else None)]
            except Exception as error:  # noqa: BLE001 (whatever it is, it is a fault)
                faults = [f"{type(error).__name__}: {error}"]
            for fault in faults:
                findings["takes too long" if "CPU" in fault else fault] += 1
                sys.stdout.write(f"message {number} of seed {options.seed} ({names}): {fault}\n")
                sys.stdout.flush()
                if options.save:
                    options.save.mkdir(parents=True, exist_ok=True)
                    (options.save / f"{options.seed}-{number}.eml").write_bytes(raw)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    sys.stdout.write(
        f"{made:,} messages ({size / 1e6:,.0f} MB) from {len(corpus):,}, {learned:,} learned and forgotten, "
        f"{sum(findings.values()):,} findings, {peak:,} MB of memory at most\n"
    )
    sys.stdout.writelines(f"{count:8,}  {fault}\n" for fault, count in findings.most_common())
    return int(bool(findings))


def _read_corpus(folders: Sequence[Path]) -> Iterator[bytes]:
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink() and path.stat().st_size <= _LARGEST:
                yield path.read_bytes()


def _limit_memory() -> None:
    """Refuse memory beyond what the process has now and `_MEMORY`: a MemoryError is a finding."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _MEMORY, hard))


if __name__ == "__main__":
    sys.exit(main())
