"""Rows A2–A11 of the lectures: naive Bayes of texts and tables."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats

from tamis import decide
from tamis.arrays import Array
from tamis.estimators import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB, NaiveBayes, PoissonNB
from tamis.text import TokenCounts

nan = np.nan
WORDS = ["Chinese", "Beijing", "Shanghai", "Macao", "Tokyo", "Japan"]
TEXTS = ["Chinese Beijing Chinese", "Chinese Chinese Shanghai", "Chinese Macao", "Tokyo Japan Chinese"]
LABELS = ["China", "China", "China", "not"]
ASKED = "Chinese Chinese Chinese Tokyo Japan"


def counted(text: str) -> list[float]:
    return [float(text.split().count(word)) for word in WORDS]


COUNTS = np.array([counted(text) for text in TEXTS])


def test_a2_add_one_gives_the_numbers_of_the_lecture() -> None:
    model = MultinomialNB().fit(COUNTS, LABELS)
    shares = np.exp(model.feature_log_prob_)
    china = dict(zip(WORDS, shares[0], strict=True))
    other = dict(zip(WORDS, shares[1], strict=True))
    assert_allclose(np.exp(model.class_log_prior_), [3 / 4, 1 / 4])
    assert_allclose([china["Chinese"], china["Tokyo"], china["Japan"]], [3 / 7, 1 / 14, 1 / 14])
    assert_allclose([other["Chinese"], other["Tokyo"], other["Japan"]], [2 / 9, 2 / 9, 2 / 9])


def test_a2_the_document_about_tokyo_is_about_china() -> None:
    model = MultinomialNB().fit(COUNTS, LABELS)
    joint = np.exp(model.predict_joint_log_proba([counted(ASKED)]))[0]
    assert_allclose(joint, [3 / 4 * (3 / 7) ** 3 / 14**2, 1 / 4 * (2 / 9) ** 5], rtol=1e-12)
    assert joint.round(4).tolist() == [0.0003, 0.0001]
    assert model.predict([counted(ASKED)]).tolist() == ["China"]


def test_a2_maximum_likelihood_is_the_plain_share() -> None:
    model = NaiveBayes("multinomial", estimate="mle").fit(COUNTS, LABELS)
    single = model.predict_joint_log_proba(np.eye(6)) - model.class_log_prior_
    assert_allclose(np.exp(single[:, 0]), np.array([5, 1, 1, 1, 0, 0]) / 8)
    assert_allclose(np.exp(single[:, 1]), np.array([1, 0, 0, 0, 1, 1]) / 3)


def test_a3_the_share_of_texts_with_a_word_is_counted() -> None:
    flags = (COUNTS > 0).astype(np.float64)
    plain = BernoulliNB(alpha=0.0).fit(COUNTS, LABELS)
    assert_allclose(np.exp(plain.feature_log_prob_), [flags[:3].mean(axis=0), flags[3]])
    smooth = np.exp(BernoulliNB().fit(COUNTS, LABELS).feature_log_prob_)
    assert_allclose(smooth, [(flags[:3].sum(axis=0) + 1) / 5, (flags[3] + 1) / 3])


def test_a3_absent_words_count_too() -> None:
    model = BernoulliNB().fit(COUNTS, LABELS)
    p = np.exp(model.feature_log_prob_)
    asked = np.array(counted(ASKED)) > 0
    by_hand = np.log([3 / 4, 1 / 4]) + np.log(np.where(asked, p, 1 - p)).sum(axis=1)
    assert_allclose(model.predict_joint_log_proba([counted(ASKED)])[0], by_hand, rtol=1e-13)
    fewer = model.predict_joint_log_proba([[0.0] * 6])[0]
    assert_allclose(fewer, np.log([3 / 4, 1 / 4]) + np.log(1 - p).sum(axis=1), rtol=1e-13)


TABLE = [
    ["single", "yes", 125.0], ["married", "no", 100.0], ["single", "no", 70.0], ["married", "yes", 120.0],
    ["divorced", "no", 95.0], ["married", "no", 60.0], ["divorced", "yes", 220.0], ["single", "no", 85.0],
    ["married", "no", 75.0], ["single", "no", 90.0],
]  # fmt: skip
EVADES = ["no", "no", "no", "no", "yes", "no", "no", "yes", "no", "yes"]


def test_a4_categories_and_gaussians_stand_side_by_side() -> None:
    model = NaiveBayes(estimate="mle", var_smoothing=0.0).fit(TABLE, EVADES)
    assert model.families_ == {0: "categorical", 1: "categorical", 2: "gaussian"}
    found = model.predict_joint_log_proba([["divorced", "no", 120.0]])[0]
    for place, label in enumerate(("no", "yes")):
        rows = [row for row, name in zip(TABLE, EVADES, strict=True) if name == label]
        income = np.array([float(row[2]) for row in rows])  # type: ignore[arg-type]
        by_hand = (
            len(rows) / 10
            * np.mean([row[0] == "divorced" for row in rows])
            * np.mean([row[1] == "no" for row in rows])
            * stats.norm.pdf(120.0, income.mean(), income.std())
        )  # fmt: skip
        assert_allclose(np.exp(found[place]), by_hand, rtol=1e-12)


def test_a4_a_gaussian_column_alone_is_gaussian_naive_bayes() -> None:
    income = np.array([[float(row[2])] for row in TABLE])  # type: ignore[arg-type]
    one = NaiveBayes(estimate="mle").fit(income, EVADES)
    other = GaussianNB().fit(income, EVADES)
    assert_allclose(one.predict_joint_log_proba(income), other.predict_joint_log_proba(income), rtol=1e-13)


def texts(classes: int) -> tuple[Array, Any]:
    rng = np.random.default_rng(0)
    return rng.poisson(1.0, (60, 8)).astype(np.float64), np.arange(60) % classes


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_a6_multinomial_scores_are_linear_in_the_counts(classes: int) -> None:
    counts, labels = texts(classes)
    model = MultinomialNB().fit(counts, labels)
    beta, start = model.feature_log_prob_, model.class_log_prior_
    assert_allclose(model.predict_joint_log_proba(counts), start + counts @ beta.T, rtol=1e-12)
    softmax = decide.probabilities(start + counts @ beta.T)
    assert_allclose(model.predict_proba(counts), softmax, rtol=1e-12)


def test_a6_two_classes_make_one_line() -> None:
    counts, labels = texts(2)
    multinomial = MultinomialNB().fit(counts, labels)
    weights = multinomial.feature_log_prob_[1] - multinomial.feature_log_prob_[0]
    start = multinomial.class_log_prior_[1] - multinomial.class_log_prior_[0]
    odds = start + counts @ weights
    assert_allclose(multinomial.decision_function(counts), odds, rtol=1e-11, atol=1e-12)
    assert_allclose(multinomial.predict_proba(counts)[:, 1], 1 / (1 + np.exp(-odds)), rtol=1e-11)


@pytest.mark.parametrize("classes", [2, 4])
def test_a6_bernoulli_scores_are_linear_in_the_flags(classes: int) -> None:
    counts, labels = texts(classes)
    model = BernoulliNB().fit(counts, labels)
    up = model.feature_log_prob_
    down = np.log1p(-np.exp(up))
    start = model.class_log_prior_ + down.sum(axis=1)
    scores = start + (counts > 0) @ (up - down).T
    assert_allclose(model.predict_joint_log_proba(counts), scores, rtol=1e-12)


def test_a6_what_an_explanation_adds_up_is_that_line() -> None:
    counts, labels = texts(2)
    model = MultinomialNB().fit(counts, labels)
    told = model.explain(counts)
    weights = model.feature_log_prob_[1] - model.feature_log_prob_[0]
    assert_allclose(told.values(), counts * weights, rtol=1e-12)
    assert_allclose(told.log_odds, model.decision_function(counts), rtol=1e-10, atol=1e-12)


def test_a7_a_missing_category_is_summed_over() -> None:
    rng = np.random.default_rng(1)
    rows = np.stack([rng.choice(list("abc"), 50), rng.choice(list("xy"), 50)], axis=1).astype(object)
    labels = rng.integers(0, 3, 50)
    for make in (NaiveBayes, CategoricalNB):
        model = make().fit(rows, labels)
        for left in "xy":
            values = np.array([[value, left] for value in "abc"], dtype=object)
            whole = np.exp(model.predict_joint_log_proba(values)).sum(axis=0)
            dropped = model.predict_joint_log_proba(np.array([[None, left]], dtype=object))
            assert_allclose(np.exp(dropped[0]), whole, rtol=1e-12)
        every = np.array(list(product("abc", "xy")), dtype=object)
        nothing = model.predict_joint_log_proba(np.array([[None, None]], dtype=object))
        assert_allclose(np.exp(nothing[0]), np.exp(model.class_log_prior_), rtol=1e-12)
        assert_allclose(np.exp(model.predict_joint_log_proba(every)).sum(), 1.0, rtol=1e-12)


@pytest.mark.parametrize("estimate", ["mle", "map", "mean", "predictive"])
def test_a7_a_missing_number_is_integrated_over(estimate: Any) -> None:
    rng = np.random.default_rng(2)
    rows, labels = rng.normal([3.0, -1.0], 1.0, (40, 2)), np.arange(40) % 2
    model = NaiveBayes(estimate=estimate).fit(rows, labels)
    dropped = model.predict_joint_log_proba([[nan, -0.5]])[0]
    for k in range(2):
        whole, _ = integrate.quad(
            lambda x, k=k: np.exp(model.predict_joint_log_proba([[x, -0.5]])[0, k]), -np.inf, np.inf
        )
        assert_allclose(np.exp(dropped[k]), whole, rtol=1e-6)


def test_a7_missing_flags_and_counts_are_summed_over() -> None:
    rng = np.random.default_rng(3)
    flags, labels = rng.integers(0, 2, (40, 3)).astype(np.float64), np.arange(40) % 2
    model: Any = BernoulliNB().fit(flags, labels)
    both = np.exp(model.predict_joint_log_proba([[0, 1, 1], [1, 1, 1]])).sum(axis=0)
    assert_allclose(np.exp(model.predict_joint_log_proba([[nan, 1, 1]])[0]), both, rtol=1e-12)
    counts = rng.poisson(2.0, (40, 2)).astype(np.float64)
    for estimate in ("mle", "mean", "predictive"):
        model = PoissonNB(estimate=estimate).fit(counts, labels)
        many = np.stack([np.arange(200.0), np.full(200, 3.0)], axis=1)
        whole = np.exp(model.predict_joint_log_proba(many)).sum(axis=0)
        assert_allclose(np.exp(model.predict_joint_log_proba([[nan, 3.0]])[0]), whole, rtol=1e-9)


def test_a8_one_word_never_seen_decides_alone_by_maximum_likelihood_and_not_with_a_prior() -> None:
    # limited 1 / 2, time 10 / 9, offer 0 / 0 in spam / ham, and a word that only ham has
    counts = np.array([[1.0, 10.0, 0.0, 0.0], [2.0, 9.0, 0.0, 1.0]])
    text = np.array([[0.0, 30.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]])
    plain = NaiveBayes("multinomial", estimate="mle").fit(counts, ["spam", "ham"])
    joint = plain.predict_joint_log_proba(text)
    assert joint[0, 1] == -np.inf  # thirty times "time" do not help
    assert np.isfinite(joint[0, 0])
    assert np.isneginf(joint[1]).all()  # "offer" is impossible, whatever the class
    assert_allclose(plain.predict_proba(text)[1], [0.5, 0.5])
    for estimate in ("mean", "predictive"):
        prior = NaiveBayes("multinomial", estimate=estimate).fit(counts, ["spam", "ham"])
        assert np.isfinite(prior.predict_joint_log_proba(text)).all()


def test_a8_zeros_are_zeros_in_every_family_and_priors_heal_them() -> None:
    flags, labels = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), [0, 0, 1]
    words = np.array([["a"], ["a"], ["b"]], dtype=object)
    for family, rows, asked in (
        ("bernoulli", flags, [[0.0, 1.0]]),
        ("poisson", flags, [[1.0, 1.0]]),
        ("categorical", words, [["b"]]),
    ):
        plain = NaiveBayes(family, estimate="mle").fit(rows, labels)
        assert np.isneginf(plain.predict_joint_log_proba(asked)).any(), family
        for estimate in ("mean", "predictive"):
            healed = NaiveBayes(family, estimate=estimate).fit(rows, labels)
            assert np.isfinite(healed.predict_joint_log_proba(asked)).all(), family


def test_a8_a_category_seen_in_no_class_does_not_decide() -> None:
    model = CategoricalNB().fit([["a"], ["a"], ["b"], ["b"]], [0, 0, 1, 1])
    assert_allclose(model.predict_proba([["WTO"]]), [[0.5, 0.5]])


def test_a10_three_classes_of_mail_are_told_apart() -> None:
    rng = np.random.default_rng(4)
    shares = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.4, 0.4]])
    names = np.array(["spam", "urgent", "normal"])
    truth = rng.integers(0, 3, 600)
    counts = np.array([rng.multinomial(20, shares[k]) for k in truth]).astype(np.float64)
    model = MultinomialNB().fit(counts[:300], names[truth[:300]])
    assert model.classes_.tolist() == ["normal", "spam", "urgent"]
    assert model.score(counts[300:], names[truth[300:]]) > 0.97
    assert_allclose(model.predict_proba(counts).sum(axis=1), 1.0)


def test_a10_topics_of_sentences_are_told_apart_by_their_words() -> None:
    topics = {
        "cooking": "Boil the pasta in salted water. Fry the onions in butter. "
        "Bake the bread until it is brown. Add salt, pepper and a little butter to the sauce.",
        "astronomy": "The telescope shows the rings of the planet. A star collapsed into a black hole. "
        "The moon covers the star tonight. The comet orbits the sun in seventy years.",
        "football": "The goalkeeper saved the penalty. The team scored in the last minute of the match. "
        "The striker missed an open goal. The referee stopped the match.",
    }
    learned = [(sentence, topic) for topic, text in topics.items() for sentence in text.split(". ")]
    words = TokenCounts(stop_words="english")
    rows = words.fit_transform([sentence for sentence, _ in learned])
    model = MultinomialNB().fit(rows, [topic for _, topic in learned])
    asked = ["Bake it with butter and onions", "A planet orbits its star", "They scored a goal in the match"]
    assert model.predict(words.transform(asked)).tolist() == ["cooking", "astronomy", "football"]


def test_a11_rows_drawn_from_a_model_teach_the_same_model() -> None:
    rng = np.random.default_rng(5)
    n = 20_000
    rows = np.empty((400, 3), dtype=object)
    labels = rng.choice(["a", "b"], 400, p=[0.3, 0.7])
    first = labels == "a"
    rows[:, 0] = rng.normal(np.where(first, 0.0, 4.0), np.where(first, 1.0, 2.0))
    rows[:, 1] = np.where(rng.random(400) < np.where(first, 0.2, 0.6), "yes", "no")
    rows[:, 2] = [bool(value) for value in rng.random(400) < np.where(first, 0.9, 0.5)]
    model = NaiveBayes().fit(rows, labels)
    drawn, named = model.sample(n, random_state=0)
    again = NaiveBayes().fit(drawn, named)
    assert again.families_ == model.families_
    assert_allclose(np.exp(again.class_log_prior_), np.exp(model.class_log_prior_), atol=0.01)
    assert_allclose(again.predict_proba(rows), model.predict_proba(rows), atol=0.06)
    one, other = (m.posterior_.densities["gaussian"] for m in (model, again))
    assert_allclose(other.mean, one.mean, atol=0.06)
    assert_allclose(other.variance, one.variance, rtol=0.06)
    counted_words = [(drawn[named == label, 1] == "yes").sum() for label in ("a", "b")]
    for label, yes in zip(("a", "b"), counted_words, strict=True):
        place = 0 if label == "a" else 1
        asked = np.array([[None, "yes", None]], dtype=object)
        p = np.exp(model.predict_joint_log_proba(asked) - model.class_log_prior_)[0, place]
        assert stats.binomtest(int(yes), int((named == label).sum()), p).pvalue > 1e-3


def test_a11_documents_drawn_from_a_model_have_its_words() -> None:
    counts, labels = texts(2)
    model = MultinomialNB().fit(counts, labels)
    drawn, named = model.sample(5000, random_state=1)
    for place, label in enumerate(model.classes_):
        seen = drawn[named == label].sum(axis=0)
        expected = seen.sum() * np.exp(model.feature_log_prob_[place])
        assert stats.chisquare(seen, expected).pvalue > 1e-3
        assert_allclose(
            drawn[named == label].sum(axis=1).mean(), counts[labels == label].sum(axis=1).mean(), rtol=0.03
        )


@pytest.mark.parametrize("make", [BernoulliNB, PoissonNB, CategoricalNB, GaussianNB])
def test_a11_every_face_draws_rows_it_can_learn(make: Any) -> None:
    rng = np.random.default_rng(6)
    rows, labels = rng.integers(0, 2, (200, 3)).astype(np.float64), np.arange(200) % 2
    model = make().fit(rows, labels)
    drawn, named = model.sample(20_000, random_state=rng)
    again = make().fit(drawn, named)
    assert_allclose(again.predict_proba(rows), model.predict_proba(rows), atol=0.04)
