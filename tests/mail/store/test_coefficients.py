"""Coefficients of single features: written and read again, by arrays and one by one."""

from pathlib import Path

import numpy as np
import pytest

from tamis_mail.features import KEY_BITS
from tamis_mail.store import Store, StoreError, maintenance
from tamis_mail.store.coefficients import UNIT

WEIGHTS = "20 {} 0.5 1.0" + 5 * " 1.0 0.5"


@pytest.mark.parametrize("entries", [0, 1, 63, 64, 5000, 70_000])
def test_coefficients_are_read_as_they_were_written(tmp_path: Path, entries: int) -> None:
    dice = np.random.default_rng(entries)
    keys = np.unique(dice.integers(0, 1 << KEY_BITS, entries, np.uint64))
    values = dice.normal(size=len(keys))
    with Store(tmp_path / "store") as store:
        assert store.coefficients(keys.tolist()) == {}
        assert store.coefficient_array(keys) is None
        for _ in range(2):  # what was there before is replaced
            with store.transaction() as writer:
                bits = writer.replace_coefficients(keys, values)
                writer.write_setting("weights", WEIGHTS.format(bits))
        asked = np.unique(np.concatenate([keys[::7], dice.integers(0, 1 << KEY_BITS, 50, np.uint64)]))
        rounded = dict(zip(keys.tolist(), (np.rint(values / UNIT) * UNIT).tolist(), strict=True))
        expected = {key: rounded[key] for key in asked.tolist() if rounded.get(key)}
        assert store.coefficients(asked.tolist()) == expected
        found = store.coefficient_array(asked)
        assert found is not None
        assert found.tolist() == [expected.get(key, 0.0) for key in asked.tolist()]
        assert maintenance.check(store) == []
        with store.transaction() as writer:
            writer.drop_weights()
        assert store.coefficients(asked.tolist()) == {}
        assert maintenance.check(store) == []


def test_large_coefficients_are_clipped(tmp_path: Path) -> None:
    keys = np.array([5, 9], np.uint64)
    with Store(tmp_path / "store") as store:
        with store.transaction() as writer:
            bits = writer.replace_coefficients(keys, np.array([1e9, -1e9]))
            writer.write_setting("weights", WEIGHTS.format(bits))
        assert store.coefficients([5, 9]) == {5: 32767 * UNIT, 9: -32767 * UNIT}


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE coefficient SET data = substr(data, 1, length(data) - 1)",
        "UPDATE coefficient SET data = CAST(data || data AS BLOB)",
        "UPDATE coefficient SET id = id + 1000000",
        "UPDATE setting SET value = '20 60 0.5 1.0' WHERE name = 'weights'",
        "UPDATE setting SET value = replace(value, '0.5', 'nan') WHERE name = 'weights'",
        "UPDATE setting SET value = replace(value, '20', '-1') WHERE name = 'weights'",
    ],
)
def test_damaged_coefficients_are_found_by_check_and_end_in_one_line(tmp_path: Path, damage: str) -> None:
    keys = np.unique(np.random.default_rng(1).integers(0, 1 << KEY_BITS, 300, np.uint64))
    with Store(tmp_path / "store") as store:
        with store.transaction() as writer:
            bits = writer.replace_coefficients(keys, np.ones(len(keys)))
            writer.write_setting("weights", WEIGHTS.format(bits))
        store.connection.execute(damage)
        faults = maintenance.check(store)
        assert len(faults) >= 1
        assert all(fault.isprintable() for fault in faults)
        fault = None
        try:
            store.coefficients(keys.tolist())
        except StoreError as error:
            fault = str(error)
        assert fault is None or fault.isprintable()
