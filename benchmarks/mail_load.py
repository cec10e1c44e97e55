"""`python -m benchmarks.mail_load`: clients like spamc against `tamis serve spamd` and SpamAssassin's spamd.

    python -m benchmarks.mail_load --clients 50 --seconds 60 [--data FOLDER] [--messages 2000]

Both daemons learn the same mail, in a temporary folder, and listen at a Unix socket. SpamAssassin has one
plugin, Bayes, its rules and nothing else: no network, no other tests. Each client sends CHECK, waits for the
answer, and goes on with the next message on a new connection, as spamc does. Printed are requests per second,
the median and the 99th percentile of the time of a request, errors, the share of right answers among messages
that were learned (as a sanity check, not as a measure of accuracy), and memory (PSS of the process and its
children) after a tenth of the time and at the end.
"""

import argparse
import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.mail_corpus import SEED, Mail, add_corpus, bodies, give_up, read_corpus, tell, write_mbox
from tamis_mail.labels import HAM, SPAM

_PRE = "loadplugin Mail::SpamAssassin::Plugin::Bayes\nloadplugin Mail::SpamAssassin::Plugin::Check\n"
_RULES = """use_bayes 1
bayes_path {folder}/bayes
bayes_file_mode 0777
bayes_auto_learn 0
bayes_auto_expire 0
required_score 5
body BAYES_00 eval:check_bayes('0.00', '0.50')
body BAYES_50 eval:check_bayes('0.50', '0.90')
body BAYES_90 eval:check_bayes('0.90', '1.00')
score BAYES_00 -2
score BAYES_50 1
score BAYES_90 6
"""


@dataclass
class Load:
    """What the clients saw."""

    seconds: list[float] = field(default_factory=list)
    n_right: int = 0
    n_errors: int = 0
    memory: list[int] = field(default_factory=list)


async def run_clients(path: Path, mail: Sequence[Mail], clients: int, seconds: float, process: int) -> Load:
    """Let clients send messages for some seconds."""
    load = Load()
    end = time.monotonic() + seconds

    async def send(number: int) -> None:
        dice = random.Random(f"{SEED} {number}")
        while time.monotonic() < end:
            one = dice.choice(mail)
            begun = time.perf_counter()
            try:
                answer = await ask(
                    path, b"CHECK SPAMC/1.5\r\nContent-length: %d\r\n\r\n" % len(one.raw) + one.raw
                )
            except OSError:
                answer = b""
            load.seconds.append(time.perf_counter() - begun)
            load.n_errors += b" 0 EX_OK" not in answer
            load.n_right += (b"Spam: True" in answer) == one.is_spam

    async def look() -> None:
        await asyncio.sleep(seconds / 10)
        load.memory.append(measure_memory(process))
        await asyncio.sleep(seconds * 0.85)
        load.memory.append(measure_memory(process))

    await asyncio.gather(look(), *(send(number) for number in range(clients)))
    return load


async def ask(path: Path, request: bytes) -> bytes:
    """Send a request on a connection of its own, and return the answer."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    try:
        writer.write(request)
        writer.write_eof()
        return await reader.read()
    finally:
        writer.close()


@contextmanager
def run_tamis(folder: Path, mail: Sequence[Mail], threads: int) -> Iterator[tuple[Path, int]]:
    """Run our daemon."""
    program = "import sys; from tamis_mail.surfaces.cli import main; sys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-c", program]
    store, path = folder / "mail.tamis", folder / "socket"
    _write_mboxes(folder, mail)
    learn = ["learn", "--store", str(store), "--spam", str(folder / SPAM), "--ham", str(folder / HAM)]
    subprocess.run([*words, *learn], check=True, capture_output=True)
    options = ["--store", str(store), "--listen", f"unix:{path}", "--threads", str(threads)]
    with _run([*words, "serve", "spamd", *options], path) as process:
        yield path, process


@contextmanager
def run_spamassassin(folder: Path, mail: Sequence[Mail], children: int) -> Iterator[tuple[Path, int]]:
    """Run SpamAssassin's daemon with Bayes and nothing else."""
    (folder / "init.pre").write_text(_PRE)
    (folder / "local.cf").write_text(_RULES.format(folder=folder))
    folder.chmod(0o777)
    _write_mboxes(folder, mail)
    places = ["--configpath", str(folder), "--siteconfigpath", str(folder)]
    for label in (SPAM, HAM):
        words = ["sa-learn", *places, "--local", f"--{label}", "--no-sync", "--mbox", str(folder / label)]
        subprocess.run(words, check=True, capture_output=True)
    subprocess.run(["sa-learn", *places, "--sync"], check=True, capture_output=True)
    for file in folder.glob("bayes*"):
        file.chmod(0o666)
    path = folder / "socket"
    user = ["--username", "nobody"] if os.geteuid() == 0 else []
    words = [
        "spamd",
        *places,
        "--local",
        "--nouser-config",
        "--socketpath",
        str(path),
        "--socketmode",
        "0666",
    ]
    words += ["--max-children", str(children), "--min-children", str(children), "--max-spare", str(children)]
    words += ["--syslog", "stderr", "--helper-home-dir", str(folder), *user]
    with _run(words, path) as process:
        yield path, process


@contextmanager
def _run(words: list[str], path: Path) -> Iterator[int]:
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not path.exists():
            if process.poll() is not None:
                give_up(f"{words[0]} ended with status {process.returncode} before it listened")
            time.sleep(0.05)
        time.sleep(1)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _write_mboxes(folder: Path, mail: Sequence[Mail]) -> None:
    for label in (SPAM, HAM):
        write_mbox(folder / label, bodies(mail, label))


def measure_memory(process: int) -> int:
    """Return the PSS of a process and its children, in kB."""
    total = 0
    for one in [str(process), *_list_children(process)]:
        try:
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total


def _list_children(process: int) -> list[str]:
    try:
        return Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return []


def _describe(name: str, load: Load, seconds: float) -> str:
    times = sorted(load.seconds)
    p50, p99 = (times[int(share * (len(times) - 1))] * 1000 for share in (0.5, 0.99))
    first, last = load.memory[0] / 1024, load.memory[-1] / 1024
    return (
        f"{name:14} {len(times) / seconds:8.0f} per s   p50 {p50:7.1f} ms   p99 {p99:7.1f} ms   errors "
        f"{load.n_errors}   right {load.n_right / len(times):.3f}   memory {first:.0f} -> {last:.0f} MB"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_corpus(parser)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=2, help="of tamis, and children of SpamAssassin")
    options = parser.parse_args()
    options.messages = options.messages or 2000
    mail = read_corpus(options)
    daemons = {"tamis": run_tamis, "SpamAssassin": run_spamassassin}
    if not (shutil.which("spamd") and shutil.which("sa-learn")):
        tell("spamd is not installed: only tamis is measured")
        del daemons["SpamAssassin"]
    rates: dict[str, float] = {}
    for name, run_daemon in daemons.items():
        with (
            tempfile.TemporaryDirectory() as folder,
            run_daemon(Path(folder), mail, options.threads) as (path, pid),
        ):
            load = asyncio.run(run_clients(path, mail, options.clients, options.seconds, pid))
        tell(_describe(name, load, options.seconds))
        rates[name] = len(load.seconds) / options.seconds
    if len(rates) > 1:
        tell(f"tamis answers {rates['tamis'] / rates['SpamAssassin']:.1f} times as many requests")
    return 0


if __name__ == "__main__":
    sys.exit(main())
