"""Two kernels, in Cython and in C++ with nanobind → speed, size, time to build and to load: which one for the core?

The kernels are those that the core needs most of: reading ASCII words and counting them per document, and the
Cholesky factor of I + XᵀX for many small X, as plain loops in both languages, and in C++ also as tiles in
registers (core/dense), compiled for each generation of processors.

    python experiments/0012-compiled-core/run.py     (needs g++, cython>=3, nanobind and numpy; about a minute)
"""

import importlib.util
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import nanobind
import numpy as np

HERE = Path(__file__).parent
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
FLAGS = ["-O3", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno", "-std=c++17", "-DNDEBUG"]
PYTHON = [f"-I{sysconfig.get_paths()['include']}"]
NANOBIND = Path(nanobind.include_dir()).parent
NANOBIND_FLAGS = [f"-I{NANOBIND / 'include'}", f"-I{NANOBIND / 'ext/robin_map/include'}"]
TILES = {
    "factorize_by_avx2": ["-mavx2", "-mfma"],
    "factorize_by_avx512": ["-mavx512f", "-mavx512dq", "-mavx512vl", "-mfma", "-Wno-maybe-uninitialized"],
}


def run(*command: object) -> float:
    begun = time.perf_counter()
    subprocess.run([str(word) for word in command], check=True)
    return time.perf_counter() - begun


def build_cython(folder: Path, *more: str, name: str = "kernels_cython") -> tuple[Path, dict[str, float]]:
    source, library = folder / f"{name}.cpp", folder / f"{name}{SUFFIX}"
    (folder / f"{name}.pyx").write_text((HERE / "kernels.pyx").read_text())
    seconds = {"translate": run(sys.executable, "-m", "cython", "-3", "--cplus", folder / f"{name}.pyx", "-o", source)}
    seconds["compile"] = run("g++", *FLAGS, *more, *PYTHON, "-shared", "-s", source, "-o", library)
    return library, seconds


def build_nanobind(folder: Path) -> tuple[Path, dict[str, float]]:
    library, objects = folder / f"kernels_nanobind{SUFFIX}", []
    seconds = {}
    for name, flags in TILES.items():
        objects.append(folder / f"{name}.o")
        seconds[name] = run("g++", *FLAGS, *flags, f"-DNAME={name}", "-c", HERE / "tiles.cpp", "-o", objects[-1])
    flags = [*FLAGS, *PYTHON, *NANOBIND_FLAGS, "-ffunction-sections", "-fdata-sections", "-DNB_COMPACT_ASSERTIONS"]
    once = folder / "nanobind.o"
    sources = NANOBIND / "src/nb_combined.cpp"
    seconds["nanobind, once"] = run("g++", *flags, "-fno-strict-aliasing", "-c", sources, "-o", once)
    objects += [folder / "kernels.o", once]
    seconds["compile"] = run("g++", *flags, "-c", HERE / "kernels.cpp", "-o", objects[-2])
    seconds["link"] = run("g++", "-shared", "-s", "-Wl,--gc-sections", *objects, "-o", library)
    return library, seconds


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.name.split(".")[0], path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def time_to_load(path: Path) -> float:
    """Milliseconds to import the library in a process that has NumPy, median of 15."""
    script = (
        "import numpy, sys, time; sys.path.insert(0, sys.argv[1]); begun = time.perf_counter(); "
        "__import__(sys.argv[2]); print(time.perf_counter() - begun)"
    )
    command = [sys.executable, "-c", script, str(path.parent), path.name.split(".")[0]]
    return 1e3 * statistics.median(float(subprocess.check_output(command)) for _ in range(15))


def make_texts() -> tuple[Any, Any]:
    """20,000 texts of about 100 words of 30,000, the k-th as common as 1/k."""
    dice = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlucmwfgypbvkEAT"))
    words = ["".join(dice.choice(letters, size)) for size in dice.integers(2, 12, 30_000)]
    texts = []
    for size in dice.integers(50, 150, 20_000):
        ranks = (30_000 ** dice.random(size)).astype(np.int64) - 1
        texts.append(", ".join(words[rank] for rank in ranks) + ".\n")
    text = np.frombuffer("".join(texts).encode(), dtype=np.uint8)
    return text, np.concatenate([[0], np.cumsum([len(each) for each in texts])])


def count(module: ModuleType, text: Any, documents: Any) -> tuple[Any, ...]:
    most = len(text) // 2 + 1
    room = np.zeros(len(documents), dtype=np.int64), np.empty(most, dtype=np.int32), np.empty(most)
    words = module.count_words(text, documents, *room)
    total = room[0][-1]
    return words, room[0], room[1][:total], room[2][:total]


def best(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The least processor time of each, taken in turn: the machine has other work to do."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            begun = time.thread_time()
            call()
            taken[name].append(time.thread_time() - begun)
    return {name: min(seconds) for name, seconds in taken.items()}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cython, cython_seconds = build_cython(folder)
        fused, _ = build_cython(folder, "-march=native", "-ffp-contract=fast", name="kernels_native")
        ours, nanobind_seconds = build_nanobind(folder)
        for path, seconds in ((cython, cython_seconds), (ours, nanobind_seconds)):
            parts = ", ".join(f"{part} {value:.1f}" for part, value in seconds.items())
            print(f"{path.name}: {path.stat().st_size / 1024:.0f} kB, loads in {time_to_load(path):.2f} ms, built in {parts} s")
        modules = {"Cython": load(cython), "Cython, -march=native": load(fused), "nanobind": load(ours)}

        text, documents = make_texts()
        found = [count(module, text, documents) for module in modules.values()]
        assert all(np.array_equal(a, b) for each in found[1:] for a, b in zip(each, found[0], strict=True))
        print(f"{len(text) / 1e6:.1f} MB of text, {found[0][0]:,} different words")
        rows = np.random.default_rng(1).normal(size=(1000, 100, 48))
        roots = np.empty((1000, 48, 48))
        wanted = np.linalg.cholesky(np.eye(48) + rows.transpose(0, 2, 1) @ rows).transpose(0, 2, 1)
        counting, solving, tiny_text, tiny_rows = {}, {}, {}, {}
        one, small, small_root = (np.frombuffer(b"ab", dtype=np.uint8), np.array([0, 2])), rows[:1, :1, :8].copy(), roots[:1, :8, :8].copy()
        room = np.zeros(2, dtype=np.int64), np.empty(2, dtype=np.int32), np.empty(2)
        for name, module in modules.items():
            counting[name] = lambda module=module: count(module, text, documents)
            ways = (False, True) if name == "nanobind" else (False,)
            for tiles in ways:
                flag = (True,) if tiles else ()
                label = name + (", tiles" if tiles else "")
                roots[:] = 0.0
                module.factorize_many(rows, roots, *flag)
                np.testing.assert_allclose(np.triu(roots), wanted, rtol=1e-10, atol=1e-12)
                solving[label] = lambda module=module, flag=flag: module.factorize_many(rows, roots, *flag)
            tiny_text[name] = lambda module=module: [module.count_words(*one, *room) for _ in range(1000)]
            tiny_rows[name] = lambda module=module: [module.factorize_many(small, small_root) for _ in range(1000)]
        for title, calls, unit, scale in (
            ("count words", counting, "ms", 1e3),
            ("1000 roots of 48 × 48, 100 rows each", solving, "ms", 1e3),
            ("call, tiny text (5 arrays)", tiny_text, "µs", 1e3),
            ("call, tiny matrix (2 arrays)", tiny_rows, "µs", 1e3),
        ):
            for name, seconds in best(calls, 25).items():
                print(f"{title}: {name} {seconds * scale:.2f} {unit}")
        for source in ("kernels.pyx", "kernels.cpp", "tiles.cpp"):
            print(f"{source}: {len((HERE / source).read_text().splitlines())} lines")


if __name__ == "__main__":
    main()
