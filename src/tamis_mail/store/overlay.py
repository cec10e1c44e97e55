"""A user's store on top of the site's store: verdicts by the weighted sum of their counts.

    counts(feature, label) = weight · own counts + the site's counts

The site's store is the administrator's, for all users of a server; the address of the user's store
names it, and the weight: `redis://localhost/0?store=ann&site=all&weight=4`. The stores stay separate: users
learn and forget in their own stores, the administrator in the site's. So forgetting is exact in each store,
and therefore in the sum. A user's store without counts uses the version of the tokens that the site's store
has. Each decay doubles the weight of later messages; the counts of the store with fewer decays are multiplied
so that a message has the same weight.

The fitted weights and the other settings are those of the site's store, which has more mail, unless only the
user's store has fitted weights: then its settings are used. If both stores list the same sender or domain,
the user's entry is used; an entry of either store for an address precedes one for its domain.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tamis_mail.labels import Label
from tamis_mail.locations import is_address, parse_address
from tamis_mail.schema import MAX_COUNT
from tamis_mail.store.database import StoreError
from tamis_mail.store.people import People
from tamis_mail.store.store import Store

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from tamis_mail.store.tables import Counts, FeatureKeys, RunCache


class VerdictStore(Protocol):
    """The methods that a verdict needs of a store. `Store` and `Overlay` have them."""

    def snapshot(self, seconds: float | None = None) -> "AbstractContextManager[None]":
        """Read one consistent state; `seconds` limits the time of each statement."""

    def data_version(self) -> int:
        """Return a number that changes when this or another process changes a store."""

    def labels(self) -> list[Label]:
        """List the labels in the order of the columns of counts."""

    def message_weight(self) -> int:
        """Return the weight of a message that is learned now under a label that is not guessed."""

    def token_version(self) -> int:
        """Return the version of the tokens that are counted."""

    def setting(self, name: str) -> str | None:
        """Return the value of a setting; None if it is not set."""

    def counts(self, keys: Iterable[int]) -> dict[int, list[int]]:
        """Return the counts of each feature, one per label; zeros if the feature is unknown."""

    def count_arrays(self, keys: "FeatureKeys", cache: "RunCache | None" = None) -> "Counts":
        """(keys, labels): the counts of features, whose keys are in ascending order."""

    def coefficients(self, keys: Iterable[int]) -> dict[int, float]:
        """Return the fitted coefficients of those features that have one."""

    def coefficient_array(self, keys: "FeatureKeys") -> "NDArray[np.float64] | None":
        """(keys,): the fitted coefficients of features with ascending keys; None without fitted weights."""

    def word_list_totals(self) -> tuple[int, int] | None:
        """Return the numbers of spam and of ham that the imported word list counts; None without a list."""

    def word_counts(self, keys: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Return how many spam and ham messages have each key, for the keys in the imported word list."""

    def has_people(self) -> bool:
        """Whether any people are known."""

    def look_up_people(self, addresses: Iterable[str]) -> People:
        """Return the entries that cover these addresses, and which of the addresses are in sent mail."""

    def close(self) -> None:
        """Close the store."""


def open_overlay(store: Store) -> "Overlay | None":
    """Open the site's store if the address of a user's store names one, and return the overlay, or None."""
    if not is_address(store.path_name):
        return None
    address = parse_address(store.path_name)
    if not address.site:
        return None
    return Overlay(store, Store(address.site_name, create=False, readonly=True), address.weight)


class Overlay:
    """A user's own store and the site's, as one store for verdicts."""

    def __init__(self, own: Store, site: Store, weight: int) -> None:
        self._own, self._site, self._weight = own, site, weight
        own.adopt_token_version(site)  # counts of different tokens cannot be added
        self._caches: tuple[RunCache, RunCache] = ({}, {})
        self._cached_version = -1  # the data version of the caches

    def close(self) -> None:
        """Close the site's store, but not the user's, which the caller has opened."""
        self._site.close()

    @contextmanager
    def snapshot(self, seconds: float | None = None) -> Iterator[None]:
        with self._own.snapshot(seconds), self._site.snapshot(seconds):
            yield

    def data_version(self) -> int:
        return hash((self._own.data_version(), self._site.data_version()))

    def labels(self) -> list[Label]:
        """List the labels of the user's store, then further ones of the site's.

        Their weights and numbers of features are weighted sums, and their numbers of messages plain sums.
        """
        factors = self._compute_factors()
        totals: dict[str, list[int]] = {}
        for store, factor in zip((self._own, self._site), factors, strict=True):
            for label in store.labels():
                sums = totals.setdefault(label.name, [0, 0, 0, 0])
                sums[0] += label.messages
                for place, value in enumerate((label.weight, label.lent, label.features), 1):
                    sums[place] += factor * value
                    if abs(sums[place]) >= MAX_COUNT:
                        raise StoreError(
                            f"the counts of {self._own.name} and of {self._site.name} are too large to be "
                            "added, because of many decays: learn the mail of one of them again"
                        )
        return [Label(place, name, *sums) for place, (name, sums) in enumerate(totals.items())]

    def message_weight(self) -> int:
        """Return the weight of a message that the site's store learns now, in the sum."""
        return max(self._own.message_weight(), self._site.message_weight())

    def _compute_factors(self) -> tuple[int, int]:
        """Return the factors of the user's counts and of the site's in the sum."""
        unit = self.message_weight()
        return self._weight * (unit // self._own.message_weight()), unit // self._site.message_weight()

    def token_version(self) -> int:
        """Return the version of the tokens; raise StoreError if it is not the same in both stores."""
        versions = {store.token_version() for store in (self._own, self._site) if store.labels()}
        if len(versions) > 1:
            raise StoreError(
                f"{self._own.name} and {self._site.name} count tokens of versions "
                f"{' and '.join(map(str, sorted(versions)))}, which are not the same words: learn the mail "
                "of the older one again (tamis store upgrade)"
            )
        return versions.pop() if versions else self._own.token_version()

    def _choose_by_weights(self) -> Store:
        """Return the store whose weights are used."""
        has_weights = self._site.setting("weights") or not self._own.setting("weights")
        return self._site if has_weights else self._own

    def setting(self, name: str) -> str | None:
        return self._choose_by_weights().setting(name)

    def _list_columns(self) -> tuple[list[int], list[int]]:
        """Return the column in the sum of each label of the user's store, and of each of the site's."""
        columns = {label.name: label.id for label in self.labels()}
        own, site = ([columns[label.name] for label in store.labels()] for store in (self._own, self._site))
        return own, site

    def counts(self, keys: Iterable[int]) -> dict[int, list[int]]:
        distinct = list(keys)
        width = len(self.labels())
        sums = {key: [0] * width for key in distinct}
        stores = zip((self._own, self._site), self._list_columns(), self._compute_factors(), strict=True)
        for store, columns, factor in stores:
            for key, row in store.counts(distinct).items():
                for column, number in zip(columns, row, strict=True):
                    sums[key][column] += factor * number
        return sums

    def count_arrays(self, keys: "FeatureKeys", cache: "RunCache | None" = None) -> "Counts":
        """(keys, labels): the weighted sums of the counts of features.

        If `cache` is not None, runs are kept, but in a cache of the overlay for each store, because both
        stores may have a run with the same id.
        """
        caches: tuple[RunCache | None, RunCache | None] = (None, None)
        if cache is not None:
            version = self.data_version()
            if version != self._cached_version:
                self._caches, self._cached_version = ({}, {}), version
            caches = self._caches
        sums = np.zeros((len(keys), len(self.labels())), np.int64)
        stores = zip(
            (self._own, self._site), caches, self._list_columns(), self._compute_factors(), strict=True
        )
        for store, runs, columns, factor in stores:
            if columns:
                sums[:, columns] += factor * store.count_arrays(keys, runs)
        return sums

    def coefficients(self, keys: Iterable[int]) -> dict[int, float]:
        return self._choose_by_weights().coefficients(keys)

    def coefficient_array(self, keys: "FeatureKeys") -> "NDArray[np.float64] | None":
        return self._choose_by_weights().coefficient_array(keys)

    def _choose_word_list(self) -> Store:
        """Return the store whose word list is used: the user's if it has one."""
        return self._site if self._own.word_list_totals() is None else self._own

    def word_list_totals(self) -> tuple[int, int] | None:
        return self._choose_word_list().word_list_totals()

    def word_counts(self, keys: Iterable[int]) -> dict[int, tuple[int, int]]:
        return self._choose_word_list().word_counts(keys)

    def has_people(self) -> bool:
        return self._own.has_people() or self._site.has_people()

    def look_up_people(self, addresses: Iterable[str]) -> People:
        distinct = list(addresses)
        own, site = self._own.look_up_people(distinct), self._site.look_up_people(distinct)
        correspondents = dict(site.correspondents)
        for address, (received, wrote) in own.correspondents.items():
            others = correspondents.get(address, (0, 0))
            correspondents[address] = (received + others[0], wrote + others[1])
        return People({**site.listed, **own.listed}, correspondents)
