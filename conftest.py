"""Markdown → tests: each fenced `python` block runs, and a `>>>` in it must print what the page says.

Blocks of shell commands (`sh`, `console`) are checked by `tests/shell_blocks.py`, and run on some pages.
Blocks of `text` are output, settings and drawings; `tests/architecture/test_docs.py` allows no other kind.
"""

from importlib.util import find_spec

from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser

from tests.shell_blocks import check_block


def make_shell_parser(language: str) -> CodeBlockParser:
    """A parser of blocks in a language of the shell."""

    def evaluate(example: Example) -> None:
        check_block(example, language)

    return CodeBlockParser(language=language, evaluator=evaluate)


collect_ignore_glob = ["docs/*.py", "docs/auto_gallery/*", "docs/gallery/*"]
# a module that derives from classes of a package that may be missing (tools/engine_programs)
collect_ignore = [] if find_spec("pyspark") else ["src/tamis/engines/spark_ml.py"]
# pages that tests/engines run, since they need what may be missing
_IN_TESTS = ["docs/howto/spark.md", "docs/howto/sql-postgresql.md"]
pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), make_shell_parser("sh"), make_shell_parser("console"), SkipParser()],
    patterns=["*.md"],
    excludes=_IN_TESTS,
).pytest()
