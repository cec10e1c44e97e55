"""Other processes do what this one would, in order, and go when they are told to."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tamis_mail import Sieve
from tamis_mail.records import replace
from tamis_mail.sample import messages
from tamis_mail.sieve import LabelledMail
from tamis_mail.sieve.pool import Pool, WorkerError
from tamis_mail.store import StoreError, maintenance

SAMPLE = [(one.raw, one.label) for one in messages()]


def double(number: int) -> int:
    time.sleep(random.Random(number).random() / 100)
    return 2 * number


def fail(number: int) -> int:
    raise ValueError(f"no {number}")


def test_results_come_in_order() -> None:
    with Pool(3) as pool:
        assert list(pool.map(double, ((n,) for n in range(30)))) == [2 * n for n in range(30)]


def test_an_error_reaches_the_one_who_asked() -> None:
    with Pool(2) as pool, pytest.raises(ValueError, match="no 1"):
        list(pool.map(fail, [(1,), (2,)]))


def test_several_processes_learn_and_judge_as_one(tmp_path: Path) -> None:
    spam, ham = ([raw for raw, label in SAMPLE if label == kind] for kind in ("spam", "ham"))
    with Sieve.open(tmp_path / "one") as one, Sieve.open(tmp_path / "two") as two:
        for sieve, processes in ((one, 1), (two, 2)):
            sieve.learn_many(spam[:160], "spam", processes=processes)
            assert sieve.learn_many(ham[:200], "ham", processes=processes) == {"learned": 200}
        assert next(one.store.count_slices()) == next(two.store.count_slices())
        judged = [list(sieve.sort_many(ham, processes=n)) for sieve, n in ((one, 1), (two, 2))]
        assert [v.judgement for v in judged[0]] == [v.judgement for v in judged[1]]
        assert judged[1][0].log_odds == pytest.approx(one.sort(ham[0]).log_odds)
        assert sum(part.contribution for part in judged[1][0].evidence) == pytest.approx(
            judged[1][0].log_odds
        )


def test_a_source_that_breaks_leaves_whole_batches(tmp_path: Path) -> None:
    def breaking() -> object:
        yield from (raw for raw, _ in SAMPLE[:200])
        raise OSError("the disk is gone")

    with Sieve.open(tmp_path / "store") as sieve:
        with pytest.raises(OSError, match="the disk is gone"):
            sieve.learn_many(breaking(), "ham", processes=2)  # type: ignore[arg-type]
        assert maintenance.check(sieve.store) == []
        assert list(sieve.store.entries()) == []
        assert sieve.learn_many([raw for raw, _ in SAMPLE[:200]], "ham", processes=2) == {"learned": 200}


def test_sources_that_are_learned_together_are_learned_as_one_after_the_other(tmp_path: Path) -> None:
    spam, ham = ([raw for raw, label in SAMPLE if label == kind] for kind in ("spam", "ham"))
    mail = [(spam[:90], "spam", "a"), ([], "ham", "b"), (ham[:120], "ham", "c"), (spam[80:100], "ham", "d")]
    with Sieve.open(tmp_path / "one") as one, Sieve.open(tmp_path / "two") as two:
        together = list(two.learn_sources([LabelledMail(*each) for each in mail], processes=2))
        assert together == [
            one.learn_many(raw_messages, label, source=source, processes=1)
            for raw_messages, label, source in mail
        ]
        assert [counts["moved"] for counts in together] == [0, 0, 0, 10]
        assert next(one.store.count_slices()) == next(two.store.count_slices())
        for left, right in zip(one.store.entries(), two.store.entries(), strict=True):
            assert replace(left, time=0) == replace(right, time=0)
        assert one.store.setting("weights") == two.store.setting("weights")
        assert maintenance.check(two.store) == []


def test_a_source_that_breaks_leaves_the_sources_before_it(tmp_path: Path) -> None:
    def breaking() -> Iterator[bytes]:
        yield from (raw for raw, _ in SAMPLE[200:260])
        raise OSError("the disk is gone")

    with Sieve.open(tmp_path / "store") as sieve:
        learned = sieve.learn_sources(
            [
                LabelledMail([raw for raw, _ in SAMPLE[:170]], "ham"),
                LabelledMail(breaking(), "spam"),
                LabelledMail([raw for raw, _ in SAMPLE[260:270]], "ham"),
            ],
            processes=2,
        )
        assert next(learned) == {"learned": 170}
        with pytest.raises(OSError, match="the disk is gone"):
            next(learned)
        assert {label.name: label.messages for label in sieve.store.labels()} == {"ham": 170}
        assert maintenance.check(sieve.store) == []


def test_a_script_without_a_main_guard_is_not_run_again(tmp_path: Path) -> None:
    """Processes of multiprocessing's would import the script, and start processes of their own."""
    script = tmp_path / "script.py"
    script.write_text(
        "from tamis_mail import Sieve\nfrom tamis_mail.sample import messages\nprint('once')\n"
        f"with Sieve.open({str(tmp_path / 'store')!r}) as sieve:\n"
        "    print(sieve.learn_many([one.raw for one in messages()][:200], 'ham', processes=2).total())\n",
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, timeout=600)
    assert done.stdout == "once\n200\n"


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    script = (
        "import time\nfrom tamis_mail.sieve.pool import Pool\n"
        "pool = Pool(2)\nprint(*[worker.pid for worker in pool._workers], flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    deadline = time.monotonic() + 20
    while any(_is_alive(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_is_alive(pid) for pid in workers)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"


def test_a_worker_that_is_killed_is_told_of(tmp_path: Path) -> None:
    with Pool(2) as pool:
        for worker in pool._workers:
            worker.kill()
        with pytest.raises(WorkerError, match="worker process was killed"):
            list(pool.map(double, ((n,) for n in range(20))))


def test_modules_in_the_current_folder_are_not_run(tmp_path: Path) -> None:
    (tmp_path / "queue.py").write_text("open('PWNED', 'w').close()\n", encoding="utf-8")
    (tmp_path / "numpy.py").write_text("open('PWNED', 'w').close()\n", encoding="utf-8")
    script = "from tamis_mail.sieve.pool import Pool\nwith Pool(1) as pool: print(*pool.map(abs, [(-3,)]))\n"
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "3\n"
    assert not (tmp_path / "PWNED").exists()


def test_two_mailboxes_can_be_sorted_by_turns(tmp_path: Path) -> None:
    ham = [raw for raw, label in SAMPLE if label == "ham"]
    with Sieve.open(tmp_path / "store") as sieve:
        sieve.learn_many(ham[:200], "ham", processes=2)
        first, second = (sieve.sort_many(ham, processes=2) for _ in range(2))
        assert next(first).probability == next(second).probability
        first.close()  # type: ignore[attr-defined]
        assert len(list(second)) == len(ham) - 1


def test_threads_wait_for_each_other(tmp_path: Path) -> None:
    with Sieve.open(tmp_path / "store") as sieve, ThreadPoolExecutor(3) as threads:
        learned = [threads.submit(sieve.learn, raw, label) for raw, label in SAMPLE[:60]]
        sorted_ = [threads.submit(sieve.sort, raw) for raw, _ in SAMPLE[:60]]
        assert {one.result().action for one in learned} == {"learned"}
        assert all(0 <= one.result().probability <= 1 for one in sorted_)
        assert maintenance.check(sieve.store) == []


def test_a_label_that_was_left_says_nothing(tmp_path: Path) -> None:
    spam, ham = ([raw for raw, label in SAMPLE if label == kind] for kind in ("spam", "ham"))
    with Sieve.open(tmp_path / "store") as sieve:
        sieve.learn_many(spam[:50], "spam")
        sieve.learn_many(ham[:50], "ham")
        before = [sieve.sort(raw).judgement for raw in ham[50:60]]
        sieve.learn(ham[70], "wrok")
        sieve.forget(ham[70])
        assert [sieve.sort(raw).judgement for raw in ham[50:60]] == before


def test_of_a_message_of_which_nothing_is_known_nothing_is_said(tmp_path: Path) -> None:
    with Sieve.open(tmp_path / "store") as sieve:
        for label in ("spam", "ham"):
            sieve.learn_many([raw for raw, kind in SAMPLE if kind == label], label)
        for raw in (b"", b"\n", b"\nxyzzy\n", b"X-Odd: q\n\nplugh"):
            assert sieve.sort(raw).label == "unsure"


def test_messages_may_be_large_and_many(tmp_path: Path) -> None:
    large = (b"Subject: %d\n\n" % n + b"word " * 400_000 for n in range(12))
    with Sieve.open(tmp_path / "store") as sieve:
        assert sieve.learn_many(large, "ham", processes=2) == {"learned": 12}


@pytest.mark.parametrize("label", ["", " ", "unsure", "spam?", "a\nb", "x" * 41, " spam", "Spam", "HAM"])
def test_what_cannot_be_a_label_is_refused(tmp_path: Path, label: str) -> None:
    with (
        Sieve.open(tmp_path / "store") as sieve,
        pytest.raises(ValueError, match=r"cannot be a label|is not the label"),
    ):
        sieve.learn(b"Subject: x\n\ny", label)


def test_to_guess_something_must_be_known(tmp_path: Path) -> None:
    with Sieve.open(tmp_path / "store") as sieve, pytest.raises(StoreError, match="first learn"):
        sieve.learn_unlabelled([b"Subject: x\n\ny"])


def test_unlabelled_mail_counts_apart_and_moves(tmp_path: Path) -> None:
    spam, ham = ([raw for raw, label in SAMPLE if label == kind] for kind in ("spam", "ham"))
    with Sieve.open(tmp_path / "store") as sieve:
        sieve.learn_many(spam[:40], "spam")
        sieve.learn_many(ham[:40], "ham")
        actions = sieve.learn_unlabelled(spam[40:] + ham[40:])
        assert actions["guessed"] > 0
        assert actions.total() == len(spam) + len(ham) - 80
        labels = {label.name: label.messages for label in sieve.store.labels()}
        assert labels["spam?"] == labels["ham?"] == actions["guessed"] / 2
        assert sieve.learn_many(spam, "spam")["moved"] > 0
        assert sieve.forget_many(spam + ham)["forgotten"] == len(spam) + labels["ham?"] + 40
        assert all(label.weight == 0 for label in sieve.store.labels())
        assert maintenance.check(sieve.store) == []
