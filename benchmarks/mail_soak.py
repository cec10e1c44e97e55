"""`python -m benchmarks.mail_soak`: a day of mail through `tamis serve spamd`, and what it holds then.

    python -m benchmarks.mail_soak --requests 200000 [--clients 20] [--data FOLDER] [--messages 2000]

A busy day of a small server is 200,000 messages. Clients send them one after the other, as fast as they are
answered. One request in a thousand is the owner's: TELL moves a learned message to the other label and
later back again, so that the weights are fitted anew many times while verdicts are asked for. Ten times in
the run the daemon is told to reload (SIGHUP). Twenty times, the memory of the daemon (PSS), its open files
and its threads are counted; what grows from the second tenth to the end is a leak.
"""

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.mail_corpus import SEED, Mail, add_corpus, read_corpus, tell
from benchmarks.mail_load import ask, measure_memory, run_tamis

_SAMPLES = 20
_RELOADS = 10
_OWNER = 1000  # one request in so many is TELL
_MOVED = 50  # messages that the owner moves to the other label, and back


@dataclass(frozen=True)
class Sample:
    """What the daemon holds after some requests."""

    n_requests: int
    memory: int  # kB
    n_files: int
    n_threads: int


@dataclass
class Soak:
    """What was sent, and what the daemon held."""

    counts: Counter[str] = field(default_factory=Counter)
    samples: list[Sample] = field(default_factory=list)


async def run_soak(path: Path, mail: Sequence[Mail], requests: int, clients: int, process: int) -> Soak:
    """Send requests until there were as many as wanted."""
    soak = Soak()
    numbers = iter(range(1, requests + 1))
    moved = mail[:_MOVED]

    async def send(client: int) -> None:
        dice = random.Random(f"{SEED} {client}")
        for number in numbers:
            if number % _OWNER == 0:
                kind, request = "TELL", _tell_request(moved, number // _OWNER)
            else:
                kind, request = "CHECK", _request("CHECK", dice.choice(mail).raw)
            try:
                answer = await ask(path, request)
            except OSError:
                answer = b""
            soak.counts[kind if b" 0 EX_OK" in answer else f"{kind} failed"] += 1
            if number % (requests // _RELOADS) == 0:
                os.kill(process, signal.SIGHUP)
            if number % (requests // _SAMPLES) == 0:
                soak.samples.append(take_sample(number, process))

    await asyncio.gather(*(send(client) for client in range(clients)))
    return soak


def _tell_request(moved: Sequence[Mail], turn: int) -> bytes:
    """Move a message to the other label in each even round, and back in each odd one."""
    rounds, place = divmod(turn, len(moved))
    one = moved[place]
    label = "spam" if one.is_spam == bool(rounds % 2) else "ham"
    return _request("TELL", one.raw, f"Message-class: {label}\r\nSet: local\r\n".encode())


def _request(method: str, raw: bytes, fields: bytes = b"") -> bytes:
    head = f"{method} SPAMC/1.5\r\nContent-length: {len(raw)}\r\n".encode()
    return head + fields + b"\r\n" + raw


def take_sample(n_requests: int, process: int) -> Sample:
    """Count what a process holds now."""
    folder = Path(f"/proc/{process}")
    n_files, n_threads = (sum(1 for _ in (folder / name).iterdir()) for name in ("fd", "task"))
    return Sample(n_requests, measure_memory(process), n_files, n_threads)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_corpus(parser)
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2, help="of tamis")
    options = parser.parse_args()
    options.messages = options.messages or 2000
    options.requests = max(options.requests, _SAMPLES)
    mail = read_corpus(options)
    with (
        tempfile.TemporaryDirectory() as folder,
        run_tamis(Path(folder), mail, options.threads) as (path, process),
    ):
        begun = time.monotonic()
        soak = asyncio.run(run_soak(path, mail, options.requests, options.clients, process))
        seconds = time.monotonic() - begun
    tell("requests   memory   files   threads")
    for sample in soak.samples:
        tell(f"{sample.n_requests:8,} {sample.memory / 1024:6.0f} MB {sample.n_files:6} {sample.n_threads:6}")
    counts = ", ".join(f"{count:,} {kind}" for kind, count in sorted(soak.counts.items()))
    tell(f"{counts} in {seconds:.0f} s ({sum(soak.counts.values()) / seconds:.0f} per s)")
    early, late = soak.samples[2:4], soak.samples[-2:]
    growth = max(s.memory for s in late) / max(s.memory for s in early) - 1
    tell(f"memory grew by {growth:+.1%} from the second tenth to the last one")
    return 0


if __name__ == "__main__":
    sys.exit(main())
