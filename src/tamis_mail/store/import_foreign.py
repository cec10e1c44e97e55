"""Import the word counts of another filter into a store, so that users need not start from nothing.

Other filters do not count n-grams of bytes or pairs of words, and do not record which message had which word:
their counts cannot be forgotten message by message.

- bogofilter's tokens are kept in a separate table, the word list, and each message is judged by the tokens
  that bogofilter would have found (`tokens.bogofilter`), in addition to those of tamis.
- SpamAssassin stores hashes of tokens. The caller gives words: the counts of a token whose hash is that of a
  given word become counts of the feature of this word in tamis, and the other tokens are skipped.
"""

import hashlib
import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tamis_mail.features import WORDS, key
from tamis_mail.features.word_list import word_key
from tamis_mail.labels import HAM, SPAM
from tamis_mail.schema import MAX_COUNT, MAX_WORD_COUNT
from tamis_mail.store.database import StoreError
from tamis_mail.store.maintenance import versions
from tamis_mail.store.store import WORD_LIST_TOTALS, Store
from tamis_mail.store.tables import CountTable, column_sums

LABELS = (SPAM, HAM)

# A token, its counts of spam and of ham, and perhaps the date of its last use.
_BOGOFILTER = re.compile(rb"(\S+) (\d{1,12}) (\d{1,12})(?: \d+)?\r?\n?")
_TOTALS_TOKEN = b".MSG_COUNT"
# A token: its counts of spam and of ham, the time of its last use, and its hash in hexadecimal digits.
_SPAMASSASSIN = re.compile(rb"t\t(\d{1,12})\t(\d{1,12})\t-?\d+\t([0-9a-f]{10})\r?\n?")
_MAX_LINE_BYTES = 1 << 16  # a token of bogofilter has at most 30 bytes, one of SpamAssassin has 5
_COUNT_BITS = 40  # bits of a count of 12 digits
_BATCH_LINES = 1 << 18  # lines whose counts are summed at a time
_MAX_FEATURES = 1 << 26  # ten times the largest known list
_MIN_WORD_BYTES, _MAX_WORD_BYTES = 3, 15  # SpamAssassin shortens longer words, and ignores shorter ones


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """The numbers of an import."""

    spam: int  # messages that the other filter had learned
    ham: int
    tokens: int  # tokens of the other filter
    matched: int  # the number of these tokens that were imported
    features: int  # features, or words of the word list, that got counts
    malformed: int  # lines that could not be read


def load_bogofilter(store: Store, file: Iterable[bytes]) -> ImportSummary:
    """Import the output of `bogoutil -d wordlist.db`: lines of a token, spam count, ham count and date.

    Tokens that begin with a dot are records of bogofilter, and are skipped, except .MSG_COUNT, whose counts
    are the numbers of messages.
    """
    buffer = _CountBuffer()
    total: tuple[int, int] | None = None
    tokens = malformed = 0
    digest = hashlib.sha256()
    for line in _read_lines(file):
        digest.update(line)
        match = _BOGOFILTER.fullmatch(line)
        if match is None:
            malformed += bool(line.strip())
        elif match[1] == _TOTALS_TOKEN:
            total = int(match[2]), int(match[3])
        elif not match[1].startswith(b"."):
            tokens += 1
            buffer.add(word_key(match[1]), int(match[2]), int(match[3]))
    if total is None:
        raise StoreError(
            f"there is no .MSG_COUNT among {tokens} tokens: give all that `bogoutil -d wordlist.db` writes"
        )
    features = _add_word_list(store, "bogofilter", digest.hexdigest(), total, buffer.table())
    return ImportSummary(*total, tokens, tokens, features, malformed)


def _read_lines(file: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file; raise StoreError for a line that is too long."""
    readline: Callable[[int], bytes] | None = getattr(file, "readline", None)
    lines = file if readline is None else iter(lambda: readline(_MAX_LINE_BYTES + 1), b"")
    try:
        for number, line in enumerate(lines, 1):
            if len(line) > _MAX_LINE_BYTES:
                raise StoreError(
                    f"line {number} has more than {_MAX_LINE_BYTES} bytes, which no other filter writes: "
                    "check the file and --format; nothing was loaded"
                )
            yield line
    except (OSError, EOFError) as error:  # a compressed file that is cut off or damaged
        raise StoreError(f"the file cannot be read ({error}): get it again; nothing was loaded") from error


class _CountBuffer:
    """Counts of features, summed in batches, so that a file that repeats a line needs little memory."""

    def __init__(self) -> None:
        self._table = CountTable.total([], 2)
        self._keys = array("Q")
        self._counts = array("q")

    def add(self, key: int, spam: int, ham: int) -> None:
        self._keys.append(key)
        self._counts.extend((spam, ham))
        if len(self._keys) >= _BATCH_LINES:
            self.table()

    def table(self) -> CountTable:
        """Return the sums so far; sums are clipped to the largest count of a line, to avoid overflow."""
        recent = CountTable(np.array(self._keys, np.uint64), np.array(self._counts, np.int64).reshape(-1, 2))
        total = CountTable.total([self._table, recent], 2)
        self._table = CountTable(total.keys, np.minimum(total.counts, MAX_WORD_COUNT))
        self._keys, self._counts = array("Q"), array("q")
        if len(self._table.keys) > _MAX_FEATURES:
            raise StoreError(
                f"there are more than {_MAX_FEATURES} tokens: check the file; nothing was loaded"
            )
        return self._table


def load_spamassassin(store: Store, file: Iterable[bytes], words: Iterable[bytes]) -> ImportSummary:
    """Import the output of `sa-learn --backup`, for the tokens that are among the given words.

    SpamAssassin stores 40 bits of a word's SHA-1, not the word, so the words must come from a mailbox or a
    dictionary. Words of the body in lower case, and hosts, which SpamAssassin writes after `UD:`, are
    matched; tokens of header fields are not.
    """
    # token → the counts of spam and ham in one number: a dictionary of pairs would be twice as large
    token_counts: dict[int, int] = {}
    totals: dict[bytes, int] = {}  # by name, from lines that begin with v (variable); s: a learned message
    malformed = 0
    digest = hashlib.sha256()
    for line in _read_lines(file):
        digest.update(line)
        match = _SPAMASSASSIN.fullmatch(line)
        if match is not None:
            token_counts[int(match[3], 16)] = int(match[1]) << _COUNT_BITS | int(match[2])
            if len(token_counts) > _MAX_FEATURES:
                raise StoreError(f"there are more than {_MAX_FEATURES} tokens: check the file")
            continue
        kind, *fields = line.rstrip(b"\r\n").split(b"\t")
        if kind == b"v" and len(fields) == 2 and fields[0].isdigit() and len(fields[0]) <= 12:
            totals[fields[1].split(b" ")[0]] = int(fields[0])
        elif kind != b"s" and line.strip():
            malformed += 1
    if not {b"num_spam", b"num_nonspam"} <= totals.keys():
        raise StoreError(
            f"num_spam or num_nonspam is not among {len(token_counts)} tokens: give all of "
            "`sa-learn --backup`"
        )
    total = totals[b"num_spam"], totals[b"num_nonspam"]
    features: dict[int, int] = {}
    version = store.token_version()
    for word in words:
        for name, token in _list_spamassassin_tokens(word.lower()):
            if token in token_counts:
                features[key(name, WORDS, version)] = token
    buffer = _CountBuffer()
    for feature, token in features.items():
        buffer.add(feature, token_counts[token] >> _COUNT_BITS, token_counts[token] & (1 << _COUNT_BITS) - 1)
    number = _add_counts(store, version, "spamassassin", digest.hexdigest(), total, buffer.table())
    return ImportSummary(*total, len(token_counts), len(set(features.values())), number, malformed)


def _list_spamassassin_tokens(word: bytes) -> list[tuple[bytes, int]]:
    """Return the tokens that a word may be: for each, its name in tamis and its hash in SpamAssassin."""
    names = [(word, word)] if _MIN_WORD_BYTES <= len(word) <= _MAX_WORD_BYTES else []
    if b"." in word:
        names.append((b"url:" + word, b"UD:" + word))
    return [
        (name, int.from_bytes(hashlib.sha1(token, usedforsecurity=False).digest()[-5:], "big"))
        for name, token in names
    ]


def _add_word_list(store: Store, name: str, digest: str, total: tuple[int, int], table: CountTable) -> int:
    """Write a word list, with counts of at most the number of messages; return the number of its tokens."""
    with store.transaction() as writer:
        setting = _name_import(store, name, digest)
        if store.word_list_totals() is not None:
            raise StoreError(
                f"the store {store.name} already has a word list of another filter: import this one into a "
                "new store (--store)"
            )
        if min(total) == 0:
            raise StoreError(
                f"{name} had learned {total[0]} spam and {total[1]} ham messages, and without both kinds its "
                "counts tell nothing: learn your mail instead (tamis learn)"
            )
        counts = np.minimum(table.counts, np.array(total, np.int64))
        rows = [(WORD_LIST_TOTALS, *total)]
        rows += zip(table.keys.tolist(), *counts.T.tolist(), strict=True)
        store.connection.executemany("INSERT OR IGNORE INTO word_list VALUES (?, ?, ?)", rows)
        writer.write_setting(setting, name)
    return len(table.keys)


def _name_import(store: Store, name: str, digest: str) -> str:
    """Return the name of the setting that records an import; raise StoreError if the store has it already."""
    setting = f"imported {digest}"
    if store.setting(setting) is not None:
        raise StoreError(f"the store {store.name} already has these counts of {name}: nothing is left to do")
    return setting


def _add_counts(
    store: Store, version: int, name: str, digest: str, total: tuple[int, int], imported: CountTable
) -> int:
    """Add counts, and return the number of features.

    Several tokens may have become one feature, so its counts are clipped to the number of messages.
    """
    with store.transaction() as writer:
        if versions(store) not in ([], [version]):  # another process may have learned mail meanwhile
            raise StoreError(
                f"the store {store.name} counts tokens of version {store.token_version()}, "
                f"and these would be of version {version}: import into a new store"
            )
        setting = _name_import(store, name, digest)
        counts = np.minimum(imported.counts, np.array(total, np.int64))
        message_weight = store.message_weight()
        # `label.features` is the sum of all counts of a label.
        if max(*column_sums(counts), *total) * message_weight >= MAX_COUNT - max(
            (label.features for label in store.labels()), default=0
        ):
            raise StoreError(f"the counts of {name} are too large for {store.name}: check the file")
        columns = [writer.ensure_column(label) for label in LABELS]
        by_label = np.zeros((len(imported.keys), writer.n_labels), np.int64)
        by_label[:, columns] = counts * message_weight
        table = CountTable.total([CountTable(imported.keys, by_label)], writer.n_labels)
        writer.add(table)
        for label, messages in zip(LABELS, total, strict=True):
            writer.add_imported(label, messages * message_weight)
        writer.write_setting(setting, name)
        writer.write_setting("tokens", version)
        writer.drop_weights()
    return len(table.keys)
