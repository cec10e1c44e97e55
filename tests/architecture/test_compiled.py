"""The compiled core is there or it is not, and both are said."""

import subprocess
import sys
from pathlib import Path

import tamis
from tamis.compiled import describe
from tests.compiled_core import needs_core

SOURCES = Path(tamis.__file__).parent
CODE = "from tamis.compiled import core, describe; print(core is None, describe())"


def run_in(folder: Path) -> str:
    command = [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); {CODE}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_folder_of_type_stubs_is_no_core(tmp_path: Path) -> None:
    (tmp_path / "tamis" / "_core").mkdir(parents=True)
    for name in ("__init__.py", "compiled.py", "extras.py"):
        (tmp_path / "tamis" / name).write_bytes((SOURCES / name).read_bytes())
    said = run_in(tmp_path)
    assert said.startswith("True no compiled core")


@needs_core
def test_a_core_names_the_processor() -> None:
    assert describe().startswith("compiled core for ")
