"""Texts to counts, and to a fitted model, against scikit-learn's vectorizers and pipeline."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

import tamis
from benchmarks.corpora import Texts, newsgroups, zipf
from benchmarks.harness import AnyCase, Case
from tamis.text import TokenCounts, fit_stream

WIDTH = 2**18


def _warm(texts: Texts) -> Texts:
    """Enough work that compiled kernels are in use from here on."""
    make_pipeline(TokenCounts(), tamis.MultinomialNB()).fit(texts.texts[:1500], texts.labels[:1500])
    fit_stream(tamis.MultinomialNB(), zip(texts.texts[:1500], texts.labels[:1500], strict=True))
    return texts


def _news() -> Texts:
    return _warm(newsgroups())


def _made(megabytes: float) -> Callable[[], Texts]:
    return lambda: _warm(zipf(megabytes))


def _alike(ours: Any, peer: Any) -> bool:
    """The same matrix, but for a column or two that are folded otherwise."""
    if ours.shape != peer.shape or ours.sum() != peer.sum():
        return False
    return bool(abs(ours - peer).sum() <= 16)


def _predict_alike(ours: Any, peer: Any) -> bool:
    texts, model = ours
    _, theirs = peer
    some = texts.texts[:: len(texts.texts) // 500]
    return bool(np.mean(model.predict(some) == theirs.predict(some)) > 0.995)


def _words(name: str, what: str, setup: Callable[[], Texts], repeats: int | None = None) -> list[AnyCase]:
    return [
        Case(
            name=f"text-words-{name}",
            what=f"words of {what} to counts, vocabulary learned; CountVectorizer.fit_transform",
            setup=setup,
            ours=lambda texts: TokenCounts().fit_transform(texts.texts),
            peer=lambda texts: CountVectorizer().fit_transform(texts.texts),
            agree=_alike,
            repeats=repeats,
        ),
        Case(
            name=f"text-hashed-{name}",
            what=f"words of {what} to hashed counts; HashingVectorizer, without signs and norm",
            setup=setup,
            ours=lambda texts: TokenCounts(form="hashed").transform(texts.texts),
            peer=lambda texts: HashingVectorizer(norm=None, alternate_sign=False).transform(texts.texts),
            agree=_alike,
            repeats=repeats,
        ),
        _fit(
            f"text-fit-{name}",
            f"{what} to a fitted MultinomialNB, straight to its sums; CountVectorizer and MultinomialNB",
            setup,
            TokenCounts,
            CountVectorizer,
            repeats,
        ),
        _fit(
            f"text-fit-hashed-{name}",
            f"the same, hashed to {WIDTH} columns; HashingVectorizer and MultinomialNB",
            setup,
            lambda: TokenCounts(form="hashed", n_features=WIDTH),
            lambda: HashingVectorizer(n_features=WIDTH, norm=None, alternate_sign=False),
            repeats,
        ),
    ]


def _fit(
    name: str,
    what: str,
    setup: Callable[[], Texts],
    ours: Callable[[], TokenCounts],
    peer: Callable[[], Any],
    repeats: int | None,
) -> AnyCase:
    def fit(texts: Texts) -> tuple[Texts, Any]:
        pairs = zip(texts.texts, texts.labels, strict=True)
        return texts, fit_stream(make_pipeline(ours(), tamis.MultinomialNB()), pairs)

    def fit_peer(texts: Texts) -> tuple[Texts, Any]:
        return texts, make_pipeline(peer(), MultinomialNB()).fit(texts.texts, texts.labels)

    return Case(name, what, setup, fit, fit_peer, _predict_alike, repeats)


def _bigrams(name: str, what: str, setup: Callable[[], Texts], repeats: int | None = None) -> AnyCase:
    return Case(
        name=f"text-bigrams-{name}",
        what=f"pairs of words of {what} to counts; CountVectorizer(ngram_range=(2, 2))",
        setup=setup,
        ours=lambda texts: TokenCounts(ngram_range=(2, 2)).fit_transform(texts.texts),
        peer=lambda texts: CountVectorizer(ngram_range=(2, 2)).fit_transform(texts.texts),
        agree=_alike,
        repeats=repeats,
    )


CASES: tuple[AnyCase, ...] = (
    *_words("news", "20 Newsgroups (22 MB)", _news, repeats=5),
    _bigrams("news", "20 Newsgroups (22 MB)", _news, repeats=3),
    Case(
        name="text-characters-news",
        what="runs of 4 characters of 20 Newsgroups to counts; CountVectorizer(analyzer='char')",
        setup=_news,
        ours=lambda texts: TokenCounts(analyzer="char", ngram_range=(4, 4)).fit_transform(texts.texts[:3000]),
        peer=lambda texts: CountVectorizer(analyzer="char", ngram_range=(4, 4)).fit_transform(
            [" ".join(text.split()) for text in texts.texts[:3000]]
        ),
        agree=lambda ours, peer: abs(ours.sum() / peer.sum() - 1.0) < 0.01,
        repeats=3,
    ),
    *_words("zipf", "a made-up corpus of 200 MB", _made(200), repeats=1),
    _bigrams("zipf", "a made-up corpus of 40 MB", _made(40), repeats=1),
)

WANTED = {
    "text-words-news": 15.0,
    "text-hashed-news": 12.0,
    "text-bigrams-news": 15.0,
    "text-fit-news": 15.0,
    "text-fit-hashed-news": 15.0,
    "text-words-zipf": 15.0,
    "text-hashed-zipf": 12.0,
    "text-bigrams-zipf": 15.0,
    "text-fit-zipf": 15.0,
    "text-fit-hashed-zipf": 15.0,
}
