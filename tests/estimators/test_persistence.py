"""A saved model is the model: to the bit, with its labels and names, and it goes on learning."""

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError

from tamis.conjugate import NormalInverseWishart
from tamis.estimators import (
    FisherDiscriminant,
    GaussianDiscriminant,
    GaussianNB,
    Mixture,
    MultinomialNB,
    NaiveBayes,
    load,
)
from tamis.estimators.saved import GENERATIVE
from tests.estimators.faces import FACES, Face, named, numbers

MORE = [
    Face("GaussianDiscriminant-tied", GaussianDiscriminant, numbers),
    Face("GaussianDiscriminant-full", lambda: GaussianDiscriminant("full", exact=True), numbers),
    Face("GaussianDiscriminant-diag", lambda: GaussianDiscriminant("diag"), numbers),
    Face("FisherDiscriminant", FisherDiscriminant, numbers),
    Face("Mixture", lambda: Mixture(2, random_state=0), numbers),
]
known = {face.name for face in FACES}
ALL = [*FACES, *(face for face in MORE if face.name not in known)]
each_face = pytest.mark.parametrize("face", ALL, ids=named)


def there_and_back(model: Any, folder: Path) -> Any:
    model.save(folder / "model.tamis")
    return load(folder / "model.tamis")


def one_line(caught: pytest.ExceptionInfo[BaseException]) -> bool:
    return "\n" not in str(caught.value) and "expected" in str(caught.value)


@each_face
def test_a_saved_model_is_the_model(face: Face, tmp_path: Path) -> None:
    rows, labels = face.rows(60)
    model = face.make().fit(rows, labels)
    back = there_and_back(model, tmp_path)
    assert type(back) is type(model)
    assert back.statistic_ == model.statistic_
    assert repr(back.get_params()) == repr(model.get_params())
    assert back.classes_.tolist() == model.classes_.tolist()
    assert back.classes_.dtype == model.classes_.dtype
    assert back.n_features_in_ == model.n_features_in_
    assert back.n_iter_ == model.n_iter_
    assert_array_equal(back.predict_joint_log_proba(rows), model.predict_joint_log_proba(rows))
    assert_array_equal(back.predict(rows), model.predict(rows))


@each_face
def test_a_saved_model_goes_on_learning_and_forgetting(face: Face, tmp_path: Path) -> None:
    rows, labels = face.rows(60)
    model = face.make().fit(rows[:40], labels[:40])
    back = there_and_back(model, tmp_path)
    for one in (model, back):
        one.partial_fit(rows[40:], labels[40:])
        one.unlearn(rows[40:50], labels[40:50])
        one.decay(0.5)
    assert back.statistic_ == model.statistic_
    assert_array_equal(back.predict_joint_log_proba(rows), model.predict_joint_log_proba(rows))


@each_face
def test_the_same_model_is_the_same_file(face: Face, tmp_path: Path) -> None:
    model = face.fitted()
    back = there_and_back(model, tmp_path)
    back.save(tmp_path / "again.tamis")
    assert (tmp_path / "again.tamis").read_bytes() == (tmp_path / "model.tamis").read_bytes()


def test_every_face_that_can_be_saved_is_tried_here() -> None:
    assert {type(face.make()).__name__ for face in ALL} == {entry.name for entry in GENERATIVE}


@pytest.mark.parametrize(
    "names",
    [
        ["ham", "spam"],
        [3, -(10**12)],
        [True, False],
        [b"ham", b"\xff"],
        [("mail", 1), ("news", 2)],
        [0.0, -2.0],
        [1, "one"],
        ["", "naïve ☂"],
    ],
    ids=repr,
)
def test_labels_of_any_kind_come_back(names: list[Any], tmp_path: Path) -> None:
    labels = np.empty(40, dtype=object)
    labels[:] = [names[i % 2] for i in range(40)]
    rows = np.random.default_rng(0).normal(size=(40, 2)) + np.arange(40)[:, None] % 2
    model = GaussianNB().fit(rows, labels)
    back = there_and_back(model, tmp_path)
    assert back.classes_.tolist() == model.classes_.tolist()
    assert [type(name) for name in back.classes_.tolist()] == [type(name) for name in model.classes_.tolist()]
    assert set(back.classes_.tolist()) == set(names)
    assert back.predict(rows).tolist() == model.predict(rows).tolist()
    assert back.unlearn(rows[:2], labels[:2]).statistic_ == model.unlearn(rows[:2], labels[:2]).statistic_


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_names_of_columns_come_back(library: Any, tmp_path: Path) -> None:
    table = library.DataFrame({"size": [1.0, 2.0, 8.0, 9.0], "colour": ["red", "red", "blue", None]})
    model = NaiveBayes().fit(table, ["a", "a", "b", "b"])
    back = there_and_back(model, tmp_path)
    assert back.feature_names_in_.tolist() == ["size", "colour"]
    turned = table[["colour", "size"]]
    assert_array_equal(back.predict_proba(turned), model.predict_proba(table))
    drawn, _ = back.sample(3, random_state=0)
    assert isinstance(drawn, library.DataFrame)
    with pytest.raises(ValueError, match="no column 'size', which NaiveBayes was fitted with"):
        back.predict(table.rename({"size": "weight"}, **({"axis": 1} if library is pd else {})))


def test_declared_classes_calibration_and_parameters_come_back(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(30, 2)) + np.arange(30)[:, None] % 2
    declared = GaussianNB().partial_fit(rows, np.arange(30) % 2, classes=[0, 1, 2])
    assert there_and_back(declared, tmp_path).classes_.tolist() == [0, 1, 2]
    calibrated = GaussianNB().fit(rows, np.arange(30) % 2).calibrate(rows, np.arange(30) % 2)
    assert there_and_back(calibrated, tmp_path).temperature_ == calibrated.temperature_ != 1.0
    prior = NormalInverseWishart.from_mean([0.0, 0.0], 2.0, np.eye(2))
    believing = GaussianDiscriminant(prior=prior, priors={0: 0.25, 1: 0.75}).fit(rows, np.arange(30) % 2)
    back = there_and_back(believing, tmp_path)
    assert back.priors == {0: 0.25, 1: 0.75}
    assert_array_equal(back.prior.scale, prior.scale)
    assert back.log_evidence_ == believing.log_evidence_


def test_rows_that_wait_are_saved_too(tmp_path: Path) -> None:
    rows, labels = FACES[0].rows(30)
    model = GaussianNB().fit(rows[:20], labels[:20])
    for i in range(20, 30):
        model.partial_fit(rows[i : i + 1], labels[i : i + 1])
    assert there_and_back(model, tmp_path).statistic_ == GaussianNB().fit(rows, labels).statistic_


# What cannot be saved


def test_a_model_that_learned_nothing_is_not_saved(tmp_path: Path) -> None:
    for model in (GaussianNB(), Mixture(2), FisherDiscriminant()):
        with pytest.raises(NotFittedError, match="learned nothing yet") as caught:
            model.save(tmp_path / "model.tamis")
        assert one_line(caught)
    assert list(tmp_path.iterdir()) == []


def test_a_subclass_is_not_saved_for_no_file_can_hold_its_code(tmp_path: Path) -> None:
    class Own(GaussianNB):
        pass

    class Mixed(GaussianNB):
        pass

    Mixed.__name__ = "GaussianNB"
    for kind in (Own, Mixed):
        with pytest.raises(TypeError, match="cannot be saved, expected one of BernoulliNB") as caught:
            kind().fit([[1.0], [2.0]], [0, 1]).save(tmp_path / "model.tamis")
        assert one_line(caught)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("state", [np.random.default_rng(0), np.random.RandomState(0)], ids=["new", "old"])
def test_a_generator_is_not_saved_and_no_file_is_touched(state: Any, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(30, 2))
    path = tmp_path / "model.tamis"
    model = Mixture(2, random_state=state).fit(rows)
    with pytest.raises(
        TypeError, match=r"random_state cannot be saved.*expected a seed: pass an int"
    ) as caught:
        model.save(path)
    assert one_line(caught)
    assert list(tmp_path.iterdir()) == []
    Mixture(2, random_state=0).fit(rows).save(path)
    before = path.read_bytes()
    with pytest.raises(TypeError, match="random_state cannot be saved"):
        model.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    model.set_params(random_state=0).save(path)
    assert load(path).statistic_ == model.statistic_


# Files that are not what they were


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "model.tamis"
    MultinomialNB().fit([[1, 2, 0], [0, 3, 1]], ["ham", "spam"]).save(path)
    return path


def forge(path: Path, change: Callable[[Any], None]) -> None:
    """The file with another manifest, and digests that fit it."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members["manifest.json"])
    del manifest["sha256"]
    change(manifest)
    text = json.dumps(manifest, ensure_ascii=False, separators=(",", ":")).encode()
    manifest["sha256"] = hashlib.sha256(text).hexdigest()
    members["manifest.json"] = json.dumps(manifest, ensure_ascii=False, separators=(",", ":")).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, raw in members.items():
            archive.writestr(name, raw)
        archive.comment = b"tamis sha256 " + b"0" * 64
    whole = buffer.getvalue()[:-64]
    path.write_bytes(whole + hashlib.sha256(whole).hexdigest().encode())


def test_a_forged_file_that_changes_nothing_is_read(saved: Path) -> None:
    before = load(saved).statistic_
    forge(saved, lambda manifest: None)
    assert load(saved).statistic_ == before


@pytest.mark.parametrize("face", ["Perceptron", "os.system", "", None, 3, ["GaussianNB"], "naive_bayes"])
def test_a_face_nobody_knows_is_refused(face: Any, saved: Path) -> None:
    forge(saved, lambda manifest: manifest["content"].update(face=face))
    with pytest.raises(ValueError, match="expected one of BernoulliNB") as caught:
        load(saved)
    assert one_line(caught)
    assert str(saved) in str(caught.value)


@pytest.mark.parametrize("face", ["GaussianNB", "Mixture", "FisherDiscriminant", "CategoricalNB"])
def test_a_file_of_one_face_is_not_read_as_another(face: str, saved: Path) -> None:
    forge(saved, lambda manifest: manifest["content"].update(face=face))
    with pytest.raises(ValueError, match=f"does not hold a {face}") as caught:
        load(saved)
    assert "\n" not in str(caught.value)


def test_a_newer_file_asks_for_an_upgrade(saved: Path) -> None:
    forge(saved, lambda manifest: manifest.update(format=2))
    with pytest.raises(
        ValueError, match=r"newer tamis in format 2, expected format 1: upgrade tamis"
    ) as caught:
        load(saved)
    assert one_line(caught)


def test_a_file_cut_short_or_changed_anywhere_is_refused(saved: Path) -> None:
    whole = saved.read_bytes()
    for place in range(0, len(whole), 97):
        for broken in (whole[:place], whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]):
            saved.write_bytes(broken)
            with pytest.raises(
                ValueError, match=r"not a model that tamis saved|cut short|was changed"
            ) as caught:
                load(saved)
            assert one_line(caught)
    saved.write_bytes(whole)
    assert load(saved).classes_.tolist() == ["ham", "spam"]


def test_a_file_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="expected a saved model: check the path"):
        load(tmp_path / "nothing.tamis")
