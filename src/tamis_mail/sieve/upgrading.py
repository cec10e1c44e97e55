"""Convert a store that counts an older version of the tokens to the present version: learn its mail again.

The counts of older tokens cannot be converted. Instead, each message of the journal is found in the mailboxes
by its digest, and learned into a new file with its label, weight, time and source, and the weights are fitted
there. The messages, counts and weights of the new file then replace those of the store in one transaction: if
the process is killed, the store has either the old ones or the new ones. Other settings and the lists of
senders stay. Counts from another filter are dropped, and so are messages that are not found; a word list of
another filter stays.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tamis_mail import tokens
from tamis_mail.files import temporary_beside
from tamis_mail.sieve.sieve import Progress, Sieve
from tamis_mail.store import Entry, Store, StoreError, maintenance, saving


def is_upgradable(store: Store) -> bool:
    """Whether the store counts older tokens; raise StoreError if it counts tokens of a later version."""
    store.token_version()
    return any(version < tokens.VERSION for version in maintenance.versions(store))


class Upgrade:
    """Learns the messages of a store into a new file, that of `sieve`; `finish` replaces the store's."""

    def __init__(self, store: Store, sieve: Sieve) -> None:
        self._store = store
        self._sieve = sieve
        with store.snapshot():
            # If another process changes the store, and so this number, before `finish`, nothing is replaced.
            self._data_version = store.data_version()
            self._entries: dict[bytes, Entry] = {entry.digest: entry for entry in store.entries()}
            decays = store.integer_setting("epoch")
        with sieve.store.transaction() as writer:
            writer.write_setting("epoch", decays)  # so that a message has the same weight in the new file

    @property
    def messages(self) -> int:
        """The number of messages in the journal of the store."""
        return len(self._entries)

    def is_complete(self) -> bool:
        """Whether all messages were found."""
        return sum(label.messages for label in self._sieve.store.labels()) == self.messages

    def list_sources(self) -> list[str]:
        """List the sources that the journal names, in alphabetical order."""
        return sorted({entry.source for entry in self._entries.values()})

    def count_missing(self) -> Counter[str]:
        """Return the number of messages that were not found, by source in the journal."""
        missing = (digest for digest in self._entries if self._sieve.store.find_entry(digest) is None)
        return Counter(self._entries[digest].source for digest in missing)

    def learn(self, messages: Iterable[bytes], progress: Progress | None = None) -> Counter[str]:
        """Learn those messages that are in the journal of the store.

        Return how many were learned, were known (already learned by this method) or unknown to the store.
        """
        return self._sieve.relearn_many(messages, self._entries, progress=progress)

    def finish(self, backup: Path) -> None:
        """Fit the weights of the new file, back up the store, and replace its contents in one transaction."""
        self._sieve.fit_weights()
        path = self._sieve.store.path
        self._sieve.close()
        saving.backup(self._store, backup)
        saving.replace_contents(self._store, path, self._data_version)


@contextmanager
def begin_upgrade(store: Store) -> Iterator[Upgrade]:
    """Begin an upgrade; until `Upgrade.finish` is called, the store is not changed."""
    path = store.path.resolve()
    with ExitStack() as stack:
        try:
            temporary = stack.enter_context(temporary_beside(path))
        except OSError as error:
            raise StoreError(
                f"{path.parent} cannot be written ({error.strerror}): check its permissions"
            ) from error
        yield Upgrade(store, stack.enter_context(Sieve.open(temporary.path)))
