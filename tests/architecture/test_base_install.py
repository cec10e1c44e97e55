"""The mail filter runs with NumPy alone, and each model says in one line which extra it needs.

Every process of a test, its worker processes too, refuses to import any third-party package but NumPy: a
`sitecustomize` module on its path sees to that.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tamis
import tamis_mail.sample
from tests.compiled_core import needs_core

SOURCES = Path(tamis.__file__).parents[1]
REFUSE = """
import sys

REFUSED = {refused!r}
ALLOWED = {{*sys.stdlib_module_names, "numpy", "tamis", "tamis_mail"}}

class Refuse:
    def find_spec(self, name, path=None, target=None):
        package = name.partition(".")[0]
        if package in REFUSED if REFUSED else package not in ALLOWED:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
"""
MAIN = "import sys; from tamis_mail.surfaces.cli import main; sys.exit(main())"
COMMAND = 'pip install "tamis[models]"'
WITH_NUMPY_ALONE = {"__version__", "decide", "engines", "show_versions", "stats", "text"}  # of tamis.__all__


def run(
    folder: Path, *words: str, refused: tuple[str, ...] = (), text: str = "", **environment: str
) -> tuple[int, str, str]:
    """Run Python where some packages, or all but NumPy, cannot be imported: status, output and errors."""
    (folder / "path").mkdir(exist_ok=True)
    (folder / "path" / "sitecustomize.py").write_text(REFUSE.format(refused=refused), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "PYTHONPATH": os.pathsep.join([str(folder / "path"), str(SOURCES)]),
            **environment,
        },
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def import_error(folder: Path, statement: str) -> str:
    """Return the last line of the traceback of a statement that fails."""
    status, _, errors = run(folder, "-c", statement)
    assert status == 1
    assert "During handling" not in errors
    return errors.splitlines()[-1]


def test_other_packages_are_refused_here(tmp_path: Path) -> None:
    assert import_error(tmp_path, "import scipy") == "ModuleNotFoundError: No module named 'scipy'"


def test_every_command_of_the_mail_filter_runs_with_numpy_alone(tmp_path: Path) -> None:
    mail = tmp_path / "mail"
    tamis_mail.sample.write(mail)
    for kind in ("spam", "ham"):
        for path in sorted((mail / kind).iterdir())[40:]:
            path.rename(tmp_path / path.name)
    other = next(tmp_path.glob("*.eml"))
    spam, ham = (str(mail / name) for name in ("spam", "ham"))
    message = next((mail / "spam").iterdir()).read_text(encoding="utf-8", errors="replace")
    commands: list[tuple[str, ...]] = [
        ("demo", "--mailbox", str(mail)),
        ("learn", "--spam", spam, "--ham", ham),
        ("explain", spam),
        ("relabel", "ham", spam),
        ("relabel", "spam", spam),
        ("forget",),
        ("status",),
        ("report", "--spam", spam, "--ham", ham, "--html", "report.html"),
        ("tune", "--spam", spam, "--ham", ham, "--thresholds"),
        ("store", "backup", "backup.tamis"),
        ("store", "export", "words.txt"),
        ("store", "import", "words.txt", "--store", "imported.tamis"),
        ("learn", "--ham", str(other), "--store", "other.tamis"),
        ("store", "merge", "other.tamis"),
        ("store", "decay"),
        ("store", "prune"),
        ("store", "compact"),
        ("store", "check"),
        ("store", "restore", "backup.tamis"),
        ("completion", "bash"),
        ("help", "learn"),
    ]
    for command in commands:
        status, _, errors = run(tmp_path, "-c", MAIN, *command, text=message)
        assert status == 0, (command, errors)
    status, output, errors = run(tmp_path, "-c", MAIN, "sort", text=message)
    assert (["spam", "ham", "unsure"][status], errors) == (output.split()[0], "")


def test_the_examples_of_the_demo_name_what_to_install(tmp_path: Path) -> None:
    assert run(tmp_path, "-c", MAIN, "demo", "--statistics") == (
        3,
        "",
        'tamis demo: tamis.conjugate needs SciPy, which is not installed: pip install "tamis[models]"\n',
    )


def test_a_name_that_needs_the_models_says_so_in_one_line(tmp_path: Path) -> None:
    code = """
import tamis
for name in tamis.__all__:
    try:
        getattr(tamis, name)
    except ImportError as error:
        print(name, error, sep=": ")
    else:
        print(name)
"""
    lines = run(tmp_path, "-c", code)[1].splitlines()
    assert len(lines) == len(tamis.__all__)
    assert {line for line in lines if ":" not in line} >= WITH_NUMPY_ALONE - {"__version__"}
    for line in lines:
        name = line.partition(":")[0]
        if name not in WITH_NUMPY_ALONE:
            assert line.endswith(f", which is not installed: {COMMAND}"), line


@pytest.mark.parametrize(
    "statement",
    [
        "from tamis import GaussianNB",
        "from tamis.basis import SplineBasis",
        "from tamis.conjugate import Beta",
        "from tamis.estimators import GaussianNB",
        "from tamis.expectations import monte_carlo",
        "from tamis.families import Poisson",
        "from tamis.models import generative",
        "from tamis.plots import BoundaryDisplay",
        "from tamis.text import TokenCounts",
        "from tamis.validate import cross_validate",
    ],
)
def test_an_import_that_needs_the_models_says_so_in_one_line(tmp_path: Path, statement: str) -> None:
    said = import_error(tmp_path, statement)
    assert said.startswith("tamis.extras.MissingPackageError: tamis.")
    assert said.endswith(f", which is not installed: {COMMAND}")


def test_the_science_of_models_needs_no_scikit_learn(tmp_path: Path) -> None:
    code = """
import pkgutil, tamis.models
for module in pkgutil.walk_packages(tamis.models.__path__, "tamis.models."):
    __import__(module.name)
"""
    status, _, errors = run(tmp_path, "-c", code, refused=("sklearn",))
    assert (status, errors) == (0, "")


@needs_core
def test_statistics_without_the_compiled_core_have_the_same_bits(tmp_path: Path) -> None:
    code = """
import hashlib, pickle, numpy as np
from tamis.compiled import core
from tamis.stats import Moments
rows = np.random.default_rng(0).normal(size=(300_000, 4))
print(core is None, hashlib.sha256(pickle.dumps(Moments.observe(rows).first)).hexdigest())
"""
    compiled, reference = (run(tmp_path, "-c", code, TAMIS_CORE=switch) for switch in ("on", "off"))
    assert compiled[0] == reference[0] == 0
    assert compiled[1] == reference[1].replace("True", "False")
    assert "True" in reference[1]
