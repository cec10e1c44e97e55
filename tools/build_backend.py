"""What pip calls to build tamis: meson-python, but for editable installs.

An editable install of meson-python puts an import hook before all other paths, which asks Ninja whether the
core is up to date whenever a process imports tamis: 50 to 100 ms. Here an editable install is a line in a
`.pth` file that names `src`, and the core is compiled into `src/tamis`, so that a checkout also works with
PYTHONPATH alone. `python tools/build_backend.py` compiles the core anew after a change.
"""

import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

from mesonpy import build_sdist, build_wheel, get_requires_for_build_sdist, get_requires_for_build_wheel

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]

_ROOT = Path(__file__).resolve().parents[1]
_BUILD = _ROOT / "build" / f"core-{sysconfig.get_config_var('SOABI')}"
_CORE = f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"

get_requires_for_build_editable = get_requires_for_build_wheel


def build_editable(
    wheel_directory: str,
    config_settings: dict[str, str | list[str]] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Compile the core into `src/tamis`; write a wheel that holds the path of the sources, and no package."""
    compile_core()
    with tempfile.TemporaryDirectory() as folder:
        name = build_wheel(folder, {**(config_settings or {}), "setup-args": "-Dcore=disabled"})
        with (
            zipfile.ZipFile(Path(folder, name)) as whole,
            zipfile.ZipFile(Path(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel,
        ):
            metadata = [entry for entry in whole.namelist() if ".dist-info/" in entry]
            record = next(entry for entry in metadata if entry.endswith("/RECORD"))
            files = {entry: whole.read(entry) for entry in metadata if entry != record}
            files["_tamis_editable.pth"] = f"{_ROOT / 'src'}\n".encode()
            files[record] = "".join(f"{entry},,\n" for entry in [*files, record]).encode()
            for entry, content in files.items():
                wheel.writestr(entry, content)
    return name


def compile_core() -> None:
    """Compile the core into `src/tamis`; remove an old one if there is no compiler."""
    # Ninja and Meson are packages of this environment, whose programs need not be on PATH.
    meson = [sys.executable, "-m", "mesonbuild.mesonmain"]
    if not (_BUILD / "build.ninja").exists():
        shutil.rmtree(_BUILD, ignore_errors=True)
        subprocess.run([*meson, "setup", _BUILD, _ROOT], check=True)
    subprocess.run([*meson, "compile", "-C", _BUILD], check=True)
    compiled, installed = _BUILD / "core" / _CORE, _ROOT / "src" / "tamis" / _CORE
    if compiled.exists():
        # Another process may have the old core loaded: it keeps its file, and the new one takes the name.
        shutil.copy2(compiled, installed.with_suffix(".new"))
        installed.with_suffix(".new").replace(installed)
    else:
        installed.unlink(missing_ok=True)


if __name__ == "__main__":
    compile_core()
