"""Read all counts and coefficients of a store into a table in memory, for many verdicts.

A table takes about 20 bytes per feature. For a store with too many features, the counts of each batch of
messages are looked up in the database instead (`Store.count_arrays`), and `verdict/arrays.py` judges by
these.
"""

from __future__ import annotations

from tamis.compiled import core
from tamis_mail.features.hashing import view_bits
from tamis_mail.store.coefficients import refuse_cut_off
from tamis_mail.store.runs import all_runs, damage_error, refuse_more_labels, scan_shelves
from tamis_mail.tokens import COMPILED_VERSIONS

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from tamis._core.mail import ScoreTable
    from tamis_mail.store.store import Store

_MAX_COUNTS = 1 << 22  # the entries of all runs times the labels: 1,600,000 in a store of 6,000 messages


def can_read_score_table(store: Store) -> bool:
    """Whether the compiled core reads the tokens of the store, and the store has few counts."""
    with store.snapshot():
        entries = sum(run.entries for run in all_runs(store.connection))
        return store.token_version() in COMPILED_VERSIONS and entries * len(store.labels()) <= _MAX_COUNTS


def read_score_table(store: Store) -> ScoreTable:
    """Read all counts and coefficients of a store. The caller must hold a snapshot of it."""
    if core is None:
        raise AssertionError("a table was read without the compiled core")
    labels = len(store.labels())
    # The lowest `view_bits` of a key are its view. `rows` are pairs of a shelf's number and its bytes.
    table: ScoreTable = core.mail.ScoreTable(labels, view_bits(store.token_version()))
    for run in all_runs(store.connection):
        refuse_more_labels(run, labels)
        rows = scan_shelves(store.connection, run).fetchall()
        # The core refuses a shelf that ends within an entry; one that is not bytes is damaged, too.
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
