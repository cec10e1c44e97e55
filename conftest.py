"""Markdown → tests: each fenced `python` block runs, and a `>>>` in it must print what the page says."""

from importlib.util import find_spec

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

collect_ignore_glob = ["docs/*.py", "docs/auto_gallery/*", "docs/gallery/*"]
# a module that derives from classes of a package that may be missing (tools/engine_programs)
collect_ignore = [] if find_spec("pyspark") else ["src/tamis/engines/spark_ml.py"]
_IN_TESTS = ["docs/howto/spark.md"]  # pages that tests/engines run, since they need what may be missing
pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()], patterns=["*.md"], excludes=_IN_TESTS
).pytest()
