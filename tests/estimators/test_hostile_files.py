"""A file or a table from a stranger is refused in one line, or it is a model: it never ends the process."""

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy import sparse

import tamis
from benchmarks.hostile_files import Forgery
from benchmarks.hostile_seeds import Seed, case_of, seeds
from benchmarks.hostile_tables import Table, forged_table, tables
from tamis.estimators import saved
from tamis.persistence.rules import Also, DictOf, Either

CASES = 300
MOST = 40 << 20  # bytes that NumPy and Python may allocate for a file of some KB


@pytest.fixture(scope="module")
def files() -> list[Seed]:
    return seeds()


@pytest.fixture(scope="module")
def statistics() -> list[Table]:
    return tables()


@pytest.fixture
def forge(files: list[Seed], tmp_path: Path) -> Callable[[str], tuple[Forgery, Callable[[], Any]]]:
    """A file of the model whose name has these letters, to be changed, and how to load what it then is."""

    def take(name: str) -> tuple[Forgery, Callable[[], Any]]:
        forged = next(file for file in files if name in file.name).forgery.copy()

        def load() -> Any:
            (tmp_path / "model.tamis").write_bytes(forged.write())
            return tamis.load(tmp_path / "model.tamis")

        return forged, load

    return take


def place_of(forged: Forgery, *path: str | int) -> int:
    """Which member is the array at that path of the content: keys of dicts, places in tuples, parameters."""
    tree: Any = forged.manifest["content"]["content"]
    for key in path:
        ((tag, made),) = tree.items()
        tree = dict(made)[key] if tag == "dict" else made[key]
    return [entry["name"] for entry in forged.arrays()].index(tree["array"])


def change(forged: Forgery, cell: Any, *path: str | int) -> NDArray[Any]:
    """Write to the first cell of an array."""
    place = place_of(forged, *path)
    array = forged.array(place)
    array.reshape(-1)[0] = cell
    forged.put(place, array)
    return array


def find_all(tree: Any, tag: str) -> Iterator[Any]:
    """All that stands under this tag anywhere in the tree."""
    if isinstance(tree, dict | list):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            if key == tag:
                yield value
            yield from find_all(value, tag)


def place_of_rounded(forged: Forgery) -> int:
    """Which member is the array of squares that were rounded."""
    squares = next(find_all(forged.manifest["content"], "rounded"))
    return [entry["name"] for entry in forged.arrays()].index(squares["array"])


def refuse(load: Callable[[], Any], match: str) -> None:
    """See that the file is refused in one line that names it, and that little memory is taken."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=match) as caught:
            load()
        assert tracemalloc.get_traced_memory()[1] < MOST
    finally:
        tracemalloc.stop()
    assert "model.tamis" in str(caught.value)
    assert "\n" not in str(caught.value)


# ── files ──


def test_every_model_that_can_be_saved_has_rules_and_is_forged(files: list[Seed]) -> None:
    assert all(isinstance(entry.rule, DictOf | Also | Either) for entry in saved.REGISTRY.entries)
    forged = {file.forgery.manifest["content"]["face"] for file in files}
    assert forged == {*saved.REGISTRY.names, "Pipeline"}


def test_files_that_nobody_changed_are_loaded_and_serve(files: list[Seed], tmp_path: Path) -> None:
    for file in files:
        (tmp_path / "model.tamis").write_bytes(file.forgery.write())
        model = tamis.load(tmp_path / "model.tamis")
        assert file.use(model, tmp_path) > 1, file.name


@pytest.mark.parametrize("cell", [2**40, 6, -1])
@pytest.mark.parametrize("side", [0, 1])
def test_a_rating_of_nobody_is_refused(forge: Any, side: int, cell: int) -> None:
    forged, load = forge("MatrixFactorization-")
    change(forged, cell, "state", "entries", side)
    refuse(load, "expected at least 0|expected below")


@pytest.mark.parametrize("part", ["users", "items"])
def test_factors_of_unequal_width_are_refused(forge: Any, part: str) -> None:
    forged, load = forge("MatrixFactorization-")
    place = place_of(forged, "state", "learned", 1 if part == "users" else 2)
    forged.put(place, np.ascontiguousarray(forged.array(place)[..., :-1]))
    refuse(load, "is of shape")


def test_factors_that_are_not_finite_are_refused(forge: Any) -> None:
    forged, load = forge("MatrixFactorization-")
    change(forged, np.nan, "state", "learned", 1)
    refuse(load, "learned.users holds NaN or infinity")


def test_a_width_that_the_sums_do_not_have_is_refused(files: list[Seed], forge: Any) -> None:
    tried = 0
    for file in files:
        forged, load = forge(file.name)
        content = dict(forged.manifest["content"]["content"]["dict"])
        holder = dict(content["state"]["dict"]) if "state" in content else content
        if "schema" not in holder:
            continue
        holder["schema"]["tuple"][0] = 30_000_000
        refuse(load, "columns|is of shape|grouped by label")
        tried += 1
    assert tried >= 19


def test_sums_of_no_labels_make_no_columns(forge: Any) -> None:
    forged, load = forge("MultinomialNB")
    parts = dict(dict(forged.manifest["content"]["content"]["dict"])["statistic"]["Joint"]["parts"]["dict"])
    tally = next(part["Tally"] for part in parts.values() if part["Tally"]["keys"] is not None)
    tally["keys"]["Keys"]["values"]["tuple"] = []
    names = [entry["name"] for entry in forged.arrays()]
    weight, total = (names.index(tally[part]["Exact"]["words"]["array"]) for part in ("weight", "total"))
    forged.put(weight, np.zeros((1, 0), dtype=np.int64))
    forged.put(total, np.zeros(0, dtype=np.int64), (1, 0, 30_000_000))
    dict(forged.manifest["content"]["content"]["dict"])["schema"]["tuple"][0] = 30_000_000
    refuse(load, "larger than the file")


def test_tokens_that_go_back_and_forth_are_refused(forge: Any) -> None:
    forged, load = forge("-TokenCounts")
    place = place_of(forged, "state", "lengths")
    lengths = forged.array(place)
    lengths[:] = 0
    lengths[:6] = [1_000_000, -1_000_000] * 3
    forged.put(place, lengths)
    refuse(load, "lengths holds -1000000")


@pytest.mark.parametrize("low", [67_108_863, -67_108_863, 160, -161])
def test_a_sum_far_from_the_point_is_refused(forge: Any, low: int) -> None:
    forged, load = forge("GaussianNB")
    next(find_all(forged.manifest["content"], "Exact"))["low"] = low
    refuse(load, "Exact whose parts have shapes or types that do not agree")


ROUNDED = ("Mixture", "10-GaussianDiscriminant", "19-BayesianLinearRegression", "21-PCA")


@pytest.mark.parametrize("name", ROUNDED)
@pytest.mark.parametrize("cell", [np.nan, np.inf, -1.0])
def test_squares_that_were_rounded_are_finite_and_not_negative(forge: Any, name: str, cell: float) -> None:
    forged, load = forge(name)
    place = place_of_rounded(forged)
    squares = forged.array(place)
    squares.reshape(-1)[-1] = cell
    forged.put(place, squares)
    refuse(load, "(Moments|Gram) whose parts have shapes or types that do not agree")


@pytest.mark.parametrize("name", ROUNDED)
def test_squares_that_were_rounded_are_as_many_as_columns(forge: Any, name: str) -> None:
    for number in range(4):
        forged, load = forge(name)
        place = place_of_rounded(forged)
        squares = forged.array(place)
        forged.put(
            place, [squares[..., :-1].copy(), squares[None], squares[..., :1].copy(), squares > 0][number]
        )
        refuse(load, "(Moments|Gram) whose parts have shapes or types that do not agree")


def test_squares_that_are_no_array_are_refused(forge: Any) -> None:
    for written in (0.5, [1.0, 2.0, 3.0], "abc", {"tuple": [1.0]}):
        forged, load = forge("21-PCA")
        next(find_all(forged.manifest["content"], "Moments"))["rounded"] = written
        refuse(load, "Moments whose parts have shapes or types that do not agree")


@pytest.mark.parametrize("squares", [[-1.0, 0.0, 0.0], [np.nan, 0.0, 0.0], [np.inf, 0.0, 0.0], [1.0, 1.0]])
def test_squares_beside_the_statistic_of_an_older_file_keep_the_same_rules(
    forge: Any, squares: list[Any]
) -> None:
    forged, load = forge("20-PCA")
    place = place_of(forged, "state", "likelihoods")
    forged.put(place, np.array(squares))
    state = dict(forged.manifest["content"]["content"]["dict"])["state"]["dict"]
    state.append(["rounded", dict(state)["likelihoods"]])
    refuse(load, "PCA.rounded")


@pytest.mark.parametrize(
    ("field", "written", "match"),
    [
        ("weight", -1.0, "history.weight is -1.0"),
        ("weight", {"float": "nan"}, "history.weight is NaN"),
        ("weight", "24", "history.weight is '24'"),
        ("converged", 1, "history.converged is a int"),
        ("converged", None, "history.converged is None"),
        ("log_likelihoods", [1.0], "history.log_likelihoods is a list"),
        ("steps", 3, "history has 'steps'"),
    ],
)
def test_a_history_of_other_values_is_refused(forge: Any, field: str, written: Any, match: str) -> None:
    forged, load = forge("Mixture")
    history = dict(forged.manifest["content"]["content"]["dict"])["history"]["dict"]
    history[:] = [*([name, value] for name, value in history if name != field), [field, written]]
    refuse(load, match)


@pytest.mark.parametrize("part", ["by_class", "others"])
@pytest.mark.parametrize("cell", [np.nan, -0.5, 1.5])
def test_a_shrinkage_that_is_no_share_is_refused(forge: Any, part: str, cell: float) -> None:
    forged, load = forge("37-GaussianDiscriminant")
    assert load().predict(np.zeros((1, 3))).shape == (1,)
    change(forged, cell, "choice", part)
    refuse(load, f"choice.{part} holds|number from 0 to 1 per class")


def test_shrinkages_are_as_many_as_classes(forge: Any) -> None:
    for part, length in (("by_class", 2), ("others", 3)):
        forged, load = forge("37-GaussianDiscriminant")
        forged.put(place_of(forged, "choice", part), np.full(length, 0.5))
        refuse(load, f"choice.{part} is of shape")


def test_a_history_of_no_steps_is_refused(forge: Any) -> None:
    forged, load = forge("Mixture")
    forged.put(place_of(forged, "history", "log_likelihoods"), np.zeros(0))
    refuse(load, "expected at least one step")


def test_whether_factors_converged_is_true_false_or_not_known(forge: Any) -> None:
    forged, load = forge("MatrixFactorization-")
    course = dict(dict(forged.manifest["content"]["content"]["dict"])["state"]["dict"])["course"]["tuple"]
    course[3] = "yes"
    refuse(load, "course.converged is 'yes'")
    for written in (True, False, None):
        course[3] = written
        assert load().predict([("u0", "i1")]).shape == (1,)
    del course[3]  # as older files have it
    assert load().predict([("u0", "i1")]).shape == (1,)


def test_kinds_are_of_a_closed_list_and_one_may_be_unknown(forge: Any) -> None:
    forged, load = forge("3-NaiveBayes")
    kinds = dict(forged.manifest["content"]["content"]["dict"])["schema"]["tuple"][1]["tuple"]
    assert kinds == ["number", "number", "number", "unknown"]
    assert load().predict(np.zeros((1, 4))).shape == (1,)
    kinds[3] = "known"
    refuse(load, "expected one of number")


@pytest.mark.parametrize("name", ["LogCounts", "UnitLength", "30-TokenCounts"])
def test_names_of_columns_beyond_number_are_refused(forge: Any, name: str) -> None:
    forged, load = forge(name)
    state = dict(forged.manifest["content"]["content"]["dict"])["state"]["dict"]
    state[:] = [[field, 2**31 if field == "width" else value] for field, value in state]
    model = load()
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="got 2147483648 columns without names") as caught:
            model.get_feature_names_out()
        assert tracemalloc.get_traced_memory()[1] < MOST
    finally:
        tracemalloc.stop()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "written"),
    [("ngram_range", {"tuple": [1, 2**31]}), ("ngram_range", {"tuple": [2**31, 2**31]}), ("pairs", 2**31)],
)
@pytest.mark.parametrize("pattern", [None, "[a-z]+"])
def test_phrases_whose_reading_would_not_end_are_refused(
    forge: Any, name: str, written: Any, pattern: str | None
) -> None:
    forged, load = forge("29-TokenCounts")
    params = dict(forged.manifest["content"]["content"]["dict"])["params"]["dict"]
    changes = {name: written} if pattern is None else {name: written, "token_pattern": pattern}
    params[:] = [[key, changes.get(key, value)] for key, value in params]
    refuse(load, f"got {name}=.*(at most 1000|from 0 to 1000)")


@pytest.mark.parametrize("seed", range(3))
def test_changed_files_and_tables_are_refused_or_serve(
    files: list[Seed], statistics: list[Table], tmp_path: Path, seed: int
) -> None:
    found = {"refused": 0, "read": 0, "used": 0}
    for number in range(CASES // 3):
        found[case_of(number, seed, files, statistics).run(tmp_path)] += 1
    assert found["refused"] > CASES // 6
    assert found["used"] > CASES // 60


# ── tables ──


def test_tables_that_nobody_changed_are_read(statistics: list[Table]) -> None:
    for one in statistics:
        assert one.kind.from_arrow(one.table).to_arrow().equals(one.table)


@pytest.mark.parametrize(
    ("column", "value", "match"),
    [
        ("cell", -1, "outside its shape"),
        ("cell", 3, "outside its shape"),
        ("cell", 2**62, "outside its shape"),
        ("exponent", 32 * 67_108_863, "exponents beyond any sum"),
        ("exponent", -(2**40), "exponents beyond any sum"),
        ("digits", 2**62, "digits that are too large"),
        ("label", None, "without its label"),
    ],
)
def test_a_table_with_a_digit_out_of_place_is_refused(
    statistics: list[Table], column: str, value: Any, match: str
) -> None:
    one = next(one for one in statistics if one.name == "1-Tally")
    with pytest.raises(ValueError, match=match) as caught:
        one.kind.from_arrow(forged_table(one, rows={0: {column: value}}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("shapes", "match"),
    [
        ({"weight": [], "total": [30_000_000]}, "digits for"),
        ({"weight": [], "total": [2**50]}, "too large for any memory"),
        ({"weight": [], "total": [-3]}, "that is not a list of up to 16 sizes"),
        ({"weight": [], "total": "abc"}, "that is not a list of up to 16 sizes"),
        ({"weight": [], "total": [4, 3]}, "do not fit each other"),
        ({"weight": [], "total": [3], "keys": []}, "a sum called 'keys'"),
        ([1], "metadata of another statistic"),
    ],
)
def test_a_table_of_other_shapes_is_refused(statistics: list[Table], shapes: Any, match: str) -> None:
    one = next(one for one in statistics if one.name == "1-Tally")
    with pytest.raises(ValueError, match=match) as caught:
        one.kind.from_arrow(forged_table(one, header={"shapes": shapes}))
    assert "\n" not in str(caught.value)


def test_a_table_of_broken_buffers_is_refused(statistics: list[Table]) -> None:
    one = statistics[1]
    labels = one.table["label"].combine_chunks()
    written: Any = labels.buffers()[1]
    ends = np.frombuffer(written, dtype=np.int32).copy()
    ends[1] = 1 << 30
    buffers = [labels.buffers()[0], pa.py_buffer(ends.tobytes()), labels.buffers()[2]]
    broken = pa.Array.from_buffers(labels.type, len(labels), buffers)
    place = one.table.column_names.index("label")
    with pytest.raises(ValueError, match="cannot be read"):
        one.kind.from_arrow(one.table.set_column(place, "label", broken))


# ── sparse rows ──


def broken(form: str) -> Any:
    """Four rows of three columns that point outside themselves."""
    rows: Any = sparse.csr_array(
        np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [4.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
    )
    if form == "few indices":
        rows.indices = rows.indices[:2].copy()
    elif form == "late rows":
        rows.indptr = rows.indptr * 1000
    elif form == "rows that go back":
        rows.indptr = rows.indptr[[0, 3, 1, 4, 4]].copy()
    elif form == "few rows":
        rows.indptr = rows.indptr[:3].copy()
    elif form in ("negative", "beyond"):
        rows.indices[1] = -5 if form == "negative" else 1 << 30
    elif form == "columns first":
        rows = rows.tocsc()
        rows.indices[1] = 1 << 30
    elif form == "triples":
        rows = rows.tocoo()
        rows.col[1] = 1 << 30
    elif form == "blocks":
        rows = rows.tobsr(blocksize=(2, 1))
        rows.indices[1] = 1 << 30
    return rows


@pytest.mark.parametrize(
    "form",
    [
        *("few indices", "late rows", "rows that go back", "few rows", "negative", "beyond"),
        *("columns first", "triples", "blocks"),
    ],
)
@pytest.mark.parametrize(
    "name", ["MultinomialNB", "PoissonNB", "ComplementNB", "BernoulliNB", "LogisticRegression"]
)
def test_sparse_rows_that_point_outside_themselves_are_refused(name: str, form: str) -> None:
    with pytest.raises(ValueError, match="indices outside its shape, expected a valid one"):
        getattr(tamis, name)().fit(broken(form), [0, 1, 0, 1])
