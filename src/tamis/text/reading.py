"""The parameters of `TokenCounts` → what reads texts: the compiled tokenizer if it can, else Python."""

import warnings
from typing import Any, Final

from tamis.text.alphabet import Fold
from tamis.text.checking import lengths
from tamis.text.custom import TOKEN_PATTERN, CustomAnalyzer
from tamis.text.source import Source
from tamis.text.stop_words import stop_words
from tamis.text.tokenizer import Reader, Tokenizer

_OURS: Final = {"fold": "case", "unspaced": "pairs", "digits": "keep", "min_length": 2}  # and their defaults
FUNCTIONS: Final = ("analyzer", "preprocessor", "tokenizer", "strip_accents")  # parameters that may be one


def reader_of(counts: Any) -> Reader:
    """What finds the tokens of documents, by the parameters of an estimator."""
    shared = {
        "analyzer": counts.analyzer,
        "ngram_range": lengths(counts.ngram_range),
        "pairs": counts.pairs,
        "stop_words": stop_words(counts.stop_words),
    }
    ours = {name: getattr(counts, name) for name in _OURS}
    for name, reason in _unused(counts):
        warnings.warn(f"{name} is not used, because {reason}: leave it out", stacklevel=4)
    if not _needs_python(counts):
        return Tokenizer(**shared, **ours | {"fold": _fold(counts)})
    for name, default in _OURS.items():
        if ours[name] != default:
            raise ValueError(
                f"got {name}={ours[name]!r} with a pattern or function of your own, expected {default!r}: "
                "such texts are read by lowercase, strip_accents and the pattern or function alone"
            )
    own = ("preprocessor", "tokenizer", "token_pattern", "lowercase", "strip_accents")
    return CustomAnalyzer(**shared, **{name: getattr(counts, name) for name in own})


def _unused(counts: Any) -> list[tuple[str, str]]:
    """The parameters that are given and mean nothing beside the others, each with the reason."""
    pattern = counts.token_pattern not in (None, TOKEN_PATTERN)
    if counts.analyzer == "word":
        return [("token_pattern", "tokenizer is given")] if counts.tokenizer is not None and pattern else []
    given = {"token_pattern": pattern, "tokenizer": counts.tokenizer is not None}
    reason = f"analyzer is {counts.analyzer!r}"
    if callable(counts.analyzer):
        given["preprocessor"] = counts.preprocessor is not None
        given["ngram_range"] = counts.ngram_range not in (None, (1, 1))
        reason = "analyzer is a function"
    return [(name, reason) for name, is_given in given.items() if is_given]


def _needs_python(counts: Any) -> bool:
    """Whether the parameters ask for what the compiled tokenizer cannot do."""
    if callable(counts.analyzer) or counts.preprocessor is not None:
        return True
    if counts.strip_accents is not None and (counts.strip_accents != "unicode" or not counts.lowercase):
        return True
    own_words = counts.tokenizer is not None or counts.token_pattern != TOKEN_PATTERN
    return bool(counts.analyzer == "word" and own_words)


def _fold(counts: Any) -> Fold:
    """How characters are folded, by scikit-learn's two parameters where they say more than `fold`."""
    fold: Fold = counts.fold
    if counts.strip_accents == "unicode":
        if fold not in ("case", "base"):
            raise ValueError(f"got strip_accents='unicode' and fold={fold!r}, expected one of them")
        return "base"
    if counts.lowercase:
        return fold
    if fold not in ("case", "none"):
        raise ValueError(f"got lowercase=False and fold={fold!r}, which folds case: expected one of them")
    return "none"


def read_tokens(reader: Reader, source: Source, document: Any) -> list[str]:
    """The tokens of one document that may be bytes, a file or missing."""
    return reader.tokens(source.text(document) if isinstance(reader, Tokenizer) else source.content(document))
