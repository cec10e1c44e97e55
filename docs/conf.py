"""docs/**/*.md and docs/gallery/*.py → build/docs, by Sphinx; `make docs`."""

import re
from importlib.metadata import version as _version
from pathlib import Path
from typing import Any

project = "tamis"
author = "the tamis developers"
copyright = f"2026, {author}"
version = release = _version("tamis")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["gallery"]
suppress_warnings = ["sphinx_gallery.space_in_filename"]  # it means the path of the checkout
autodoc_typehints = "description"
html_theme = "furo"
html_title = f"tamis {version}"

if any(Path(__file__).with_name("gallery").glob("plot_*.py")):
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": "gallery",
        "gallery_dirs": "auto_gallery",
        "within_subsection_order": "FileNameSortKey",
    }


_MARKS = re.compile(r"[*|]")
_NAME_THAT_POINTS = re.compile(r"_\b(?!\w)|(?<=\w)_(?!\w)")  # coef_ would be a link


def _as_plain_text(_app: Any, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    """Docstrings are written to be read where they stand: an asterisk is one, and `this` is code."""
    example = False
    for i, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if not example:
            words = line.split("`")
            words[::2] = [_NAME_THAT_POINTS.sub(r"\\_", _MARKS.sub(r"\\\g<0>", text)) for text in words[::2]]
            lines[i] = "``".join(words)


def setup(app: Any) -> None:
    """What Sphinx calls before it builds."""
    app.connect("autodoc-process-docstring", _as_plain_text, priority=100)
