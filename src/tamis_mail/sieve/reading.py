"""Read batches of messages that are to be learned, before the transaction that learns them.

The compiled core reads them and keeps their features, without NumPy, which the main thread imports meanwhile.
Without the core, and for tokens that it does not read, `jobs` reads them and returns the same values.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from tamis.compiled import core
from tamis_mail.features.batches import open_batch, read_batch
from tamis_mail.message.heading import read_batch_headings
from tamis_mail.records import record
from tamis_mail.schema import MAX_BUNDLE_FEATURES
from tamis_mail.sieve.open_stores import open_store
from tamis_mail.store.bundles import choose_low_bytes, divide, write_bundle
from tamis_mail.tokens import COMPILED_VERSIONS, VERSION

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from tamis._core.mail import MergedFeatures
    from tamis_mail.message import Heading
    from tamis_mail.store.bundle_arrays import Bundle

    Part = Bundle | MergedFeatures  # the features of the messages of one bundle, before it is stored
    PlaceInPart = tuple[Part, int]  # the part with the features of a message, and the message's index in it


@record(frozen=True, slots=True)
class ReadMessages:
    """Digests, headings and features of messages that are to be learned."""

    token_version: int
    digests: list[bytes]
    headings: list[Heading]  # of all messages; empty if they were not asked for
    # The indices of the messages whose features were read, in ascending order: not those of messages that the
    # store knows under the label, nor of copies of an earlier message here.
    places: list[int]
    dates: list[int | None]  # of the messages at `places`
    # For each bundle in order: its number of messages, and their packed features (None if they are too many).
    bundles: list[tuple[int, bytes | None]]
    parts: list[Part]  # the features of the messages of each bundle
    features: dict[bytes, PlaceInPart]  # digest → where the features of the message are


def read_messages(
    path: str | None, messages: Sequence[bytes], label: str, has_headings: bool
) -> ReadMessages:
    """Read messages that the store at a path is to learn under a label.

    The features of copies, and of messages that the store knows under that label, are not read. Without a
    path, the store is new: it knows no message.
    """
    if core is None:
        return _read_by_numpy(path, messages, label, has_headings)
    batch = open_batch(messages)
    digests = batch.digests()
    token_version, known = find_known(path, digests, label)
    if token_version not in COMPILED_VERSIONS:
        return _read_by_numpy(path, messages, label, has_headings)
    places = find_new_places(digests, known)
    dates = read_batch(batch, places, token_version)
    headings = read_batch_headings(messages, batch) if has_headings else []
    sizes = batch.count_features(places)
    parts = [core.mail.MergedFeatures(batch, places[begin:end]) for begin, end in divide(sizes)]
    del batch  # its memory is large
    return ReadMessages(
        token_version=token_version,
        digests=digests,
        headings=headings,
        places=places,
        dates=dates,
        bundles=[(len(part), _pack(part)) for part in parts],
        parts=[*parts],
        features=locate_features([digests[place] for place in places], parts),
    )


def find_known(path: str | None, digests: Sequence[bytes], label: str) -> tuple[int, set[bytes]]:
    """Return the version of the tokens of a store, and the digests that it knows under a label."""
    if path is None:
        return VERSION, set()
    with open_store(path) as opened:  # `own` is the store itself; verdicts read the site's, too
        return opened.own.token_version(), opened.own.find_known(digests, label)


def _read_by_numpy(
    path: str | None, messages: Sequence[bytes], label: str, has_headings: bool
) -> ReadMessages:
    jobs = import_module("tamis_mail.sieve.jobs")
    read: ReadMessages = jobs.read_messages(path, messages, label, has_headings)
    return read


def find_new_places(digests: Sequence[bytes], known: set[bytes]) -> list[int]:
    """Return the indices of messages that are not known; of equal messages, only the first one's."""
    first_places: dict[bytes, int] = {}
    for place, digest in enumerate(digests):
        if digest not in known:
            first_places.setdefault(digest, place)
    return list(first_places.values())


def locate_features(digests: Sequence[bytes], parts: Sequence[Part]) -> dict[bytes, PlaceInPart]:
    """Return by digest in which part each message is, and its index there; parts are in the same order."""
    located: dict[bytes, PlaceInPart] = {}
    remaining = iter(digests)
    for part in parts:
        located.update({next(remaining): (part, place) for place in range(len(part))})
    return located


def _pack(part: MergedFeatures) -> bytes | None:
    if part.count_features() > MAX_BUNDLE_FEATURES:
        return None
    n_keys = part.count_keys()
    low_bytes = choose_low_bytes(n_keys)
    return write_bundle(len(part), n_keys, low_bytes, *part.encode(low_bytes))
