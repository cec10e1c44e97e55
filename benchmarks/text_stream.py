"""`python -m benchmarks.text_stream`: time and peak memory of a pass over 1, 10, 100 times as many texts.

The texts are lines of a file, which is read again and again; each pass is a process of its own, so that its
peak is that of this pass. `before` is what a process takes that has imported all and loaded the kernels.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from sklearn.pipeline import make_pipeline

import tamis
from benchmarks.raw_results import Limit, Table, write_run
from tamis.text import TokenCounts, fit_stream

FILE = 20.0  # megabytes of texts that differ
FORMS = ("hashed", "vocabulary")
WIDTH = 2**18
MEMORY_WANTED = 300.0  # megabytes, whatever the size of the text


def texts(path: Path, megabytes: float) -> Iterator[tuple[str, str]]:
    """Texts and labels, a line each, until they come to so many megabytes."""
    size = 0
    while True:
        with path.open(encoding="utf-8") as file:
            for line in file:
                if size >= megabytes * 1e6:
                    return
                label, _, text = line.partition("\t")
                size += len(text)
                yield text, label


def one(path: Path, form: str, megabytes: float) -> dict[str, float]:
    """A pass over so many megabytes: seconds, and peak memory."""
    fit_stream(tamis.MultinomialNB(), texts(path, 3))  # loads the kernels
    before = _peak()
    counts = TokenCounts(form="hashed", n_features=WIDTH) if form == "hashed" else TokenCounts()
    begun = time.perf_counter()
    fit_stream(make_pipeline(counts, tamis.MultinomialNB()), texts(path, megabytes), progress=False)
    return {"seconds": time.perf_counter() - begun, "peak": _peak(), "before": before}


def _peak() -> float:
    """Megabytes of memory that this process held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.text_stream", description=__doc__)
    parser.add_argument("--megabytes", type=float, default=20.0, help="the smallest pass (default: 20)")
    parser.add_argument("--one", nargs=3, metavar=("FILE", "FORM", "MB"), help="one pass, as JSON")
    parser.add_argument("--output", type=Path, help="write the raw results to this file, for the scoreboard")
    options = parser.parse_args()
    if options.one:
        path, form, size = options.one
        sys.stdout.write(json.dumps(one(Path(path), form, float(size))))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts"
        _write(path)
        sys.stdout.write(f"{'form':<12}{'MB':>8}{'seconds':>10}{'MB/s':>8}{'peak MB':>9}{'before':>8}\n")
        rows, peaks = [], []
        for form in FORMS:
            for size in (times * options.megabytes for times in (1, 10, 100)):
                command = [
                    sys.executable,
                    "-m",
                    "benchmarks.text_stream",
                    "--one",
                    str(path),
                    form,
                    str(size),
                ]
                found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                seconds = found["seconds"]
                sys.stdout.write(
                    f"{form:<12}{size:>8.0f}{seconds:>10.2f}{size / seconds:>8.1f}"
                    f"{found['peak']:>9.0f}{found['before']:>8.0f}\n"
                )
                sys.stdout.flush()
                peaks.append(found["peak"])
                rows.append(
                    (
                        form,
                        f"{size:,.0f}",
                        f"{seconds:.2f}",
                        f"{size / seconds:.0f}",
                        f"{found['peak']:.0f}",
                        f"{found['before']:.0f}",
                    )
                )
    if options.output:
        columns = ("form", "MB of text", "seconds", "MB/s", "peak MB", "before learning, MB")
        largest = peaks[len(peaks) // len(FORMS) - 1]  # the first form, hashed
        what = "peak memory of the largest pass, hashed, with all modules that it imports"
        write_run(
            options.output,
            "Text that does not fit in memory",
            text=f"One pass of `fit_stream`, hashed to {WIDTH:,} columns or with a vocabulary, 20 classes.",
            limits=[Limit("text-stream-memory", what, largest, "MB", MEMORY_WANTED)],
            tables=[Table("", columns, tuple(rows))],
        )


def _write(path: Path) -> None:
    from benchmarks.corpora import zipf  # noqa: PLC0415  (the words take memory that a pass should not have)

    made = zipf(FILE)
    lines = (f"{label}\t{text}" for text, label in zip(made.texts, made.labels, strict=True))
    path.write_text("\n".join(line.replace("\n", " ") for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
