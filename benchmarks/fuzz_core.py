"""A fuzzer of the compiled core: mutated messages, and random calls of kernels, compared with the references.

    tools/sanitize -m benchmarks.fuzz_core --messages 1000000 --inputs 100000 --corpus FOLDER … [--seed 0]
    tools/sanitize -m benchmarks.fuzz_core --all-corpora --corpus FOLDER …

`tools/sanitize` runs it with a core that AddressSanitizer and UBSan observe; without it, results are compared
all the same, and a process that ends is noticed.

- Messages: files of the folders, mutated as by `benchmarks.fuzz_mail`, and hostile ones. Each is parsed, its
  tokens are read and hashed. One in `--compare` is also read by a process without the core (TAMIS_CORE=off):
  tokens and features must be the same to the byte; one in ten of these is also read in the older versions of
  the tokens, which old stores have.
- Inputs: calls of every kernel (`benchmarks.hostile_kernels`), all compared where they are not broken.
- `--all-corpora`: each file of the folders once, as it is, compared in the same way.

Work is done in `--processes` processes. A process that ends or that is silent for two minutes is a finding,
and is replaced by one that begins with the next number. Each finding is printed with its seed and number,
and `--only NUMBER` repeats it. The status is 1 if there are findings.
"""

import argparse
import multiprocessing
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from struct import pack, unpack
from typing import IO, Any, Final, Literal, NamedTuple

from benchmarks.fuzz_mail import Fuzzer
from tamis.compiled import core, describe
from tamis_mail import features, tokens
from tamis_mail.message import identify, parse, read_headings

__all__ = ["ReadMessage", "read_message"]

Kind = Literal["messages", "inputs", "files"]

_HELLO: Final = b"Subject: hello\nFrom: ann@a.example\n\nAt noon, as always?\n"
_LARGEST: Final = 300_000  # bytes of a message that is mutated
_LARGEST_FILE: Final = 60 << 20  # bytes: a file above is an archive, not a message
_ALL_VERSIONS: Final = 10  # one of so many messages that are compared is compared in all versions
_PATIENCE: Final = 120.0  # seconds of silence after which a process is ended
_PROGRESS: Final = 10.0  # seconds between lines
_OUTCOMES: Final = ("called", "compared", "refused", "accepted")  # accepted: a broken call that returned
_NUMBER, _IS_COMPLETE = len(_OUTCOMES), len(_OUTCOMES) + 1
_DEATHS: Final = 20  # processes that may end before the run is given up


class ReadMessage(NamedTuple):
    """What was read of a message: the documents of its tokens, and what is read of it as a whole."""

    documents: tuple[bytes, ...]
    features: bytes  # eight bytes each
    facts: tuple[object, ...]  # its digest, sender, subject, date, and its features again


def read_message(raw: bytes, version: int = tokens.VERSION) -> ReadMessage:
    """Read the tokens and the features of a message, by the core if there is one."""
    plain, digests = identify([raw])
    read = tokens.read(parse(plain[0]), version)
    documents = (
        read.head,
        read.headers,
        read.words,
        read.marks,
        read.relations,
        read.patterns,
        read.subject,
    )
    numbers = sorted(features.hash_tokens(read))
    ((packed, date),) = features.read_features(plain, version)
    facts = (*digests, *read_headings([raw], plain)[0], date, packed)
    return ReadMessage(documents, pack(f"<{len(numbers)}Q", *numbers), facts)


class Files(Sequence[bytes]):
    """The contents of files, read when they are needed, so that memory is bounded."""

    def __init__(self, paths: Sequence[Path], first: Sequence[bytes] = ()) -> None:
        self.paths, self._first = paths, first

    def __len__(self) -> int:
        return len(self._first) + len(self.paths)

    def __getitem__(self, place: Any) -> Any:
        if place < len(self._first):
            return self._first[place]
        return self.paths[place - len(self._first)].read_bytes()


class Reference:
    """A process that reads messages without the core, and without sanitizers."""

    def __init__(self) -> None:
        unwanted = ("LD_PRELOAD", "PYTHONMALLOC", "ASAN_OPTIONS", "UBSAN_OPTIONS")
        environment = {name: value for name, value in os.environ.items() if name not in unwanted}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.fuzz_core", "--serve-reference"],
            env=environment | {"TAMIS_CORE": "off"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def read_message(self, raw: bytes, version: int) -> ReadMessage:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        _write_frame(self._process.stdin, pickle.dumps((raw, version)))
        answer = pickle.loads(_read_frame(self._process.stdout))
        if isinstance(answer, str):
            raise RuntimeError(f"the reference failed: {answer}")
        assert isinstance(answer, ReadMessage)
        return answer


def serve_reference(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until there are none."""
    while frame := _read_frame(requests):
        answer: ReadMessage | str
        try:
            answer = read_message(*pickle.loads(frame))
        except Exception as error:  # noqa: BLE001 (the process that asked reports it)
            answer = f"{type(error).__name__}: {error}"
        _write_frame(answers, pickle.dumps(answer))


def _write_frame(file: IO[bytes], content: bytes) -> None:
    file.write(pack("<Q", len(content)) + content)
    file.flush()


def _read_frame(file: IO[bytes]) -> bytes:
    size = file.read(8)
    return file.read(unpack("<Q", size)[0]) if len(size) == 8 else b""


@dataclass(frozen=True)
class Work:
    """What the processes do."""

    kind: Kind
    seed: int
    numbers: range
    compare: int
    paths: tuple[Path, ...]

    def describe(self, number: int) -> str:
        if self.kind == "files":
            return str(self.paths[number])
        return f"{self.kind[:-1]} {number} of seed {self.seed}"


def choose_versions(number: int) -> tuple[int, ...]:
    """Return the versions of the tokens in which a message is compared: only the newest, or sometimes all."""
    newest = tokens.VERSION
    return (newest,) if number % _ALL_VERSIONS else tokens.VERSIONS


def find_faults(work: Work) -> Callable[[int], tuple[str, list[str]]]:
    """Return a function that does one piece of the work, and returns how it ended and its faults."""
    if work.kind == "inputs":
        return partial(_judge_input, work.seed)
    reference = Reference()
    if work.kind == "files":

        def judge_file(number: int) -> tuple[str, list[str]]:
            versions = choose_versions(number)
            return _judge_message(work.paths[number].read_bytes(), reference, versions)

        return judge_file
    fuzzer = Fuzzer(Files(work.paths, [_HELLO]), work.seed)

    def judge(number: int) -> tuple[str, list[str]]:
        raw, names = fuzzer.message(number)
        # Neighbouring numbers go to different processes: all must compare some.
        chosen = number // 7919 + number
        versions = () if chosen % work.compare else choose_versions(chosen // work.compare)
        outcome, faults = _judge_message(raw, reference, versions)
        return outcome, [f"({names}) {fault}" for fault in faults]

    return judge


def _judge_input(seed: int, number: int) -> tuple[str, list[str]]:
    # Imported here, so that messages are read in a process without NumPy, as in the mail filter.
    from benchmarks.hostile_kernels import draw_call, judge_call  # noqa: PLC0415

    call = draw_call(seed, number)
    outcome, faults = judge_call(call)
    return outcome, [f"({call.breaks}) {fault}" if call.breaks else fault for fault in faults]


def _judge_message(raw: bytes, reference: Reference, versions: tuple[int, ...]) -> tuple[str, list[str]]:
    faults = []
    newest = read_message(raw)
    for version in versions:
        ours = newest if version == tokens.VERSION else read_message(raw, version)
        theirs = reference.read_message(raw, version)
        names = ("head", "headers", "words", "marks", "relations", "patterns", "subject")
        faults += [
            f"{name} of version {version} differ: {_first_difference(own, other)}"
            for name, own, other in zip(names, ours.documents, theirs.documents, strict=True)
            if own != other
        ]
        if ours.features != theirs.features:
            faults.append(f"features of version {version} differ")
        if ours.facts != theirs.facts:
            faults.append(f"what is read of the whole message differs in version {version}")
    return ("compared" if versions else "called"), faults


def _first_difference(ours: bytes, theirs: bytes) -> str:
    same = next(
        (k for k, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs))
    )
    start = max(0, same - 20)
    return f"{ours[start : same + 40]!r} instead of {theirs[start : same + 40]!r}, at byte {same}"


# ── processes ──


def run_worker(work: Work, first: int, step: int, state: Any, findings: Any) -> None:
    """Do every `step`th piece of the work, and tell in `state` how far it is (see `Worker`)."""
    judge = find_faults(work)
    for number in work.numbers[first::step]:
        state[_NUMBER] = number
        try:
            outcome, faults = judge(number)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is a fault)
            outcome, faults = "called", [f"raised {type(error).__name__}: {error}"]
        for fault in faults:
            findings.send((number, fault))
        state[_OUTCOMES.index(outcome)] += 1
    state[_IS_COMPLETE] = 1
    findings.close()


class Worker:
    """A process that does a share of the work, and is replaced if it ends before that."""

    def __init__(self, work: Work, share: int, shares: int) -> None:
        self.work, self.share, self.shares = work, share, shares
        self.context = multiprocessing.get_context("spawn")
        # How many pieces ended in each way, the number in work, and whether all work is done.
        self.state = self.context.RawArray("q", len(_OUTCOMES) + 2)
        self.start(share)

    def start(self, first: int) -> None:
        self.findings, sender = self.context.Pipe(duplex=False)
        self.process = self.context.Process(
            target=run_worker, args=(self.work, first, self.shares, self.state, sender)
        )
        self.process.start()
        sender.close()
        self.seen, self.since = -1, time.monotonic()

    def count_done(self) -> int:
        return sum(self.state[: len(_OUTCOMES)])

    def receive(self) -> Iterator[tuple[int, str]]:
        """Yield the findings that have come, each with its number."""
        try:
            while self.findings.poll():
                yield self.findings.recv()
        except (EOFError, OSError):
            pass

    def replace_if_dead(self) -> Iterator[tuple[int, str]]:
        """Yield a finding if the process has ended or is silent, and start another at the next number."""
        if self.count_done() != self.seen:
            self.seen, self.since = self.count_done(), time.monotonic()
        is_silent = time.monotonic() - self.since > _PATIENCE
        if self.state[_IS_COMPLETE] or (self.process.is_alive() and not is_silent):
            return
        fault = "is not done after two minutes" if is_silent else ""
        if is_silent:
            self.process.kill()
        self.process.join()
        yield from self.receive()
        number = int(self.state[_NUMBER])
        yield number, fault or f"ends the process with status {self.process.exitcode}; see the trace above"
        behind = self.work.numbers.index(number) + self.shares
        if behind < len(self.work.numbers):
            self.start(behind)
        else:
            self.state[_IS_COMPLETE] = 1


def run(work: Work, processes: int) -> int:
    """Do the work in processes; print findings and progress; return the number of findings."""
    start = shown = time.monotonic()
    findings = deaths = 0
    workers = [Worker(work, share, processes) for share in range(processes)]
    while True:
        is_over = all(worker.state[_IS_COMPLETE] for worker in workers)
        for worker in workers:
            for number, fault in [*worker.receive(), *worker.replace_if_dead()]:
                findings += 1
                deaths += "the process" in fault or "minutes" in fault
                _print(f"{work.describe(number)}: {fault}")
        if is_over or deaths > _DEATHS or time.monotonic() - shown > _PROGRESS:
            shown = time.monotonic()
            done = sum(worker.count_done() for worker in workers)
            counts = {name: sum(worker.state[k] for worker in workers) for k, name in enumerate(_OUTCOMES)}
            ends = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
            rate = f"{done / (shown - start):,.0f} per second"
            _print(f"{done:,} of {len(work.numbers):,} {work.kind} ({ends}), {findings:,} findings, {rate}")
        if is_over:
            break
        if deaths > _DEATHS:
            _print(f"more than {_DEATHS} processes have ended: given up")
            for worker in workers:
                worker.process.kill()
            break
        time.sleep(0.2)
    for worker in workers:
        worker.process.join()
    return findings


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _list_files(folders: Sequence[Path], largest: int) -> tuple[Path, ...]:
    paths = (path for folder in folders for path in sorted(folder.rglob("*")))
    return tuple(p for p in paths if p.is_file() and not p.is_symlink() and p.stat().st_size <= largest)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=int, default=0, metavar="N", help="mutated messages to read")
    parser.add_argument("--inputs", type=int, default=0, metavar="N", help="calls of kernels to make")
    parser.add_argument("--all-corpora", action="store_true", help="compare each file of the folders")
    parser.add_argument("--corpus", nargs="+", type=Path, metavar="FOLDER", default=[])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--first", type=int, default=0, metavar="NUMBER", help="the first number of each kind"
    )
    parser.add_argument("--only", type=int, metavar="NUMBER", help="repeat one number of each chosen kind")
    parser.add_argument("--compare", type=int, default=20, metavar="N", help="compare one message in N")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--serve-reference", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve_reference:
        serve_reference(sys.stdin.buffer, sys.stdout.buffer)
        return 0
    if core is None:
        raise SystemExit(f"there is nothing to fuzz: {describe()}")
    _print(describe() + (", under sanitizers" if "libasan" in os.environ.get("LD_PRELOAD", "") else ""))
    paths = _list_files(options.corpus, _LARGEST)
    findings = 0
    for kind, count in (("inputs", options.inputs), ("messages", options.messages)):
        if not count:
            continue
        numbers = range(options.first, options.first + count)
        compare = options.compare
        if options.only is not None:
            numbers, compare = range(options.only, options.only + 1), 1
        findings += run(Work(kind, options.seed, numbers, compare, paths), options.processes)  # type: ignore[arg-type]
    if options.all_corpora:
        files = _list_files(options.corpus, _LARGEST_FILE)
        findings += run(Work("files", 0, range(len(files)), 1, files), options.processes)
    _print(f"{findings:,} findings")
    return int(findings > 0)


if __name__ == "__main__":
    sys.exit(main())
