"""A day of an account: mail arrives, its owner moves some, and the server and the filter are killed.

At the end each message is where it should be, once, byte for byte, and each move was learned once.
"""

import random
import re
import time
from collections import Counter
from pathlib import Path

import pytest

from tamis_mail import Sieve
from tamis_mail.message import canonical, digest
from tamis_mail.store.log import EventLog
from tests.surfaces.imap.watching_process import account_options, run_watch, wait_for
from tests.surfaces.peers.dovecot import Dovecot, needs_dovecot, run_dovecot

pytestmark = [pytest.mark.peers, needs_dovecot]

_WAVES = 5
_PER_WAVE = 100
_TRAINED = 300  # of each kind, before
_WORDS = {  # of each kind of mail; the owner's opinion of notices and coupons is not that of the store
    "spam": "pills discount winner casino prize cheap click buy luxury",
    "ham": "meeting lunch report project invoice family school garden notes",
    "coupon": "bakery bread rolls croissant butter flour oven morning",
    "voucher": "theatre stage ticket actor curtain seat premiere evening",
    "notice": "router firmware cable modem signal channel antenna socket",
    "memo": "parking permit street zone kerb meter garage resident",
}
_FIRST_PLACE = {"spam": "Junk", "coupon": "Junk", "voucher": "Junk"}  # others stay in the inbox
_EXTRA = {0: {"notice": 10, "coupon": 8}, 2: {"memo": 7}, 3: {"voucher": 5}}  # of each wave


def make_message(number: int, kind: str, dice: random.Random) -> bytes:
    """Return a message of one kind."""
    words = dice.choices(_WORDS[kind].split(), k=40)
    text = (
        f"Message-ID: <{number}@day.example>\r\nFrom: {kind}{dice.randrange(9)}@{kind}.example\r\n"
        f"To: ann@example.org\r\nDate: Mon, 16 Nov 2026 08:00:00 +0000\r\n"
        f"Subject: {' '.join(words[:4])}\r\n\r\n{' '.join(words)}\r\nnumber {number}\r\n"
    )
    return text.encode()


def train(store: Path, dice: random.Random) -> None:
    """Learn mail of all kinds, half of it with the fields that a delivery adds."""
    added = (
        b"Return-Path: <bob@example.net>\r\nDelivered-To: ann@example.org\r\nReceived: from [127.0.0.1]\r\n"
        b"\tby vm with LMTP id x; Mon, 16 Nov 2026 08:00:00 +0000\r\n"
    )
    messages: dict[str, list[bytes]] = {"spam": [], "ham": []}
    for kind in _WORDS:
        label = "spam" if kind in _FIRST_PLACE else "ham"
        start = 1000 * (10 + list(_WORDS).index(kind))
        for number in range(start, start + _TRAINED // 3):
            messages[label].append((added if number % 2 else b"") + make_message(number, kind, dice))
    with Sieve.open(store) as sieve:
        for label, raws in messages.items():
            sieve.learn_many(raws, label, processes=1)


def plan_waves(dice: random.Random) -> dict[int, str]:
    """Return the kind of each message, by its number."""
    kinds: dict[int, str] = {}
    for wave in range(_WAVES):
        extra = [kind for kind, count in _EXTRA.get(wave, {}).items() for _ in range(count)]
        rest = dice.choices(("spam", "ham"), k=_PER_WAVE - len(extra))
        kinds.update(enumerate(dice.sample(extra + rest, _PER_WAVE), wave * _PER_WAVE))
    return kinds


def move_by_hand(dovecot: Dovecot, numbers: "list[int]", source: str, target: str) -> None:
    """Move messages by IMAP, as a mail program does."""
    with dovecot.log_in() as client:
        client.select(source)
        for number in numbers:
            _, (found,) = client.uid("SEARCH", "HEADER", "Message-ID", f"<{number}@day.example>")
            assert found, (number, source)
            status, answer = client.uid("MOVE", found.decode(), target)
            assert status == "OK", answer


def list_numbers(dovecot: Dovecot) -> dict[str, list[int]]:
    """Return the numbers of the messages in each folder, by the files of the Maildir."""
    places: dict[str, list[int]] = {}
    for name, folder in (("INBOX", ""), ("Junk", ".Junk"), ("Trash", ".Trash")):
        files = [path for part in ("new", "cur") for path in (dovecot.maildir() / folder / part).glob("*")]
        places[name] = []
        for path in files:
            try:
                raw = path.read_bytes()
            except FileNotFoundError:  # moved in the meantime
                continue
            found = re.search(rb"Message-ID: <(\d+)@day", raw)
            assert found
            places[name].append(int(found[1]))
    return places


def test_a_day_with_kills_loses_doubles_and_alters_nothing(tmp_path: Path) -> None:
    dice = random.Random(20)
    store = tmp_path / "mail.tamis"
    train(store, dice)
    kinds = plan_waves(dice)
    raws = {number: make_message(number, kind, dice) for number, kind in kinds.items()}
    expected = {number: _FIRST_PLACE.get(kind, "INBOX") for number, kind in kinds.items()}
    lessons: dict[int, str] = {}

    with run_dovecot() as dovecot, run_watch(tmp_path, store, *account_options(dovecot)) as watch:

        def deliver(wave: int) -> None:
            numbers = range(wave * _PER_WAVE, (wave + 1) * _PER_WAVE)
            dovecot.append("INBOX", [raws[number] for number in numbers if number % 2])
            dovecot.deliver_all([raws[number] for number in numbers if not number % 2])

        def is_sorted(waves: int) -> bool:
            places = list_numbers(dovecot)
            return all(number in places[expected[number]] for number in range(waves * _PER_WAVE)) and not any(
                expected[number] == "Junk" for number in places["INBOX"]
            )

        def act(kind: str, count: int, source: str, target: str) -> None:
            """Let the owner move some messages that the filter has sorted."""
            known = set(list_numbers(dovecot)[source])
            chosen = [n for n in kinds if kinds[n] == kind and n in known and n not in lessons][:count]
            assert len(chosen) == count
            move_by_hand(dovecot, chosen, source, target)
            for number in chosen:
                expected[number] = target
                lessons[number] = {"Junk": "spam", "INBOX": "ham", "Trash": ""}[target]

        def wait_until_learned() -> None:
            def is_learned() -> bool:
                with Sieve.open(store, readonly=True) as sieve:
                    entries = sieve.store.find_entries(
                        find_identity(n) for n, kind in lessons.items() if kind
                    )
                return len(entries) == sum(bool(kind) for kind in lessons.values())

            wait_for(is_learned, lambda: watch.log[-3000:])

        identities: dict[int, bytes] = {}

        def find_identity(number: int) -> bytes:
            if number not in identities:
                for _, raw in dovecot.list_messages():
                    found = re.search(rb"Message-ID: <(\d+)@day", raw)
                    assert found
                    identities[int(found[1])] = digest(canonical(raw))
            return identities[number]

        # The first wave is there before the filter has seen the account.
        deliver(0)
        wait_for(lambda: is_sorted(1), lambda: watch.log[-3000:])
        act("notice", 10, "INBOX", "Junk")
        act("coupon", 8, "Junk", "INBOX")

        # The filter is killed while it sorts, and while nobody watches, the owner moves some.
        deliver(1)
        time.sleep(0.4)
        watch.kill()
        act("spam", 4, "Junk", "Trash")
        watch.start()
        wait_for(lambda: is_sorted(2), lambda: watch.log[-3000:])

        # The server is killed while it moves.
        deliver(2)
        time.sleep(0.2)
        dovecot.restart()
        wait_for(lambda: is_sorted(3), lambda: watch.log[-3000:])
        act("memo", 7, "INBOX", "Junk")
        act("spam", 6, "Junk", "Trash")

        # Both are killed.
        deliver(3)
        time.sleep(0.1)
        watch.kill()
        dovecot.restart()
        watch.start()
        wait_for(lambda: is_sorted(4), lambda: watch.log[-3000:])
        act("voucher", 5, "Junk", "INBOX")

        deliver(4)
        time.sleep(0.3)
        watch.kill()
        watch.start()
        wait_for(lambda: is_sorted(5), lambda: watch.log[-3000:])
        assert len(lessons) == 40
        wait_until_learned()

        messages = dovecot.list_messages()

    # Each message is where it should be, once, byte for byte.
    places: dict[int, list[str]] = {}
    for folder, raw in messages:
        found = re.search(rb"Message-ID: <(\d+)@day", raw)
        assert found
        number = int(found[1])
        places.setdefault(number, []).append(folder)
        assert raw == raws[number] if number % 2 else raw.endswith(raws[number])
    assert places == {number: [place] for number, place in expected.items()}

    # The moves were learned, once, and nothing else was.
    learned = {number: kind for number, kind in lessons.items() if kind}
    with Sieve.open(store, readonly=True) as sieve:
        entries = sieve.store.find_entries(identities[number] for number in range(_WAVES * _PER_WAVE))
        totals = {label.name: label.messages for label in sieve.store.labels()}
    assert {number: entries[identities[number]].label for number in learned} == learned
    assert len(entries) == len(learned) == 30
    assert totals == {kind: _TRAINED + count for kind, count in Counter(learned.values()).items()}
    history = EventLog.of(store)
    for number in learned:
        # The log is written after the store: a kill between the two leaves a lesson without its event.
        assert sum(event.is_learning for event in history.find_history(identities[number])) <= 1
    assert "event=message-failed" not in watch.log
