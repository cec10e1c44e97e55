"""The rooms compute what SciPy, scikit-learn and the formulas of the textbooks give."""

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.mixture import GaussianMixture

import tamis
from tamis_mail.surfaces.web.model_room import ROOMS, ROWS
from tamis_mail.surfaces.web.rooms import boundaries, coin, curve, learning_curves, line, mixture, ratings
from tamis_mail.surfaces.web.rooms.fields import FieldError, Fields, to_json
from tamis_mail.surfaces.web.rooms.shapes import trace_ellipse, trace_zeros

SAME_PLACE = [[5.0, 5.0]] * 7


def compute(module: Any, **changes: object) -> dict[str, Any]:
    """The answer to the example of a room with other fields, through JSON as the page sends it."""
    fields = Fields.parse(json.dumps(module.make_example() | changes).encode())
    answer: dict[str, Any] = module.compute(fields)
    json.dumps(to_json(answer), allow_nan=False)
    return answer


@pytest.fixture
def points() -> Any:
    return np.random.default_rng(0).uniform(1.0, 9.0, (40, 2)).round(2).tolist()


# ── the coin ──


def test_two_heads_move_beta_2_2_to_beta_4_2() -> None:
    answer = compute(coin, tosses=[1, 1], a=2, b=2)
    assert (answer["posterior"]["a"], answer["posterior"]["b"]) == (4.0, 2.0)
    assert answer["posterior"]["mean"] == pytest.approx(4 / 6)
    assert answer["posterior"]["mode"] == pytest.approx(3 / 4)


def test_the_coin_agrees_with_scipy() -> None:
    answer = compute(coin, tosses=[1, 0, 0, 1, 1, 0, 1], a=1.5, b=0.7, coverage=0.9, next=6)
    posterior = stats.beta(5.5, 3.7)
    assert answer["posterior"]["density"] == pytest.approx(posterior.pdf(answer["places"]))
    assert (answer["posterior"]["low"], answer["posterior"]["high"]) == pytest.approx(posterior.interval(0.9))
    assert answer["predictive"] == pytest.approx(stats.betabinom(6, 5.5, 3.7).pmf(np.arange(7)))
    assert answer["likelihood"] == pytest.approx(stats.beta(5, 4).pdf(answer["places"]))


def test_a_black_swan_is_never_impossible() -> None:
    answer = compute(coin, tosses=[0, 0, 0], a=1, b=1)
    assert answer["next_head"] == pytest.approx(1 / 5)
    assert answer["frequency"] == 0.0


def test_the_posterior_mean_is_a_weighted_average() -> None:
    answer = compute(coin, tosses=[1, 1, 0], a=3, b=7)
    share = answer["prior_weight"]
    assert share == pytest.approx(10 / 13)
    assert answer["posterior"]["mean"] == pytest.approx(share * 0.3 + (1 - share) * answer["frequency"])


@pytest.mark.parametrize(("a", "b"), [(1, 1), (0.01, 0.01)])
def test_a_coin_without_a_mode_says_so(a: float, b: float) -> None:
    answer = compute(coin, tosses=[], a=a, b=b)
    assert "no single mode" in answer["text"][1]
    assert to_json(answer)["posterior"]["mode"] is None  # type: ignore[index]


# ── the line and the curve ──


def solve(features: Any, targets: Any, alpha: float, noise: float) -> tuple[Any, Any]:
    """Mean and covariance of the weights by the formula of the lecture."""
    precision = alpha * np.eye(features.shape[1]) + features.T @ features / noise**2
    covariance = np.linalg.inv(precision)
    return covariance @ features.T @ targets / noise**2, covariance


def test_the_line_agrees_with_the_formula() -> None:
    given = np.array([[-0.5, 0.2], [0.1, -0.3], [0.9, 0.4]])
    answer = compute(line, points=given.tolist(), alpha=3, noise=0.3)
    mean, covariance = solve(np.column_stack([np.ones(3), given[:, 0]]), given[:, 1], 3, 0.3)
    assert answer["weights"]["mean"] == pytest.approx(mean)
    assert answer["weights"]["deviation"] == pytest.approx(np.sqrt(np.diagonal(covariance)))
    along = np.column_stack([np.ones(41), answer["places"]])
    deviation = np.sqrt(0.09 + np.einsum("ij,jk,ik->i", along, covariance, along))
    assert answer["high"] - answer["mean"] == pytest.approx(deviation)


def test_the_evidence_of_the_line_is_that_of_one_gaussian() -> None:
    given = np.array([[-0.5, 0.2], [0.1, -0.3], [0.9, 0.4]])
    features = np.column_stack([np.ones(3), given[:, 0]])
    marginal = stats.multivariate_normal(np.zeros(3), features @ features.T / 3 + 0.09 * np.eye(3))
    answer = compute(line, points=given.tolist(), alpha=3, noise=0.3)
    assert answer["log_evidence"] == pytest.approx(marginal.logpdf(given[:, 1]))


def test_without_points_the_line_has_its_prior() -> None:
    answer = compute(line, points=[], alpha=4)
    assert answer["weights"]["mean"].tolist() == [0.0, 0.0]
    assert answer["weights"]["deviation"] == pytest.approx([0.5, 0.5])
    assert answer["weights"]["last_likelihood"] is None


def test_lines_of_the_stripe_pass_the_last_point_within_the_noise() -> None:
    answer = compute(line, points=[[0.5, -0.25]], noise=0.1)
    for level, slope in answer["weights"]["last_likelihood"]:
        assert abs(level + 0.5 * slope + 0.25) == pytest.approx(0.1)


def test_drawn_lines_follow_their_seed() -> None:
    first, again, other = (compute(line, seed=seed)["functions"] for seed in (1, 1, 2))
    assert first.shape == (6, 41)
    assert (first == again).all()
    assert not np.allclose(first, other)


def test_the_curve_agrees_with_the_formula() -> None:
    example: Any = curve.make_example()
    given = np.array(example["points"])
    centres = np.linspace(0.0, 1.0, 9)
    features = np.column_stack(
        [np.ones(len(given)), np.exp(-0.5 * ((given[:, :1] - centres) / example["width"]) ** 2)]
    )
    mean, _ = solve(features, given[:, 1], example["alpha"], example["noise"])
    answer = compute(curve)
    along = np.exp(-0.5 * ((answer["places"][:, None] - centres) / example["width"]) ** 2)
    assert answer["mean"] == pytest.approx(mean[0] + along @ mean[1:], abs=1e-9)
    assert answer["parts"] == pytest.approx((along * mean[1:]).T, abs=1e-9)
    spread = features @ features.T / example["alpha"] + example["noise"] ** 2 * np.eye(len(given))
    marginal = stats.multivariate_normal(np.zeros(len(given)), spread)
    assert answer["log_evidence"] == pytest.approx(marginal.logpdf(given[:, 1]))
    assert answer["evidences"][8] == pytest.approx(answer["log_evidence"])


def test_precisions_chosen_by_evidence_have_the_largest_evidence() -> None:
    chosen = compute(curve, by_evidence=True)
    for factor in (0.8, 1.25):
        for name in ("alpha", "noise"):
            settings = {"alpha": chosen["alpha"], "noise": chosen["noise"]}
            settings[name] *= factor
            assert compute(curve, **settings)["log_evidence"] < chosen["log_evidence"]


def test_evidence_needs_three_different_points() -> None:
    with pytest.raises(FieldError, match="expected 3 different ones"):
        compute(curve, points=[[0.5, 0.5]] * 5, by_evidence=True)


# ── the mixture ──


@pytest.mark.parametrize("start", mixture.STARTS)
@pytest.mark.parametrize("components", [1, 3, 6])
def test_the_objective_never_falls_and_the_bound_lies_between(
    points: Any, components: int, start: str
) -> None:
    answer = compute(mixture, points=points, components=components, start=start, step=30)
    objectives, bounds = np.array(answer["objectives"]), np.array(answer["bounds"])
    assert (np.diff(objectives) > -1e-9).all()
    assert (bounds <= objectives[1:] + 1e-9).all()
    assert (bounds >= objectives[:-1] - 1e-9).all()


@pytest.mark.parametrize("step", [0, 1, 5])
def test_the_bound_touches_the_objective_where_the_step_begins(points: Any, step: int) -> None:
    answer = compute(mixture, points=points, step=step)
    along, objective, bound = (np.array(answer["next"][name]) for name in ("along", "objective", "bound"))
    (begin,), (end,) = np.flatnonzero(along == 0.0), np.flatnonzero(np.isclose(along, 1.0))
    assert bound[begin] == pytest.approx(objective[begin])
    assert objective[begin] == pytest.approx(answer["objectives"][-1])
    assert (bound <= objective + 1e-9).all()
    assert bound.argmax() == end
    assert bound[end] == pytest.approx(answer["next"]["bound_reached"])
    assert objective[end] == pytest.approx(answer["next"]["reached"])


def test_steps_of_em_are_those_of_scikit_learn_when_the_prior_is_weak() -> None:
    rng = np.random.default_rng(2)
    many = np.concatenate([rng.normal(2.5, 0.6, (150, 2)), rng.normal(7.0, 0.9, (150, 2))])
    answer = compute(mixture, points=many.tolist(), components=2, start="kmeans", step=40)
    theirs = GaussianMixture(2, random_state=0, tol=1e-8, max_iter=500).fit(many)
    order, own = np.argsort(theirs.means_[:, 0]), np.argsort(answer["means"][:, 0])
    assert answer["means"][own] == pytest.approx(theirs.means_[order], abs=0.01)
    assert answer["covariances"][own] == pytest.approx(theirs.covariances_[order], abs=0.05)
    assert answer["responsibilities"][:, own] == pytest.approx(theirs.predict_proba(many)[:, order], abs=0.02)


def test_a_step_back_is_the_step_before(points: Any) -> None:
    third = compute(mixture, points=points, step=3)
    again = compute(mixture, points=points, step=2)
    assert third["objectives"][:3] == pytest.approx(again["objectives"])
    assert again["next"]["reached"] == pytest.approx(third["objectives"][3])


@pytest.mark.parametrize(
    "few", [SAME_PLACE[:1], SAME_PLACE, [[1, 1], [1, 1], [2, 2]], [[k, k] for k in range(9)]]
)
def test_em_works_on_points_without_a_covariance(few: Any) -> None:
    answer = compute(mixture, points=few, components=3, step=40)
    assert answer["responsibilities"].sum(axis=1) == pytest.approx(1.0)
    assert answer["converged"]


def test_no_points_is_one_clear_line() -> None:
    with pytest.raises(FieldError, match="got no points, expected at least one: add points"):
        compute(mixture, points=[])
    with pytest.raises(FieldError, match="got no points, expected at least one: add points"):
        compute(boundaries, points=[], labels=[])


# ── the boundaries ──


def test_the_tied_boundary_is_the_line_of_the_linear_form() -> None:
    answer = compute(boundaries, covariance="tied")
    w, w0 = answer["linear"]["w"], answer["linear"]["w0"]
    assert len(answer["boundaries"]) > 20
    assert answer["boundaries"] @ w + w0 == pytest.approx(0.0, abs=1e-9)


def test_the_tied_boundary_is_near_that_of_scikit_learn() -> None:
    example: Any = boundaries.make_example()
    theirs = LinearDiscriminantAnalysis().fit(example["points"], example["labels"])
    w = compute(boundaries, covariance="tied")["linear"]["w"]
    cosine = w @ theirs.coef_[0] / np.linalg.norm(w) / np.linalg.norm(theirs.coef_[0])
    assert cosine > 0.999


@pytest.mark.parametrize("covariance", list(boundaries.COVARIANCES))
def test_each_cell_has_its_most_probable_class(covariance: str) -> None:
    example: Any = boundaries.make_example()
    answer = compute(boundaries, covariance=covariance)
    winner = np.array(answer["winner"]).reshape(60, 60)
    scores = [
        np.log(np.mean(np.array(example["labels"]) == label))
        + stats.multivariate_normal(mean, matrix).logpdf(
            [[2.0 + 1 / 12, 7.0 + 1 / 12], [9.0 + 1 / 12, 3.0 + 1 / 12]]
        )
        for label, mean, matrix in zip(answer["classes"], answer["means"], answer["covariances"], strict=True)
    ]
    assert [winner[42, 12], winner[18, 54]] == np.argmax(scores, axis=0).tolist()


def test_own_covariances_fit_classes_of_different_shapes_better() -> None:
    forms = compute(boundaries)["forms"]
    assert forms["full"]["log_evidence"] > forms["tied"]["log_evidence"]


@pytest.mark.parametrize("covariance", list(boundaries.COVARIANCES))
@pytest.mark.parametrize(
    ("few", "labels"),
    [
        (SAME_PLACE[:1], [0]),
        (SAME_PLACE[:4], [0, 1, 2, 0]),
        ([[1, 1], [9, 9]], [0, 2]),
        ([[k, k] for k in range(10)], [0] * 5 + [1] * 5),
        ([[k, 3] for k in range(10)], [2] * 10),
    ],
)
def test_boundaries_work_on_degenerate_classes(few: Any, labels: list[int], covariance: str) -> None:
    answer = compute(boundaries, points=few, labels=labels, covariance=covariance)
    assert answer["classes"] == sorted(set(labels))
    assert (len(set(labels)) > 1) or not len(answer["boundaries"])


def test_zeros_of_a_circle_lie_on_it() -> None:
    places = np.linspace(-2.0, 2.0, 81)
    x, y = np.meshgrid(places, places)
    segments = trace_zeros(x**2 + y**2 - 1.0, places, places)
    assert np.linalg.norm(segments, axis=2) == pytest.approx(1.0, abs=1e-3)
    assert np.linalg.norm(segments[:, 0] - segments[:, 1], axis=1).sum() == pytest.approx(2 * np.pi, rel=1e-3)


def test_an_ellipse_lies_at_its_distance_from_the_mean() -> None:
    mean, covariance = np.array([1.0, 2.0]), np.array([[2.0, 0.8], [0.8, 0.5]])
    about = trace_ellipse(mean, covariance, 2.0) - mean
    distance = np.einsum("ij,jk,ik->i", about, np.linalg.inv(covariance), about)
    assert np.sqrt(distance) == pytest.approx(2.0)


# ── learning curves ──


def test_naive_bayes_is_better_on_few_messages_and_worse_on_many() -> None:
    answer = compute(learning_curves, repeats=4)
    naive, logistic = (np.array(part["mean"]) for part in answer["curves"])
    assert naive[:3].mean() < logistic[:3].mean()
    assert naive[-1] > logistic[-1]
    assert 10 < answer["crossing"] < 1000


def test_with_independent_words_naive_bayes_stays_better() -> None:
    answer = compute(learning_curves, independent=30, together=0, repeats=1)
    assert answer["crossing"] is None
    assert "is still not better" in answer["text"][-1]


@pytest.mark.parametrize(
    ("gap", "crossing"),
    [
        ([1, 1, 1, 1, -1, -1, -1, -1, -1], np.sqrt(56 * 100)),
        ([-1] * 9, 10.0),
        ([1, -1, 1, 1, 1, 1, 1, 1, 1], None),
        ([0] * 9, None),
    ],
)
def test_the_crossing_lies_where_the_difference_changes_its_sign(
    gap: list[int], crossing: float | None
) -> None:
    measured = learning_curves.find_crossing(np.zeros(9), np.array(gap, dtype=np.float64))
    assert measured == (crossing if crossing is None else pytest.approx(crossing))


# ── ratings ──


@pytest.mark.parametrize("step", [1, 4, 20])
def test_sweeps_are_those_of_the_recommender(step: int) -> None:
    example: Any = ratings.make_example()
    known, hidden = np.array(example["known"]), np.array(example["hidden"])
    model = tamis.MatrixFactorization(2, ridge=0.05, max_iter=step, tol=0.0, clip=False, random_state=0)
    model.fit(known[:, :2].astype(int).tolist(), known[:, 2])
    predicted = np.clip(model.predict(hidden[:, :2].astype(int).tolist()), 1, 5)
    answer = compute(ratings, step=step)
    user, item = hidden[:, :2].astype(int).T
    assert answer["predicted"][user, item] == pytest.approx(predicted)
    error = np.sqrt(np.mean((predicted - hidden[:, 2]) ** 2))
    assert answer["hidden_errors"][-1] == pytest.approx(error)


def test_no_sweep_raises_the_objective_and_hidden_entries_are_learned() -> None:
    answer = compute(ratings, step=20)
    assert (np.diff(answer["objectives"]) <= 1e-9).all()
    assert answer["hidden_errors"][-1] < 0.5 * answer["hidden_errors"][0]


def test_revealing_an_entry_completes_the_table() -> None:
    example: Any = ratings.make_example()
    few = compute(ratings, known=example["known"][:20], hidden=example["hidden"], step=20)
    assert compute(ratings, step=20)["hidden_errors"][-1] < few["hidden_errors"][-1]
    everything = compute(ratings, known=example["known"] + example["hidden"], hidden=[], step=20)
    assert everything["hidden_errors"][-1] is None


def test_errors_by_count_are_those_of_fewer_known_entries() -> None:
    example: Any = ratings.make_example()
    answer = compute(ratings, step=6)
    assert answer["known_counts"][0] == 1
    assert answer["errors_by_count"][-1] == answer["hidden_errors"][-1]
    count = answer["known_counts"][5]
    fewer = compute(ratings, known=example["known"][:count], step=6)
    assert answer["errors_by_count"][5] == pytest.approx(fewer["hidden_errors"][-1])
    assert answer["errors_by_count"][-1] < 0.5 * answer["errors_by_count"][0]


def test_one_known_entry_is_enough() -> None:
    answer = compute(ratings, users=1, items=1, known=[[0, 0, 5]], hidden=[], factors=4, step=50, ridge=0.001)
    assert answer["predicted"].tolist() == [[pytest.approx(5.0)]]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"known": []}, "got no known entries"),
        ({"known": [[0, 0, 3], [0, 0, 4]], "hidden": []}, "twice"),
        ({"known": [[0.5, 0, 3]], "hidden": []}, "with a fraction"),
        ({"known": [[8, 0, 3]], "hidden": []}, r"known\[0\]\[0\] = 8, expected a number from 0 to 7"),
    ],
)
def test_wrong_entries_are_refused(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(FieldError, match=sentence):
        compute(ratings, **changes)


# ── all rooms ──


@pytest.mark.parametrize("name", list(ROOMS))
def test_each_room_says_its_numbers_and_belongs_to_rows(name: str) -> None:
    room = ROOMS[name]
    answer = compute(import_module(room.module))
    assert len(answer["text"]) >= 2
    assert all(line.endswith(".") and any(map(str.isdigit, line)) for line in answer["text"][:2])
    assert room.shows.count(". ") == 1, "a room is described by two sentences"
    assert set(room.rows) <= ROWS.keys()


def test_each_row_has_a_room() -> None:
    assert ROWS.keys() == {row for room in ROOMS.values() for row in room.rows}


def make_largest(module: Any) -> Mapping[str, object]:
    """The request of a room that takes longest."""
    rng = np.random.default_rng(1)
    many = rng.uniform(0.0, 10.0, (300, 2)).tolist()
    if module is mixture:
        return {"points": many, "components": 6, "step": 100}
    if module is boundaries:
        return {"points": many, "labels": rng.integers(0, 3, 300).tolist()}
    return {"points": many[:200]}


@pytest.mark.parametrize("module", [line, curve, mixture, boundaries])
def test_the_largest_request_fits_into_its_bounds(module: Any) -> None:
    largest = module.make_example() | make_largest(module)
    assert compute(module, **largest)["text"]
    largest["points"] = [*largest["points"], [0.0, 0.0]]
    with pytest.raises(FieldError, match="entries in points, expected at most"):
        compute(module, **largest)
