"""Markdown → tests: each fenced `python` block runs, and a `>>>` in it must print what the page says."""

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

collect_ignore_glob = ["docs/*.py", "docs/auto_gallery/*", "docs/gallery/*"]
_IN_TESTS = ["docs/howto/spark.md"]  # pages that tests/engines run, since they need what may be missing
pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()], patterns=["*.md"], excludes=_IN_TESTS
).pytest()
