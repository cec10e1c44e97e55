"""Threads: chunks of rows give what all rows do, however many there are; a fork starts its own."""

import multiprocessing
import subprocess
import sys
import warnings

import numpy as np
import pytest

from tamis import threads
from tamis._kernels import reference
from tests.compiled_core import needs_core
from tests.kernels.oracle import ONE_GROUP, assert_same_bits, compiled, scattered


def many(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """So many threads from here on, for however little work."""
    monkeypatch.setattr(threads, "MIN_PARALLEL_WORK", 0)
    monkeypatch.setattr(threads, "_processors", lambda: count)


def test_little_work_is_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_processors", lambda: 64)
    assert threads.count_chunks(threads.MIN_PARALLEL_WORK - 1) == 1
    assert threads.count_chunks(threads.MIN_PARALLEL_WORK) == threads.MAX_THREADS


def test_a_thread_that_works_alone_has_one_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    many(monkeypatch, 4)
    assert threads.run_together([lambda: threads.count_chunks(10)] * 3) == [4, 1, 1]
    with threads.use_one_thread():
        assert threads.count_chunks(10) == 1
    assert threads.count_chunks(10) == 4


@pytest.mark.parametrize("n", [0, 1, 2, 3, 10])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_chunks_hold_every_row_once_and_in_order(monkeypatch: pytest.MonkeyPatch, n: int, count: int) -> None:
    many(monkeypatch, count)
    found = threads.map_row_chunks(n, 0, lambda start, stop: list(range(start, stop)))
    assert len(found) == count
    assert [row for chunk in found for row in chunk] == list(range(n))


def test_what_a_chunk_raises_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    many(monkeypatch, 3)

    def work(start: int, stop: int) -> None:
        if stop == 9:
            raise ValueError(f"rows {start} to {stop}")

    with pytest.raises(ValueError, match="rows 6 to 9"):
        threads.map_row_chunks(9, 0, work)


def test_tasks_may_share_out_work_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    many(monkeypatch, 4)

    def work(start: int, stop: int) -> int:
        return sum(threads.map_row_chunks(stop - start, 0, lambda first, last: last - first))

    for _ in range(50):
        assert threads.map_row_chunks(100, 0, work) == [25, 25, 25, 25]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("n", [0, 1, 3, 200, 1001])
def test_sums_do_not_depend_on_the_number_of_threads(
    monkeypatch: pytest.MonkeyPatch, n: int, count: int
) -> None:
    rng = np.random.default_rng(n)
    x = scattered(rng, (n, 5), -80, 40)
    x[:, 1] *= np.arange(n) == 2  # zero in all chunks but one
    x[:, 2] *= np.arange(n) >= n - 1
    many(monkeypatch, count)
    assert_same_bits(compiled.span(x), reference.span(x))
    bounds = reference.span(x)[0]
    for group, groups in ((ONE_GROUP, 1), (rng.integers(0, 4, size=n), 4)):
        assert_same_bits(
            compiled.deposit(x, bounds, group, groups), reference.deposit(x, bounds, group, groups)
        )
        assert_same_bits(
            compiled.deposit_powers(x, bounds, group, groups),
            reference.deposit_powers(x, bounds, group, groups),
        )


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 17, 39])
def test_any_chunk_may_find_what_is_not_finite(monkeypatch: pytest.MonkeyPatch, bad: float, row: int) -> None:
    x = scattered(np.random.default_rng(row), (40, 4), -3, 3)
    x[row, 2] = bad
    x[39 - row, 3] = np.nan
    many(monkeypatch, 3)
    assert_same_bits(compiled.span(x), reference.span(x))


@needs_core
def test_no_thread_is_started_before_there_is_work_to_share() -> None:
    script = """
import threading
import numpy as np
from tamis import _kernels
from tamis._kernels import compiled
from tamis import threads

threads._processors = lambda: 2
compiled.span(np.ones((1000, 9)))
print(threading.active_count())
compiled.span(np.ones((200_000, 9)))
print(threading.active_count())
"""
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["1", "2"], "")


def _sum_in_child(connection: "multiprocessing.connection.Connection") -> None:
    connection.send(threads.map_row_chunks(9, 0, lambda start, stop: stop - start))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
def test_a_forked_process_has_threads_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    many(monkeypatch, 3)
    assert threads.map_row_chunks(9, 0, lambda start, stop: stop - start) == [3, 3, 3]
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of what is tried here
        child = context.Process(target=_sum_in_child, args=(sender,))
        child.start()
    try:
        assert receiver.poll(30)
        assert receiver.recv() == [3, 3, 3]
    finally:
        child.join(5)
        child.kill()
