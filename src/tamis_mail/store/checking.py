"""a store → its faults: in the file, the schema, the values, and the sums."""

import sqlite3
from collections.abc import Callable

import numpy as np

from tamis_mail.features import KEY_BITS
from tamis_mail.labels import GUESSED_LABELS
from tamis_mail.schema import ROOM, TABLES, find_setting_fault
from tamis_mail.store import runs, tables
from tamis_mail.store.database import StoreError, refuse_other_objects
from tamis_mail.store.store import Store

__all__ = ["Progress", "check"]

Progress = Callable[[float], None]  # called with the completed share, from 0 to 1

_FAULTS = 20  # faults of one kind that are listed


def check(store: Store, progress: Progress | None = None) -> list[str]:
    """List the faults of the store, one line per fault."""
    connection = store.connection
    try:
        with store.snapshot():
            faults = [
                f"SQLite: {' '.join(line.split())[:300]}"  # a report may have several lines
                for (line,) in connection.execute("PRAGMA integrity_check(20)")
                if line != "ok"
            ]
            refuse_other_objects(connection, store.path)
            if not faults:
                faults = _find_bad_values(connection)
            if not faults:
                all_runs, magnitude = runs.all_runs(connection), 0.0
                faults = _find_strays(connection) + _compare_journal(store)
                for run in all_runs:
                    run_faults, sum_of_counts = tables.find_faults(connection, run)
                    faults += run_faults
                    magnitude += sum_of_counts
                if magnitude >= 2 * ROOM:
                    faults.append(
                        f"the counts add up to about {magnitude:.1e}, expected less than {2 * ROOM:.1e}"
                    )
            if not faults:
                faults = _compare_sums(store, progress)
    except StoreError as error:
        faults = [str(error)]
    return faults


def _find_bad_values(connection: sqlite3.Connection) -> list[str]:
    """Find columns and settings with invalid values."""
    faults = []
    for table, columns in TABLES.items():
        violations = {column: kind.violation(column) for column, kind in columns.items()}
        numbers = connection.execute(
            f"SELECT {', '.join(f'total({violation})' for violation in violations.values())} FROM {table}"
        ).fetchone()
        faults += [
            f"there are {number:.0f} rows where {table}.{column} is not {kind}"
            for (column, kind), number in zip(columns.items(), numbers, strict=True)
            if number
        ]
    if not faults:
        setting_faults = (
            find_setting_fault(*row) for row in connection.execute("SELECT name, value FROM setting")
        )
        faults = [fault for fault in setting_faults if fault][:_FAULTS]
    return faults


def _find_strays(connection: sqlite3.Connection) -> list[str]:
    """Find rows without the row that they refer to."""
    stray = """SELECT count(*) FROM shelf WHERE NOT EXISTS
        (SELECT 1 FROM run WHERE shelf.id >= start AND shelf.id < start + (1 << bits))"""
    overlapping = """SELECT count(*) FROM run AS a JOIN run AS b ON a.id < b.id
        AND a.start < b.start + (1 << b.bits) AND b.start < a.start + (1 << a.bits)"""
    questions = {
        "shelves of no run": stray,
        "pairs of runs on the same shelves": overlapping,
        "messages of no label": "SELECT count(*) FROM journal WHERE label NOT IN (SELECT id FROM label)",
        "messages of no source": "SELECT count(*) FROM journal WHERE source NOT IN (SELECT id FROM source)",
        "runs of too many labels": "SELECT count(*) FROM run WHERE labels > (SELECT count(*) FROM label)",
        "labels out of line": "SELECT count(*) FROM label WHERE id < 0 OR id >= (SELECT count(*) FROM label)",
    }
    numbers = {what: connection.execute(question).fetchone()[0] for what, question in questions.items()}
    return [f"there are {number} {what}" for what, number in numbers.items() if number]


def _compare_journal(store: Store) -> list[str]:
    """Compare the totals of labels with the journal."""
    journal = dict.fromkeys([label.name for label in store.labels()], (0, 0))
    rows = store.connection.execute(
        "SELECT label.name, count(*), sum(journal.weight), sum(rest) "
        "FROM journal JOIN label ON label.id = journal.label GROUP BY label.id"
    )
    for name, messages, weight, rest in rows:
        journal[name] = (journal[name][0] + messages, journal[name][1] + weight)
        if name in GUESSED_LABELS and rest:
            other = GUESSED_LABELS[1 - GUESSED_LABELS.index(name)]
            journal[other] = (journal.get(other, (0, 0))[0], journal.get(other, (0, 0))[1] + rest)
    totals = {label.name: (label.messages, label.weight) for label in store.labels()}
    return [
        f"label {name!r} says {totals.get(name, (0, 0))} messages and weight, the journal {journal[name]}"
        for name in sorted(journal)
        if totals.get(name, (0, 0)) != journal[name]
    ]


def _compare_sums(store: Store, progress: Progress | None) -> list[str]:
    """Check that counts are not negative, and that their sums agree with the labels."""
    labels = store.labels()
    features = np.zeros(len(labels), np.int64)
    negative_counts: list[str] = []
    negative_features = 0
    for table in store.tables():
        features += table.counts.sum(axis=0)
        rows = np.flatnonzero((table.counts < 0).any(axis=1))
        negative_features += len(rows)
        negative_counts += [
            f"feature {table.keys[row]:012x} has counts {table.counts[row].tolist()}"
            for row in rows[:_FAULTS]
        ]
        if progress is not None and len(table.keys):
            progress(float(table.keys[-1]) / (1 << KEY_BITS))
    faults = negative_counts[:_FAULTS]
    if negative_features > _FAULTS:
        faults.append(f"there are {negative_features} features with counts below zero")
    return faults + [
        f"label {label.name!r} says {label.features} features, its counts add up to {total}"
        for label, total in zip(labels, features.tolist(), strict=True)
        if label.features != total
    ]
