"""Text in any language: from bytes to tokens, counts and a statistic, in one pass.

Modules are imported at first use, so that reading one message loads neither SciPy nor scikit-learn.
"""

from typing import TYPE_CHECKING

from tamis.extras import import_package
from tamis.text.corpus import Corpus
from tamis.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from tamis.text.charset import decode
    from tamis.text.counts import TokenCounts
    from tamis.text.identifier import LANGUAGES, language, languages
    from tamis.text.stream import fit_stream
    from tamis.text.weights import LogCounts, NaiveBayesWeights, TfIdf, UnitLength

__all__ = [
    "LANGUAGES",
    "Corpus",
    "LogCounts",
    "NaiveBayesWeights",
    "TfIdf",
    "TokenCounts",
    "Tokenizer",
    "UnitLength",
    "decode",
    "fit_stream",
    "language",
    "languages",
]

_HOMES = {
    "LANGUAGES": "identifier",
    "LogCounts": "weights",
    "NaiveBayesWeights": "weights",
    "TfIdf": "weights",
    "TokenCounts": "counts",
    "UnitLength": "weights",
    "decode": "charset",
    "fit_stream": "stream",
    "language": "identifier",
    "languages": "identifier",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module 'tamis.text' has no attribute {name!r}")
        value = getattr(import_package(f"tamis.text.{_HOMES[name]}", f"tamis.text.{name}"), name)
        globals()[name] = value
        return value
