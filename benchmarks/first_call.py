"""Time the first call in a fresh process, imports included, and later calls, against scikit-learn's.

    python -m benchmarks.first_call [CASE …] [--repeats 7] [--output FILE]

Each side is a program of a few lines, which makes or reads its data without SciPy, then starts the clock,
imports what a user would import and makes one call: the first call. It makes the same call three times
more; the least of these is the warm call. The two sides take turns; the ratio is taken pair by pair, and
above 1 tamis is the faster. The time of the whole process, the start of Python, the data and the warm calls
included, is printed beside it.

Byte code of all packages is there, as after `pip install`: each case first runs once, untimed, and writes it
to a temporary folder, so that it does not matter how the packages were installed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from textwrap import indent
from typing import NamedTuple

from benchmarks.raw_results import PHASES, Comparison, compare, write_run

ROOT = Path(__file__).resolve().parents[1]

_TEXTS = """
import random
random.seed(0)
letters = "abcdefghijklmnopqrstuvwxyz"
words = ["".join(random.choices(letters, k=random.randint(2, 11))) for _ in range(30_000)]
ranks = [1 / (rank + 3) for rank in range(len(words))]
data = [" ".join(random.choices(words, ranks, k=120)) for _ in range({size})]
"""
_ROWS = """
import numpy as np
rng = np.random.default_rng(0)
centres = rng.normal(0, 4, size=(5, {columns}))
labels = rng.integers(0, 5, size={size})
data = rng.normal(size=({size}, {columns})) + centres[labels]
"""
_RATINGS = """
import numpy as np
rng = np.random.default_rng(0)
users, items = rng.integers(0, 600, size=20_000), rng.integers(0, 900, size=20_000)
cells = np.unique(users * 900 + items)
users, items = cells // 900, cells % 900
values = np.clip(np.rint(rng.normal(3.5, 1.0, size=len(cells))), 1, 5)
"""


WANTED = 1.0  # first calls: no case slower than scikit-learn's
_WARM = 3  # calls after the first


class Seconds(NamedTuple):
    """What one process of one side took."""

    first: float
    warm: float
    whole: float


@dataclass(frozen=True)
class FirstCall:
    """One job, done by tamis and by scikit-learn."""

    name: str
    data: str
    ours: str
    peer: str


CASES = (
    FirstCall(
        "TokenCounts of 2,000 texts",
        _TEXTS.format(size=2_000),
        "from tamis.text import TokenCounts; TokenCounts().fit_transform(data)",
        "from sklearn.feature_extraction.text import CountVectorizer; CountVectorizer().fit_transform(data)",
    ),
    FirstCall(
        "TokenCounts of 20,000 texts",
        _TEXTS.format(size=20_000),
        "from tamis.text import TokenCounts; TokenCounts().fit_transform(data)",
        "from sklearn.feature_extraction.text import CountVectorizer; CountVectorizer().fit_transform(data)",
    ),
    FirstCall(
        "Mixture of 150 rows",
        _ROWS.format(size=150, columns=4),
        "from tamis import Mixture; Mixture(3, random_state=0).fit(data)",
        "from sklearn.mixture import GaussianMixture; GaussianMixture(3, random_state=0).fit(data)",
    ),
    FirstCall(
        "Mixture of 200,000 rows",
        _ROWS.format(size=200_000, columns=8),
        "from tamis import Mixture; Mixture(5, random_state=0).fit(data)",
        "from sklearn.mixture import GaussianMixture; GaussianMixture(5, random_state=0).fit(data)",
    ),
    FirstCall(
        "GaussianNB of 1,000 rows",
        _ROWS.format(size=1_000, columns=20),
        "from tamis import GaussianNB; GaussianNB().fit(data, labels).predict(data)",
        "from sklearn.naive_bayes import GaussianNB; GaussianNB().fit(data, labels).predict(data)",
    ),
    FirstCall(
        "GaussianNB of 200,000 rows",
        _ROWS.format(size=200_000, columns=20),
        "from tamis import GaussianNB; GaussianNB().fit(data, labels).predict(data)",
        "from sklearn.naive_bayes import GaussianNB; GaussianNB().fit(data, labels).predict(data)",
    ),
    # scikit-learn has no completion of matrices; NMF takes what is missing for zero, and is the nearest.
    FirstCall(
        "MatrixFactorization of 20,000 ratings, against NMF",
        _RATINGS,
        "from tamis import MatrixFactorization\n"
        "MatrixFactorization(16, random_state=0).fit(np.column_stack([users, items, values]))",
        "from sklearn.decomposition import NMF; from scipy.sparse import csr_array\n"
        "NMF(16, random_state=0, max_iter=20, tol=0).fit(csr_array((values, (users, items))))",
    ),
)


def main() -> None:
    """Time the cases whose name has one of the words given, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_call", description=__doc__)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--source", default=str(ROOT / "src"), help="the folder that holds the packages")
    parser.add_argument("--output", type=Path, help="write the raw results to this file, for the scoreboard")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as byte_code:
        comparisons = _compare(options.cases, options.repeats, options.source, byte_code)
    if options.output:
        write_run(options.output, "First call and warm calls", comparisons=comparisons)


def _compare(cases: list[str], repeats: int, source: str, byte_code: str) -> list[Comparison]:
    """Time the cases whose name has one of the words given, or all of them; print a line of each."""
    columns = f"{'ours':>8} {'peer':>8} {'peer/ours':>9}"
    _say(f"{'':52} first call: {columns}  warm: {columns}  whole process: {columns}")
    comparisons = []
    for case in CASES:
        if cases and not any(word.lower() in case.name.lower() for word in cases):
            continue
        pairs = [
            (_time(case, case.ours, source, byte_code), _time(case, case.peer, source, byte_code))
            for _ in range(repeats + 1)
        ][1:]  # the first writes byte code, and reads the files of the packages from the disk
        ours, peer = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        cells = [f"{case.name:52}"]
        for part in range(3):
            middle = [median(seconds[part] for seconds in side) for side in (ours, peer)]
            ratio = median(b[part] / a[part] for a, b in pairs)
            cells.append(f"{middle[0]:8.3f} s {middle[1]:8.3f} s {ratio:9.2f}")
        _say("  ".join(cells))
        for part, phase in enumerate(PHASES):
            samples = [seconds[part] for seconds in ours], [seconds[part] for seconds in peer]
            wanted = WANTED if phase == "first call" else None
            comparisons.append(compare(case.name, case.name, *samples, wanted=wanted, phase=phase))
    return comparisons


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _time(case: FirstCall, call: str, source: str, byte_code: str) -> Seconds:
    """Run one side in a fresh process; return the seconds of import and call, of a warm call, and of all."""
    program = f"""{case.data}
import time
times = []
for _ in range({1 + _WARM}):
    begun = time.perf_counter()
{indent(call, "    ")}
    times.append(time.perf_counter() - begun)
print(times[0], min(times[1:]))
"""
    environment = {
        **os.environ,
        "PYTHONPATH": source,
        "PYTHONWARNINGS": "ignore",
        "PYTHONPYCACHEPREFIX": byte_code,
        "PYTHONDONTWRITEBYTECODE": "",  # as if it were not set
    }
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False
    )
    whole = time.perf_counter() - begun
    if done.returncode:
        raise SystemExit(f"{case.name}: {done.stderr.strip().splitlines()[-1]}")
    first, warm = map(float, done.stdout.split()[-2:])
    return Seconds(first, warm, whole)


if __name__ == "__main__":
    main()
