"""The door: NumPy until Numba pays, the same bits from either, whoever calls and from how many threads."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tamis import _kernels
from tamis._kernels import compiled, reference
from tests.kernels.oracle import ONE_GROUP, assert_same_bits, scattered


def run(script: str) -> str:
    """What a fresh interpreter prints."""
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_numba_is_loaded_when_it_pays_and_not_before() -> None:
    script = """
import sys
import numpy as np
from tamis.stats import Moments

row = np.linspace(0.1, 2.0, 20)[None]
total = few = Moments.observe(row)
for _ in range(20):
    total = total + Moments.observe(row)
print("numba" in sys.modules, total.variance is None)
many = Moments.observe(np.repeat(row, 150_000, axis=0))
print("numba" in sys.modules, "tamis._kernels.compiled" in sys.modules)
again = Moments.observe(row)
for _ in range(20):
    again = again + Moments.observe(row)
print(again == total, Moments.observe(row) == few)
"""
    assert run(script).split() == ["False", "False", "True", "True", "True", "True"]


def test_threads_that_wait_for_numba_together_all_get_it() -> None:
    script = """
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from tamis import _kernels
from tamis.stats import Moments

x = np.random.default_rng(0).normal(size=(2000, 20))
before = Moments.observe(x)
_kernels._door.spent = 10**9
with ThreadPoolExecutor(8) as pool:
    found = list(pool.map(lambda _: Moments.observe(x), range(40)))
print(all(statistic == before for statistic in found), _kernels._door.compiled is not None)
"""
    assert run(script).split() == ["True", "True"]


def test_threads_give_the_same_bits() -> None:
    rng = np.random.default_rng(3)
    x = scattered(rng, (20_000, 7), -60, 10)
    group = rng.integers(0, 5, size=len(x))
    bounds = reference.span(x)[0]

    def work(_: int) -> tuple[object, ...]:
        powers = compiled.deposit_powers(x, bounds, group, 5)
        scaled = compiled.multiply(*powers[2:], np.linspace(0.1, 3.0, 35), 8)
        return *compiled.combine(*powers[2:], *scaled, -1), *compiled.read(*scaled)

    expected = work(0)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(work, range(24)):
            assert_same_bits(found, expected)


def test_the_door_takes_no_group_for_one_group() -> None:
    x = scattered(np.random.default_rng(4), (30, 3), -5, 5)
    bounds, _, _ = _kernels.span(x)
    zeros = np.zeros(len(x), dtype=np.int64)
    assert_same_bits(_kernels.deposit(x, bounds), reference.deposit(x, bounds, zeros, 1))
    assert_same_bits(_kernels.deposit_powers(x, bounds), reference.deposit_powers(x, bounds, ONE_GROUP, 1))
    products = _kernels.deposit_products(x, bounds, x, bounds)
    assert_same_bits(products, reference.deposit_products(x, bounds, x, bounds, zeros, 1))
