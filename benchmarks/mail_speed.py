"""`python -m benchmarks.mail_speed --data FOLDER`: mailboxes learned and sorted: seconds, memory, disk.

The commands are those that users give: `tamis learn --spam … --ham …` and `tamis sort …` against `bogofilter
-M -s -I …`, `-n` and `-T`, on the same two mboxes, one after the other and then the other way round, each
time into an empty folder. The ratio is bogofilter's seconds over ours in neighbouring runs: above 1, ours is
the faster. Memory is that of a command with all its processes, looked at every few milliseconds in a run that
is not timed: summed as RSS (pages that processes share count in each) and as PSS (they are divided). A cold
run is one message from standard input, the page cache warm.

tamis runs from a copy of `src` that is compiled to byte code, as `pip install` leaves it, whatever
PYTHONDONTWRITEBYTECODE says.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.mail_corpus import Mail, add_corpus, bodies, read_corpus, tell, timed, write_mbox
from benchmarks.mail_filters import installed, refuse_missing
from benchmarks.mail_record import describe_versions
from benchmarks.raw_results import Comparison, Limit, compare, write_run
from tamis_mail.labels import HAM, SPAM

JOBS = {"learn": "learning", "sort": "sorting"}
WANTED = 1.5  # times bogofilter's speed, learning and sorting
COLD_WANTED = 60.0  # milliseconds for one message in a new process
MEMORY_WANTED = {"learn": 450.0, "sort": 330.0}  # megabytes as RSS: no more than before the compiled core
_SCRIPT = """#!{python}
import re
import sys
from tamis_mail.surfaces.cli import main
if __name__ == '__main__':
    sys.argv[0] = re.sub(r'(-script\\.pyw|\\.exe)?$', '', sys.argv[0])
    sys.exit(main())
"""  # as pip writes it
_LOOK = 0.005  # seconds between two looks at memory

Commands = list[list[str]]


@dataclass(frozen=True, slots=True)
class Program:
    """A filter as commands, on a folder of its own."""

    name: str
    learn: Callable[[Path], Commands]
    sort: Callable[[Path], Commands]
    cold: Callable[[Path], list[str]]
    environment: dict[str, str]
    store: str  # what it leaves in its folder

    def run(self, job: str, folder: Path) -> None:
        for command in (self.learn if job == "learn" else self.sort)(folder):
            done = subprocess.run(
                command,
                env=self.environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                check=False,
            )
            if done.returncode not in (0, 1, 2):  # verdicts on a message are statuses too
                raise SystemExit(
                    f"{' '.join(command)} ended with {done.returncode}: {done.stderr.decode()[-300:]}"
                )


def tamis(bin_folder: Path, ham: Path, spam: Path) -> Program:
    """Compiled as pip would, in a folder of its own."""
    environment = installed(bin_folder / "site-packages")
    script = bin_folder / "tamis"
    script.write_text(_SCRIPT.format(python=sys.executable), encoding="utf-8")
    script.chmod(0o755)
    program = str(script)
    return Program(
        "tamis",
        lambda folder: [
            [
                program,
                "learn",
                "--quiet",
                "--spam",
                str(spam),
                "--ham",
                str(ham),
                "--store",
                f"{folder}/mail.tamis",
            ]
        ],
        lambda folder: [
            [program, "sort", "--quiet", "--store", f"{folder}/mail.tamis", str(box)] for box in (ham, spam)
        ],
        lambda folder: [program, "sort", "--store", f"{folder}/mail.tamis"],
        environment,
        "mail.tamis",
    )


def bogofilter(ham: Path, spam: Path) -> Program:
    """As Debian has it."""
    start = ["bogofilter", "-d"]
    return Program(
        "bogofilter",
        lambda folder: [
            [*start, str(folder), "-M", flag, "-I", str(box)] for flag, box in (("-s", spam), ("-n", ham))
        ],
        lambda folder: [[*start, str(folder), "-M", "-T", "-I", str(box)] for box in (ham, spam)],
        lambda folder: [*start, str(folder), "-T"],
        dict(os.environ),
        "wordlist.db",
    )


def alternate(programs: Sequence[Program], folder: Path, repeats: int) -> dict[str, dict[str, list[float]]]:
    """Seconds of each job, by program; the programs take turns, and the last run's stores are left."""
    seconds: dict[str, dict[str, list[float]]] = {job: {one.name: [] for one in programs} for job in JOBS}
    for number in range(repeats):
        turn = programs if number % 2 == 0 else programs[::-1]
        for program in turn:
            place = folder / program.name
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
        for job in JOBS:
            for program in turn:
                _, took = timed(partial(program.run, job, folder / program.name))
                seconds[job][program.name].append(took)
                tell(f"run {number + 1}: {program.name} {job} {took:.2f} s")
    return seconds


def peak(program: Program, job: str, folder: Path) -> tuple[float, float]:
    """Megabytes that a job held at most, with all processes it started: as RSS, as PSS."""
    most = [0.0, 0.0]
    for command in (program.learn if job == "learn" else program.sort)(folder):
        process = subprocess.Popen(
            command, env=program.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while process.poll() is None:
            held = [_memory(number) for number in _tree(process.pid)]
            for index in (0, 1):
                most[index] = max(most[index], sum(one[index] for one in held))
            time.sleep(_LOOK)
    return most[0] / 1024, most[1] / 1024


def _tree(root: int) -> list[int]:
    """A process and all below it."""
    found, waiting = [], [root]
    while waiting:
        number = waiting.pop()
        found.append(number)
        with suppress(OSError):  # it has ended
            for task in Path(f"/proc/{number}/task").iterdir():
                waiting += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


def _memory(number: int) -> tuple[float, float]:
    """Kilobytes of a process: RSS, PSS."""
    try:
        text = Path(f"/proc/{number}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0.0, 0.0
    fields = {line.split(":")[0]: line.split()[1] for line in text.splitlines()[1:]}
    return float(fields.get("Rss", 0)), float(fields.get("Pss", 0))


def cold(program: Program, folder: Path, messages: Sequence[bytes]) -> list[float]:
    """Seconds of a process that judges one message, for each message."""
    command = program.cold(folder / program.name)

    def once(raw: bytes) -> None:
        subprocess.run(command, input=raw, env=program.environment, capture_output=True, check=False)

    once(messages[0])
    return [timed(partial(once, raw))[1] for raw in messages]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mail_speed", description=__doc__)
    add_corpus(parser)
    parser.add_argument("--repeats", type=int, default=7, help="of bulk runs (default: 7)")
    parser.add_argument("--cold", type=int, default=20, help="runs on one message (default: 20)")
    parser.add_argument("--output", type=Path, help="write the raw results to this file, for the scoreboard")
    options = parser.parse_args()
    refuse_missing(["bogofilter"])
    mail = read_corpus(options)
    with tempfile.TemporaryDirectory() as folder:
        comparisons, limits = report(mail, Path(folder), options.repeats, options.cold)
    if options.output:
        write_run(
            options.output,
            "Mail: speed, memory and size",
            comparisons=comparisons,
            limits=limits,
            versions=describe_versions(["bogofilter"]),
        )


def report(
    mail: Sequence[Mail], folder: Path, repeats: int, colds: int
) -> tuple[list[Comparison], list[Limit]]:
    """Run all, and write the tables."""
    comparisons: list[Comparison] = []
    ham, spam = folder / "ham.mbox", folder / "spam.mbox"
    write_mbox(ham, bodies(mail, HAM))
    write_mbox(spam, bodies(mail, SPAM))
    megabytes = (ham.stat().st_size + spam.stat().st_size) / 1e6
    ours, peer = tamis(folder / "bin", ham, spam), bogofilter(ham, spam)
    say = sys.stdout.write
    say(f"{len(mail):,} messages, {megabytes:.1f} MB, {os.cpu_count()} cores, {repeats} runs\n\n")
    seconds = alternate((ours, peer), folder, repeats)
    say("| job | tamis best s | median | bogofilter best s | median | ratio | of bests | messages/s |\n")
    say("|---|---|---|---|---|---|---|---|\n")
    for job, what in JOBS.items():
        mine, its = seconds[job]["tamis"], seconds[job]["bogofilter"]
        about = f"{what} {len(mail):,} messages, {megabytes:.1f} MB, against bogofilter"
        comparisons.append(compare(f"mail-{job}", about, mine, its, wanted=WANTED))
        ratio = statistics.median(b / a for a, b in zip(mine, its, strict=True))
        best, middle = (min(mine), min(its)), (statistics.median(mine), statistics.median(its))
        say(f"| {job} | {best[0]:.2f} | {middle[0]:.2f} | {best[1]:.2f} | {middle[1]:.2f} ")
        say(f"| {ratio:.2f} | {best[1] / best[0]:.2f} | {len(mail) / best[0]:,.0f} |\n")
    sizes = {one.name: (folder / one.name / one.store).stat().st_size / 1e6 for one in (ours, peer)}
    say("\n| peak memory, MB (RSS, PSS) | learn | sort | store, MB |\n|---|---|---|---|\n")
    memory: dict[str, list[tuple[float, float]]] = {}
    for program in (ours, peer):
        place = folder / f"{program.name}-again"
        place.mkdir()
        memory[program.name] = peaks = [peak(program, job, place) for job in JOBS]
        cells = " | ".join(f"{rss:.0f}, {pss:.0f}" for rss, pss in peaks)
        say(f"| {program.name} | {cells} | {sizes[program.name]:.1f} |\n")
    some = [one.raw for one in mail[:: max(1, len(mail) // colds)]][:colds]
    say("\n| one message, cold | median ms | least | most |\n|---|---|---|---|\n")
    times: dict[str, list[float]] = {}
    for program in (ours, peer):
        times[program.name] = taken = [1000 * took for took in cold(program, folder, some)]
        say(f"| {program.name} | {statistics.median(taken):.1f} | {min(taken):.1f} | {max(taken):.1f} |\n")
    comparisons.append(
        compare("mail-cold", "one message in a new process", times["tamis"], times["bogofilter"], unit="ms")
    )
    for number, (job, what) in enumerate(JOBS.items()):
        held = [[memory[one.name][number][1]] for one in (ours, peer)]
        comparisons.append(
            compare(f"mail-memory-{job}", f"peak memory of {what}, PSS of all processes", *held, unit="MB")
        )
    comparisons.append(
        compare("mail-store", "size of the store", [sizes["tamis"]], [sizes["bogofilter"]], unit="MB")
    )
    limits = [
        Limit(
            "mail-cold-limit",
            "one message in a new process, median",
            statistics.median(times["tamis"]),
            "ms",
            COLD_WANTED,
        )
    ]
    for number, (job, what) in enumerate(JOBS.items()):
        held_by_ours = memory["tamis"][number][0]
        about = f"peak memory of {what}, RSS of all processes"
        limits.append(Limit(f"mail-memory-{job}-limit", about, held_by_ours, "MB", MEMORY_WANTED[job]))
    return comparisons, limits


if __name__ == "__main__":
    main()
