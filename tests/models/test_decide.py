"""Decisions: rows A5, I1 and I2, calibration, and what is refused."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import optimize, special

from tamis.arrays import Array
from tamis.decide import (
    REJECT,
    Temperature,
    decide,
    expected_losses,
    log_evidence,
    log_probabilities,
    probabilities,
    threshold,
)
from tamis.families import Gaussian

joints = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.integers(1, 5)),
    elements=st.floats(-1e6, 1e6) | st.just(-np.inf),
)


def test_a_hundred_thousand_words_do_not_underflow() -> None:
    # row A5: log(e^-120 + e^-121) = log(1 + e^-1) − 120
    assert log_evidence([-120.0, -121.0]) == np.log1p(np.exp(-1.0)) - 120.0
    word = np.log([1e-5, 2e-5])
    p = probabilities(100_000 * word)
    np.testing.assert_allclose(log_probabilities(100_000 * word)[0], -100_000 * np.log(2.0), rtol=1e-12)
    assert p.tolist() == [0.0, 1.0]


@given(joints)
def test_probabilities_are_scipys_softmax(joint: Array) -> None:
    p = probabilities(joint)
    np.testing.assert_allclose(p.sum(axis=-1), 1.0, rtol=1e-12)
    possible = np.isfinite(joint).any(axis=-1)
    np.testing.assert_allclose(p[possible], special.softmax(joint[possible], axis=-1), rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(p[~possible], 1.0 / joint.shape[-1])


@given(joints)
def test_the_evidence_is_scipys_logsumexp(joint: Array) -> None:
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(
            log_evidence(joint), special.logsumexp(joint, axis=-1), rtol=1e-12, atol=1e-12
        )


def test_with_the_true_model_no_rule_has_a_lower_risk() -> None:
    # row I1: two classes, known densities; every threshold rule and every coin does no better on average
    rng = np.random.default_rng(0)
    prior, members = np.array([0.3, 0.7]), Gaussian([0.0, 1.5], [1.0, 4.0])
    labels = (rng.random(200_000) > prior[0]).astype(int)
    x = np.where(labels == 0, members.sample(rng, 200_000)[:, 0], members.sample(rng, 200_000)[:, 1])
    optimal = decide(np.log(prior) + members.log_density(x[:, None]))
    risk = (optimal != labels).mean()
    rivals = [(x > cut).astype(int) for cut in np.linspace(-5, 8, 200)]
    rivals += [1 - rival for rival in rivals]
    rivals += [np.zeros_like(labels), np.ones_like(labels), rng.integers(0, 2, len(labels))]
    error = 4 * np.sqrt(0.25 / len(labels))
    assert all((rival != labels).mean() > risk - error for rival in rivals)
    assert min((rival != labels).mean() for rival in rivals) > risk  # the boundary is two points, not one


@given(joints.filter(lambda j: j.shape[1] > 1), st.data())
def test_the_decision_has_the_least_expected_loss(joint: Array, data: st.DataObject) -> None:
    actions = data.draw(st.integers(1, 4))
    loss = data.draw(hnp.arrays(np.float64, (joint.shape[1], actions), elements=st.floats(-10, 10)))
    chosen = decide(joint, loss)
    costs = expected_losses(joint, loss)
    assert (costs[np.arange(len(joint)), chosen] == costs.min(axis=1)).all()


def test_rejecting_is_chows_rule() -> None:
    # row I2: decline exactly where the largest probability is below 1 − cost
    p = np.random.default_rng(1).dirichlet([1.0, 1.0, 1.0], 1000)
    decided = decide(np.log(p), reject=0.25)
    np.testing.assert_array_equal(decided == REJECT, p.max(axis=1) < 0.75)
    np.testing.assert_array_equal(decided[decided != REJECT], p.argmax(axis=1)[decided != REJECT])


def test_a_loss_matrix_may_have_an_action_of_its_own() -> None:
    # spam, ham; actions: junk, inbox, ask. Losing ham costs 20, an inbox with spam 1, asking 0.3
    loss = [[0.0, 1.0, 0.3], [20.0, 0.0, 0.3]]
    joint = np.log([[0.999, 0.001], [0.9, 0.1], [0.2, 0.8]])
    assert decide(joint, loss).tolist() == [0, 2, 1]


@pytest.mark.parametrize("rate", [0.0, 0.001, 0.01, 0.05, 0.5, 1.0])
def test_a_threshold_keeps_the_false_positive_rate_it_promises(rate: float) -> None:
    rng = np.random.default_rng(2)
    errors = []
    for _ in range(300):
        seen = rng.standard_normal(199)
        cut = threshold(seen, np.ones(199, dtype=bool), rate)
        errors.append((rng.standard_normal(200) > cut).mean())
    mean, spread = np.mean(errors), np.std(errors) / np.sqrt(300)
    assert mean <= rate + 4 * spread
    if rate >= 0.01:
        assert mean >= rate - 1 / 200 - 4 * spread  # and does not waste it


def test_a_temperature_has_the_least_log_loss() -> None:
    rng = np.random.default_rng(3)
    joint = 4 * rng.normal(size=(500, 3))
    labels = np.array([rng.choice(3, p=p) for p in probabilities(joint / 2.5)])
    weights = rng.random(500)

    def loss(log_temperature: float) -> float:
        logs = log_probabilities(joint / np.exp(log_temperature))
        return float(-(weights * logs[np.arange(500), labels]).sum())

    best = optimize.minimize_scalar(loss, bounds=(-5, 5), method="bounded", options={"xatol": 1e-10})
    fitted = Temperature.fit(joint, labels, weights)
    assert fitted.value == pytest.approx(np.exp(best.x), rel=1e-6)
    np.testing.assert_array_equal(decide(fitted.apply(joint)), decide(joint))


def test_separated_rows_have_a_finite_temperature() -> None:
    joint = np.array([[5.0, 0.0], [0.0, 5.0]])
    assert 0 < Temperature.fit(joint, [0, 1]).value <= 2.0**-19
    assert Temperature.fit(joint, [1, 0]).value >= 2.0**19
    assert np.isfinite(Temperature.fit([[0.0, -np.inf], [-np.inf, 0.0], [0.0, -1.0]], [0, 1, 1]).value)


@pytest.mark.parametrize("seed", range(12))
def test_the_search_for_a_temperature_goes_on_to_its_bound(seed: int) -> None:
    rng = np.random.default_rng(
        seed
    )  # Newton's steps alone creep by the same length each, down to 0.6 in 200
    joint = rng.normal(size=(30, 3)) * 10.0 ** rng.uniform(-1.0, 4.0)
    assert Temperature.fit(joint, joint.argmax(axis=1)).value < 1e-4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: probabilities([[0.0, np.nan]]), "holds NaN"),
        (lambda: probabilities(np.zeros((2, 0))), "expected \\(\\.\\.\\., classes\\)"),
        (lambda: decide([[0.0, 0.0]], loss=[[0.0, 1.0]]), "one row per class"),
        (lambda: decide([[0.0, 0.0]], loss=[[0.0, np.inf], [1.0, 0.0]]), "finite costs"),
        (lambda: decide([[0.0, 0.0]], reject=-1.0), "cost of rejecting"),
        (lambda: threshold([1.0], [True], 1.5), "between 0 and 1"),
        (lambda: threshold([1.0, 2.0], [True], 0.5), "expected \\(n,\\) for both"),
        (lambda: threshold([np.nan], [True], 0.5), "NaN"),
        (lambda: Temperature.fit([[0.0, 0.0]], [2]), "indices of 2 classes"),
        (lambda: Temperature.fit([[0.0, 0.0]], [0, 1]), "expected \\(n, classes\\)"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message) as refusal:
        call()
    assert "\n" not in str(refusal.value)
