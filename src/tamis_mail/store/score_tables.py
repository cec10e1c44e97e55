"""Read all counts and coefficients of a store into a table in memory, for many verdicts.

A table takes about 20 bytes per feature. For a store with too many features, the counts of each batch of
messages are looked up in the database instead (`Store.count_arrays`), and `verdict/arrays.py` judges by
these.
"""

from __future__ import annotations

from tamis.compiled import core
from tamis_mail.features import view_mask
from tamis_mail.store.coefficients import refuse_cut_off
from tamis_mail.store.runs import all_runs, damage_error, refuse_more_labels
from tamis_mail.tokens import VERSION

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from tamis._core.mail import ScoreTable
    from tamis_mail.store.store import Store

_MAX_COUNTS = 1 << 22  # entries of all runs times labels; a store of 6,000 messages has 1,600,000


def can_read_score_table(store: Store) -> bool:
    """Whether there is a core, and the store counts tokens of the newest version and has few counts."""
    if core is None:
        return False
    with store.snapshot():
        entries = sum(run.entries for run in all_runs(store.connection))
        return store.token_version() == VERSION and entries * len(store.labels()) <= _MAX_COUNTS


def read_score_table(store: Store) -> ScoreTable:
    """Read all counts and coefficients of a store. The caller must hold a snapshot of it."""
    if core is None:
        raise AssertionError("a table was read without the compiled core")
    labels = len(store.labels())
    table: ScoreTable = core.mail.ScoreTable(labels, view_mask(VERSION).bit_length())
    for run in all_runs(store.connection):
        refuse_more_labels(run, labels)
        rows = store.connection.execute(
            "SELECT id, data FROM shelf WHERE id BETWEEN ? AND ? ORDER BY id",
            (run.start, run.start + (1 << run.bits) - 1),
        ).fetchall()
        if not all(isinstance(data, bytes) for _, data in rows):
            raise damage_error(f"a shelf of run {run.id} is cut off")
        try:
            table.add_run(rows, run.start, run.bits, run.width, run.labels, run.entries)
        except ValueError as error:
            raise damage_error(f"run {run.id}: {error}") from error
    bits = store.shelf_bits()
    if bits is not None:
        rows = store.connection.execute(
            "SELECT id, data FROM coefficient WHERE id BETWEEN 0 AND ? ORDER BY id", ((1 << bits) - 1,)
        ).fetchall()
        refuse_cut_off((data for _, data in rows), bits)
        try:
            table.add_coefficients(rows, bits)
        except ValueError as error:
            raise damage_error(f"coefficients: {error}") from error
    table.finish()
    return table
