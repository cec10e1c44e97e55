"""The map of the mailbox is two principal components of the weighted features."""

import numpy as np
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfTransformer

from tamis_mail.features import WORDS
from tamis_mail.reporting.feature_columns import choose_columns
from tamis_mail.reporting.mailbox_map import compute_map
from tests.mail.reporting.corpora import make_corpus


def draw_messages(n: int, seed: int = 0) -> list[set[int]]:
    """Messages of three topics of twenty words each, with some common words."""
    rng = np.random.default_rng(seed)
    return [
        {*(100 * (row % 3) + rng.choice(20, 8, replace=False)).tolist(), *rng.integers(900, 920, 3).tolist()}
        for row in range(n)
    ]


def test_positions_are_those_of_scikit_learn() -> None:
    corpus = make_corpus(draw_messages(120), [row % 3 == 0 for row in range(120)])
    rows = choose_columns(corpus, np.arange(120), 600, (WORDS,)).rows
    reference = PCA(2, svd_solver="full").fit(rows)
    expected = reference.transform(rows)
    mailbox_map = compute_map(corpus)
    assert mailbox_map is not None
    signs = np.sign((mailbox_map.positions * expected).sum(axis=0))
    np.testing.assert_allclose(mailbox_map.positions * signs, expected, atol=1e-6)
    np.testing.assert_allclose(mailbox_map.shares, reference.explained_variance_ratio_, atol=1e-6)


def test_rows_are_weighted_as_scikit_learn_weights_them() -> None:
    messages = draw_messages(60)
    corpus = make_corpus(messages, [True] * 60)
    columns = choose_columns(corpus, np.arange(60), 600, (WORDS,))
    counts = (columns.rows > 0).astype(float)
    idf = TfidfTransformer(norm=None, smooth_idf=False).fit(counts).idf_ - 1
    expected = counts * idf
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(columns.rows, expected, atol=1e-12)


def test_columns_are_the_features_that_vary_most() -> None:
    corpus = make_corpus([{1, 2, 3}, {1, 2}, {1, 4}, {1, 5}], [True] * 4)
    columns = choose_columns(corpus, np.arange(4), 10, (WORDS,))
    assert (columns.keys >> np.uint64(3)).tolist() == [2]  # all have 1, and the others are of one message


def test_three_topics_are_three_places_on_the_map() -> None:
    mailbox_map = compute_map(make_corpus(draw_messages(90), [row % 3 == 0 for row in range(90)]))
    assert mailbox_map is not None
    centres = np.array([mailbox_map.positions[topic::3].mean(axis=0) for topic in range(3)])
    spread = max(mailbox_map.positions[topic::3].std() for topic in range(3))
    distances = [np.linalg.norm(centres[a] - centres[b]) for a, b in ((0, 1), (0, 2), (1, 2))]
    assert min(distances) > 2 * spread


def test_too_few_messages_have_no_map() -> None:
    assert compute_map(make_corpus([{1, 2}, {1}], [True, False])) is None
    assert compute_map(make_corpus([], [])) is None
