"""Send values through a pipe to another process: their length, then their pickled bytes."""

import pickle
from typing import IO, Any


def send(stream: IO[bytes], value: object) -> None:
    """Write one value to the other process."""
    data = pickle.dumps(value, protocol=5)
    stream.write(len(data).to_bytes(8, "little"))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read one value from the other process; raise EOFError if it has closed the pipe."""
    size = int.from_bytes(_read_exactly(stream, 8), "little")
    return pickle.loads(_read_exactly(stream, size))  # the other process is our child or our parent


def _read_exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError("the other process has ended")
    return data
