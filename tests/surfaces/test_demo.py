"""The demo says the lectures' numbers, on any terminal."""

import io

import pytest

from tamis_mail.surfaces.cli import demo


def shown(monkeypatch: pytest.MonkeyPatch, columns: int, encoding: str) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding=encoding)
    assert demo.run(out) == 0
    out.flush()
    return raw.getvalue().decode(encoding)


def test_the_china_example_comes_out_as_in_the_lecture(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, 80, "utf-8")
    # 3/7, 1/14 and 1/14 given China; 2/9 each given not China; joint 0.0003 against 0.0001
    assert "P(Chinese) 0.429, P(Tokyo) 0.071, P(Japan) 0.071" in text
    assert "P(Chinese) 0.222, P(Tokyo) 0.222, P(Japan) 0.222" in text
    assert text.index("joint probability 0.0003") < text.index("joint probability 0.0001")
    assert "China, with probability 0.69." in text


def test_the_coin_comes_out_as_beta(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, 80, "utf-8")
    assert "Beta(57, 47): mean 0.548" in text
    assert "the same, to the bit" in text


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_it_fits_a_narrow_terminal_without_colours_in_any_encoding(
    monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    text = shown(monkeypatch, 40, encoding)
    assert max(map(len, text.splitlines())) <= 80  # only the curve is drawn to the terminal's width
    curve = next(line for line in text.splitlines() if "█" in line or "@" in line)
    assert len(curve) <= 40
    assert "\x1b" not in text
