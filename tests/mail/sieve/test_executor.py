"""Messages come in batches of a bounded size, and other processes are started only for many of them."""

import io
import itertools
import os
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis_mail.sieve import executor, pipe, pool
from tamis_mail.sieve.executor import Executor, batches, run_locally


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
    crew = Executor()
    yield crew
    crew.close(at_once=True)


def test_few_small_messages_are_done_by_this_process(crew: Executor) -> None:
    few = [b"x"] * executor._LOCAL_MESSAGES
    messages, work = crew.prepare(few, 2)
    assert (list(messages), work) == (few, run_locally)
    messages, work = crew.prepare([b"x" * (executor._LOCAL_BYTES - 1)], 2)
    assert (sum(map(len, messages)), work) == (executor._LOCAL_BYTES - 1, run_locally)


def test_one_message_more_than_few_is_work_for_others(crew: Executor) -> None:
    source = iter([b"x"] * (executor._LOCAL_MESSAGES + 5))
    messages, work = crew.prepare(source, 1 + 1)
    assert work is not run_locally
    assert next(source) == b"x"  # no more was read than it took to know
    assert len(list(messages)) == executor._LOCAL_MESSAGES + 4
    assert crew._pool is not None
    assert len(crew._pool._workers) == 2


def test_messages_that_are_large_together_are_work_for_others(crew: Executor) -> None:
    half = b"x" * (executor._LOCAL_BYTES // 2)
    messages, work = crew.prepare(iter([half, half, b"y"]), 2)
    assert work is not run_locally
    assert [len(raw) for raw in messages] == [len(half), len(half), 1]


def test_one_process_reads_nothing_ahead_and_starts_no_other(crew: Executor) -> None:
    source = iter([b"x"] * 500)
    messages, work = crew.prepare(source, 1)
    assert work is run_locally
    assert crew._pool is None
    assert len(list(source)) == 500
    assert list(messages) == []


def test_there_is_a_process_for_each_core_unless_a_number_is_given(crew: Executor) -> None:
    crew.prepare([b"x"] * 200, None)
    assert crew._pool is not None
    assert len(crew._pool._workers) == pool.count_cores() == len(os.sched_getaffinity(0))
    first = crew._pool
    crew.prepare([b"x"] * 200, 1 + pool.count_cores())
    assert crew._pool is first  # processes stay for the next mailbox


def test_processes_stay_when_enough_is_had_and_go_at_an_error(crew: Executor) -> None:
    _, work = crew.prepare([b"x"] * 200, 2)
    results = work("digest_messages", (([b"Subject: a\n\nb"], 2) for _ in range(3)))
    next(results)
    results.close()  # type: ignore[attr-defined]
    workers = crew._pool._workers if crew._pool else []
    assert [worker.poll() for worker in workers] == [None, None]
    with pytest.raises(TypeError):
        list(work("digest_messages", [(1, 2, 3)]))
    assert crew._pool is None
    assert all(worker.poll() is not None for worker in workers)


def test_processes_end_by_themselves_when_they_are_let_go() -> None:
    crew = Executor()
    crew.prepare([b"x"] * 200, 2)
    workers = crew._pool._workers if crew._pool else []
    crew.close()
    assert crew._pool is None
    assert [worker.poll() for worker in workers] == [0, 0]
    crew.close()  # twice is no trouble


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
