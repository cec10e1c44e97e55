"""Time the first call in a fresh process, imports included, against scikit-learn's in a fresh process.

    python -m benchmarks.first_call [CASE …] [--repeats 7]

Each side is a program of a few lines, which makes or reads its data without SciPy, then starts the clock,
imports what a user would import and makes one call. The two take turns; the ratio is taken pair by pair, and
above 1 tamis is the faster. The time of the whole process, the start of Python and the data included, is
printed beside it.
"""

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

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
    options = parser.parse_args()
    _say(f"{'first call':52} {'ours':>8} {'peer':>8} {'peer/ours':>9}  whole process: ours, peer, ratio")
    for case in CASES:
        if options.cases and not any(word.lower() in case.name.lower() for word in options.cases):
            continue
        pairs = [
            (_time(case, case.ours, options.source), _time(case, case.peer, options.source))
            for _ in range(options.repeats + 1)
        ][1:]  # the first reads the files of the packages from the disk
        ours, peer = (median(pair[side][0] for pair in pairs) for side in (0, 1))
        ratio = median(pair[1][0] / pair[0][0] for pair in pairs)
        whole, peer_whole = (median(pair[side][1] for pair in pairs) for side in (0, 1))
        whole_ratio = median(pair[1][1] / pair[0][1] for pair in pairs)
        _say(
            f"{case.name:52} {ours:6.2f} s {peer:6.2f} s {ratio:9.2f}"
            f"  {whole:6.2f} s {peer_whole:6.2f} s {whole_ratio:6.2f}"
        )


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _time(case: FirstCall, call: str, source: str) -> tuple[float, float]:
    """Run one side in a fresh process; return the seconds of import and call, and of the whole process."""
    timed = f"import time\nbegun = time.perf_counter()\n{call}\nprint(time.perf_counter() - begun)"
    program = f"{case.data}\n{timed}"
    environment = {**os.environ, "PYTHONPATH": source, "PYTHONWARNINGS": "ignore"}
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False
    )
    whole = time.perf_counter() - begun
    if done.returncode:
        raise SystemExit(f"{case.name}: {done.stderr.strip().splitlines()[-1]}")
    return float(done.stdout.split()[-1]), whole


if __name__ == "__main__":
    main()
