"""Compute the evidence of a word list, the counts of tokens imported from bogofilter, for one message."""

from importlib import import_module

from tamis_mail.features.word_list import word_key
from tamis_mail.verdict import Evidence

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from tamis_mail.store.overlay import VerdictStore


def read_word_list(store: "VerdictStore", plain: bytes) -> tuple[Evidence, ...]:
    """Return the evidence of the store's word list on a message in canonical form; none without a list."""
    totals = store.word_list_totals()
    if totals is None:
        return ()
    message = import_module("tamis_mail.message.tree").parse(plain)
    tokens = import_module("tamis_mail.tokens.bogofilter").read(message)
    keys = {token: word_key(token) for token in tokens}
    counts = store.word_counts(keys.values())
    weigh = import_module("tamis_mail.verdict.word_list").weigh_word_list
    evidence: tuple[Evidence, ...] = weigh(
        {token: counts.get(key) for token, key in keys.items()}, totals, store.labels()
    )
    return evidence
