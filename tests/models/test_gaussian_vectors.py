"""Multivariate Gaussians by class, against scikit-learn's discriminants, SciPy's densities and integrals."""

from typing import Any, get_args

import numpy as np
import pytest
from scipy import integrate, optimize, stats
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

from tamis.arrays import Array
from tamis.conjugate import NormalInverseWishart
from tamis.models.generative.block import Density, Estimate, Responsibilities
from tamis.models.generative.gaussian_densities import FullNormal, TiedNormal, VectorStudent
from tamis.models.generative.gaussian_vectors import Covariance, GaussianVectors
from tamis.protocols import total
from tamis.stats import Keys, Labels, Moments

COVARIANCES: tuple[Covariance, ...] = get_args(Covariance)
EVERY: tuple[Estimate, ...] = get_args(Estimate)
POINTS: tuple[Estimate, ...] = ("mle", "map", "mean")


def flowers(n: int = 240, d: int = 3, classes: int = 3, seed: int = 0) -> tuple[Array, Any]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    y[:classes] = np.arange(classes)
    roots = np.tril(rng.normal(size=(classes, d, d)), -1) + np.eye(d) * (1.0 + np.arange(d))
    x = rng.normal(size=(classes, d))[y] * 2.0 + np.einsum("nij,nj->ni", roots[y], rng.normal(size=(n, d)))
    return np.round(x * 2.0**20) / 2.0**20, y  # dyadic: 1e8 may be added without rounding


def fitted(block: GaussianVectors, x: Array, y: Any) -> Any:
    filed = Labels.of(y)
    return block.infer(block.observe(x, filed), filed.keys)


def holes(x: Array, seed: int = 1) -> Array:
    rng = np.random.default_rng(seed)
    broken = np.where(rng.random(x.shape) < 0.3, np.nan, x)
    broken[0] = np.nan
    return broken


def about_first(scores: Array) -> Array:
    return np.asarray(scores[:, 1:] - scores[:, :1])


@pytest.mark.parametrize("solver", ["lsqr", "svd", "eigen"])
@pytest.mark.parametrize("shrinkage", [None, 0.3])
def test_tied_is_linear_discriminant_analysis(solver: str, shrinkage: float | None) -> None:
    if solver == "svd" and shrinkage is not None:
        pytest.skip("scikit-learn has none")
    x, y = flowers()
    theirs = LinearDiscriminantAnalysis(solver=solver, shrinkage=shrinkage).fit(x, y)
    ours = fitted(GaussianVectors(covariance="tied", shrinkage=shrinkage, estimate="mle"), x, y)
    joint = ours.scores(x) + np.log(theirs.priors_)
    np.testing.assert_allclose(
        about_first(joint), about_first(theirs.decision_function(x)), rtol=1e-8, atol=1e-9
    )
    linear = x @ ours.coefficients.T + ours.intercepts
    np.testing.assert_allclose(about_first(ours.scores(x)), about_first(linear), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("shrinkage", [None, 0.3])
def test_full_is_quadratic_discriminant_analysis(shrinkage: float | None) -> None:
    x, y = flowers()
    solver = "svd" if shrinkage is None else "eigen"
    theirs = QuadraticDiscriminantAnalysis(solver=solver, shrinkage=shrinkage).fit(x, y)
    ours = fitted(GaussianVectors(shrinkage=shrinkage, estimate="mle"), x, y)
    joint = ours.scores(x) + np.log(theirs.priors_) + 1.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(joint, theirs.decision_function(x), rtol=1e-8)


def test_two_classes_of_one_covariance_have_the_textbook_weights() -> None:
    x, y = flowers(classes=2)
    ours = fitted(GaussianVectors(covariance="tied", estimate="mle"), x, y)
    assert isinstance(ours, TiedNormal)
    centred = x - np.stack([x[y == k].mean(axis=0) for k in (0, 1)])[y]
    inverse = np.linalg.inv(centred.T @ centred / len(x))
    one, two = x[y == 0].mean(axis=0), x[y == 1].mean(axis=0)
    w = inverse @ (one - two)
    rest = -0.5 * one @ inverse @ one + 0.5 * two @ inverse @ two
    np.testing.assert_allclose(ours.coefficients[0] - ours.coefficients[1], w, rtol=1e-10)
    np.testing.assert_allclose(ours.intercepts[0] - ours.intercepts[1], rest, rtol=1e-10)
    np.testing.assert_allclose(
        ours.scores(x)[:, 0] - ours.scores(x)[:, 1], x @ w + rest, rtol=1e-8, atol=1e-9
    )


@pytest.mark.parametrize("floor", [0.0, 0.1])
@pytest.mark.parametrize("unbiased", [False, True])
def test_each_form_has_its_most_likely_covariance(floor: float, unbiased: bool) -> None:
    x, y = flowers()
    own = [np.cov(x[y == k].T, ddof=int(unbiased)) for k in range(3)]
    count, eye = np.bincount(y), np.eye(3)
    pooled = sum((count[k] - unbiased) * own[k] for k in range(3)) / (len(x) - 3 * unbiased)
    expected: dict[Covariance, Array] = {
        "full": np.stack(own) + floor * eye,
        "tied": np.asarray(pooled + floor * eye),
        "diag": np.stack([np.diag(one) for one in own]) + floor,
        "spherical": np.array([np.trace(one) / 3 for one in own]) + floor,
    }
    for covariance, matrix in expected.items():
        block = GaussianVectors(covariance=covariance, floor=floor, unbiased=unbiased, estimate="mle")
        found = fitted(block, x, y)
        np.testing.assert_allclose(found.covariance, matrix, rtol=1e-11)
        np.testing.assert_allclose(found.mean, [x[y == k].mean(axis=0) for k in range(3)], rtol=1e-11)


def matrices(density: Any) -> Array:
    """(K, d, d), whatever the form."""
    k, d = density.mean.shape
    if isinstance(density, FullNormal | VectorStudent):
        return np.asarray(density.covariance)
    if isinstance(density, TiedNormal):
        return np.broadcast_to(density.covariance, (k, d, d))
    return np.asarray(density.variance[:, :, None] * np.eye(d))


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("estimate", POINTS)
def test_scores_are_densities_of_what_is_present(covariance: Covariance, estimate: Estimate) -> None:
    x, y = flowers()
    density = fitted(GaussianVectors(covariance=covariance, estimate=estimate), x, y)
    for rows in (x[:30], holes(x[:30])):
        expected = np.zeros((30, 3))
        for k, matrix in enumerate(matrices(density)):
            for i, row in enumerate(rows):
                at = np.flatnonzero(~np.isnan(row))
                if len(at):
                    member = stats.multivariate_normal(density.mean[k, at], matrix[np.ix_(at, at)])
                    expected[i, k] = member.logpdf(row[at])
        np.testing.assert_allclose(density.scores(rows), expected, rtol=1e-9)


@pytest.mark.parametrize("covariance", ["full", "tied", "spherical"])
def test_predictions_are_multivariate_t(covariance: Covariance) -> None:
    x, y = flowers()
    density = fitted(GaussianVectors(covariance=covariance, estimate="predictive"), x, y)
    assert isinstance(density, VectorStudent)
    rows, t = holes(x[:30]), density.members
    for k in range(3):
        for row in rows:
            at = np.flatnonzero(~np.isnan(row))
            if len(at):
                member = stats.multivariate_t(t.location[k, at], t.scale[k][np.ix_(at, at)], t.freedom[k])
                np.testing.assert_allclose(density.scores(row[None])[0, k], member.logpdf(row[at]), rtol=1e-9)
            else:
                assert density.scores(row[None])[0, k] == 0.0


PRIOR = NormalInverseWishart([0.5, -0.5, 1.0], 0.7, 6.5, np.eye(3) + 0.3)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_the_evidence_is_a_chain_of_predictions(covariance: Covariance) -> None:
    x, y = flowers(40)
    block = GaussianVectors(covariance=covariance, estimate="predictive", prior=PRIOR)
    keys = Keys((0, 1, 2))
    seen = block.observe(x, Labels(keys, y))
    row = np.array([[0.3, 2.0, -1.0]])
    for k in range(3):
        more = seen + block.observe(row, Labels(keys, np.array([k])))
        rise = block.infer(more, keys).log_evidence() - block.infer(seen, keys).log_evidence()
        np.testing.assert_allclose(block.infer(seen, keys).scores(row)[0, k], rise, rtol=1e-9)


@pytest.mark.parametrize("covariance", ["tied", "spherical"])
def test_the_evidence_is_an_integral(covariance: Covariance) -> None:
    """On a grid of variances, each mean is integrated by itself; then the variance."""
    d = 1 if covariance == "tied" else 2
    x = np.array([[0.2, 1.0], [1.1, 0.5], [2.0, -1.0], [3.5, 0.0], [2.5, 0.4]])[:, :d]
    y = np.array([0, 0, 1, 1, 1])
    prior = NormalInverseWishart(np.full(d, 0.4), 0.8, d + 2.0, np.eye(d) * 1.5)
    log_v, z = np.linspace(-9, 14, 2001), np.linspace(-12, 12, 401)
    v = np.exp(log_v)[:, None]
    belief = stats.invgamma.pdf(v[:, 0], 1.0 + 0.5 * d, scale=0.75 * d) * v[:, 0]

    def over_means(k: int) -> Array:
        found = np.ones(len(v))
        for values in x[y == k].T:
            total = len(values) + 0.8
            mean = (values.sum() + 0.32) / total + np.sqrt(v / total) * z
            height = stats.norm.logpdf(mean, 0.4, np.sqrt(v / 0.8))
            height += sum(stats.norm.logpdf(value, mean, np.sqrt(v)) for value in values)
            found *= np.trapezoid(np.exp(height), z, axis=1) * np.sqrt(v[:, 0] / total)
        return found

    groups = [over_means(0) * over_means(1)] if covariance == "tied" else [over_means(0), over_means(1)]
    expected = sum(np.log(np.trapezoid(belief * group, log_v)) for group in groups)
    density = fitted(GaussianVectors(covariance=covariance, prior=prior), x, y)
    np.testing.assert_allclose(density.log_evidence(), expected, rtol=1e-6)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_a_prediction_integrates_to_one(covariance: Covariance) -> None:
    x, y = flowers(60, d=1)
    density = fitted(GaussianVectors(covariance=covariance, estimate="predictive"), x, y)
    for k in range(3):
        mass = integrate.quad(lambda v, k=k: np.exp(density.scores(np.array([[v]]))[0, k]), -np.inf, np.inf)[
            0
        ]
        assert mass == pytest.approx(1.0, abs=1e-6)


def test_the_tied_mode_is_the_most_probable() -> None:
    x, y = flowers(30, d=1, classes=2)
    prior = NormalInverseWishart([0.0], 2.0, 5.0, [[3.0]])
    density = fitted(GaussianVectors(covariance="tied", estimate="map", prior=prior), x, y)

    def loss(at: Array) -> float:
        v = float(np.exp(at[2]))
        found = stats.invgamma.logpdf(v, 2.5, scale=1.5)
        for k in (0, 1):
            found += stats.norm.logpdf(at[k], 0.0, np.sqrt(v / 2.0))
            found += stats.norm.logpdf(x[y == k], at[k], np.sqrt(v)).sum()
        return -float(found)

    top = optimize.minimize(
        loss, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}
    ).x
    np.testing.assert_allclose(density.mean[:, 0], top[:2], rtol=1e-5)
    np.testing.assert_allclose(density.covariance[0, 0], np.exp(top[2]), rtol=1e-5)


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("estimate", EVERY)
def test_a_large_mean_costs_nothing(covariance: Covariance, estimate: Estimate) -> None:
    x, y = flowers()
    block = GaussianVectors(covariance=covariance, estimate=estimate)
    near, far = fitted(block, x, y), fitted(block, x + 1e8, y)
    np.testing.assert_allclose(far.scores(x + 1e8), near.scores(x), atol=1e-6, rtol=1e-7)
    np.testing.assert_allclose(far.scores(holes(x) + 1e8), near.scores(holes(x)), atol=1e-6, rtol=1e-7)
    np.testing.assert_allclose(far.log_evidence(), near.log_evidence(), rtol=1e-6)


@pytest.mark.parametrize("covariance", ["tied", "diag", "spherical"])
def test_what_speaks_for_a_class_sums_to_its_log_odds(covariance: Covariance) -> None:
    x, y = flowers()
    density = fitted(GaussianVectors(covariance=covariance), x, y)
    for rows in (x, holes(x)):
        terms, rest = density.contrasts(rows, 2, 0)
        scores = density.scores(rows)
        np.testing.assert_allclose(terms.sum(axis=1) + rest, scores[:, 2] - scores[:, 0], atol=1e-9)
        assert not terms[np.isnan(rows)].any()


@pytest.mark.parametrize(
    ("estimate", "match"), [("mean", "covariance='tied'"), ("predictive", "estimate='mle'")]
)
def test_what_is_no_sum_over_columns_is_not_explained(estimate: Estimate, match: str) -> None:
    x, y = flowers()
    with pytest.raises(ValueError, match=f"explain needs {match}"):
        fitted(GaussianVectors(estimate=estimate), x, y).contrasts(x, 0, 1)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_draws_have_the_moments_of_their_class(covariance: Covariance) -> None:
    x, y = flowers()
    rng = np.random.default_rng(3)
    for estimate in ("mean", "predictive"):
        density = fitted(GaussianVectors(covariance=covariance, estimate=estimate), x, y)
        drawn = np.stack(density.draw(rng, np.repeat([2, 0], [40_000, 10])), axis=1)
        np.testing.assert_allclose(drawn[:40_000].mean(axis=0), x[y == 2].mean(axis=0), atol=0.15)
        if estimate == "mean" or covariance != "diag":
            np.testing.assert_allclose(np.cov(drawn[:40_000].T), matrices(density)[2], atol=0.4)


def test_a_class_that_was_never_seen_is_like_all() -> None:
    x, y = flowers()
    for covariance in COVARIANCES:
        for estimate in EVERY:
            block = GaussianVectors(covariance=covariance, estimate=estimate)
            seen = block.observe(x, Labels.of(y))
            wide = block.infer(seen, Keys((-1, 0, 1, 2))).scores(x)
            assert np.isfinite(wide).all()
            np.testing.assert_allclose(wide[:, 1:], block.infer(seen, Keys((0, 1, 2))).scores(x), rtol=1e-12)


def assert_alike(one: Moments, other: Moments, rtol: float) -> None:
    assert one.keys == other.keys
    assert one.form == other.form
    spread = np.sqrt(other.variance.max())
    np.testing.assert_allclose(one.weight.value, other.weight.value, rtol=rtol)
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-15, atol=rtol * spread)
    np.testing.assert_allclose(one.scatter, other.scatter, rtol=rtol, atol=rtol * other.scatter.max())


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("shift", [0.0, 1e8])
def test_whole_shares_are_labels(covariance: Covariance, shift: float) -> None:
    x, y = flowers()
    block, filed = GaussianVectors(covariance=covariance), Labels.of(y)
    parts = np.eye(3)[y]
    shared = block.observe(x + shift, Responsibilities(filed.keys, parts))
    assert_alike(shared, block.observe(x + shift, filed), 1e-12)


def observe_each_class(block: GaussianVectors, x: Array, shares: Responsibilities) -> Moments:
    """Sum the rows by responsibilities as weights, exactly, one class after the other."""
    one_class = np.zeros(len(x), dtype=np.int64)
    return total(
        block.observe(x, Labels(Keys((key,)), one_class), np.ascontiguousarray(weights))
        for key, weights in zip(shares.keys, shares.values.T, strict=True)
    )


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_shares_of_classes_far_apart_are_as_good_as_exact_sums(covariance: Covariance) -> None:
    rng = np.random.default_rng(4)
    y = rng.integers(0, 3, 5000)
    x = np.round(rng.normal(size=(5000, 2)) * 2.0**20) / 2.0**20 + 1e8 + 1e6 * y[:, None]
    parts = np.where(np.eye(3)[y] > 0, 1.0 - 1e-30 * rng.random((5000, 1)), 1e-30) * rng.random((5000, 1))
    block, shares = GaussianVectors(covariance=covariance), Responsibilities(Keys((0, 1, 2)), parts)
    assert_alike(block.observe(x, shares), observe_each_class(block, x, shares), 1e-9)
    if covariance in ("diag", "spherical"):
        x[rng.random(x.shape) < 0.2] = np.nan
        assert_alike(block.observe(x, shares), observe_each_class(block, x, shares), 1e-9)


@pytest.mark.parametrize("covariance", ["full", "tied"])
@pytest.mark.parametrize("shift", [0.0, 1e8])
def test_what_is_missing_is_expected(covariance: Covariance, shift: float) -> None:
    x, y = flowers(60)
    given = fitted(GaussianVectors(covariance=covariance), x + shift, y)
    rows, parts = holes(x), np.random.default_rng(5).dirichlet(np.ones(3), 60)
    found = GaussianVectors(covariance=covariance).observe(
        rows + shift, Responsibilities(given.keys, parts), given=given
    )
    for k, matrix in enumerate(matrices(given)):
        mean = given.mean[k] - shift
        first, second = np.zeros(3), np.zeros((3, 3))
        for row, part in zip(rows, parts[:, k], strict=True):
            gone, there = np.isnan(row), ~np.isnan(row)
            across = matrix[np.ix_(gone, there)] @ np.linalg.inv(matrix[np.ix_(there, there)])
            guess, rest = row.copy(), np.zeros((3, 3))
            guess[gone] = mean[gone] + across @ (row[there] - mean[there])
            rest[np.ix_(gone, gone)] = matrix[np.ix_(gone, gone)] - across @ matrix[np.ix_(there, gone)]
            first += part * guess
            second += part * (np.outer(guess, guess) + rest)
        weight = parts[:, k].sum()
        np.testing.assert_allclose(found.mean[k] - shift, first / weight, atol=1e-7 if shift else 1e-12)
        scatter = second - np.outer(first, first) / weight
        np.testing.assert_allclose(found.scatter[k], scatter, atol=1e-6 if shift else 1e-10)


def test_steps_with_missing_values_raise_the_likelihood_of_what_is_there() -> None:
    x, _ = flowers(classes=1)
    rows, keys = holes(x), Keys(("all",))
    block = GaussianVectors(estimate="mle")
    density: Density[Array] = block.infer(block.observe(x[:10], Labels(keys, np.zeros(10, np.int64))), keys)
    heights = [density.scores(rows).sum()]
    for _ in range(30):
        density = block.infer(
            block.observe(rows, Responsibilities(keys, np.ones((len(x), 1))), given=density), keys
        )
        heights.append(density.scores(rows).sum())
    assert (np.diff(heights) > -1e-9).all()
    assert heights[-1] > heights[0] + 1


def test_missing_values_without_a_guess_are_refused() -> None:
    x, y = flowers()
    block, filed = GaussianVectors(columns=(4, 7, 9)), Labels.of(y)
    x[5, 1] = np.nan
    with pytest.raises(
        ValueError, match=r"column 7 holds NaN in row 5, .* or use GaussianDiscriminant\(covariance='diag'\)"
    ):
        block.observe(x, filed)
    with pytest.raises(ValueError, match="expected a Gaussian to impute them by"):
        block.observe(x, Responsibilities(filed.keys, np.eye(3)[y]))
    assert np.isfinite(fitted(GaussianVectors(covariance="diag"), x, y).scores(x)).all()


def test_a_singular_covariance_is_named_with_its_remedy() -> None:
    x, y = flowers()
    y[y == 1] = 0
    y[:3] = 1
    for rows, name in ((x, "of class 1, of weight 3,"), (np.column_stack([x, x[:, 0]]), "of class 0")):
        with pytest.raises(
            ValueError,
            match=rf"the covariance {name}.* set shrinkage .* or reg_covar .* another estimate than 'mle'",
        ):
            fitted(GaussianVectors(estimate="mle"), rows, y)
    with pytest.raises(ValueError, match="covariance that the classes share"):
        fitted(GaussianVectors(covariance="tied", estimate="mle"), np.column_stack([x, x.sum(axis=1)]), y)
    for mended in (
        GaussianVectors(estimate="mle", shrinkage=0.1),
        GaussianVectors(estimate="mle", floor=1e-3),
        GaussianVectors(),
    ):
        assert np.isfinite(fitted(mended, x, y).scores(x)).all()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"covariance": "round"}, "expected one of full, tied, diag, spherical"),
        ({"shrinkage": "auto"}, "expected estimate='mle'"),
        ({"shrinkage": "auto", "estimate": "mle", "covariance": "diag"}, "expected 'tied' or 'full'"),
        ({"shrinkage": "oas", "estimate": "mle"}, "expected a number from 0 to 1, or 'auto'"),
        ({"shrinkage": 1.5, "estimate": "mle"}, "expected a number from 0 to 1"),
        ({"floor": -1.0, "estimate": "mle"}, "expected a finite number, zero or above"),
        ({"shrinkage": 0.5}, "expected estimate='mle'"),
        ({"prior": NormalInverseWishart(np.zeros((2, 1)), 1, 3, [[1]])}, r"got a prior of batch \(2,\)"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        GaussianVectors(**options)


def test_more_than_was_learned_cannot_be_taken_away() -> None:
    x, y = flowers()
    block, filed = GaussianVectors(), Labels.of(y)
    seen = block.observe(x, filed)
    block.refuse_impossible(seen)
    with pytest.raises(ValueError, match="more would be subtracted than was learned"):
        block.refuse_impossible(seen - seen - block.observe(x[:9], filed.take(slice(9))))
