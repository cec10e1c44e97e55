"""Every run of the tests gives the same answer; only `make fuzz` looks for new examples.

- Hypothesis draws the same examples in each run: the profile `repeatable` takes its seed from the source of
  the test. `tools/fuzz` loads the profile `fuzz` instead, which takes a fresh seed in each round.
- Each test begins with the same states of the global generators and of the generators of its module,
  whichever tests ran before it.
- Commands that a test runs in its own process change the garbage collector and the switch interval of
  threads, as they may in a process of their own (`prepare_bulk_work`); both are restored before each test.
"""

import gc
import random
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

# A `settings(...)` in a test module takes what it does not name from the profile that is loaded when the
# module is imported, so that the profile must be loaded here. A time limit would make the answer depend on
# how busy the machine is: there is no deadline, and no check for slowness.
COMMON: dict[str, Any] = {
    "database": None,
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow],
}
settings.register_profile("repeatable", derandomize=True, **COMMON)
settings.register_profile("fuzz", derandomize=False, **COMMON)
settings.register_profile(
    "mutants", settings.get_profile("repeatable"), phases=[Phase.explicit, Phase.generate]
)  # for tools/mutants: a failure is enough, a small one takes time
settings.load_profile("repeatable")


def pytest_sessionstart() -> None:
    """Draw no constants from the project's own source in a repeatable run.

    Hypothesis collects them from the modules that are loaded at the moment, and which those are depends on
    the tests that ran before in this process. `tests/architecture/test_repeatable.py` notices if this has no
    effect.
    """
    if settings.default is not None and settings.default.derandomize:
        nothing = Constants()
        providers._get_local_constants = lambda: nothing


GENERATORS = pytest.StashKey[dict[str, Any]]()
SWITCH_INTERVAL = sys.getswitchinterval()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seed the global generators; restore those of the test's module, and settings of the interpreter."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002  (scikit-learn draws from it where no seed is given)
    gc.enable()
    sys.setswitchinterval(SWITCH_INTERVAL)
    module = item.getparent(pytest.Module)
    if module is None:
        return
    first_states = module.stash.setdefault(GENERATORS, {})
    for name, generator in find_generators(module.obj):
        if name in first_states:
            write_state(generator, first_states[name])
        else:
            first_states[name] = read_state(generator)


def find_generators(module: ModuleType) -> list[tuple[str, Any]]:
    """Names and values of the random generators that a module holds."""
    kinds = (np.random.Generator, np.random.RandomState, random.Random)
    return [(name, value) for name, value in vars(module).items() if isinstance(value, kinds)]


def read_state(generator: Any) -> Any:
    """The state from which a generator draws."""
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return generator.getstate() if isinstance(generator, random.Random) else generator.get_state()


def write_state(generator: Any, state: Any) -> None:
    """Let a generator draw again from a state that `read_state` returned."""
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        generator.set_state(state)
