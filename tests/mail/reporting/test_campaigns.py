"""Campaigns are groups of spam with the same words; mail without such groups has none."""

import numpy as np
import pytest

from tamis_mail.reporting.campaigns import Campaign, find_campaigns
from tests.mail.reporting.corpora import make_corpus


def draw_campaigns(seed: int = 0) -> tuple[list[set[int]], list[str]]:
    """Messages of two campaigns, which vary a few words of their templates, among spam of all sorts."""
    rng = np.random.default_rng(seed)
    messages: list[set[int]] = []
    names = []
    for row in range(60):
        name = ("first", "second", "other", "other")[row % 4]
        if name == "other":
            words = rng.integers(1000, 1400, 20)
        else:
            template = np.arange(30) + (100 if name == "first" else 200)
            words = np.concatenate([rng.choice(template, 25, replace=False), rng.integers(1000, 1400, 3)])
        messages.append(set(words.tolist()))
        names.append(name)
    return messages, names


@pytest.fixture(scope="module")
def campaigns() -> list[Campaign]:
    messages, _ = draw_campaigns()
    return find_campaigns(make_corpus(messages, [True] * len(messages)), 1000)


def test_planted_campaigns_are_found_whole(campaigns: list[Campaign]) -> None:
    _, names = draw_campaigns()
    members = {frozenset(one.members.tolist()) for one in campaigns}
    for name in ("first", "second"):
        assert frozenset(row for row, other in enumerate(names) if other == name) in members


def test_typical_words_are_those_of_the_template(campaigns: list[Campaign]) -> None:
    first = next(one for one in campaigns if 0 in one.members)
    words = (first.keys >> np.uint64(3)).tolist()
    assert words
    assert all(100 <= word < 130 for word in words)


def test_cohesion_is_the_mean_cosine_of_pairs(campaigns: list[Campaign]) -> None:
    messages, _ = draw_campaigns()
    (campaign, *_) = campaigns
    count = {word: sum(word in other for other in messages) for words in messages for word in words}
    weights = [
        {word: np.log(len(messages) / count[word]) for word in messages[row] if count[word] > 1}
        for row in campaign.members.tolist()
    ]
    cosines = [
        sum(a[word] * b[word] for word in a.keys() & b.keys())
        / np.sqrt(sum(v * v for v in a.values()) * sum(v * v for v in b.values()))
        for place, a in enumerate(weights)
        for b in weights[:place]
    ]
    assert abs(campaign.cohesion - np.mean(cosines)) < 1e-9


def test_wanted_mail_is_never_part_of_a_campaign() -> None:
    messages, names = draw_campaigns()
    is_spam = [name != "first" for name in names]
    campaigns = find_campaigns(make_corpus(messages, is_spam), 1000)
    members = {row for one in campaigns for row in one.members.tolist()}
    assert members
    assert all(is_spam[row] for row in members)


def test_unrelated_spam_has_no_campaign() -> None:
    rng = np.random.default_rng(1)
    messages = [set(rng.integers(0, 4000, 30).tolist()) for _ in range(80)]
    assert find_campaigns(make_corpus(messages, [True] * 80), 1000) == []
    assert find_campaigns(make_corpus(messages[:3], [True] * 3), 1000) == []


def test_the_result_does_not_change_from_call_to_call(campaigns: list[Campaign]) -> None:
    messages, _ = draw_campaigns()
    again = find_campaigns(make_corpus(messages, [True] * len(messages)), 1000)
    assert [one.members.tolist() for one in again] == [one.members.tolist() for one in campaigns]
