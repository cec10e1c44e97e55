"""Messages come in batches of a bounded size, and other processes or threads are started for many only."""

import io
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from time import sleep

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis_mail.sieve import Sieve, executor, jobs, open_stores, pipe, pool
from tamis_mail.sieve.executor import Executor, batches, run_inline
from tamis_mail.sieve.threads import Threads
from tamis_mail.store import Store, StoreError
from tests.compiled_core import needs_core


@given(st.lists(st.binary(max_size=6), max_size=30), st.integers(1, 8), st.integers(1, 20))
def test_a_batch_ends_with_the_message_that_reaches_a_bound(
    messages: list[bytes], most: int, largest: int
) -> None:
    parts = list(batches(messages, most, largest))
    assert [raw for part in parts for raw in part] == messages

    def is_full(part: list[bytes]) -> bool:
        return len(part) >= most or sum(map(len, part)) >= largest

    assert all(is_full(part) for part in parts[:-1])
    assert not any(is_full(part[:-1]) for part in parts)
    assert all(parts)


def test_a_batch_is_handed_over_before_more_is_read() -> None:
    source = iter([b"a", b"b", b"c"])
    next(batches(source, 2))
    assert list(source) == [b"c"]


@pytest.fixture
def crew() -> Iterator[Executor]:
    """Runs jobs in processes: the core does not read the first version of the tokens."""
    crew = Executor(lambda: 1)
    yield crew
    crew.close(at_once=True)


def _workers(crew: Executor) -> list[subprocess.Popen[bytes]]:
    assert isinstance(crew._pool, pool.Pool)
    return crew._pool._workers


def test_few_small_messages_are_done_by_this_process(crew: Executor) -> None:
    few = [b"x"] * executor._INLINE_MESSAGES
    messages, work = crew.prepare(few, 2)
    assert (list(messages), work) == (few, run_inline)
    messages, work = crew.prepare([b"x" * (executor._INLINE_BYTES - 1)], 2)
    assert (sum(map(len, messages)), work) == (executor._INLINE_BYTES - 1, run_inline)


def test_one_message_more_than_few_is_work_for_others(crew: Executor) -> None:
    source = iter([b"x"] * (executor._INLINE_MESSAGES + 5))
    messages, work = crew.prepare(source, 1 + 1)
    assert work is not run_inline
    assert next(source) == b"x"  # no more was read than it took to know
    assert len(list(messages)) == executor._INLINE_MESSAGES + 4
    assert isinstance(crew._pool, pool.Pool)
    assert len(crew._pool._workers) == 2


def test_messages_that_are_large_together_are_work_for_others(crew: Executor) -> None:
    half = b"x" * (executor._INLINE_BYTES // 2)
    messages, work = crew.prepare(iter([half, half, b"y"]), 2)
    assert work is not run_inline
    assert [len(raw) for raw in messages] == [len(half), len(half), 1]


def test_one_process_reads_nothing_ahead_and_starts_no_other(crew: Executor) -> None:
    source = iter([b"x"] * 500)
    messages, work = crew.prepare(source, 1)
    assert work is run_inline
    assert crew._pool is None
    assert len(list(source)) == 500
    assert list(messages) == []


def test_there_is_a_process_for_each_core_unless_a_number_is_given(crew: Executor) -> None:
    crew.prepare([b"x"] * 200, None)
    assert isinstance(crew._pool, pool.Pool)
    assert len(crew._pool._workers) == executor.count_cores() == len(os.sched_getaffinity(0))
    first = crew._pool
    crew.prepare([b"x"] * 200, 1 + executor.count_cores())
    assert crew._pool is first  # processes stay for the next mailbox


def test_processes_stay_when_enough_is_had_and_go_at_an_error(crew: Executor) -> None:
    _, work = crew.prepare([b"x"] * 200, 2)
    results = work("digest_messages", (([b"Subject: a\n\nb"], 2) for _ in range(3)))
    next(results)
    results.close()  # type: ignore[attr-defined]
    workers = _workers(crew)
    assert [worker.poll() for worker in workers] == [None, None]
    with pytest.raises(TypeError):
        list(work("digest_messages", [(1, 2, 3)]))
    assert crew._pool is None
    assert all(worker.poll() is not None for worker in workers)


def test_processes_end_by_themselves_when_they_are_let_go() -> None:
    crew = Executor(lambda: 1)
    crew.prepare([b"x"] * 200, 2)
    workers = _workers(crew)
    crew.close()
    assert crew._pool is None
    assert [worker.poll() for worker in workers] == [0, 0]
    crew.close()  # twice is no trouble


@pytest.fixture
def threads() -> Iterator[Executor]:
    threads = Executor(lambda: 2)  # the version of the tokens that the jobs below read
    yield threads
    threads.close(at_once=True)


@needs_core
def test_threads_return_results_in_order_and_stay_for_the_next_mailbox(threads: Executor) -> None:
    raws = [b"Subject: %d\n\nb" % number for number in range(40)]
    _, work = threads.prepare([b"x"] * 200, 3)
    expected = [jobs.digest_messages([raw], 2)[0] for raw in raws]
    assert [names for names, _ in work("digest_messages", (([raw], 2) for raw in raws))] == expected
    first = threads._pool
    assert isinstance(first, Threads)
    results = work("digest_messages", (([raw], 2) for raw in raws))
    next(results)
    results.close()  # type: ignore[attr-defined]
    _, work = threads.prepare([b"x"] * 200, 2)
    assert threads._pool is first


def _members(threads: Executor) -> list[Thread]:
    assert isinstance(threads._pool, Threads)
    return threads._pool._threads


@needs_core
def test_threads_end_at_an_error_and_when_they_are_let_go(threads: Executor) -> None:
    _, work = threads.prepare([b"x"] * 200, 2)
    members = _members(threads)
    with pytest.raises(TypeError):
        list(work("digest_messages", [(1, 2, 3)]))
    assert threads._pool is None
    assert not any(member.is_alive() for member in members)
    threads.prepare([b"x"] * 200, 2)
    threads.close()
    assert threads._pool is None
    threads.close()  # twice is no trouble


@needs_core
def test_results_that_are_abandoned_can_end_in_a_thread_that_holds_the_lock() -> None:
    program = """
from tamis_mail.sieve.executor import Executor
executor = Executor(lambda: 2)
_, work = executor.prepare([b"x"] * 200, 2)
results = work("digest_messages", (([b"Subject: a\\n\\n"], 2) for _ in range(9)))
next(results)
with executor._lock:
    del results  # as the garbage collector would, while workers are started
executor.close()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@needs_core
def test_threads_that_are_released_end_and_the_next_job_starts_others(threads: Executor) -> None:
    _, work = threads.prepare([b"x"] * 200, 3)
    members = _members(threads)
    assert list(work("digest_messages", [])) == []
    results = work(_return_late, ((number,) for number in range(8)))
    assert next(results) == 0
    threads.release_workers()  # others wait for results
    assert list(results) == list(range(1, 8))
    assert all(member.is_alive() for member in members)
    threads.release_workers()
    assert not any(member.is_alive() for member in members)
    assert list(work("digest_messages", [])) == []
    assert threads._pool is None
    assert list(work(_return_late, [(5,)])) == [5]
    assert len(_members(threads)) == 3
    threads.close()
    with pytest.raises(AssertionError, match="after the pool was closed"):
        list(work(_return_late, [(5,)]))


def _return_late(number: int) -> int:
    sleep(0.02)
    return number


@needs_core
def test_results_that_are_read_after_the_threads_were_closed_end_in_an_error(threads: Executor) -> None:
    _, work = threads.prepare([b"x"] * 200, 1 + 1)
    results = work(_return_late, ((number,) for number in range(30)))
    assert next(results) == 0
    threads.close()
    with pytest.raises(RuntimeError, match="the filter was closed or another job failed"):
        list(results)
    assert threads._pool is None


@needs_core
def test_an_error_of_one_job_ends_the_results_of_another_in_an_error(threads: Executor) -> None:
    _, work = threads.prepare([b"x"] * 200, 1 + 1)
    results = work(_return_late, ((number,) for number in range(30)))
    assert next(results) == 0
    with pytest.raises(TypeError):
        list(work("digest_messages", [(1, 2, 3)]))
    threads.prepare([b"x"] * 200, 1 + 1)
    following = threads._pool
    with pytest.raises(RuntimeError, match="the filter was closed or another job failed"):
        list(results)
    assert threads._pool is following  # the new threads are not stopped by the error of the old ones


@needs_core
def test_a_program_that_ends_without_closing_waits_for_the_jobs_that_run() -> None:
    program = """
from tamis_mail.sieve.executor import Executor
_, work = Executor(lambda: 2).prepare([b"x"] * 200, 2)
results = work("digest_messages", (([b"Subject: a\\n\\n" + b"word " * 9000] * 50, 2) for _ in range(9)))
next(results)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@needs_core
def test_a_thread_closes_the_store_that_it_kept_open(tmp_path: Path, threads: Executor) -> None:
    path = tmp_path / "mail.tamis"
    Sieve.open(path).close()
    kept: list[Store] = []

    def note_store() -> None:
        jobs.judge(str(path), [b"Subject: a\n\nb"])
        kept.extend(opened.own for opened in (open_stores._thread.stores or {}).values())

    _, work = threads.prepare([b"x"] * 200, 1 + 1)
    list(work(note_store, [()]))
    threads.close()
    assert len(kept) == 1
    with pytest.raises(StoreError, match="closed"):
        kept[0].labels()


def test_what_is_sent_is_received_and_what_is_cut_off_is_an_end() -> None:
    stream = io.BytesIO()
    things = [("a", 1), b"x" * 300, None]
    for thing in things:
        pipe.send(stream, thing)
    data = stream.getvalue()
    assert int.from_bytes(data[:8], "little") == len(data) - 8 - sum(
        8 + int.from_bytes(data[start : start + 8], "little") for start in later_starts(data)
    )
    stream.seek(0)
    assert [pipe.receive(stream) for _ in things] == things
    for end in (0, 7, 8, len(data) - 1):
        short = io.BytesIO(data[:end])
        with pytest.raises(EOFError):
            [pipe.receive(short) for _ in things]


def later_starts(data: bytes) -> list[int]:
    """Where the second thing begins, the third, …"""
    starts = [0]
    while starts[-1] < len(data):
        starts.append(starts[-1] + 8 + int.from_bytes(data[starts[-1] : starts[-1] + 8], "little"))
    return starts[1:-1]


def test_a_pool_takes_a_few_inputs_ahead_and_no_more() -> None:
    taken = 0

    def count() -> Iterator[tuple[int]]:
        nonlocal taken
        for taken in itertools.count(1):
            yield (-taken,)

    with pool.Pool(2) as workers:
        results = workers.map(abs, count())
        assert [next(results) for _ in range(4)] == [1, 2, 3, 4]
        assert taken == 4 + 2 * 2
        results.close()  # type: ignore[attr-defined]


def test_what_a_job_prints_does_not_get_between_the_results() -> None:
    with pool.Pool(1) as workers:
        assert list(workers.map(os.write, [(1, b"noise\n")] * 3)) == [6, 6, 6]
