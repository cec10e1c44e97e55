"""A process that learns, and is killed at any moment: what it said is there, and nothing by half."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tamis_mail.store import Store, maintenance
from tests.mail.store.memory import digest, expected, remembered

KILLS = 20
CHILD = """
import itertools, sys
from tamis_mail.store import Store, maintenance
from tests.mail.store.memory import forget, learn

with Store(sys.argv[1]) as store:
    print("open", flush=True)
    for number in itertools.count(int(sys.argv[2])):
        learn(store, [number], "ham" if number % 3 else "spam")
        if number % 5 == 4:
            forget(store, [number])
        if number % 17 == 16:
            maintenance.compact(store)
        print(number, flush=True)
"""


def test_a_process_that_is_killed_leaves_a_store_that_is_whole(tmp_path: Path) -> None:
    dice = random.Random(20)
    path = tmp_path / "store"
    first = 0
    for kill in range(KILLS):
        arguments = [sys.executable, "-c", CHILD, str(path), str(first)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, bufsize=1) as child:
            assert child.stdout is not None
            lines = []
            if kill:  # the first is killed while it makes the store, or soon after
                assert child.stdout.readline() == "open\n"
                lines = [child.stdout.readline() for _ in range(dice.randint(0, 30))]
            time.sleep(dice.uniform(0, 0.02))  # so that it is in the middle of something
            child.send_signal(signal.SIGKILL)
            lines += child.stdout.read().split("\n")
            said = [int(line) for line in lines if line.strip().isdigit()]
        with Store(path) as store:
            assert maintenance.check(store) == []
            known = {entry.digest: entry.label for entry in store.entries()}
            numbers = {
                number: known[digest(number)] for number in range(first + 5000) if digest(number) in known
            }
            assert len(numbers) == len(known)
            assert remembered(store) == expected(numbers)
            assert {number for number in said if number % 5 != 4} <= numbers.keys()
        first = max([first, *numbers, *said]) + 1
    assert first > KILLS
