"""The log of a daemon: one line per event, as `name=value` or JSON, without content of messages."""

import json
import threading
import time
from collections.abc import Callable
from typing import Literal, TextIO

Format = Literal["text", "json"]
Value = str | int | float | bool


class Log:
    """Writes events to a stream.

    >>> import sys
    >>> log = Log(sys.stdout, clock=lambda: 0.0)
    >>> log.write("verdict", label="spam", probability=0.99931, seconds=0.0042)
    1970-01-01T00:00:00Z event=verdict label=spam probability=0.99931 seconds=0.0042
    """

    def __init__(
        self, stream: TextIO, format: Format = "text", *, clock: Callable[[], float] = time.time
    ) -> None:
        self._stream = stream
        self._format = format
        self._clock = clock
        self._lock = threading.Lock()

    def write(self, event: str, **values: Value) -> None:
        """Write one event. Errors of the stream are ignored."""
        timestamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock()))
        if self._format == "json":
            line = json.dumps({"time": timestamp, "event": event, **values}, ensure_ascii=True)
        else:
            pairs = {"event": event, **values}
            line = " ".join([timestamp, *(f"{name}={_quote(value)}" for name, value in pairs.items())])
        with self._lock:
            try:
                self._stream.write(line + "\n")
                self._stream.flush()
            except (OSError, ValueError):
                pass


def _quote(value: Value) -> str:
    text = str(value)
    is_plain = text.isascii() and text.isprintable() and text and not set(text) & set(" \"'=")
    return text if is_plain else json.dumps(text, ensure_ascii=True)
