"""What reads text can be written to a file and read back, and answers as before."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import tamis
from tamis.text import LogCounts, NaiveBayesWeights, TfIdf, TokenCounts, UnitLength

TEXTS = ["send money now", "free money für dich", "the meeting is at noon", "東京 at noon, the minutes", ""]
LABELS = ["spam", "spam", "ham", "ham", "ham"]
MORE = ["money at noon", "für 東京", "nothing known", ""]

COUNTS: dict[str, TokenCounts] = {
    "vocabulary": TokenCounts(ngram_range=(1, 2), unknown=True),
    "pruned": TokenCounts(min_df=2, stop_words="en", dtype=np.float32),
    "pairs": TokenCounts(pairs=3),
    "given": TokenCounts(vocabulary=["money", "noon"], binary=True),
    "hashed": TokenCounts(form="hashed", n_features=64, alternate_sign=True, names=5),
    "characters": TokenCounts(analyzer="char_wb", ngram_range=(1, 3)),
}


def again(model: Any, folder: Path) -> Any:
    tamis.save(model, folder / "model.tamis")
    return tamis.load(folder / "model.tamis")


@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
def test_counts_read_from_a_file_count_the_same(counts: TokenCounts, tmp_path: Path) -> None:
    counts.fit(TEXTS, LABELS)
    found = again(counts, tmp_path)
    before, after = counts.transform(MORE), found.transform(MORE)
    assert before.dtype == after.dtype
    assert before.shape == after.shape
    assert (before != after).nnz == 0
    assert found.get_feature_names_out().tolist() == counts.get_feature_names_out().tolist()


@pytest.mark.parametrize(
    "weights", [LogCounts(), UnitLength("l1"), TfIdf(counts="log"), NaiveBayesWeights(alpha=0.5)]
)
def test_a_pipeline_read_from_a_file_says_the_same_and_goes_on_learning(weights: Any, tmp_path: Path) -> None:
    hashed = TokenCounts(form="hashed", n_features=256)
    model = make_pipeline(hashed, weights, UnitLength(), tamis.BernoulliNB())
    model.fit(TEXTS, LABELS)
    found = again(model, tmp_path)
    assert (found.predict_proba(MORE) == model.predict_proba(MORE)).all()
    assert [name for name, _ in found.steps] == [name for name, _ in model.steps]
    if hasattr(weights, "statistic_"):
        rows = hashed.transform(MORE[:2])
        labels = ["spam", "ham"] if isinstance(weights, NaiveBayesWeights) else None
        assert found[1].partial_fit(rows, labels).statistic_ == model[1].partial_fit(rows, labels).statistic_


def test_what_is_not_ours_is_refused_by_name(tmp_path: Path) -> None:
    class Mine:
        pass

    with pytest.raises(TypeError, match="a Mine cannot be saved, expected one of BernoulliNB"):
        tamis.save(make_pipeline(TokenCounts(form="hashed"), Mine()), tmp_path / "model.tamis")
    assert not (tmp_path / "model.tamis").exists()
