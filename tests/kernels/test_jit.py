"""Compiled code is kept on disk until any of the sources changes that it was made of."""

from pathlib import Path

import numba
import pytest

from tamis._kernels import jit


def test_a_change_in_any_source_is_noticed(tmp_path: Path) -> None:
    found = set()
    (tmp_path / "inner").mkdir()
    for name, text in (
        ("a.py", "1"),
        ("a.py", "2"),
        ("inner/b.py", "2"),
        ("inner/c.txt", "3"),
        ("c.py", "2"),
    ):
        (tmp_path / name).write_text(text)
        found.add(jit.digest.__wrapped__(tmp_path))
    assert len(found) == 4  # a text file is no source


def test_kept_code_is_known_by_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def twice(x: float) -> float:
        return 2.0 * x

    for letters in ("abc", "def", "abc"):
        monkeypatch.setattr(jit, "digest", lambda folder, letters=letters: letters)
        assert jit.part(twice)(2.0) == 4.0
    kept = {path.name.split("-")[1] for path in tmp_path.rglob("*.nbi")}
    assert kept == {"abc", "def"}
    assert "-" not in twice.__qualname__
