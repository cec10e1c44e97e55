"""What is subtracted is what would have been counted without it; the numbers are scikit-learn's."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn import metrics

from tamis.links import sigmoid
from tamis_mail.mailbox import RawMessage
from tamis_mail.reporting import corpus as corpora
from tamis_mail.reporting.corpus import Corpus, Filter, read
from tamis_mail.reporting.measures import bins, measure, roc_curve
from tamis_mail.reporting.misses import find_misses
from tamis_mail.reporting.study import shuffle_stratified, study_folds, study_split
from tamis_mail.sample import messages
from tamis_mail.sieve import Sieve, executor
from tamis_mail.verdict import RULE, RULES, Rule

LETTERS = [
    (RawMessage(one.raw, f"{number}", number), one.label == "spam") for number, one in enumerate(messages())
][:120]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return read(LETTERS)


def test_folds_by_subtraction_are_folds_by_counting_again(corpus: Corpus) -> None:
    study = study_folds(corpus, 5, seed=3)
    for learned, judged in study.parts:
        assert not set(learned) & set(judged)
        assert len(learned) + len(judged) == len(corpus)
        again = corpus.log_odds(judged, corpus.train(learned, RULE))
        np.testing.assert_allclose(study.log_odds[judged], again, rtol=1e-12, atol=1e-12)
    assert sorted(np.concatenate([judged for _, judged in study.parts])) == list(range(len(corpus)))


def test_leaving_one_out_is_counting_all_the_others(corpus: Corpus) -> None:
    found = corpus.leave_one_out(RULE).scores
    everyone = np.arange(len(corpus))
    for message in everyone[::7]:
        others = corpus.count(everyone[everyone != message])
        for view in range(len(RULE.views) + 1):  # the log-odds of one view, or of the intercept
            scales = [float(view == other) for other in range(len(RULE.views))]
            alone = replace(RULE.with_scales(scales), intercept=float(view == len(RULE.views)))
            naive = corpus.log_odds(np.array([message]), Filter(others, alone, None))
            np.testing.assert_allclose(found[message, view], naive[0], rtol=1e-12, atol=1e-12)


def test_a_fold_is_judged_as_a_store_would(corpus: Corpus, tmp_path: Path) -> None:
    study = study_split(corpus, (80, 20, 20), seed=1)
    ((learned, judged),) = study.parts
    with Sieve.open(tmp_path / "mail.tamis") as sieve:
        for label in ("spam", "ham"):
            chosen = [i for i in learned if corpus.is_spam[i] == (label == "spam")]
            sieve.learn_many((LETTERS[corpus.positions[i]][0].raw for i in chosen), label, processes=1)
        with sieve.store.transaction() as writer:
            writer.write_setting("rule", study.rule.to_json())
        sieve.fit_weights()
        assert Rule.of(sieve.store) == study.fitted[0]
        stored = [sieve.sort(LETTERS[corpus.positions[i]][0].raw).log_odds for i in judged]
    np.testing.assert_allclose(study.log_odds, stored, rtol=1e-9, atol=1e-9)


def test_the_last_point_of_the_curve_is_what_a_fitted_filter_does(corpus: Corpus) -> None:
    study = study_split(corpus, (80, 20, 20), seed=1)
    assert study.curve[-1].accuracy == study.measures.accuracy
    assert study.curve[-1].roc_area == study.measures.roc_area
    assert study.curve[0].learned == 8  # too few to fit: by the rule before fitting
    ((learned, judged),) = study.parts
    few = Filter(corpus.count(learned[:8]), study.rule, None)
    measures = measure(corpus.log_odds(judged, few), corpus.is_spam[judged], study.rule)
    assert study.curve[0].accuracy == measures.accuracy


def test_too_few_messages_and_older_tokens_are_not_fitted(corpus: Corpus) -> None:
    spam, ham = np.flatnonzero(corpus.is_spam), np.flatnonzero(~corpus.is_spam)
    few = corpus.train(np.concatenate([spam[:4], ham[:40]]), RULE)
    assert (few.rule, few.coefficients) == (RULE, None)
    enough = corpus.train(np.concatenate([spam[:5], ham[:40]]), RULE)
    assert enough.rule != RULE
    assert enough.coefficients is not None
    assert enough.coefficients.any()
    older = read(LETTERS[:40], token_version=1)
    assert older.train(np.arange(40), RULES[1]).coefficients is None


def test_the_evidence_of_a_miss_sums_to_its_log_odds(corpus: Corpus) -> None:
    wrong = [(message, is_spam != (number % 4 == 0)) for number, (message, is_spam) in enumerate(LETTERS)]
    noisy = read(wrong)
    study = study_folds(noisy, 4)
    found = find_misses(study, noisy, wrong)
    assert len(found) == 20
    by_place = dict(zip(study.judged.tolist(), study.log_odds.tolist(), strict=True))
    for miss in found:
        assert sum(value for _, value in miss.views) == pytest.approx(miss.log_odds, abs=1e-9)
        assert any(miss.log_odds == pytest.approx(one, abs=1e-9) for one in by_place.values())
        assert dict(miss.views)["intercept"] != 0


def test_memory_is_asked_for_in_pieces(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    everyone = np.arange(len(corpus))
    whole, left = corpus.count(everyone), corpus.leave_one_out(RULE)
    trained = corpus.train(everyone, RULE)
    judged = corpus.log_odds(everyone, trained)
    monkeypatch.setattr(corpora, "_MAX_OCCURRENCES", 1000)
    assert corpus.count(everyone) == whole
    in_pieces = corpus.leave_one_out(RULE)
    np.testing.assert_allclose(in_pieces.scores, left.scores, rtol=1e-12)
    np.testing.assert_allclose(in_pieces.presences, left.presences, rtol=1e-12)
    np.testing.assert_allclose(corpus.log_odds(everyone, trained), judged, rtol=1e-12)


def test_several_processes_read_the_same_corpus(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "_INLINE_MESSAGES", 50)
    again = read(LETTERS, processes=2)
    np.testing.assert_array_equal(again.keys, corpus.keys)
    np.testing.assert_array_equal(again.ids, corpus.ids)
    assert again.digests == corpus.digests


def test_the_numbers_are_those_of_scikit_learn(corpus: Corpus) -> None:
    study = study_folds(corpus, 4)
    y, p = corpus.is_spam, sigmoid(study.log_odds)
    found = study.measures
    assert found.roc_area == pytest.approx(metrics.roc_auc_score(y, study.log_odds), abs=1e-12)
    assert found.brier == pytest.approx(metrics.brier_score_loss(y, p), abs=1e-12)
    assert found.log_loss == pytest.approx(metrics.log_loss(y, p), abs=1e-9)
    assert found.accuracy == pytest.approx(metrics.accuracy_score(y, p > 0.5), abs=1e-12)
    assert found.unsure == np.sum((p < RULE.spam) & (p > RULE.ham))
    assert found.ham_called_spam == np.sum(p[~y] >= RULE.spam)
    assert found.spam_called_ham == np.sum(p[y] <= RULE.ham)
    ham, spam, _ = metrics.roc_curve(y, study.log_odds, drop_intermediate=False)
    np.testing.assert_allclose(np.array(roc_curve(study.log_odds, y)), np.column_stack([ham, spam]))


def test_ties_count_half_and_a_single_kind_has_no_area() -> None:
    odds, y = np.array([0.0, 0.0, 1.0, -1.0, 0.0]), np.array([True, False, True, False, False])
    assert measure(odds, y, RULE).roc_area == pytest.approx(metrics.roc_auc_score(y, odds))
    assert np.isnan(measure(odds[:1], y[:1], RULE).roc_area)
    ham, spam, _ = metrics.roc_curve(y, odds, drop_intermediate=False)
    np.testing.assert_allclose(np.array(roc_curve(odds, y)), np.column_stack([ham, spam]))


def test_bins_hold_every_message_once() -> None:
    rng = np.random.default_rng(0)
    p = np.append(rng.uniform(size=500), [0.0, 1.0])
    found = bins(p, rng.uniform(size=502) < p)
    assert sum(one.messages for one in found) == 502
    assert all(one.low <= one.predicted <= one.high for one in found)


def test_every_stretch_of_the_mixed_order_has_its_share_of_spam() -> None:
    y = np.arange(300) < 100
    order = shuffle_stratified(y, 0)
    assert sorted(order) == list(range(300))
    for part in np.array_split(order, 10):
        assert 9 <= y[part].sum() <= 11
    assert shuffle_stratified(y, 0).tolist() == order.tolist() != shuffle_stratified(y, 1).tolist()


@pytest.mark.parametrize(("sizes", "expected"), [((400, 50, 50), (96, 12, 12)), ((60, 10, 20), (60, 10, 20))])
def test_the_split_is_as_asked_for_or_in_proportion(
    corpus: Corpus, sizes: tuple[int, int, int], expected: tuple[int, int, int]
) -> None:
    study = study_split(corpus, sizes)
    assert (study.learned, study.validated, study.measures.messages) == expected
    assert study.unused == len(corpus) - sum(expected)
    assert [point.learned for point in study.curve][-1] == expected[0]
    assert len(study.tried) == 25


def test_validation_alone_chooses_the_smoothing(corpus: Corpus) -> None:
    study = study_split(corpus, (80, 20, 20), seed=2)
    ((learned, judged),) = study.parts
    asked = shuffle_stratified(corpus.is_spam, 2)[80:100]
    assert not {*asked} & ({*learned} | {*judged})
    best = min(study.tried, key=lambda one: 20 * one[2] + (np.log2(one[0]) ** 2 + np.log2(one[1]) ** 2) / 2)
    assert study.factors == best[:2]
    log_odds = corpus.log_odds(asked, corpus.train(learned, study.rule))
    loss = metrics.log_loss(corpus.is_spam[asked], sigmoid(log_odds))
    assert loss == pytest.approx(best[2])


def test_a_message_in_two_places_is_one_and_a_disputed_one_none() -> None:
    (a, spam_a), (b, _) = LETTERS[0], LETTERS[1]
    found = read([(a, spam_a), (a, spam_a), (b, True), (b, False), *LETTERS[2:10]])
    assert (len(found), found.duplicates, found.disputed) == (9, 1, 2)


@pytest.mark.parametrize("letters", [[], LETTERS[:3], [one for one in LETTERS if one[1]][:20]])
def test_too_little_mail_is_told_in_one_line(letters: list[tuple[RawMessage, bool]]) -> None:
    with pytest.raises(ValueError, match=r"got \d+ spam and \d+ ham .* expected at least 2 of each"):
        study_split(read(letters))
