"""Stores of the sample mailbox, for tests of views that need learned mail."""

import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from tamis_mail.labels import HAM, SPAM
from tamis_mail.sample import messages
from tamis_mail.sieve import Sieve
from tamis_mail.store.log import VERDICT, Event, EventLog

DAYS = 20  # with verdicts


def make_store(path: Path, n_messages: int = 150) -> Path:
    """Learn the first messages of the sample mailbox, and log verdicts of some days, more and more spam."""
    mail = [*islice(messages(2026), n_messages)]
    with Sieve.open(path) as sieve:
        for label in (SPAM, HAM):
            raw = [one.raw for one in mail if one.label == label]
            sieve.learn_many(raw, label, source="/mail/sample", processes=1)
    log_verdicts(path, [day / 30 for day in range(DAYS)])
    return path


def log_verdicts(path: Path, shares: Sequence[float]) -> None:
    """Log twenty verdicts a day until today, of which a share is spam."""
    today = int(time.time()) // 86_400
    events = [
        Event(
            (today - len(shares) + 1 + day) * 86_400 + number,
            VERDICT,
            day.to_bytes(8, "big") + number.to_bytes(8, "big"),
            SPAM if number < 20 * share else HAM,
            probability=0.99 if number < 20 * share else 0.01,
        )
        for day, share in enumerate(shares)
        for number in range(20)
    ]
    EventLog.of(path).append(events)
