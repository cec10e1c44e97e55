"""One client of `benchmarks.mail_shared`, a process of its own that imports little.

python -m benchmarks.mail_shared_client work ADDRESS OWNER FIRST RECORD
python -m benchmarks.mail_shared_client judge ADDRESS SECONDS OWNER
"""

import json
import random
import sys
import time
from itertools import count
from pathlib import Path

from tamis_mail import Sieve
from tamis_mail.message import canonical, digest
from tamis_mail.sample import messages
from tamis_mail.store import StoreError

__all__ = ["LABELS", "write_message"]

COMMON = 60  # messages that all clients learn
BATCH = 32  # messages that are judged together, as the daemons do
LABELS = ("ham", "spam")


def write_message(owner: int, number: int) -> bytes:
    """Return a message of a client; of all clients if the owner is -1."""
    words = random.Random(owner * 1_000_003 + number)
    text = " ".join(f"word{words.randrange(3000)}" for _ in range(60))
    return f"From: user{words.randrange(90)}@example.org\nSubject: {owner} {number}\n\n{text}\n".encode()


def work(address: str, owner: int, first: int, record: Path) -> None:
    """Learn, relabel and forget messages until a kill, and write down what was acknowledged."""
    dice = random.Random(f"{owner} {first}")
    with record.open("a", encoding="utf-8", buffering=1) as file:

        def note(*what: object) -> None:
            file.write(json.dumps(what) + "\n")

        sieve = None
        for number in count(first):
            kind = dice.random()
            is_common = kind < 0.1
            place = dice.randrange(COMMON) if is_common else number
            if kind > 0.85:
                place = dice.randrange(max(0, number - 50), number + 1)
            mail = write_message(-1 if is_common else owner, place)
            label = LABELS[place % 2] if is_common or kind < 0.85 else LABELS[1 - place % 2]
            forgets = kind > 0.97
            name = digest(canonical(mail)).hex()
            note("begin", number, name, None if forgets else label)
            try:
                if sieve is None:
                    sieve = Sieve.open(address, log=False)
                receipt = sieve.forget(mail) if forgets else sieve.learn(mail, label)
            except StoreError as error:
                note("refused", number, name, str(error))
                if sieve is not None:
                    sieve.close()
                    sieve = None
                continue
            note("done", number, name, receipt.action)


def judge(address: str, seconds: float, owner: int) -> None:
    """Judge messages for some seconds, in batches, and print how many."""
    mail = [one.raw for one in messages()]
    random.Random(owner).shuffle(mail)
    with Sieve.open(address, create=False, readonly=True, log=False) as sieve:
        sieve.sort_batch(mail[:BATCH])
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        judged, begun, processor = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() < begun + seconds:
            start = judged % (len(mail) - BATCH)
            judged += len(sieve.sort_batch(mail[start : start + BATCH]))
        spent = time.perf_counter() - begun, time.process_time() - processor
    sys.stdout.write(f"{json.dumps([judged, *spent])}\n")


def main() -> None:
    """Run what the words ask for."""
    what, address, *words = sys.argv[1:]
    if what == "work":
        owner, first, record = words
        work(address, int(owner), int(first), Path(record))
    else:
        seconds, owner = words
        judge(address, float(seconds), int(owner))


if __name__ == "__main__":
    main()
