"""Each script of the gallery runs to its end and draws its pictures; slow ones with fewer repeats."""

import io
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot as plt

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
SCRIPTS = sorted(GALLERY.glob("plot_*.py"))
# What is replaced in the source of a slow script; a replacement that is not found fails.
FASTER = {
    "plot_boundaries": [("grid=120", "grid=40")],
    "plot_forgetting": [("REPEATS = 120, 4, 10", "REPEATS = 120, 4, 1")],
    "plot_generative_discriminative": [("REPEATS = 4, 20, 30", "REPEATS = 4, 20, 2")],
    "plot_languages": [("range(300)", "range(3)")],
    "plot_mail": [("list(messages())", "list(messages())[::2]")],
}


@pytest.fixture(autouse=True)
def drawn_in_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Open no window, and leave no figure."""
    matplotlib.use("Agg")
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.close("all")
    yield
    plt.close("all")


@pytest.mark.parametrize("script", SCRIPTS, ids=[path.stem for path in SCRIPTS])
def test_a_gallery_script_draws_its_pictures(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = script.read_text(encoding="utf-8")
    for slow, fast in FASTER.get(script.stem, []):
        assert slow in source, f"{slow!r} is not in {script.name}: correct FASTER"
        source = source.replace(slow, fast)
    copy = tmp_path / script.name
    copy.write_text(source, encoding="utf-8")
    monkeypatch.setattr(sys, "argv", [str(copy)])
    runpy.run_path(str(copy), run_name="__main__")
    numbers = plt.get_fignums()
    assert len(numbers) == source.count("plt.show()")
    for number in numbers:
        figure = plt.figure(number)
        assert all(axes.has_data() or not axes.axison for axes in figure.axes), "an empty plot is drawn"
        image = io.BytesIO()
        figure.savefig(image, format="raw", dpi=40)
        pixels = np.frombuffer(image.getvalue(), np.uint8).reshape(-1, 4)
        assert len(np.unique(pixels, axis=0)) > 20, "the picture is blank"


def test_each_script_has_a_title_and_says_what_it_shows() -> None:
    for script in SCRIPTS:
        title, rule, blank, *text = script.read_text(encoding="utf-8").removeprefix('"""\n').splitlines()
        assert set(rule) == {"="}, script.name
        assert (len(rule), blank) == (len(title), ""), script.name
        assert text[0].endswith((".", ":")) or len(text[0]) > 60, script.name
