"""Judge batches of messages by a table of all counts of a store, which several threads share.

Neither NumPy nor a connection per thread is needed, so that `tamis sort` starts faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from threading import Lock

from tamis_mail.features.batches import open_batch, read_batch
from tamis_mail.message.heading import read_batch_headings
from tamis_mail.sieve.word_list import read_word_list
from tamis_mail.store.database import StoreError
from tamis_mail.store.score_tables import read_score_table
from tamis_mail.tokens import COMPILED_VERSIONS
from tamis_mail.verdict import Identity, Judgement, Rule, judge_sender, with_standing
from tamis_mail.verdict.tables import TableRule

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from tamis._core.mail import MessageBatch
    from tamis_mail.store import Store


class TableJudge:
    """Judges messages by the table of a store; reads the table again when the store has changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = Lock()  # held while the table is read
        self._rule: TableRule | None = None
        self._data_version = -1
        # That of the table that was read last. An upgrade of the store by another process changes it.
        self.token_version = store.token_version()

    def prepare(self) -> None:
        """Read the table, unless a thread has read it before or is reading it."""
        if self._rule is None and self._lock.acquire(blocking=False):
            try:
                with self._store.snapshot():
                    self._read()
            finally:
                self._lock.release()

    def judge(self, batch: MessageBatch, token_version: int) -> list[Judgement]:
        """Judge the messages of a batch by one state of the store.

        The batch has the features of `token_version`. If the store has another version by now, the features
        are read again.
        """
        store = self._store
        offsets: list[float] | None = None  # the log-odds of each message by the imported word list
        with self._lock, store.snapshot():
            rule = self._read()
            self.token_version = rule.token_version
            has_people = store.has_people()
            if store.word_list_totals() is not None:
                offsets = [
                    sum(one.contribution for one in read_word_list(store, batch.canonical(index)))
                    for index in range(len(batch))
                ]
            if has_people:
                read_senders = import_module("tamis_mail.message.addresses").read_senders
                all_senders = [read_senders(batch.canonical(index)) for index in range(len(batch))]
                people = store.look_up_people(
                    address for senders in all_senders for address in senders.addresses
                )
                store_rule = Rule.of(store)
        if rule.token_version != token_version:  # another process has upgraded the store meanwhile
            read_batch(batch, range(len(batch)), rule.token_version)
        judgements = rule.judge(batch, offsets)
        if not has_people:
            return judgements
        return [
            with_standing(judgement, judge_sender(senders, people.listed, people.correspondents), store_rule)
            for judgement, senders in zip(judgements, all_senders, strict=True)
        ]

    def _read(self) -> TableRule:
        """Return the table of the present state of the store; the caller holds the lock and a snapshot."""
        store = self._store
        data_version = store.data_version()
        if self._rule is None or data_version != self._data_version:
            if store.token_version() not in COMPILED_VERSIONS:
                raise StoreError(
                    f"the store {store.name} was replaced by an older one, with tokens of version "
                    f"{store.token_version()}, while mail was judged by it: run the command again"
                )
            self._rule = None  # its memory is large
            self._rule = TableRule(
                read_score_table(store), store.labels(), Rule.of(store), store.message_weight()
            )
            self._data_version = data_version
        return self._rule


def judge_batch(
    judge: TableJudge, messages: Sequence[bytes], has_identity: bool
) -> list[tuple[Judgement, Identity | None]]:
    """Judge messages; return each with its digest, sender and subject, if they are asked for."""
    judge.prepare()
    batch = open_batch(messages)
    token_version = judge.token_version
    read_batch(batch, range(len(batch)), token_version)
    judgements = judge.judge(batch, token_version)
    if not has_identity:
        return [(judgement, None) for judgement in judgements]
    headings = read_batch_headings(messages, batch)
    return [
        (judgement, Identity(digest, *heading))
        for judgement, digest, heading in zip(judgements, batch.digests(), headings, strict=True)
    ]
