"""`python -m benchmarks.scikit_learn_suite [SUITE …]`: scikit-learn's own tests with the import swapped.

The test files are taken from the installed scikit-learn at run time; none is kept here. In a copy, each
class that `adapters` has is imported from there instead of from scikit-learn, and nothing else changes.
pytest runs the copy; what fails is run once more without a comparison of the wording of errors and warnings.
The tables say how many tests passed, and why the others failed. The reasons are those of `reasons.toml`, by
test and error; a failure without a reason there is "not explained".
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.scikit_learn_suite import adapters

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
_UNEXPLAINED = "not explained"
_WORDING = "the error or warning is of the kind that the test expects, in other words"

Outcome = dict[str, Any]  # test, outcome, reason, ours


@dataclass(frozen=True)
class Suite:
    """A test file below the folder of the installed scikit-learn."""

    name: str
    path: str


SUITES = (
    Suite("naive-bayes", "tests/test_naive_bayes.py"),
    Suite("logistic", "linear_model/tests/test_logistic.py"),
    Suite("glm", "linear_model/_glm/tests/test_glm.py"),
    Suite("pca", "decomposition/tests/test_pca.py"),
    Suite("incremental-pca", "decomposition/tests/test_incremental_pca.py"),
    Suite("mixture", "mixture/tests/test_gaussian_mixture.py"),
    Suite("discriminants", "tests/test_discriminant_analysis.py"),
)


def swap_imports(source: str, classes: list[str]) -> str:
    """The source with these classes imported from `adapters`, those that it defines itself included.

    >>> print(swap_imports("from sklearn.decomposition import PCA, NMF", ["PCA"]))
    from sklearn.decomposition import NMF
    from benchmarks.scikit_learn_suite.adapters import PCA
    """
    lines = source.splitlines()
    for node in reversed(ast.parse(source).body):
        if isinstance(node, ast.ClassDef) and node.name in classes:
            kept, ours = [], [node.name]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sklearn."):
            kept = [alias.name for alias in node.names if alias.name not in classes]
            ours = [alias.name for alias in node.names if alias.name in classes]
        else:
            continue
        if ours:
            replacement = [f"from {node.module} import {', '.join(kept)}"] if kept else []  # type: ignore[union-attr]
            replacement.append(f"from {adapters.__name__} import {', '.join(ours)}")
            lines[node.lineno - 1 : node.end_lineno] = replacement
    return "\n".join(lines)


def run_tests(copy: Path, tests: list[str], *, ignore_wording: bool = False) -> list[Outcome]:
    """How each of these tests of a file ended; all of them, if none is named."""
    outcomes = copy.with_suffix(".json")
    options = ["-p", "benchmarks.scikit_learn_suite.recording", "-p", "sklearn.conftest"]
    options += ["-p", "no:cacheprovider", "-p", "no:xdist", "-c", os.devnull, "--rootdir", str(copy.parent)]
    named = [f"{copy}::{test}" for test in tests] or [str(copy)]
    environment = os.environ | {"TAMIS_SUITE_OUTCOMES": str(outcomes)}
    given = [str(Path(path).resolve()) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    environment["PYTHONPATH"] = os.pathsep.join([str(_ROOT), *given])
    if ignore_wording:
        environment["TAMIS_SUITE_IGNORE_WORDING"] = "1"
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--quiet", "--tb=line", *named],
        cwd=copy.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if not outcomes.exists():
        sys.exit(f"{copy.name} could not be run:\n{ended.stdout[-3000:]}\n{ended.stderr[-3000:]}")
    found: list[Outcome] = json.loads(outcomes.read_text(encoding="utf-8"))
    outcomes.unlink()
    return found


def run_suite(suite: Suite, folder: Path, reasons: list[dict[str, str]]) -> list[Outcome]:
    """How each test of a suite ended; a failure has an explanation under "why"."""
    spec = find_spec("sklearn")
    assert spec is not None
    assert spec.origin is not None
    source = (Path(spec.origin).parent / suite.path).read_text(encoding="utf-8")
    copy = folder / f"test_swapped_{suite.name.replace('-', '_')}.py"
    copy.write_text(swap_imports(source, adapters.__all__), encoding="utf-8")
    outcomes = run_tests(copy, [])
    failed = [one["test"] for one in outcomes if one["outcome"] == "failed"]
    again = run_tests(copy, failed, ignore_wording=True) if failed else []
    wording = {one["test"] for one in again if one["outcome"] == "passed"}
    for one in outcomes:
        one["why"] = _WORDING if one["test"] in wording else explain(one, reasons)
    return outcomes


def explain(failure: Outcome, reasons: list[dict[str, str]]) -> str:
    """The first reason whose `test` begins the test's name and whose `error` is found in its error.

    >>> explain(
    ...     {"test": "test_fit[1]", "reason": "got 0"}, [{"test": "test_fit", "error": "got", "why": "so"}]
    ... )
    'so'
    """
    for reason in reasons:
        named = failure["test"].partition("[")[0].startswith(reason.get("test", ""))
        if named and re.search(reason.get("error", ""), failure["reason"]):
            return reason["why"]
    return _UNEXPLAINED


def main() -> None:
    names = [suite.name for suite in SUITES]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"some of {', '.join(names)} (all)")
    parser.add_argument("--failures", action="store_true", help="list each failing test with its error")
    options = parser.parse_args()
    if unknown := set(options.suites) - set(names):
        parser.error(f"got {', '.join(sorted(unknown))}, expected some of {', '.join(names)}")
    say = sys.stdout.write
    reasons = tomllib.loads((_HERE / "reasons.toml").read_text(encoding="utf-8"))
    causes: list[str] = []
    failures: list[str] = []
    say("| suite | passed | failed | of these, by wording | skipped | about scikit-learn's own functions |\n")
    say("|---|---|---|---|---|---|\n")
    with tempfile.TemporaryDirectory() as folder:
        for suite in SUITES:
            if options.suites and suite.name not in options.suites:
                continue
            outcomes = run_suite(suite, Path(folder), reasons.get(suite.name, []))
            skipped = [one for one in outcomes if one["outcome"] == "skipped"]
            failed = [one for one in outcomes if one["outcome"] == "failed"]
            passed = [one for one in outcomes if one["outcome"] == "passed" and one["ours"]]
            others = len(outcomes) - len(skipped) - len(failed) - len(passed)
            why = Counter(one["why"] for one in failed)
            say(
                f"| {suite.name} | {len(passed)} of {len(passed) + len(failed)} | {len(failed)} "
                f"| {why[_WORDING]} | {len(skipped)} | {others} |\n"
            )
            sys.stdout.flush()
            causes += [f"| {suite.name} | {number} | {reason} |\n" for reason, number in why.most_common()]
            failures += [
                f"{suite.name} {one['test']} ({one['why']}): {' '.join(one['reason'].split())[:200]}\n"
                for one in failed
            ]
    say("\n| suite | failed | why |\n|---|---|---|\n")
    sys.stdout.writelines(causes)
    if options.failures:
        sys.stdout.writelines(["\n", *failures])


if __name__ == "__main__":
    main()
