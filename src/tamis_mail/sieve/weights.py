"""Fit the weights of a store (see `Weights`, and `verdict.fitting`) to its messages, and write them.

They are fitted when the number of learned messages reaches or passes the next size of a fixed schedule (12,
13, …, 40, 42, 44, …, each a twentieth, but at least 1, more than the one before), by `tamis tune`, and after
maintenance that deletes the weights. If there are weights, they are also fitted in each transaction that
forgets messages or moves them to another label. A fit depends on which messages are learned and on the
counts, not on the order of learning. So after `forget` a store has the weights that a store without that
message would get if it were fitted now.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tamis_mail.labels import SPAM, count_messages
from tamis_mail.records import replace
from tamis_mail.store import Store, StoreError, Writer
from tamis_mail.verdict.rule import MIN_FITTED_MESSAGES, Rule, Weights

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from tamis_mail.sieve.reading import PlaceInPart
    from tamis_mail.store.bundle_tables import MessageRow
    from tamis_mail.store.feature_sums import PendingCounts, PendingSum
    from tamis_mail.store.tables import CountTable
    from tamis_mail.verdict.fitting import GroupedFeatures, PreparedFit, Training, WeightFit

    # digest of a message → the object that holds the features of all messages of its bundle, and the index of
    # the message in this object
    Features = Mapping[bytes, PlaceInPart]

# The number of learned messages at the first fit, if at least MIN_FITTED_MESSAGES are spam, and as many other
# mail.
FIRST_FIT = 12
_FITTED_VERSION = 2  # the first version of the tokens for which weights are fitted


def import_fit() -> None:
    """Import the modules that a fit needs before it begins; NumPy, which they import, takes 50 ms."""
    import_module("tamis_mail.verdict.fitting")
    import_module("tamis_mail.store.feature_sums")


def find_scheduled_size(messages: int) -> int:
    """Return the largest size of the schedule that is at most this number of messages; 0 if there is none.

    >>> [find_scheduled_size(n) for n in (11, 12, 13, 40, 41, 42, 100)]
    [0, 12, 13, 40, 40, 42, 97]
    """
    size, following = 0, FIRST_FIT
    while following <= messages:
        size, following = following, following + max(following // 20, 1)
    return size


def can_fit_tokens(token_version: int) -> bool:
    """Whether weights are fitted to messages of this version of the tokens."""
    return token_version >= _FITTED_VERSION


def update_weights(
    store: Store,
    writer: Writer,
    *,
    has_removed: bool,
    pending_sum: "PendingSum | None" = None,
    features: "Features | None" = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Fit the weights inside the open transaction, if that is due; in any case, add `pending_sum`.

    `has_removed` is whether the transaction has forgotten messages or moved them to another label. The other
    arguments are those of `fit_store`; `meanwhile` is called even if no fit is due.
    """
    writer.finish()  # writes the numbers of messages, which are read below
    if is_fit_due(store, has_removed=has_removed):
        fit_store(store, writer, pending_sum, features, meanwhile)
        return
    if pending_sum is not None:
        writer.add(pending_sum.compute().table)
    meanwhile()


def is_fit_due(store: Store, *, has_removed: bool) -> bool:
    """Whether the schedule asks for a fit, or `has_removed` and there are weights.

    With too few messages, a fit is due if there are weights: `fit_store` deletes them.
    """
    if not can_fit_tokens(store.token_version()):
        return False
    spams, others = count_messages(store.labels())
    weights_text = store.setting("weights")  # None if there are no weights
    if has_removed and weights_text:
        return True
    if min(spams, others) < MIN_FITTED_MESSAGES:
        return bool(weights_text)
    # `Weights.to_text` begins with the number of messages at the time of the fit.
    fitted_messages = 0 if not weights_text else int(weights_text.split(maxsplit=1)[0])
    return find_scheduled_size(spams + others) != find_scheduled_size(fitted_messages)


def fit_store(
    store: Store,
    writer: Writer,
    pending_sum: "PendingSum | None" = None,
    features: "Features | None" = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> "WeightFit | None":
    """Fit the weights to the store's messages and write them, inside the open transaction.

    With too few messages, or with tokens of version 1, return None and delete the weights: verdicts then use
    the rule without fitted weights. `pending_sum` is the sum, not yet computed, of the counts of messages
    that this transaction has learned; it is added to the store while the fit runs. `features` has the
    features of some messages, so that they are not read again. `meanwhile` is called once, in this thread: if
    there is a fit, while it runs.
    """
    prepared, pending_counts = _prepare_fit(store, pending_sum, features)

    def write() -> None:
        if pending_counts is not None:
            writer.add(pending_counts.table)
        meanwhile()
        store.sync_early()  # so that the commit, after the fit, has less to bring to disk

    fit: WeightFit | None = None
    if prepared is None:
        write()
    else:
        # This thread makes the design matrix of the coefficients, for which `compute`, in another thread,
        # waits; then this thread calls `write`.
        _, fit = _run_together([lambda: prepared.make_design(then=write), prepared.compute])
    if fit is None:
        writer.drop_weights()
        return None
    shelf_bits = writer.replace_coefficients(fit.keys, fit.coefficients)
    # Posterior standard deviations: that of the intercept is the last in the fit, and the first in `Weights`.
    *scale_deviations, intercept_deviation = fit.scale_fit.deviations.tolist()
    weights = Weights(
        messages=sum(count_messages(store.labels())),
        shelf_bits=shelf_bits,
        intercept=fit.scale_fit.intercept,
        scales=tuple(fit.scale_fit.scales.tolist()),
        deviations=(intercept_deviation, *scale_deviations),
        centres=tuple(fit.centres.tolist()),
    )
    writer.write_setting("weights", weights.to_text())
    return fit


def fit_messages(store: Store) -> "WeightFit | None":
    """Fit the weights to the store's messages without writing them; return None if there are too few."""
    prepared, _ = _prepare_fit(store)
    if prepared is None:
        return None
    _, fit = _run_together([prepared.make_design, prepared.compute])
    weight_fit: WeightFit = fit
    return weight_fit


def _prepare_fit(
    store: Store, pending_sum: "PendingSum | None" = None, features: "Features | None" = None
) -> "tuple[PreparedFit | None, PendingCounts | None]":
    """Read the messages to which weights are fitted, while the pending counts are summed.

    Return the fit, which is not computed yet (None if there are too few messages), and the pending counts.
    """
    if not can_fit_tokens(store.token_version()):
        return None, None if pending_sum is None else pending_sum.compute()
    np, fitting = import_module("numpy"), import_module("tamis_mail.verdict.fitting")
    # The scales and the intercept of this rule are the means of the prior of those that are fitted. Messages
    # with a guessed label get the weight 0: guesses have no part in the fit, since its result makes them.
    rule = replace(Rule.read_prior(store), guessed=0.0)
    views = import_module("tamis_mail.features.arrays").views
    labels, unit = store.labels(), store.message_weight()
    spam_columns = [label.id for label in labels if label.name == SPAM]

    def choose(columns: "NDArray[numpy.intp]") -> "NDArray[numpy.intp]":
        """Return the indices of the messages to fit, given the column of each message's label."""
        is_spam = np.isin(columns, spam_columns)
        sample: NDArray[numpy.intp] = fitting.training_sample(is_spam)
        return sample if fitting.can_fit(is_spam) else sample[:0]

    choose_messages = partial(store.choose_messages, choose=choose)
    rows, *_ = _run_together([choose_messages, *([] if pending_sum is None else pending_sum.tasks)])
    pending_counts = None if pending_sum is None else pending_sum.finish()
    if not rows:
        return None, pending_counts
    # A new store has no counts but the pending ones: their features are grouped while `_make_training` runs.
    all_counts = None if pending_counts is None or store.has_counts() else pending_counts.table
    (training, keys), groups = _run_together(
        [
            partial(_make_training, store, rows, pending_counts, features or {}),
            partial(_group_features, all_counts, rule.token_version),
        ]
    )
    if bool((views(keys, store.token_version()) >= len(rule.views)).any()):
        raise StoreError(
            f"the store {store.name} is damaged (a message has a feature of an unknown view): restore a "
            "backup (tamis store restore)"
        )
    if all_counts is not None and keys is all_counts.keys:  # so the groups are those of these keys
        fit = fitting.PreparedFit(training, keys, all_counts.counts, labels, rule, unit, groups)
        return fit, pending_counts
    counts = store.count_arrays(keys)
    if pending_counts is not None and keys is pending_counts.table.keys:
        counts += pending_counts.table.counts
    elif pending_counts is not None:
        add_counts = import_module("tamis_mail.store.tables").add_counts
        add_counts(pending_counts.table.keys, pending_counts.table.counts, keys, counts)
    return fitting.PreparedFit(training, keys, counts, labels, rule, unit), pending_counts


def _group_features(table: "CountTable | None", token_version: int) -> "GroupedFeatures | None":
    """Group the features that have the same view and the same counts, and so the same weight."""
    if table is None:
        return None
    groups: GroupedFeatures = import_module("tamis_mail.verdict.fitting").group_features(
        table.keys, table.counts, token_version
    )
    return groups


def _make_training(
    store: Store, rows: "Sequence[MessageRow]", pending_counts: "PendingCounts | None", features: "Features"
) -> "tuple[Training, NDArray[numpy.uint64]]":
    """Return the messages of these rows for the fit, and the keys of features into which they have indices.

    If the pending counts know the features of each of these messages, the keys are all those of the pending
    counts, the same array; otherwise those of these messages.
    """
    np, fitting = import_module("numpy"), import_module("tamis_mail.verdict.fitting")
    digests = [digest for digest, *_ in rows]
    if pending_counts is not None and all(digest in features for digest in digests):
        gathered = pending_counts.gather([features[digest] for digest in digests])
        if gathered is not None:  # the compiled core made the sum, and knows the features of each message
            indices, starts = gathered
            columns = np.array([column for *_, column, _ in rows], np.intp)
            weights = np.array([weight for *_, weight in rows], np.int64)
            keys = pending_counts.table.keys
            training = fitting.Training(
                rows=indices, starts=starts, columns=columns, weights=weights, distinct=np.arange(len(keys))
            )
            return training, keys
    read_features = import_module("tamis_mail.store.feature_sums").read_features
    at_hand = {digest: read_features(*features[digest]) for digest in digests if digest in features}
    messages = store.read_chosen(rows, at_hand)
    training = fitting.Training(
        rows=messages.indices,
        starts=messages.starts,
        columns=messages.labels,
        weights=messages.weights,
        distinct=np.arange(len(messages.keys)),  # the counts will have a row for each key
    )
    return training, messages.keys


def _run_together(tasks: "Sequence[Callable[[], Any]]") -> "list[Any]":
    """Run tasks at the same time; return their results.

    The first task runs in this thread: it is the one that uses the store, which no other thread may use.
    """
    results: list[Any] = import_module("tamis.threads").run_together(tasks)
    return results
