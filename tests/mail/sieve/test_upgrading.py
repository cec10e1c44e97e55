"""An older store learns its mail again under the present tokens, completely or not at all."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tamis_mail import Sieve, tokens
from tamis_mail.message import canonical, digest
from tamis_mail.sample import messages
from tamis_mail.sieve.upgrading import begin_upgrade, is_upgradable
from tamis_mail.store import Store, StoreError, maintenance, saving
from tamis_mail.store.store import WORD_LIST_TOTALS

SAMPLE = [one.raw for one in messages()]


def make_older(store: Store) -> None:
    """Make a store as a tamis of older tokens wrote it, with other features of each message."""
    with store.transaction() as writer:
        for table in list(store.count_slices()):
            table.counts[:] *= -1
            writer.add(table)
        store.connection.execute("UPDATE journal SET version = ?", (tokens.VERSION - 1,))
        store.connection.execute("DELETE FROM message")
        store.connection.execute("DELETE FROM bundle")


@pytest.fixture
def older(tmp_path: Path) -> Iterator[Store]:
    with Sieve.open(tmp_path / "store") as sieve:
        sieve.learn_many(SAMPLE[:20], "ham", source="/mail/inbox", processes=1)
        maintenance.decay(sieve.store)
        sieve.learn_many(SAMPLE[20:30], "spam", source="/mail/junk", processes=1)
        make_older(sieve.store)
        with sieve.store.transaction() as writer:
            writer.write_setting("threshold of somebody", "1")
        yield sieve.store


def list_others(folder: Path) -> set[str]:
    """List the files of a folder other than the store and its log."""
    return {one.name for one in folder.iterdir() if not one.name.startswith("store")}


def counts(store: Store) -> list[object]:
    return [(table.keys.tolist(), table.counts.tolist()) for table in store.count_slices()]


def test_messages_keep_label_weight_time_and_source(older: Store, tmp_path: Path) -> None:
    assert is_upgradable(older)
    before = {entry.digest: entry for entry in older.entries()}
    with begin_upgrade(older) as upgrade:
        assert upgrade.list_sources() == ["/mail/inbox", "/mail/junk"]
        assert upgrade.learn(SAMPLE[10:40]) == {"learned": 20, "unknown": 10}
        assert not upgrade.is_complete()
        assert upgrade.count_missing() == {"/mail/inbox": 10}
        assert upgrade.learn(SAMPLE[:20]) == {"learned": 10, "known": 10}
        assert upgrade.is_complete()
        upgrade.finish(tmp_path / "backup")
    assert not is_upgradable(older)
    after = {entry.digest: entry for entry in older.entries()}
    assert after.keys() == before.keys()
    for name, entry in after.items():
        old = before[name]
        assert entry.token_version == tokens.VERSION
        kept = (entry.label, entry.weight, entry.other_weight, entry.time, entry.source)
        assert kept == (old.label, old.weight, old.other_weight, old.time, old.source)
    assert maintenance.check(older) == []
    assert older.message_weight() == 2
    assert older.setting("threshold of somebody") == "1"
    with Sieve.open(tmp_path / "new") as new:
        new.learn_many(SAMPLE[:20], "ham", processes=1)
        maintenance.decay(new.store)
        new.learn_many(SAMPLE[20:30], "spam", processes=1)
        assert counts(new.store) == counts(older)
    with Store(tmp_path / "backup") as backup:
        assert {entry.digest: entry for entry in backup.entries()} == before
    assert list_others(tmp_path) == {"backup", "new", "new.log"}


def test_an_upgrade_that_is_not_finished_changes_nothing(older: Store, tmp_path: Path) -> None:
    before = list(older.entries())
    with begin_upgrade(older) as upgrade:
        upgrade.learn(SAMPLE[:25])
    assert list(older.entries()) == before
    assert is_upgradable(older)
    assert list_others(tmp_path) == set()


def test_what_another_process_learns_meanwhile_is_not_lost(older: Store, tmp_path: Path) -> None:
    with begin_upgrade(older) as upgrade:
        upgrade.learn(SAMPLE[:30])
        with Store(older.path) as other, other.transaction() as writer:
            writer.write_setting("something", "new")
        with pytest.raises(
            StoreError, match=r"was changed by another process meanwhile.*run the command again"
        ):
            upgrade.finish(tmp_path / "backup")
    assert is_upgradable(older)
    assert older.setting("something") == "new"


def test_guessed_messages_and_what_belongs_to_the_old_counts(older: Store, tmp_path: Path) -> None:
    name = digest(canonical(SAMPLE[3]))
    with older.transaction() as writer:
        entry = older.find_entry(name)
        assert entry is not None
        writer.remove(name)
        writer.record(type(entry)(name, "ham?", 12, 4, entry.token_version, 0, "x", entry.time))
        for setting in ("imported 1234", "tokens", "era"):
            writer.write_setting(setting, "0")
        writer.add_imported("ham", 7)
    with begin_upgrade(older) as upgrade:
        upgrade.learn(SAMPLE[:30])
        upgrade.finish(tmp_path / "backup")
    kept = older.find_entry(name)
    assert kept is not None
    assert kept.label_weights == [("ham?", 12), ("spam?", 4)]
    assert sum(label.lent for label in older.labels()) == 0
    assert [older.setting(setting) for setting in ("imported 1234", "tokens", "era")] == [None] * 3
    assert maintenance.check(older) == []


def test_an_upgraded_store_has_its_weights_from_the_first_moment(
    older: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_contents = saving.replace_contents

    def replace_and_interrupt(*arguments: Any) -> None:
        replace_contents(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(saving, "replace_contents", replace_and_interrupt)
    with begin_upgrade(older) as upgrade:
        upgrade.learn(SAMPLE[:30])
        with pytest.raises(KeyboardInterrupt):
            upgrade.finish(tmp_path / "backup")
    weights = older.setting("weights")
    assert weights is not None
    assert weights.split()[0] == "30"
    assert Sieve(older).fit_weights()
    assert older.setting("weights") == weights
    assert maintenance.check(older) == []


def test_the_record_of_a_word_list_stays_with_the_list(older: Store, tmp_path: Path) -> None:
    with older.transaction() as writer:
        older.connection.execute("INSERT INTO word_list VALUES (?, 10, 12)", (WORD_LIST_TOTALS,))
        writer.write_setting("imported 1234", "bogofilter")
        writer.write_setting("imported 5678", "spamassassin")
    with begin_upgrade(older) as upgrade:
        upgrade.learn(SAMPLE[:30])
        upgrade.finish(tmp_path / "backup")
    assert older.word_list_totals() == (10, 12)
    assert older.setting("imported 1234") == "bogofilter"
    assert older.setting("imported 5678") is None


def test_a_store_of_later_tokens_is_refused(older: Store) -> None:
    with older.transaction():
        older.connection.execute("UPDATE journal SET version = ?", (tokens.VERSION + 1,))
    with pytest.raises(StoreError, match=rf"use a tamis that knows tokens of version {tokens.VERSION + 1}"):
        is_upgradable(older)


CODE = """
import sys
from pathlib import Path
from tamis_mail.sieve.upgrading import begin_upgrade
from tamis_mail.store import Store
from tamis_mail.sample import messages
with Store(sys.argv[1]) as store, begin_upgrade(store) as upgrade:
    print("begun", flush=True)
    upgrade.learn([one.raw for one in messages()][:30])
    print("learned", flush=True)
    upgrade.finish(Path(sys.argv[2]))
    print("finished", flush=True)
"""


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.05, 0.08, 0.12, 0.2])
def test_a_kill_leaves_the_old_or_the_new_store(older: Store, tmp_path: Path, seconds: float) -> None:
    path, before = older.path, list(older.entries())
    saving.backup(older, tmp_path / "copy")
    arguments = [sys.executable, "-c", CODE, str(tmp_path / "copy"), str(tmp_path / "backup")]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(seconds)
        child.send_signal(signal.SIGKILL)
    assert path.exists()
    with Store(tmp_path / "copy") as store:
        assert maintenance.check(store) == []
        assert [entry.digest for entry in store.entries()] == [entry.digest for entry in before]
        if is_upgradable(store):
            assert list(store.entries()) == before
        with begin_upgrade(store) as upgrade:  # and it can be done again
            upgrade.learn(SAMPLE[:30])
            upgrade.finish(tmp_path / "backup")
        assert not is_upgradable(store)
        assert maintenance.check(store) == []
    assert list_others(tmp_path) == {"backup", "copy"}
