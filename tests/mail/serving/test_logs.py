"""The log of a daemon."""

import io
import json

from tamis_mail.serving.logs import Log


def test_a_value_cannot_forge_another_line_or_value() -> None:
    stream = io.StringIO()
    Log(stream, clock=lambda: 0.0).write("refused", reason='a b="c"\nevent=verdict é')
    (line,) = stream.getvalue().splitlines()
    assert line == r'1970-01-01T00:00:00Z event=refused reason="a b=\"c\"\nevent=verdict \u00e9"'


def test_a_line_may_be_json() -> None:
    stream = io.StringIO()
    Log(stream, "json", clock=lambda: 0.0).write("verdict", label="spam", bytes=3)
    assert json.loads(stream.getvalue()) == {
        "time": "1970-01-01T00:00:00Z",
        "event": "verdict",
        "label": "spam",
        "bytes": 3,
    }


def test_a_log_that_cannot_be_written_stops_nothing() -> None:
    stream = io.StringIO()
    stream.close()
    Log(stream).write("verdict")
