"""The fits of weights against SciPy, scikit-learn and `tamis.LogisticRegression`, on many seeds."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression as PeerRegression

from tamis import LogisticRegression
from tamis.compiled import core
from tamis_mail import features
from tamis_mail.features.arrays import views
from tamis_mail.labels import Label
from tamis_mail.verdict import RULE, fitting
from tamis_mail.verdict.arrays import scores
from tamis_mail.verdict.fitting import (
    INTERCEPT_WIDTH,
    MAX_MESSAGES,
    PRECISION,
    SCALE_WIDTH,
    HeldOut,
    SparseRows,
    Training,
    can_fit,
    fit_coefficients,
    fit_scales,
    fit_weights,
    leave_one_out,
    make_design,
    make_design_by_numpy,
    training_sample,
)
from tamis_mail.verdict.rule import MIN_FITTED_MESSAGES, sides
from tests.compiled_core import needs_core

Floats = NDArray[np.float64]


def draw(seed: int, messages: int = 120, views: int = 5) -> tuple[Floats, NDArray[np.bool_], Floats]:
    """Scores of the views with a factor of the intercept, labels, and weights; some draws are separable."""
    dice = np.random.default_rng(seed)
    is_spam = dice.uniform(size=messages) < dice.uniform(0.1, 0.9)
    is_spam[:2] = True, False
    distance = dice.choice([0.0, 0.5, 3.0])
    designs = dice.normal(size=(messages, views + 1)) + distance * np.where(is_spam, 1, -1)[:, np.newaxis]
    designs[:, -1] = 0.9
    weights = dice.choice([1.0, 0.5, 0.125], messages)
    return designs, is_spam, weights


def objective(
    point: Floats, designs: Floats, is_spam: NDArray[np.bool_], weights: Floats, centre: Floats
) -> float:
    widths = np.append(SCALE_WIDTH * centre[:-1], INTERCEPT_WIDTH)
    signs = np.where(is_spam, 1.0, -1.0)
    return float(
        (weights * np.logaddexp(0, -signs * (designs @ point))).sum()
        + np.square((point - centre) / widths).sum() / 2
    )


@pytest.mark.parametrize("seed", range(30))
def test_scales_are_the_bounded_mode_that_scipy_finds(seed: int) -> None:
    designs, is_spam, weights = draw(seed)
    centre = np.array([1.6, 1.0, 3.0, 1.7, 2.0, 0.0])
    fit = fit_scales(designs, is_spam, weights, centre[:-1])
    point = np.append(fit.scales, fit.intercept)
    peer = optimize.minimize(
        objective,
        centre,
        (designs, is_spam, weights, centre),
        method="L-BFGS-B",
        bounds=[(0, None)] * 5 + [(None, None)],
        options={"ftol": 1e-15, "gtol": 1e-10},
    )
    assert objective(point, designs, is_spam, weights, centre) <= peer.fun + 1e-9
    np.testing.assert_allclose(point, peer.x, atol=2e-4)
    assert (fit.scales >= 0).all()


def training(seed: int, messages: int = 80) -> tuple[Training, NDArray[np.uint64], NDArray[np.bool_]]:
    """Messages of random headers, words, relations, pairs and grams."""
    dice = np.random.default_rng(seed)
    kinds = dice.integers(0, 5, 60)
    keys = np.unique(
        np.array(
            [features.key(f"t{number}".encode(), int(kind)) for number, kind in enumerate(kinds)], np.uint64
        )
    )
    is_spam = dice.uniform(size=messages) < 0.4
    is_spam[:2] = True, False
    leaning = dice.normal(size=len(keys))
    rows: list[NDArray[np.intp]] = []
    for spam in is_spam:
        chance = 1 / (1 + np.exp(-(leaning if spam else -leaning)))
        rows.append(np.flatnonzero(dice.uniform(size=len(keys)) < 0.5 * chance))
    starts = np.cumsum([0, *map(len, rows)])
    columns = np.where(is_spam, 0, 1)
    weights = np.ones(messages, np.int64)
    return Training(np.concatenate(rows), starts, columns, weights, np.arange(len(keys))), keys, is_spam


@pytest.mark.parametrize("seed", range(12))
def test_coefficients_are_the_mode_that_scipy_scikit_learn_and_the_library_find(seed: int) -> None:
    """The offset is compared by SciPy's minimum, the rest without an offset, which the others do not take."""
    messages, keys, is_spam = training(seed)
    dice = np.random.default_rng(seed + 100)
    offset = dice.normal(size=len(is_spam))
    weights = dice.choice([1.0, 0.5], len(is_spam))
    used, coefficients = fit_coefficients(messages, keys, is_spam, weights, offset, RULE.token_version)
    kinds = keys & np.uint64(7)
    design = np.zeros((len(is_spam), len(keys)))
    for number in range(len(is_spam)):
        rows = messages.rows[messages.starts[number] : messages.starts[number + 1]]
        sizes = np.bincount(kinds[rows].astype(np.intp), minlength=8)
        design[number, rows] = 1 / np.sqrt(sizes[kinds[rows].astype(np.intp)])
    is_used = np.isin(kinds, (features.HEADERS, features.WORDS, features.RELATIONS)) & (
        np.count_nonzero(design, axis=0) > 1
    )
    np.testing.assert_array_equal(used, keys[is_used])
    design = design[:, is_used]
    signs = np.where(is_spam, 1.0, -1.0)

    def loss(point: Floats) -> tuple[float, Floats]:
        score = offset + design @ point
        p = 1 / (1 + np.exp(signs * score))
        return (
            float((weights * np.logaddexp(0, -signs * score)).sum() + PRECISION * point @ point / 2),
            np.asarray(-design.T @ (weights * signs * p) + PRECISION * point),
        )

    peer = optimize.minimize(
        loss, np.zeros(design.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 5000}
    )
    assert loss(coefficients)[0] <= peer.fun + 2e-4
    without_offset = fit_coefficients(messages, keys, is_spam, weights, 0 * offset, RULE.token_version)[1]
    sklearn = PeerRegression(C=1 / PRECISION, fit_intercept=False, max_iter=10_000, tol=1e-10)
    sklearn.fit(design, is_spam, sample_weight=weights)
    np.testing.assert_allclose(design @ without_offset, design @ sklearn.coef_[0], atol=0.05)
    ours = LogisticRegression(C=1 / PRECISION, fit_intercept=False).fit(
        design, is_spam, sample_weight=weights
    )
    np.testing.assert_allclose(design @ without_offset, design @ ours.coef_[0], atol=0.05)


def count_features(messages: Training, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """(features, 2): the messages of spam and of other mail that have each feature."""
    counts = np.zeros((len(keys), 2), np.int64)
    for number, column in enumerate(messages.columns.tolist()):
        counts[messages.rows[messages.starts[number] : messages.starts[number + 1]], column] += 1
    return counts


def label_messages(is_spam: NDArray[np.bool_]) -> list[Label]:
    spams = int(is_spam.sum())
    hams = len(is_spam) - spams
    return [Label(0, "spam", spams, spams, 0, 0), Label(1, "ham", hams, hams, 0, 0)]


@pytest.mark.parametrize("seed", range(6))
def test_a_message_is_scored_as_if_it_had_not_been_counted(seed: int) -> None:
    """The scores of the views equal those by a table of counts that was made without the message."""
    messages, keys, is_spam = training(seed, 30)
    dice = np.random.default_rng(seed)
    weights = dice.choice([2, 4], len(is_spam)).astype(np.int64)  # half of the messages are older
    messages = Training(messages.rows, messages.starts, messages.columns, weights, messages.distinct)
    counts = np.zeros((len(keys), 2), np.int64)
    for number in range(len(is_spam)):
        rows = messages.rows[messages.starts[number] : messages.starts[number + 1]]
        counts[rows, messages.columns[number]] += weights[number]

    def labels(but: int | None) -> list[Label]:
        kept = [number for number in range(len(is_spam)) if number != but]
        totals = [
            int(sum(weights[number] for number in kept if messages.columns[number] == column))
            for column in (0, 1)
        ]
        return [Label(0, "spam", 1, totals[0], 0, 0), Label(1, "ham", 1, totals[1], 0, 0)]

    scored = leave_one_out(messages, keys, counts, labels(None), RULE, 4)
    for number in range(len(is_spam)):
        rows = messages.rows[messages.starts[number] : messages.starts[number + 1]]
        rest = counts.copy()
        rest[rows, messages.columns[number]] -= weights[number]
        alone = Training(
            rows,
            np.array([0, len(rows)]),
            messages.columns[number : number + 1],
            np.zeros(1, np.int64),
            messages.distinct,
        )
        expected = leave_one_out(alone, keys, rest, labels(number), RULE, 4)
        np.testing.assert_array_equal(scored.scores[number], expected.scores[0])
        np.testing.assert_array_equal(scored.presences[number], expected.presences[0])


@pytest.mark.parametrize("seed", range(3))
def test_a_centre_of_one_lowers_the_score_of_a_view_by_the_presence_of_its_known_features(seed: int) -> None:
    messages, keys, is_spam = training(seed, 40)
    counts = count_features(messages, keys)
    labels = label_messages(is_spam)
    held_out = leave_one_out(messages, keys, counts, labels, RULE, 1)
    centres = np.array([0.5, -0.25, 1.0, 0.0, -2.0])
    for number in range(len(is_spam)):
        rows = messages.rows[messages.starts[number] : messages.starts[number + 1]]
        rest = counts.copy()
        rest[rows, messages.columns[number]] -= 1
        others = label_messages(np.delete(is_spam, number))
        found = scores(
            rows,
            (np.zeros(1, np.intp), np.array([len(rows)])),
            views(keys, 2),
            rest,
            RULE.with_centres(centres.tolist()),
            *sides(others, "spam", ["ham"], 1, 0.0),
        )
        np.testing.assert_allclose(held_out.subtract(centres)[number, :-1], found[0], atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_between_the_centred_means_of_spam_and_of_other_mail_lies_zero(seed: int) -> None:
    """Whatever the shares of the two are; and a view without features has the centre zero."""
    messages, keys, is_spam = training(seed, 40)
    held_out = leave_one_out(messages, keys, count_features(messages, keys), label_messages(is_spam), RULE, 1)
    weights = np.random.default_rng(seed).uniform(0.1, 3, len(is_spam))
    centred = held_out.subtract(held_out.find_centres(is_spam, weights))[:, :-1]
    means = [np.average(centred[kind], axis=0, weights=weights[kind]) for kind in (is_spam, ~is_spam)]
    np.testing.assert_allclose(means[0] + means[1], 0, atol=1e-12)
    empty = HeldOut(np.zeros((len(is_spam), 2)), np.zeros((len(is_spam), 1)))
    assert empty.find_centres(is_spam, weights).tolist() == [0.0]


def test_a_sample_of_one_class_keeps_the_share_of_that_class() -> None:
    """The intercept of a sample with a quarter of the ham is near that of all messages."""
    messages, keys, is_spam = training(3, 400)
    counts = count_features(messages, keys)
    hams = np.flatnonzero(~is_spam)
    chosen = np.sort(np.concatenate([np.flatnonzero(is_spam), hams[: len(hams) // 4]]))
    labels = label_messages(is_spam)
    sample = Training.from_messages(
        messages.rows, messages.starts, messages.columns, messages.weights, chosen, len(keys)
    )
    whole = fit_weights(messages, keys, counts, labels, RULE, 1).scale_fit
    part = fit_weights(sample, keys[sample.distinct], counts[sample.distinct], labels, RULE, 1).scale_fit
    smaller = [labels[0], Label(1, "ham", len(hams) // 4, len(hams), 0, 0)]
    biased = fit_weights(sample, keys[sample.distinct], counts[sample.distinct], smaller, RULE, 1).scale_fit
    assert abs(part.intercept - whole.intercept) < 0.5
    assert biased.intercept > whole.intercept + 0.8


def test_coefficients_count_little_after_a_few_messages() -> None:
    messages, keys, is_spam = training(5, 40)
    counts = np.zeros((len(keys), 2), np.int64)
    for number in range(len(is_spam)):
        rows = messages.rows[messages.starts[number] : messages.starts[number + 1]]
        counts[rows, messages.columns[number]] += 1
    spams, hams = int(is_spam.sum()), int((~is_spam).sum())
    labels = [Label(0, "spam", spams, spams, 0, 0), Label(1, "ham", hams, hams, 0, 0)]
    fit = fit_weights(messages, keys, counts, labels, RULE, 1)
    used, plain = fit_coefficients(
        messages, keys, is_spam, np.ones(len(is_spam)), fit.log_odds, RULE.token_version
    )
    np.testing.assert_array_equal(fit.keys, used)
    np.testing.assert_allclose(
        fit.coefficients, plain * min(spams, hams) / (min(spams, hams) + 10), rtol=1e-12
    )


def test_the_sample_is_the_first_of_either_kind() -> None:
    is_spam = np.arange(5 * MAX_MESSAGES) % 5 == 0
    sample = training_sample(is_spam)
    assert is_spam[sample].sum() == MAX_MESSAGES
    assert (~is_spam[sample]).sum() == MAX_MESSAGES
    assert sample[~is_spam[sample]].max() == np.flatnonzero(~is_spam)[MAX_MESSAGES - 1]
    assert (np.diff(sample) > 0).all()


@pytest.mark.parametrize(
    ("spams", "hams"), [(MIN_FITTED_MESSAGES - 1, 100), (100, MIN_FITTED_MESSAGES - 1), (0, 0)]
)
def test_few_messages_of_either_kind_are_too_few(spams: int, hams: int) -> None:
    assert not can_fit(np.arange(spams + hams) < spams)


def test_enough_messages_are_enough() -> None:
    assert can_fit(np.arange(2 * MIN_FITTED_MESSAGES) < MIN_FITTED_MESSAGES)


@pytest.mark.parametrize("seed", range(40))
def test_coefficients_are_near_the_minimum_that_scipy_finds(seed: int) -> None:
    dice = np.random.default_rng(seed)
    messages, features = int(dice.integers(2, 200)), int(dice.integers(1, 400))
    rows, columns = np.nonzero(dice.random((messages, features)) < dice.choice([0.02, 0.1, 0.5]))
    values = 1 / np.sqrt(np.bincount(rows, minlength=messages))[rows]
    is_spam = dice.random(messages) < dice.uniform(0.1, 0.9)
    # Some offsets tell the classes apart, some are wrong, and some are far from 0.
    offset = dice.choice([-3.0, 0.0, 3.0]) * np.where(is_spam, 1, -1) + dice.choice([1.0, 6.0]) * dice.normal(
        size=messages
    )
    weights = dice.choice([1.0, 0.5, 8.0], messages)
    signs = np.where(is_spam, 1.0, -1.0)
    dense = np.zeros((messages, features))
    dense[rows, columns] = values

    def loss(point: Floats) -> float:
        scores = dense @ point + offset
        return float((weights * np.logaddexp(0, -signs * scores)).sum() + PRECISION * (point @ point) / 2)

    def slope(point: Floats) -> Floats:
        gaps = weights * (expit(dense @ point + offset) - is_spam)
        gradient: Floats = dense.T @ gaps + PRECISION * point
        return gradient

    peer = optimize.minimize(
        loss,
        np.zeros(features),
        jac=slope,
        method="L-BFGS-B",
        options={"ftol": 1e-16, "gtol": 1e-9, "maxiter": 5000},
    )
    design = SparseRows.of(rows, columns, values, messages, features)
    point = fitting._minimise(design, is_spam.astype(np.float64), weights, offset)
    assert loss(point) - peer.fun < 2e-4


@pytest.mark.parametrize("entries", [0, 1, 5000])
def test_sparse_products_have_the_bits_of_sums_in_the_order_of_messages(entries: int) -> None:
    rng = np.random.default_rng(entries)
    rows = np.sort(rng.integers(0, 40, entries))
    columns = rng.integers(0, 70, entries)
    values = rng.normal(size=entries)
    design = SparseRows.of(rows, columns, values, 40, 70)
    by_message, by_feature = rng.normal(size=40), rng.normal(size=70)
    np.testing.assert_array_equal(
        design.multiply(by_feature), np.bincount(rows, values * by_feature[columns], 40)
    )
    of_squares = rng.normal(size=40)
    sums, squares = design.multiply_transposed(by_message, of_squares)
    np.testing.assert_array_equal(sums, np.bincount(columns, values * by_message[rows], 70))
    np.testing.assert_array_equal(squares, np.bincount(columns, values * values * of_squares[rows], 70))


@needs_core
@pytest.mark.parametrize(("messages", "features"), [(0, 0), (3, 0), (0, 5), (40, 70)])
def test_the_matrix_of_the_core_is_that_of_numpy(messages: int, features: int) -> None:
    rng = np.random.default_rng(messages + features)
    kinds = rng.integers(0, 5, features)
    of_messages = [np.flatnonzero(rng.random(features) < 0.3) for _ in range(messages)]
    rows = np.concatenate([np.empty(0, np.intp), *of_messages])
    starts = np.cumsum([0, *map(len, of_messages)])
    expected_is_used, expected = make_design_by_numpy(rows, starts, kinds)
    for own_rows in (rows, rows.astype(np.int32)):
        is_used, design = make_design(own_rows, starts, kinds)
        np.testing.assert_array_equal(is_used, expected_is_used)
        for name in ("starts", "features"):
            np.testing.assert_array_equal(getattr(design, name), getattr(expected, name))
        assert design.matrix is not None
        entries = np.empty(len(design.matrix), np.int32), np.empty(len(design.matrix))
        design.matrix.write_entries(*entries)
        for found, name in zip(entries, ("columns", "values"), strict=True):
            np.testing.assert_array_equal(found, getattr(expected, name))


@needs_core
@pytest.mark.parametrize(
    ("rows", "starts", "kinds"),
    [
        ([0, 2], [0, 2], [0, 0]),
        ([0, -1], [0, 2], [0, 0]),
        ([0, 0], [0, 2], [0, 5]),
        ([0, 0], [0, 2], [255, 0]),
        ([0, 0], [0, 3], [0, 0]),
        ([0, 0], [0, 1], [0, 0]),
        ([0, 0], [1, 2], [0, 0]),
        ([0, 0], [0, 3, 2], [0, 0]),
        ([0, 0], [], [0, 0]),
        ([0, 0], [0, 2], [0]),
    ],
)
def test_features_outside_of_the_matrix_are_refused(
    rows: list[int], starts: list[int], kinds: list[int]
) -> None:
    assert core is not None
    slots, is_used = np.zeros(5, np.uint8), np.ones(2, np.uint8)
    for kind in (np.int32, np.int64):
        of_rows, of_starts, of_kinds = (
            np.array(rows, kind),
            np.array(starts, np.int64),
            np.array(kinds, np.uint8),
        )
        with pytest.raises(ValueError, match=r"outside of its array|matching sizes"):
            core.mail.FitMatrix(of_rows, of_starts, of_kinds, slots, is_used)


@needs_core
def test_a_view_has_one_of_four_slots_or_none_and_an_entry_has_a_place() -> None:
    assert core is not None
    rows, starts, kinds = np.zeros(2, np.int64), np.array([0, 2]), np.zeros(1, np.uint8)
    is_used = np.ones(1, np.uint8)
    with pytest.raises(ValueError, match="four slots"):
        core.mail.FitMatrix(rows, starts, kinds, np.full(1, 5, np.uint8), is_used)
    matrix = core.mail.FitMatrix(rows, starts, kinds, np.full(1, 3, np.uint8), is_used)
    assert (len(matrix), matrix.count_columns()) == (2, 1)
    with pytest.raises(ValueError, match="a place per entry"):
        matrix.write_entries(np.empty(1, np.int32), np.empty(2))
    with pytest.raises(ValueError, match="a place per row"):
        matrix.write_starts(np.empty(1, np.int64))
