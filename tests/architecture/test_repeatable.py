"""`make test` gives the same answer every time; `make fuzz` runs its properties with fresh seeds."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[2]

DRAWS = """
import random
import numpy as np
from hypothesis import given, settings, strategies as st

rng = np.random.default_rng(3)
dice = random.Random(4)

@settings(max_examples=300)
@given(st.text(), st.integers(), st.floats())
def test_property(text, number, real):
    print((text, number, real))

def test_generators():
    print("\\nDRAWN", random.random(), np.random.random(), rng.random(), dice.random())

def test_generators_once_more():
    test_generators()
"""
FUZZED = """
import pathlib
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

def note(name):
    with pathlib.Path(__file__).with_name(name).open("a") as file:
        file.write("called\\n")

@settings(max_examples=30)
@given(st.integers())
def test_integers(n):
    note("calls")

class Machine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        note("calls")

    @rule()
    def step(self):
        pass

TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=5)

@pytest.mark.parametrize("limit", [1000])
@given(n=st.integers(), word=st.just("a"))
def test_that_fails(limit, n, word):
    assert n < limit
"""


def make_tests(folder: Path, source: str) -> Path:
    """A folder with this project's conftest.py and one file of tests."""
    folder.mkdir()
    shutil.copy(ROOT / "tests" / "conftest.py", folder)
    (folder / "pytest.ini").touch()
    (folder / "test_some.py").write_text(source, encoding="utf-8")
    return folder


def run_tests(folder: Path, hash_seed: int, *arguments: str) -> list[str]:
    """What the tests of a folder print, as lines."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_every_run_draws_the_same_examples_whatever_is_loaded_and_ran_before(tmp_path: Path) -> None:
    names = ["test_property", "test_generators", "test_generators_once_more"]
    folder = make_tests(tmp_path / "plain", DRAWS)
    once = run_tests(folder, 1, *(f"test_some.py::{name}" for name in names))
    (folder / "local.py").write_text(f"WORDS = {[f'constant {i}' for i in range(50)]}\n", encoding="utf-8")
    (folder / "test_some.py").write_text(f"import local\n{DRAWS}", encoding="utf-8")
    again = run_tests(folder, 2, *(f"test_some.py::{name}" for name in names[::-1]))
    drawn = [[line.lstrip(".") for line in lines if line.startswith(("(", ".("))] for lines in (once, again)]
    assert len(drawn[0]) > 250
    assert drawn[0] == drawn[1]
    assert len({line for line in once + again if line.startswith("DRAWN")}) == 1


def test_no_property_of_the_tests_draws_fresh_examples(request: pytest.FixtureRequest) -> None:
    if settings.get_current_profile_name() != "repeatable":
        pytest.skip("another profile was asked for")
    for item in request.session.items:
        if item.get_closest_marker("hypothesis"):
            test = getattr(item, "obj", None)
            machine = getattr(getattr(item, "cls", None), "settings", settings.default)
            own: Any = getattr(test, "_hypothesis_internal_use_settings", machine)
            assert own.derandomize, item.nodeid
            assert own.deadline is None, item.nodeid
            assert getattr(test, "_hypothesis_internal_use_seed", None) is None, item.nodeid


def test_fuzzing_counts_examples_and_writes_the_failing_one_to_be_kept(tmp_path: Path) -> None:
    folder = make_tests(tmp_path / "tests", FUZZED)
    arguments = [
        "--workers",
        "1",
        "--rounds",
        "2",
        "--folder",
        str(tmp_path / "out"),
        "-c",
        str(folder / "pytest.ini"),
    ]
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "fuzz"), *arguments, str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "@example(n=1000, word='a')\n@reproduce_failure(" in done.stdout
    (failure,) = (tmp_path / "out").glob("*/failure-*.txt")
    assert "@example(n=1000, word='a')" in failure.read_text(encoding="utf-8")
    (lines,) = (tmp_path / "out").glob("*/worker-0.jsonl")
    counts = re.findall(r'test_some.py::(\w+)\S*", "examples": (\d+)', lines.read_text(encoding="utf-8"))
    passing = sum(int(count) for name, count in counts if name != "test_that_fails")
    assert [name for name, _ in counts].count("test_integers") == 2
    assert passing > 2 * (30 + 5)  # the second round draws more
    # Hypothesis calls a state machine once more to see what its rules are.
    assert 0 <= len((folder / "calls").read_text(encoding="utf-8").split()) - passing <= 2
    total = sum(int(count) for _, count in counts)
    assert re.search(
        rf"^{total:,} examples of 3 properties in \d+ s, 1 failures$", done.stdout, flags=re.MULTILINE
    )
