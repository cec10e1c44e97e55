"""What is wrong is said in one line, and the model stays as it was."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.exceptions import NotFittedError

from tamis.estimators import (
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    GaussianNB,
    MultinomialNB,
    NaiveBayes,
    PoissonNB,
)
from tests.estimators.faces import FACES, PLAIN, Face, named

each_face = pytest.mark.parametrize("face", FACES, ids=named)
each_plain_face = pytest.mark.parametrize("face", PLAIN, ids=named)
COUNTING = [face for face in FACES if face.counting]
nan, inf = np.nan, np.inf
BEST: Any = "best"  # no estimate, and mypy knows


def refuses(model: Any, rows: Any, act: Callable[[], Any], *words: str) -> str:
    """The one line that `act` raises; the model has learned and answers what it did before."""
    before, params = model.statistic_, dict(model.get_params())
    joint = model.predict_joint_log_proba(rows)
    said = complaint(act, *words)
    assert model.statistic_ == before
    assert np.array_equal(model.predict_joint_log_proba(rows), joint, equal_nan=True)
    assert str(model.get_params()) == str(params)
    return said


def complaint(act: Callable[[], Any], *words: str) -> str:
    with pytest.raises((ValueError, TypeError)) as caught:
        act()
    said = str(caught.value)
    assert "\n" not in said
    assert len(said) > 15
    for word in words:
        assert word in said, said
    return said


@each_face
def test_nothing_is_answered_before_something_was_learned(face: Face) -> None:
    rows, labels = face.rows()
    model = face.make()
    acts: list[Callable[[], Any]] = [
        lambda: model.predict(rows),
        lambda: model.explain(rows),
        lambda: model.sample(),
        lambda: model.unlearn(rows, labels),
        lambda: model.decay(0.5),
        lambda: model.infer(),
        lambda: model.merge(face.fitted()),
        lambda: face.fitted().merge(model),
    ]
    for act in acts:
        with pytest.raises(NotFittedError, match="has learned nothing yet, expected a call to fit"):
            act()


@each_face
def test_rows_of_another_width_are_refused(face: Face) -> None:
    rows, labels = face.rows()
    model = face.make().fit(rows, labels)
    for wrong in (rows[:, :3], np.concatenate([rows, rows], axis=1), rows[:1, :1]):
        for verb in (model.partial_fit, model.unlearn):
            refuses(model, rows, partial(verb, wrong, labels[: len(wrong)]), str(wrong.shape[1]), "4")
        refuses(model, rows, partial(model.predict, wrong), str(wrong.shape[1]), "expecting 4 features")


@each_face
def test_rows_that_are_no_rows_are_refused(face: Face) -> None:
    rows, labels = face.rows()
    model = face.make().fit(rows, labels)
    for wrong, words in ((rows[0], "1D array"), (np.stack([rows, rows]), "3D array"), (rows[:0], "0 rows")):
        for verb in (model.fit, model.partial_fit, model.unlearn):
            refuses(model, rows, partial(verb, wrong, labels[: len(wrong)]), words)
        refuses(model, rows, partial(model.predict, wrong), words)
    refuses(model, rows, lambda: model.predict(5.0), "0D array")
    refuses(model, rows, lambda: model.fit(np.empty((3, 0)), [0, 1, 1]), "0 feature")


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
@pytest.mark.parametrize("make", [GaussianNB, NaiveBayes])
def test_columns_that_are_missing_or_unknown_are_named(library: Any, make: Any) -> None:
    frame = library.DataFrame({"a": [1.0, 2.0, 4.0], "b": [0.5, 1.5, 3.0]})
    model = make().fit(frame, [0, 0, 1])
    refuses(model, frame, lambda: model.predict(frame[["a"]]), "no column 'b'")
    more = library.DataFrame({"a": [1.0], "zip": [1.0], "b": [1.0]})
    for verb in (model.partial_fit, model.unlearn):
        refuses(model, frame, partial(verb, more, [0]), "column 'zip'", "not fitted with")
    refuses(model, frame, lambda: model.predict(frame[["b", "a"]][:0]), "0 rows")


def test_two_columns_of_one_name_are_refused() -> None:
    frame = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=["a", "a"])
    for make in (GaussianNB, NaiveBayes):
        complaint(partial(make().fit, frame, [0, 1]), "'a'")
    fine = pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": [0.5, 1.5, 3.0]})
    model = NaiveBayes().fit(fine, [0, 0, 1])
    refuses(model, fine, lambda: model.predict(frame))


@each_face
def test_labels_must_be_one_a_row_and_known(face: Face) -> None:
    rows, labels = face.rows()
    model = face.make().fit(rows, labels)
    for verb in (model.fit, model.partial_fit, model.unlearn):
        refuses(model, rows, partial(verb, rows, labels[:-1]), "39 labels for 40 rows")
        refuses(model, rows, partial(verb, rows[:1], labels[:2]), "2 labels for 1 rows")
        refuses(model, rows, partial(verb, rows, None), "y")
        refuses(model, rows, partial(verb, rows, labels + 0.5), "continuous")
        refuses(model, rows, partial(verb, rows, np.stack([labels, labels], axis=1)), "1d array")
        refuses(model, rows, partial(verb, rows, "x"), "label")
        refuses(model, rows, partial(verb, rows[:2], [{"a": 1}, {"b": 2}]), "hashable")
    for unknown in ([None, 1], np.array([nan, 1.0]), [nan, 1], pd.Series([pd.NA, 1])):
        refuses(model, rows, partial(model.partial_fit, rows[:2], unknown), "label 0 is missing")
        refuses(model, rows, partial(model.unlearn, rows[:2], unknown), "missing")
    refuses(model, rows, lambda: model.fit(rows[:2], [None, None]), "no row has a label")
    marked = face.make().set_params(missing_label=-1).fit(rows, labels)
    refuses(marked, rows, lambda: marked.partial_fit(rows[:2], [-1, 1]), "label 0 is missing")
    refuses(model, rows, lambda: model.partial_fit(rows, labels, classes="abc"), "'abc'", "list of labels")


@each_face
def test_weights_must_be_one_a_row_and_not_negative(face: Face) -> None:
    rows, labels = face.rows()
    model = face.make().fit(rows, labels)
    ones = np.ones(len(rows))
    wrongs = [
        (-ones, "weight 0 is -1"),
        (0 * ones, "all zero"),
        (ones[:-1], "(39,)"),
        (ones[:, None], "(40, 1)"),
        (ones * nan, "weight 0 is nan"),
        (ones * inf, "weight 0 is inf"),
        (["heavy"] * 40, "expected"),
    ]
    for verb in (model.fit, model.partial_fit, model.unlearn):
        for weights, words in wrongs:
            refuses(model, rows, partial(verb, rows, labels, sample_weight=weights), words)


@pytest.mark.parametrize("face", COUNTING, ids=named)
def test_a_negative_count_is_refused_wherever_it_is_learned(face: Face) -> None:
    rows, labels = face.rows()
    model = face.make().fit(rows, labels)
    wrong = rows.copy()
    wrong[5, 2] = -3
    for verb in (model.fit, model.partial_fit, model.unlearn):
        refuses(model, rows, partial(verb, wrong, labels), "Negative", "column 2", "-3")
        refuses(model, rows, partial(verb, wrong[5:6], labels[5:6]), "Negative", "-3")
        if face.sparse:
            refuses(model, rows, partial(verb, sparse.csr_array(wrong), labels), "Negative", "-3")


@each_plain_face
def test_infinity_is_refused_everywhere(face: Face) -> None:
    rows, labels = face.rows()
    model = face.make().fit(rows, labels)
    if isinstance(model, CategoricalNB):
        pytest.skip("infinity is a category as any other")
    for value in (inf, -inf):
        wrong = rows.copy()
        wrong[5, 2] = value
        for verb in (model.fit, model.partial_fit, model.unlearn):
            refuses(model, rows, partial(verb, wrong, labels), "inf", "column 2")
            refuses(model, rows, partial(verb, wrong[5:6], labels[5:6]), "inf", "column 2")
        refuses(model, rows, partial(model.predict, wrong), "inf", "column 2")


@each_face
def test_what_was_never_learned_is_not_unlearned(face: Face) -> None:
    rows, labels = face.rows()
    model = face.make().fit(rows, labels)
    refuses(model, rows, lambda: model.unlearn(rows[:1], [77]), "77", "never learned", "nothing was changed")
    twice = np.concatenate([rows, rows])
    refuses(model, rows, lambda: model.unlearn(twice, np.tile(labels, 2)), "more", "nothing was changed")
    heavy = np.full(len(rows), 1.5)
    refuses(model, rows, lambda: model.unlearn(rows, labels, sample_weight=heavy), "nothing was changed")


@each_face
def test_everything_is_not_unlearned(face: Face) -> None:
    rows, labels = face.rows()
    model = face.make().fit(rows, labels)
    refuses(model, rows, lambda: model.unlearn(rows, labels), "every row", "nothing was changed")


def test_rows_that_leave_what_no_rows_have_are_not_unlearned() -> None:
    rows, labels = np.array([[0.0], [1.0], [2.0], [50.0]]), [0, 0, 0, 1]
    model = GaussianNB().fit(rows, labels)
    refuses(model, rows, lambda: model.unlearn([[30.0]], [0]), "nothing was changed")  # a variance below 0
    counts = np.array([[1.0, 2.0], [0.0, 3.0], [4.0, 0.0]])
    for make in (MultinomialNB, ComplementNB, PoissonNB):
        counted = make().fit(counts, [0, 0, 1])
        refuses(counted, counts, partial(counted.unlearn, [[2.0, 0.0]], [0]), "nothing was changed")
    flags = BernoulliNB().fit([[1, 0], [0, 0], [1, 1]], [0, 0, 1])
    refuses(flags, [[1, 0]], lambda: flags.unlearn([[0, 1]], [0]), "nothing was changed")
    codes = CategoricalNB().fit([["a"], ["b"], ["a"]], [0, 0, 1])
    refuses(codes, [["a"]], lambda: codes.unlearn([["c"]], [0]), "nothing was changed")


def test_categories_that_leave_more_values_than_rows_are_not_unlearned() -> None:
    rows = [["a"], ["a"], [None], ["b"]]
    model = CategoricalNB().fit(rows, [0, 0, 0, 1])
    refuses(model, rows, lambda: model.unlearn([[None], [None]], [0, 0]), "nothing was changed")


def test_missing_numbers_that_leave_more_values_than_rows_are_not_unlearned() -> None:
    model = GaussianNB().fit([[1.0], [2.0], [nan], [5.0]], [0, 0, 0, 1])
    refuses(model, [[1.0]], lambda: model.unlearn([[nan], [nan]], [0, 0]), "nothing was changed")


def test_flags_that_leave_more_ones_than_rows_are_not_unlearned() -> None:
    model = BernoulliNB().fit([[1.0], [1.0], [0.0]], [0, 0, 1])
    refuses(model, [[1.0]], lambda: model.unlearn([[0.0]], [0]), "nothing was changed")


@each_face
def test_models_of_another_kind_or_width_are_not_merged(face: Face) -> None:
    rows, labels = face.rows()
    model = face.make().fit(rows, labels)
    stranger = (BernoulliNB if not isinstance(model, BernoulliNB) else GaussianNB)().fit(
        [[0.0, 1.0], [1.0, 0.0]], [0, 1]
    )
    refuses(model, rows, lambda: model.merge(stranger), type(stranger).__name__, type(model).__name__)
    refuses(model, rows, lambda: model.merge(3), "int")
    narrow = type(model)().fit(rows[:, :3], labels)
    refuses(model, rows, lambda: model.merge(narrow), "columns")


def test_models_of_other_names_or_families_are_not_merged() -> None:
    one = pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, 3.0]})
    model = NaiveBayes().fit(one, [0, 1])
    refuses(
        model, one, lambda: model.merge(NaiveBayes().fit(one.rename(columns={"a": "c"}), [0, 1])), "columns"
    )
    refuses(model, one, lambda: model.merge(NaiveBayes("poisson").fit(one, [0, 1])))


@each_face
@pytest.mark.parametrize("factor", [0, 2, -1, nan, inf])
def test_decay_is_by_a_factor_up_to_one(face: Face, factor: float) -> None:
    rows, labels = face.rows()
    model = face.make().fit(rows, labels)
    refuses(model, rows, lambda: model.decay(factor), f"factor={factor}", "above 0 and at most 1")


BAD = [
    (lambda: NaiveBayes("gausian"), "'gausian'", "gaussian, bernoulli"),
    (lambda: NaiveBayes({0: "wrong"}), "'wrong'", "gaussian, bernoulli"),
    (lambda: NaiveBayes({"age": "gaussian"}), "'age'", "does not have"),
    (lambda: NaiveBayes({9: "gaussian"}), "9", "does not have"),
    (lambda: NaiveBayes(integers="auto"), "'auto'", "expected one of"),
    (lambda: NaiveBayes(estimate=BEST), "'best'", "mle, map, mean, predictive"),
    (lambda: NaiveBayes("poisson", alpha=-1.0), "-1", "expected"),
    (lambda: NaiveBayes("multinomial", alpha=-1.0), "-1", "expected"),
    (lambda: NaiveBayes("categorical", alpha=-1.0), "-1", "expected"),
    (lambda: NaiveBayes("bernoulli", alpha=-1.0), "-1", "expected"),
    (lambda: NaiveBayes(strength=-1.0), "-1", "expected"),
    (lambda: NaiveBayes(class_alpha=-1.0), "-1", "expected"),
    (lambda: PoissonNB(estimate=BEST), "'best'", "mle, map, mean, predictive"),
    (lambda: MultinomialNB(alpha=-0.1), "-0.1", "at least 0"),
    (lambda: MultinomialNB(alpha=nan), "nan", "at least 0"),
    (lambda: MultinomialNB(alpha=[1.0, 2.0]), "(2,)", "3 columns"),
    (lambda: CategoricalNB(alpha=-0.1), "-0.1", "at least 0"),
    (lambda: CategoricalNB(min_categories=2.5), "2.5", "integral"),
    (lambda: GaussianNB(priors=[0.2, 0.2]), "sum of the priors should be 1", "0.4"),
    (lambda: GaussianNB(priors=[0.2, 0.2, 0.6]), "Number of priors", "(3,)", "2"),
    (lambda: GaussianNB(priors=[-0.2, 1.2]), "non-negative", "-0.2"),
    (lambda: GaussianNB(priors={0: 1.0}), "class 1"),
    (lambda: GaussianNB(var_smoothing=-1.0), "-1", "expected"),
    (lambda: MultinomialNB(class_prior=[1.0]), "Number of priors", "(1,)"),
]


@pytest.mark.parametrize("case", BAD, ids=lambda case: " ".join(case[1:])[:40])
def test_a_wrong_parameter_is_named_in_one_line(case: tuple[Any, ...]) -> None:
    make, *words = case
    rows = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    complaint(lambda: make().fit(rows, [0, 1, 1]), *words)
    wrong = make().get_params()
    families = {name: wrong.pop(name) for name in ("families", "integers") if name in wrong}
    if families and families["families"] not in (
        "poisson",
        "multinomial",
        "categorical",
        "bernoulli",
        "auto",
    ):
        return
    good = type(make())(**families).fit(rows, [0, 1, 1]) if families.get("integers") != "auto" else None
    if good is not None:
        refuses(good, rows, lambda: good.infer(**wrong), *words)


def test_the_most_probable_parameters_need_pseudo_counts_of_one() -> None:
    rows, labels = [["a"], ["b"], ["a"]], [0, 1, 1]
    complaint(lambda: NaiveBayes(estimate="map", alpha=0.5).fit(rows, labels), "alpha", "0.5", "map")
    model = NaiveBayes().fit(rows, labels)
    refuses(model, rows, lambda: model.infer(estimate="map", alpha=0.5), "alpha", "0.5", "map")


def test_families_are_chosen_before_rows_are_summed() -> None:
    model = NaiveBayes().fit([[1.0], [2.0], [3.0]], [0, 1, 1])
    refuses(model, [[1.0]], lambda: model.infer(families="poisson"), "'poisson'", "'auto'", "fit")
    refuses(model, [[1.0]], lambda: model.infer(integers="poisson"), "'poisson'", "'gaussian'", "fit")


def test_a_negative_weight_of_unlabelled_rows_is_refused() -> None:
    complaint(lambda: GaussianNB(unlabelled_weight=-1.0).fit([[0.0], [1.0]], [0, 1]), "-1", "expected")


def test_an_unknown_parameter_leaves_the_others_as_they_were() -> None:
    model = GaussianNB().fit([[0.0], [1.0]], [0, 1])
    refuses(model, [[0.0]], lambda: model.infer(var_smoothing=0.5, wrong=1), "wrong")


def test_values_that_are_no_numbers_are_named() -> None:
    rows = [[1.0, {"a": 1}], [2.0, {"b": 2}]]
    complaint(lambda: NaiveBayes().fit(rows, [0, 1]), "column 1", "'a'")
    boxed = np.array([[1.0, "x"], [2.0, "y"]], dtype=object)
    complaint(lambda: GaussianNB().fit(boxed, [0, 1]), "column 1 holds 'x' in row 0", "categorical")
    complaint(lambda: GaussianNB().fit(boxed.tolist(), [0, 1]), "column 1 holds 'x' in row 0", "categorical")
    complaint(lambda: GaussianNB().fit([[1.0], [2.0, 3.0]], [0, 1]), "different lengths")
    complaint(lambda: GaussianNB().fit([[1j], [2.0]], [0, 1]), "Complex")
    complaint(lambda: GaussianNB().fit({"a": [1.0]}, [0]), "dict")
    complaint(lambda: BernoulliNB(binarize=None).fit([[0.0], [2.0]], [0, 1]), "column 0 holds 2", "0 or 1")
    complaint(lambda: CategoricalNB().fit(sparse.csr_array([[1], [0]]), [0, 1]), "toarray")


@each_face
def test_a_model_of_one_class_predicts_it_and_explains_nothing(face: Face) -> None:
    rows, _ = face.rows()
    model = face.make().fit(rows, ["only"] * len(rows))
    assert set(model.predict(rows).tolist()) == {"only"}
    assert_allclose(model.predict_proba(rows), 1.0)
    refuses(model, rows, lambda: model.explain(rows), "one class", "two or more")


def test_complement_naive_bayes_draws_no_rows() -> None:
    rows = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    model = ComplementNB().fit(rows, [0, 1, 1])
    refuses(model, rows, lambda: model.sample(2), "not a model of the counts", "MultinomialNB")
    complaint(lambda: model.log_evidence_, "no evidence")


@each_face
def test_explaining_a_class_that_is_not_there_is_refused(face: Face) -> None:
    rows, labels = face.rows()
    model = face.make().fit(rows, labels)
    refuses(model, rows, lambda: model.explain(rows, for_=9), "9", "0, 1, 2")
    refuses(model, rows, lambda: model.explain(rows, against="0"), "'0'", "0, 1, 2")


@each_plain_face
def test_a_column_of_which_nothing_was_seen_says_nothing(face: Face) -> None:
    rows, labels = face.rows()
    blank = rows.copy()
    blank[:, 2] = nan
    if "Multinomial" in face.name or "Complement" in face.name:  # there columns count together
        complaint(partial(face.make().fit, blank, labels), "column 2 holds NaN in row 0, expected counts")
        return
    model = face.make().fit(blank, labels)
    assert np.isfinite(model.predict_joint_log_proba(rows)).all()
    without = face.make().fit(np.delete(rows, 2, axis=1), labels)
    assert_allclose(model.predict_proba(rows), without.predict_proba(np.delete(rows, 2, axis=1)), rtol=1e-6)
