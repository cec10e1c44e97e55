"""Text in any language: from bytes to tokens, counts and a statistic, in one pass.

Modules are imported at first use, so that reading one message loads neither SciPy nor scikit-learn.
"""

from typing import TYPE_CHECKING

from tamis.extras import make_getattr
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

_MODULES = {
    "LANGUAGES": "tamis.text.identifier",
    "LogCounts": "tamis.text.weights",
    "NaiveBayesWeights": "tamis.text.weights",
    "TfIdf": "tamis.text.weights",
    "TokenCounts": "tamis.text.counts",
    "UnitLength": "tamis.text.weights",
    "decode": "tamis.text.charset",
    "fit_stream": "tamis.text.stream",
    "language": "tamis.text.identifier",
    "languages": "tamis.text.identifier",
}

if not TYPE_CHECKING:
    __getattr__ = make_getattr(globals(), _MODULES, "tamis.text")
