"""The door: compiled kernels where there is a core, else the reference; both give the same bits."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tamis import _kernels
from tamis._kernels import reference
from tests.compiled_core import needs_core
from tests.kernels.oracle import ONE_GROUP, assert_same_bits, compiled, scattered

_SUMS = """
import numpy as np
from tamis import _kernels
from tamis.stats import Moments

x = np.random.default_rng(0).normal(size=(300, 20))
print(_kernels._kernels.__name__)
print(Moments.observe(x, by=np.arange(300) % 7).to_arrow().to_pydict())
"""


def run(core: str) -> list[str]:
    """What a fresh interpreter prints, with the core switched on or off."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _SUMS],
        env=os.environ | {"TAMIS_CORE": core},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@needs_core
def test_the_core_is_chosen_unless_it_is_switched_off() -> None:
    pytest.importorskip("pyarrow")
    with_core, without = run(""), run("off")
    assert (with_core[0], without[0]) == ("tamis._kernels.compiled", "tamis._kernels.reference")
    assert with_core[1] == without[1]


@needs_core
def test_both_implementations_have_the_same_functions() -> None:
    for name in compiled.__all__:
        assert callable(getattr(reference, name))


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


@needs_core
def test_arrays_of_another_type_or_order_are_refused() -> None:
    x = np.ones((4, 2))
    for given in (x.astype(np.float32), np.asfortranarray(x), x[:, :1], x.tolist()):
        with pytest.raises((TypeError, AttributeError)):
            compiled.span(given)
