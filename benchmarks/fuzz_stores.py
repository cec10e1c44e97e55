"""`python -m benchmarks.fuzz_stores --seconds N`: exports, dumps and store files that somebody has changed.

Each case is a valid export, a dump of bogofilter or SpamAssassin, or a store file, changed in ways that
know its structure: numbers, lines that are moved, doubled or missing, labels and settings, and a checksum
that is right again; pages, values of wrong types, triggers and views. A child process reads it. The law: it
ends within SECONDS, takes at most 10 times the file and 50 MB of memory, and either refuses the case by an
error of one line or makes a store that passes `check` and judges mail with finite probabilities. Case n of a
seed is always the same.
"""

import argparse
import hashlib
import io
import json
import math
import os
import random
import resource
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path

from tamis_mail import Sieve, sample
from tamis_mail.schema import TABLES
from tamis_mail.store import Store, StoreError, exchange, import_foreign, maintenance, saving
from tamis_mail.verdict import RULE, VerdictError
from tamis_mail.verdict.rule import RuleError

SECONDS = 20  # that a case may take; on a quiet machine the slowest takes two
ROOM = 50 << 20  # bytes that a case may take beyond 10 times its file
KINDS = ("tamis", "bogofilter", "spamassassin", "store")
REFUSALS = (StoreError, RuleError, VerdictError)
_NUMBERS = ("0", "1", "-1", "7", "255", "65536", "4294967296", "9" * 12, "9" * 18, str(2**62), str(2**63))
_NAMES = ("spam", "ham", "spam?", "ham?", "unsure", "Spam", "", "x" * 41, "x" * 60_000, "a\nb", "\ud800", "ü")
_VALUES = (
    0,
    1,
    -1,
    41,
    2**31,
    2**48,
    2**62,
    2**63 - 1,
    -(2**63),
    1.5,
    math.inf,
    None,
    "",
    "x",
    b"",
    b"\0" * 9,
)


def _probes() -> list[bytes]:
    return [one.raw for one in islice(sample.messages(), 24)]


@dataclass(frozen=True)
class Seeds:
    """Valid files of each kind."""

    export: bytes
    bogofilter: bytes
    spamassassin: bytes
    store: bytes

    @classmethod
    def make(cls, folder: Path) -> "Seeds":
        """Learn some mail and write it out."""
        with Sieve.open(folder / "seed") as sieve:
            for number, one in enumerate(islice(sample.messages(), 24)):
                sieve.learn(one.raw, "work" if number % 7 == 3 else one.label, source=f"mail/{number % 3}")
            maintenance.decay(sieve.store)
            sieve.learn(b"Subject: after\n\ndecay", "ham")
            with sieve.store.transaction() as writer:
                writer.write_setting("rule", RULE.with_scales((1, 2, 3, 4, 5)).to_json())
            for table in ("journal", "migration"):  # the same cases whenever they are run
                sieve.store.connection.execute(f"UPDATE {table} SET time = 1700000000")
            text = io.BytesIO()
            exchange.export(sieve.store, text)
            saving.backup(sieve.store, folder / "backup")
        words = [f"word{number} {number % 9} {number % 5} 20260101\n" for number in range(200)]
        tokens = [f"t\t{n % 9}\t{n % 5}\t1700000000\t{_token(f'word{n}')}\n" for n in range(200)]
        return cls(
            text.getvalue(),
            "".join([".MSG_COUNT 10 20 20260101\n", *words]).encode(),
            "".join(["v\t3\tdb_version\nv\t10\tnum_spam\nv\t20\tnum_nonspam\n", *tokens]).encode(),
            (folder / "backup").read_bytes(),
        )


def _token(word: str) -> str:
    return hashlib.sha1(word.encode(), usedforsecurity=False).digest()[-5:].hex()


# Changes of lines: each gives other lines.


def _change_number(dice: random.Random, lines: list[bytes]) -> None:
    place = dice.randrange(len(lines))
    words = lines[place].split(b" ")
    numbers = [at for at, word in enumerate(words) if word.strip().isdigit()]
    if numbers:
        at = dice.choice(numbers)
        end = b"\n" if words[at].endswith(b"\n") else b""
        words[at] = dice.choice(_NUMBERS).encode() + end
        lines[place] = b" ".join(words)


def _double_line(dice: random.Random, lines: list[bytes]) -> None:
    place = dice.randrange(len(lines))
    lines[place:place] = [lines[place]] * dice.choice((1, 1, 2, 1000))


def _drop_line(dice: random.Random, lines: list[bytes]) -> None:
    del lines[dice.randrange(len(lines))]


def _move_line(dice: random.Random, lines: list[bytes]) -> None:
    line = lines.pop(dice.randrange(len(lines)))
    lines.insert(dice.randrange(len(lines) + 1), line)


def _change_label(dice: random.Random, lines: list[bytes]) -> None:
    name = json.dumps(dice.choice(_NAMES)).encode()
    places = [at for at, line in enumerate(lines) if line.startswith(b"label ")]
    if places and dice.random() < 0.5:
        lines[dice.choice(places)] = b"label %s %s\n" % (dice.choice(_NUMBERS).encode(), name)
    elif places:
        more = [b'label 0 "m%04d"\n' % number for number in range(dice.choice((1, 3, 1500)))]
        lines[places[-1] + 1 : places[-1] + 1] = more


def _change_setting(dice: random.Random, lines: list[bytes]) -> None:
    name = dice.choice(("rule", "epoch", "era", "tokens", "imported ab", "other", "x" * 1000))
    rule = json.loads(RULE.to_json())
    target = dice.choice((rule, *rule["views"]))
    target[dice.choice(list(target))] = dice.choice(
        (math.nan, math.inf, 0, -1, 1e308, 10**30, "x", [], None, {})
    )
    value = dice.choice((json.dumps(rule), "[" * 3000, "", "0", "x" * 60_000, *_NUMBERS))
    lines.insert(min(1, len(lines)), f"setting {json.dumps(name)} {json.dumps(value)}\n".encode())


def _change_bytes(dice: random.Random, lines: list[bytes]) -> None:
    place = dice.randrange(len(lines))
    line = bytearray(lines[place] or b"\n")
    for _ in range(dice.choice((1, 1, 4))):
        line[dice.randrange(len(line))] = dice.randrange(256)
    lines[place] = bytes(line)


def _lengthen(dice: random.Random, lines: list[bytes]) -> None:
    place = dice.randrange(len(lines))
    lines[place] = lines[place].rstrip(b"\n") + dice.choice((b"9", b"a", b" 1", b'"[')) * dice.choice(
        (10, 70_000, 2_000_000)
    )
    lines[place] += dice.choice((b"\n", b""))


_LINES: tuple[Callable[[random.Random, list[bytes]], None], ...] = (
    _change_number,
    _change_number,
    _double_line,
    _drop_line,
    _move_line,
    _change_label,
    _change_setting,
    _change_bytes,
    _lengthen,
)


def _sealed(lines: Sequence[bytes]) -> list[bytes]:
    """An export with the right last line, so that more than the checksum is tried."""
    body = [line for line in lines if not line.startswith(b"end ")]
    kinds = Counter(line.partition(b" ")[0] for line in body)
    order = (b"setting", b"row", b"label", b"message", b"features", b"count")
    numbers = " ".join(str(kinds[kind]) for kind in order)
    return [*body, f"end {numbers} {hashlib.sha256(b''.join(body)).hexdigest()}\n".encode()]


def change_text(dice: random.Random, text: bytes) -> bytes:
    """A text with some lines changed."""
    lines = text.splitlines(keepends=True)
    for _ in range(dice.choice((1, 1, 2, 5))):
        if lines:
            dice.choice(_LINES)(dice, lines)
    if dice.random() < 0.85 and any(line.startswith(b"end ") for line in lines):
        lines = _sealed(lines)
    return b"".join(lines)


# Changes of store files.


def _change_pages(dice: random.Random, data: bytearray, _folder: Path) -> bytearray:
    size = 4096
    pages = len(data) // size
    for _ in range(dice.choice((1, 3, 10))):
        kind = dice.randrange(4)
        page = dice.randrange(pages) * size
        if kind == 0:
            data[page + dice.randrange(size)] = dice.randrange(256)
        elif kind == 1:  # the header of a page, where numbers and offsets of cells are
            data[page + dice.randrange(12)] = dice.choice((0, 1, 2, 5, 10, 13, 127, 255))
        elif kind == 2:
            other = dice.randrange(pages) * size
            data[page : page + size] = data[other : other + size]
        else:
            at = dice.randrange(100)
            data[at] = dice.randrange(256)
    return data if dice.random() < 0.9 else data[: dice.randrange(len(data))]


_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"


def _change_objects(dice: random.Random, data: bytearray, folder: Path) -> bytearray:
    table = dice.choice(list(TABLES))
    column = dice.choice(list(TABLES[table]))
    statement = dice.choice(
        (
            (
                f"CREATE TRIGGER t AFTER INSERT ON {table} BEGIN INSERT INTO source (name) {_ENDLESS} "
                "SELECT i FROM n; END"
            ),
            f"CREATE VIEW v AS {_ENDLESS} SELECT count(*) FROM n",
            (
                f"DROP TABLE {table}; CREATE VIEW {table} AS {_ENDLESS} SELECT "
                f"{', '.join(f'i AS {name}' for name in TABLES[table])} FROM n"
            ),
            f"CREATE INDEX i ON {table} ({column})",
            f"ALTER TABLE {table} RENAME COLUMN {column} TO other",
            f"ALTER TABLE {table} ADD COLUMN more",
            "CREATE VIRTUAL TABLE f USING fts5(a)",
            "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, 'INTEGER', 'BLOB')",
            "PRAGMA user_version = 9",
            "INSERT INTO migration VALUES ('9999-x', 0)",
            "DELETE FROM migration",
        )
    )
    return _with_statements(data, folder, [(statement, ())])


def _change_values(dice: random.Random, data: bytearray, folder: Path) -> bytearray:
    statements: list[tuple[str, tuple[object, ...]]] = []
    for _ in range(dice.choice((1, 1, 2, 4))):
        table = dice.choice([table for table in TABLES if table != "migration"])
        column = dice.choice(list(TABLES[table]))
        value = dice.choice((*_VALUES, dice.choice(_NAMES[:8]), dice.randrange(100)))
        first = next(iter(TABLES[table]))
        where = dice.choice(("", f" WHERE {first} = (SELECT max({first}) FROM {table})"))
        statements.append((f"UPDATE OR IGNORE {table} SET {column} = ?{where}", (value,)))
    if dice.random() < 0.2:
        rows = dice.choice((10, 3000))
        more = f"SELECT i + 1000, 1, i << 50, 0, 1, 1, 0 FROM n LIMIT {rows}"
        statements.append((f"{_ENDLESS} INSERT OR IGNORE INTO run {more}", ()))
    if dice.random() < 0.2:
        statements.append(
            (
                "UPDATE shelf SET data = zeroblob(?) WHERE id = (SELECT max(id) FROM shelf)",
                (dice.choice((8, 80_000, 5_000_000)),),
            )
        )
    return _with_statements(data, folder, statements)


def _change_features(dice: random.Random, data: bytearray, folder: Path) -> bytearray:
    """Change bytes of stored features of messages."""
    statements: list[tuple[str, tuple[object, ...]]] = []
    for _ in range(dice.choice((1, 1, 3))):
        at = dice.choice((dice.randrange(1, 14), dice.randrange(1, 400), dice.randrange(1, 40_000)))
        new = bytes(dice.choice((0, 1, 127, 255, dice.randrange(256))) for _ in range(dice.choice((1, 4))))
        changed = "substr(data, 1, ?1 - 1) || ?2 || substr(data, ?1 + length(?2))"
        statements.append((f"UPDATE bundle SET data = CAST({changed} AS BLOB)", (at, new)))
    if dice.random() < 0.2:
        statements.append(("UPDATE bundle SET data = zeroblob(?)", (dice.choice((9, 80_000, 5_000_000)),)))
    return _with_statements(data, folder, statements)


def _with_statements(
    data: bytearray, folder: Path, statements: Sequence[tuple[str, tuple[object, ...]]]
) -> bytearray:
    path = folder / "making"
    path.write_bytes(data)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        for statement, values in statements:
            try:
                if values:
                    connection.execute(statement, values)
                else:
                    connection.executescript(statement)
            except sqlite3.DatabaseError:  # NOT NULL, a name that is taken: another case will do
                continue
    changed = bytearray(path.read_bytes())
    path.unlink()
    return changed


def change_store(dice: random.Random, data: bytes, folder: Path) -> bytes:
    """A store file that somebody has changed."""
    change = dice.choice((_change_pages, _change_objects, _change_values, _change_values, _change_features))
    return bytes(change(dice, bytearray(data), folder))


def case(seed: int, number: int, seeds: Seeds, folder: Path) -> tuple[str, bytes]:
    """The kind and the bytes of a case."""
    dice = random.Random(f"{seed}-{number}")
    kind = KINDS[number % len(KINDS)]
    if kind == "store":
        return kind, change_store(dice, seeds.store, folder)
    text = {"tamis": seeds.export, "bogofilter": seeds.bogofilter, "spamassassin": seeds.spamassassin}[kind]
    return kind, change_text(dice, text)


# What a child does with a case.


def use(kind: str, data: bytes, folder: Path, probes: Sequence[bytes]) -> str:
    """Read the case: `refused`, `accepted`, or an exception where the law is broken."""
    if kind == "store":
        return _use_store(data, folder, probes)
    words = [f"word{number}".encode() for number in range(200)]
    try:
        with Store(folder / "new") as store:
            file = io.BytesIO(data)
            if kind == "tamis":
                exchange.load(store, file)
            elif kind == "bogofilter":
                import_foreign.load_bogofilter(store, file)
            else:
                import_foreign.load_spamassassin(store, file, words)
    except StoreError as error:
        _refuse_lines(error)
        with Store(folder / "new") as store:
            assert store.labels() == [], "something of a refused file was loaded"
        return "refused"
    with Sieve.open(folder / "new") as sieve:
        _refuse_unsound(sieve, probes)
    return "accepted"


def _use_store(data: bytes, folder: Path, probes: Sequence[bytes]) -> str:
    (folder / "given").write_bytes(data)
    try:
        saving.restore(folder / "given", folder / "restored")
    except StoreError as error:
        _refuse_lines(error)
    else:
        with Sieve.open(folder / "restored") as sieve:
            _refuse_unsound(sieve, probes)
    try:
        sieve = Sieve.open(folder / "given", create=False)
    except StoreError as error:
        _refuse_lines(error)
        return "refused"
    with sieve:
        if not maintenance.check(sieve.store):
            _refuse_unsound(sieve, probes)
            return "accepted"
        verbs: dict[str, Callable[[], object]] = {
            "sort": lambda: _finite(sieve, probes[:2]),
            "sort_many": lambda: [*sieve.sort_many(probes[:3], processes=1)],
            "status": lambda: maintenance.status(sieve.store),
            "export": lambda: exchange.export(sieve.store, io.BytesIO()),
            "learn": lambda: sieve.learn(b"Subject: new\n\nmail", "ham"),
            "forget": lambda: sieve.forget(probes[0]),
            "features": lambda: sieve.store.message_features(guessed=True),
            "forget_digest": lambda: [
                sieve.forget_digest(entry.digest) for entry in [*sieve.store.entries()][:1]
            ],
            "relabel_digest": lambda: [
                sieve.relabel_digest(entry.digest, "work") for entry in [*sieve.store.entries()][-1:]
            ],
            "merge": lambda: _merge(folder / "merged", sieve.store),
            "compact": lambda: maintenance.compact(sieve.store),
            "prune": lambda: maintenance.prune(sieve.store, 0),
        }
        for verb in verbs.values():
            try:
                verb()
            except REFUSALS as error:
                _refuse_lines(error)
    return "damaged"


def _merge(path: Path, other: Store) -> None:
    with Store(path) as store:
        maintenance.merge(store, other)


def _refuse_unsound(sieve: Sieve, probes: Sequence[bytes]) -> None:
    faults = maintenance.check(sieve.store)
    assert faults == [], f"accepted, but check says {faults[:3]}"
    _finite(sieve, probes)
    text = io.BytesIO()
    exchange.export(sieve.store, text)
    maintenance.status(sieve.store)
    sieve.store.message_features(guessed=True)


def _finite(sieve: Sieve, probes: Sequence[bytes]) -> None:
    many = list(sieve.sort_many(probes[:3], processes=1))
    for verdict in [*many, *(sieve.sort(raw) for raw in probes[:3])]:
        assert 0 <= verdict.probability <= 1, verdict
        assert math.isfinite(verdict.log_odds), verdict


def _refuse_lines(error: Exception) -> None:
    assert "\n" not in str(error), f"more than one line: {error}"
    assert len(str(error)) < 1000, f"a long line: {error}"


@dataclass
class Outcome:
    """What became of a case."""

    kind: str
    what: str  # refused, accepted, damaged, or what broke the law
    seconds: float
    memory: int  # bytes beyond what the process had before

    @property
    def is_lawful(self) -> bool:
        return self.what in ("refused", "accepted", "damaged")


def run_case(kind: str, data: bytes, probes: Sequence[bytes]) -> Outcome:
    """Read a case in a child process with limits."""
    start = time.perf_counter()
    limit = 10 * len(data) + ROOM
    with tempfile.TemporaryDirectory(dir=_fast_folder()) as name:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            _be_child(kind, data, Path(name), probes, writer, limit)
        os.close(writer)
        with os.fdopen(reader, "rb") as file:
            answer = file.read().decode("utf-8", "replace")
        _, status, usage = os.wait4(child, 0)
    before = answer.partition("\n")[0]
    what = answer.partition("\n")[2]
    memory = max(0, usage.ru_maxrss * 1024 - int(before or 0))
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        what = "a hang" if number == signal.SIGALRM else f"a crash by signal {number}"
    elif what in ("refused", "accepted", "damaged") and memory > limit:
        what = f"{memory >> 20} MB of memory for {len(data)} bytes"
    return Outcome(kind, what or f"nothing but status {status}", time.perf_counter() - start, memory)


def _be_child(kind: str, data: bytes, folder: Path, probes: Sequence[bytes], writer: int, limit: int) -> None:
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        pages = [int(number) for number in Path("/proc/self/statm").read_text().split()[:2]]
        size, resident = (number * resource.getpagesize() for number in pages)
        os.write(writer, f"{resident}\n".encode())
        bound = size + 4 * limit + (256 << 20)  # of addresses: of memory proper, the peak is looked at
        resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
        try:
            answer = use(kind, data, folder, probes)
        except BaseException:  # noqa: BLE001 (whatever it is, it breaks the law and is told)
            answer = traceback.format_exc()
        os.write(writer, answer.encode("utf-8", "backslashreplace")[:60_000])
    finally:
        os._exit(0)


def _fast_folder() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@dataclass
class Tally:
    """What became of all cases."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    broken: list[tuple[int, Outcome]] = field(default_factory=list)
    slowest: float = 0.0
    largest: int = 0


def fuzz(seed: int, numbers: Iterator[int], keep: Path | None = None) -> Tally:
    """Run cases."""
    tally = Tally()
    with tempfile.TemporaryDirectory(dir=_fast_folder()) as name:
        folder = Path(name)
        seeds, probes = Seeds.make(folder), _probes()
        for kind, data in (("tamis", seeds.export), ("bogofilter", seeds.bogofilter), ("store", seeds.store)):
            outcome = run_case(kind, data, probes)
            assert outcome.what == "accepted", outcome
        for number in numbers:
            kind, data = case(seed, number, seeds, folder)
            outcome = run_case(kind, data, probes)
            tally.outcomes[kind, outcome.what if outcome.is_lawful else "BROKEN"] += 1
            tally.slowest = max(tally.slowest, outcome.seconds)
            tally.largest = max(tally.largest, outcome.memory)
            if not outcome.is_lawful:
                tally.broken.append((number, outcome))
                if keep:
                    keep.mkdir(parents=True, exist_ok=True)
                    (keep / f"{seed}-{number}.{kind}").write_bytes(data)
    return tally


def main() -> int:
    """Fuzz for some time and print what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--cases", type=int, help="so many at most")
    parser.add_argument("--keep", type=Path, help="a folder for the files that broke the law")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds

    def numbers() -> Iterator[int]:
        for number in islice(count(options.first), options.cases):
            if time.monotonic() > end:
                return
            yield number

    tally = fuzz(options.seed, numbers(), options.keep)
    out = sys.stdout
    out.write(f"{sum(tally.outcomes.values()):,} cases of seed {options.seed}\n")
    for (kind, what), number in sorted(tally.outcomes.items()):
        out.write(f"  {kind:<13}{what:<10}{number:>9,}\n")
    out.write(f"slowest {tally.slowest:.1f} s, most memory {tally.largest / 2**20:.0f} MB\n")
    for number, outcome in tally.broken[:20]:
        out.write(f"case {number} ({outcome.kind}): {outcome.what}\n")
    return 1 if tally.broken else 0


if __name__ == "__main__":
    sys.exit(main())
