"""Shared stores: what kills of clients and of the server cost, and how fast eight clients judge.

    python -m benchmarks.mail_shared kills redis --number 200
    python -m benchmarks.mail_shared together postgresql --seconds 60
    python -m benchmarks.mail_shared judge redis --seconds 20

Each client is a process with a replica of its own, as on a host of its own. `kills` kills clients, and every
fifth time the server, while eight clients learn, relabel and forget; `together` is the same without kills.
Each client writes down what it begins and what was acknowledged, and at the end the journal of the store is
compared with that, and its counts with its journal. `judge` measures verdicts while another client learns,
and those of rspamd's Bayes classifier on the same Redis server, if it is installed.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from benchmarks.mail_corpus import tell
from benchmarks.mail_rspamd import count_processor_seconds, has_rspamd, measure_rspamd
from benchmarks.mail_shared_client import LABELS, write_message
from tamis_mail import Sieve
from tamis_mail.locations import REPLICAS
from tamis_mail.sample import messages
from tamis_mail.store import Store, maintenance
from tests.mail.shared.servers import KINDS, run_server

CLIENTS = 8


class Client:
    """A process that works, and the file in which it writes down what it does."""

    def __init__(self, address: str, owner: int, folder: Path) -> None:
        self._address, self._owner, self._folder = address, owner, folder / f"host{owner}"
        self._folder.mkdir()
        self.record = folder / f"record{owner}"
        self.record.touch()
        self.start()

    def start(self) -> None:
        lines = self.record.read_text(encoding="utf-8").count("\n")
        self._size = self.record.stat().st_size
        words = ["work", self._address, str(self._owner), str(10 * lines), str(self.record)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.mail_shared_client", *words],
            env={**os.environ, REPLICAS: str(self._folder)},
        )

    def is_at_work(self) -> bool:
        """Whether an operation was acknowledged since its start, so that the next one is under way."""
        with self.record.open("rb") as file:
            file.seek(self._size)
            return b'["done"' in file.read()

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        if self._process.wait() != -signal.SIGKILL:
            raise SystemExit(f"client {self._owner} ended by itself: see what it printed")


def audit(address: str, clients: list[Client]) -> Counter[str]:
    """Compare the journal with what was acknowledged, and the counts with the journal."""
    found: Counter[str] = Counter()
    allowed: dict[str, set[str | None]] = {}  # digest → labels that it may have
    for client in clients:
        pending: tuple[str, str | None] | None = None
        for line in client.record.read_text(encoding="utf-8").splitlines():
            try:
                what, _, name, rest = json.loads(line)
            except ValueError:  # the kill came in the middle of the line
                continue
            if what == "begin":
                if pending is not None:  # killed: both are possible
                    allowed.setdefault(pending[0], {None}).add(pending[1])
                pending = name, rest
            elif pending is not None:
                if what == "done":
                    found["acknowledged"] += 1
                    found[f"acknowledged: {rest}"] += 1
                    allowed[name] = {pending[1]}
                else:
                    found["refused"] += 1
                    allowed.setdefault(name, {None}).add(pending[1])
                pending = None
        if pending is not None:
            allowed.setdefault(pending[0], {None}).add(pending[1])
    with tempfile.TemporaryDirectory() as folder:
        os.environ[REPLICAS] = folder
        with Store(address) as store:
            labels = {entry.digest.hex(): entry.label for entry in store.entries()}
            faults = maintenance.check(store)
    for fault in faults:
        tell(fault)
    found["messages"] = len(labels)
    found["lost or changed"] = sum(labels.get(name) not in states for name, states in allowed.items())
    found["learned by nobody"] = len(labels.keys() - allowed.keys())
    found["faults of the counts"] = len(faults)
    return found


def measure_kills(kind: str, number: int) -> Counter[str]:
    """Kill clients and the server."""
    dice = random.Random(3)
    kills: Counter[str] = Counter()
    with run_server(kind) as server, tempfile.TemporaryDirectory() as folder:
        address = server.store("kills")
        clients = [Client(address, owner, Path(folder)) for owner in range(CLIENTS)]
        for kill in range(number):
            while not (working := [client for client in clients if client.is_at_work()]):
                time.sleep(0.005)
            time.sleep(dice.uniform(0, 0.1))  # so that one of them is in the middle of something
            if kill % 5 == 4:
                server.kill()
                time.sleep(dice.uniform(0, 0.5))
                server.start()
                kills["kills of the server"] += 1
            else:
                client = dice.choice(working)
                client.kill()
                client.start()
                kills["kills of a client"] += 1
            if kill % 20 == 19:
                tell(f"{kill + 1} kills")
        for client in clients:
            client.kill()
        kills.update(audit(address, clients))
        return kills


def measure_together(kind: str, seconds: float) -> Counter[str]:
    """Let clients work together."""
    with run_server(kind) as server, tempfile.TemporaryDirectory() as folder:
        address = server.store("together")
        clients = [Client(address, owner, Path(folder)) for owner in range(CLIENTS)]
        time.sleep(seconds)
        for client in clients:
            client.kill()
        return audit(address, clients)


def measure_judging(kind: str, seconds: float, lessons: float) -> dict[str, float]:
    """Return the messages per second that all clients judge together, while another one learns."""
    mail = {label: [one.raw for one in messages() if one.label == label] for label in LABELS}
    with run_server(kind) as server, tempfile.TemporaryDirectory() as folder:
        address = server.store("judge")
        os.environ[REPLICAS] = folder
        command = [sys.executable, "-m", "benchmarks.mail_shared_client", "judge", address, str(seconds)]
        with Sieve.open(address, log=False) as sieve:
            for label, part in mail.items():
                sieve.learn_many(part, label, processes=1)
            clients = []
            for owner in range(CLIENTS):
                place = Path(folder) / f"host{owner}"
                place.mkdir()
                clients.append(
                    subprocess.Popen(
                        [*command, str(owner)],
                        env={**os.environ, REPLICAS: str(place)},
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        text=True,
                    )
                )
            for client in clients:
                if client.stdout is None or client.stdout.readline() != "ready\n":
                    raise SystemExit("a client could not open the store: see what it printed")
            for client in clients:
                if client.stdin is not None:
                    client.stdin.write("go\n")
                    client.stdin.flush()
            begun, learned = time.perf_counter(), 0
            start = count_processor_seconds(server.process.pid)
            while lessons and time.perf_counter() < begun + seconds:
                sieve.learn(write_message(0, learned), LABELS[learned % 2])
                learned += 1
                time.sleep(1 / lessons)
        figures = [json.loads(client.communicate()[0]) for client in clients]
        server_seconds = count_processor_seconds(server.process.pid) - start
        others: dict[str, float] = {}
        if kind == "redis":  # PostgreSQL has a process per client, which has ended by now
            others["processor seconds of the server"] = server_seconds
        if kind == "redis" and has_rspamd():
            host = server.address.removeprefix("redis://").partition("/")[0]
            start = count_processor_seconds(server.process.pid)
            others |= measure_rspamd(host, mail, Path(folder), seconds)
            # With what it took to learn the messages.
            others["rspamd: processor seconds of the server"] = (
                count_processor_seconds(server.process.pid) - start
            )
    judged = sum(number for number, _, _ in figures)
    return {
        "judged messages": judged,
        "lessons meanwhile": learned,
        "messages per second": judged / max(spent for _, spent, _ in figures),
        "messages per second of processor time": judged / sum(spent for _, _, spent in figures),
        "processor seconds of the clients": sum(spent for _, _, spent in figures),
        **others,
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mail_shared", description=__doc__)
    parser.add_argument("measure", nargs="?", choices=("kills", "together", "judge"))
    parser.add_argument("kind", nargs="?", choices=KINDS)
    parser.add_argument("--number", type=int, default=200, help="of kills (default: 200)")
    parser.add_argument("--seconds", type=float, default=60, help="default: 60")
    parser.add_argument("--lessons", type=float, default=2, help="per second while messages are judged")
    options = parser.parse_args()
    if options.measure is None or options.kind is None:
        parser.error("expected kills, together or judge, and a kind of server")
    else:
        figures: Mapping[str, float]
        if options.measure == "kills":
            figures = measure_kills(options.kind, options.number)
        elif options.measure == "together":
            figures = measure_together(options.kind, options.seconds)
        else:
            figures = measure_judging(options.kind, options.seconds, options.lessons)
        for name, figure in figures.items():
            sys.stdout.write(f"{options.kind:<12} {name:<46} {figure:,.1f}\n")
        if figures.get("acknowledged", 0) < figures.get("kills of a client", 0):
            raise SystemExit("fewer operations were acknowledged than clients killed: this shows nothing")


if __name__ == "__main__":
    main()
