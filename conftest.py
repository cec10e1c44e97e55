"""Markdown → tests: each fenced `python` block runs, and a `>>>` in it must print what the page says."""

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

collect_ignore_glob = ["docs/*.py", "docs/auto_gallery/*", "docs/gallery/*"]
pytest_collect_file = Sybil(parsers=[PythonCodeBlockParser(), SkipParser()], patterns=["*.md"]).pytest()
