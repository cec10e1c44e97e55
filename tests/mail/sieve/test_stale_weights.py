"""A store has the weights that its contents give, or none: never those of other contents."""

import hashlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tamis_mail import Sieve
from tamis_mail.sample import messages
from tamis_mail.sieve.pruning import prune
from tamis_mail.sieve.upgrading import begin_upgrade
from tamis_mail.store import Store, exchange, import_foreign, maintenance, saving
from tamis_mail.surfaces.cli import main
from tamis_mail.verdict import Rule
from tests.mail.sieve.test_upgrading import make_older

SAMPLE = [(one.raw, one.label) for one in messages()]
SPAMASSASSIN = b"v\t3\tdb_version\nv\t100\tnum_spam\nv\t200\tnum_nonspam\nt\t5\t0\t1700000000\t%s\n"


def learn(path: Path, begin: int, end: int) -> Sieve:
    sieve = Sieve.open(path)
    for label in ("spam", "ham"):
        sieve.learn_many([raw for raw, name in SAMPLE[begin:end] if name == label], label, processes=1)
    return sieve


@pytest.fixture
def sieve(tmp_path: Path) -> Iterator[Sieve]:
    with learn(tmp_path / "store", 0, 60) as sieve:
        assert sieve.store.setting("weights")
        yield sieve


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    with learn(tmp_path / "other", 40, 100) as sieve:
        yield sieve.store


def read_weights(store: Store) -> tuple[str | None, list[object]]:
    return store.setting("weights"), store.connection.execute("SELECT * FROM coefficient").fetchall()


def has_no_weights(store: Store) -> bool:
    return read_weights(store) == (None, [])


def has_own_weights(sieve: Sieve) -> bool:
    """Whether the weights are those that a fit to the present contents gives."""
    before = read_weights(sieve.store)
    return sieve.fit_weights() and read_weights(sieve.store) == before


def test_a_merge_drops_the_weights_and_the_command_fits_them(sieve: Sieve, other: Store) -> None:
    before = read_weights(sieve.store)
    assert main(["store", "merge", str(other.path), "--store", str(sieve.store.path)]) == 0
    assert has_own_weights(sieve)
    assert read_weights(sieve.store) != before
    maintenance.merge(sieve.store, other)
    assert has_no_weights(sieve.store)


def test_two_stores_that_were_merged_have_the_weights_of_one_that_learned_all(
    sieve: Sieve, other: Store, tmp_path: Path
) -> None:
    assert main(["store", "merge", str(other.path), "--store", str(sieve.store.path)]) == 0
    with learn(tmp_path / "all", 0, 100) as whole:
        whole.fit_weights()
        assert whole.store.setting("weights") == sieve.store.setting("weights")
        for raw, _ in SAMPLE[-10:]:
            assert whole.sort(raw).log_odds == sieve.sort(raw).log_odds


def test_an_export_has_no_weights_and_the_command_fits_them(sieve: Sieve, tmp_path: Path) -> None:
    sieve.fit_weights()
    assert main(["store", "export", str(tmp_path / "text"), "--store", str(sieve.store.path)]) == 0
    assert b"weights" not in (tmp_path / "text").read_bytes()
    assert main(["store", "import", str(tmp_path / "text"), "--store", str(tmp_path / "new")]) == 0
    with Sieve.open(tmp_path / "new") as new:
        assert new.store.setting("weights") == sieve.store.setting("weights")
        assert [new.sort(raw).log_odds for raw, _ in SAMPLE[-5:]] == [
            sieve.sort(raw).log_odds for raw, _ in SAMPLE[-5:]
        ]
    with Store(tmp_path / "third") as third, (tmp_path / "text").open("rb") as file:
        exchange.load(third, file)
        assert has_no_weights(third)


def test_weights_that_somebody_wrote_into_an_export_are_not_used(sieve: Sieve, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with sieve.store.transaction() as writer:  # a setting of another name, to be renamed in the text
        writer.write_setting("weighty", sieve.store.setting("weights"))
    exchange.export(sieve.store, buffer)
    lines = buffer.getvalue().splitlines(keepends=True)
    sealed = seal_export([line.replace(b'"weighty"', b'"weights"') for line in lines[:-1]], lines[-1])
    with Store(tmp_path / "new") as new:
        exchange.load(new, io.BytesIO(sealed))
        assert has_no_weights(new)
        assert maintenance.check(new) == []


def seal_export(lines: list[bytes], end: bytes) -> bytes:
    text = b"".join(lines)
    return text + end.rsplit(b" ", 1)[0] + b" " + hashlib.sha256(text).hexdigest().encode() + b"\n"


def test_a_decay_drops_the_weights_and_the_command_fits_them(sieve: Sieve) -> None:
    before = read_weights(sieve.store)
    assert main(["store", "decay", "--store", str(sieve.store.path)]) == 0
    assert has_own_weights(sieve)
    assert read_weights(sieve.store) != before
    maintenance.decay(sieve.store)
    assert has_no_weights(sieve.store)


def test_a_pruning_drops_the_weights_and_the_command_fits_them(sieve: Sieve, other: Store) -> None:
    before = read_weights(sieve.store)
    assert main(["store", "prune", "--halvings", "0", "--store", str(sieve.store.path)]) == 0
    assert has_own_weights(sieve)
    assert read_weights(sieve.store) != before
    assert maintenance.prune(other, 0).dropped > 0
    assert has_no_weights(other)


def test_a_pruning_by_effect_keeps_the_weights_that_its_bound_is_of(sieve: Sieve) -> None:
    for _ in range(6):
        maintenance.decay(sieve.store)
    sieve.learn_many([raw for raw, label in SAMPLE[60:120] if label == "spam"], "spam", processes=1)
    sieve.learn_many([raw for raw, label in SAMPLE[60:120] if label == "ham"], "ham", processes=1)
    before = read_weights(sieve.store)
    assert before[0]
    assert prune(sieve.store, 3.0).dropped > 0
    assert read_weights(sieve.store) == before


def test_counts_of_spamassassin_drop_the_weights_and_the_command_fits_them(
    sieve: Sieve, other: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read_weights(sieve.store)
    (tmp_path / "words.eml").write_bytes(SAMPLE[0][0] + b"\nmeeting\n")
    dump = SPAMASSASSIN % hashlib.sha1(b"meeting").digest()[-5:].hex().encode()
    (tmp_path / "dump").write_bytes(dump)
    command = ["store", "import", "--format", "spamassassin", "--words", str(tmp_path / "words.eml")]
    assert main([*command, str(tmp_path / "dump"), "--store", str(sieve.store.path)]) == 0
    assert has_own_weights(sieve)
    assert read_weights(sieve.store) != before
    import_foreign.load_spamassassin(other, io.BytesIO(dump), [b"meeting"])
    assert has_no_weights(other)


def test_an_upgrade_gives_the_weights_of_the_messages_that_were_learned_again(tmp_path: Path) -> None:
    with learn(tmp_path / "store", 0, 60) as sieve:
        weights = sieve.store.setting("weights")
        make_older(sieve.store)
        with begin_upgrade(sieve.store) as upgrade:
            upgrade.learn([raw for raw, _ in SAMPLE[:50]])
            upgrade.finish(tmp_path / "backup")
        assert sieve.store.setting("weights") != weights
        assert has_own_weights(sieve)


@pytest.mark.parametrize("into", ["the same store", "another store"])
def test_a_restored_store_has_the_weights_of_its_backup(
    sieve: Sieve, other: Store, tmp_path: Path, into: str
) -> None:
    saving.backup(sieve.store, tmp_path / "backup")
    before = read_weights(sieve.store)
    verdicts = [sieve.sort(raw).log_odds for raw, _ in SAMPLE[-5:]]
    sieve.forget_many([raw for raw, _ in SAMPLE[:20]])
    target = sieve.store.path if into == "the same store" else other.path
    assert main(["store", "restore", str(tmp_path / "backup"), "--store", str(target)]) == 0
    with Sieve.open(target) as restored:
        assert read_weights(restored.store) == before
        assert [restored.sort(raw).log_odds for raw, _ in SAMPLE[-5:]] == verdicts


@pytest.mark.parametrize(
    "change",
    [lambda sieve: maintenance.compact(sieve.store), lambda sieve: saving.backup(sieve.store, "backup")],
)
def test_what_changes_no_contents_keeps_the_weights(
    sieve: Sieve, change: Callable[[Sieve], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = read_weights(sieve.store)
    change(sieve)
    assert read_weights(sieve.store) == before


def test_without_weights_the_next_scheduled_fit_comes_with_the_next_message(sieve: Sieve) -> None:
    maintenance.decay(sieve.store)  # as if the command had been killed before its fit
    assert Rule.of(sieve.store) == Rule.read_prior(sieve.store)
    sieve.learn(SAMPLE[70][0], SAMPLE[70][1])
    assert has_own_weights(sieve)


def test_a_store_of_older_tokens_is_not_fitted(tmp_path: Path) -> None:
    with learn(tmp_path / "store", 0, 60) as sieve:
        make_older(sieve.store)
        assert not sieve.fit_weights()
        assert has_no_weights(sieve.store)


def test_weights_of_a_time_drop_centres_judge_as_they_did_until_the_next_fit(sieve: Sieve) -> None:
    fitted = sieve.store.setting("weights")
    assert fitted is not None
    older = " ".join(fitted.split()[:14])
    sieve.store.connection.execute("UPDATE setting SET value = ? WHERE name = 'weights'", (older,))
    rule = Rule.of(sieve.store)
    assert [view.centre for view in rule.views] == [0.0] * 5
    assert rule.intercept == float(fitted.split()[2])
    assert maintenance.check(sieve.store) == []
    verdict = sieve.sort(SAMPLE[70][0])
    assert sum(one.contribution for one in verdict.evidence) == pytest.approx(verdict.log_odds)
    assert sieve.fit_weights()
    assert sieve.store.setting("weights") == fitted
    assert sieve.sort(SAMPLE[70][0]).log_odds != verdict.log_odds
