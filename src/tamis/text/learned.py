"""What was learned of texts: how they are read, and the column of each token."""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from tamis._kernels import text as kernels
from tamis._kernels.text import Floats, Indices, Rows
from tamis._kernels.threads import together
from tamis.text.corpus import Corpus
from tamis.text.custom import Tokenized
from tamis.text.hashing import Hashed
from tamis.text.lexicon import Places
from tamis.text.matrix import matrix, stacked
from tamis.text.tokenizer import Reader
from tamis.text.vocabulary import GivenVocabulary, Vocabulary

Columns = Vocabulary | GivenVocabulary | Hashed


@dataclass(frozen=True, eq=False)
class Learned:
    """How texts were read, and by what columns they are counted."""

    tokenizer: Reader
    columns: Columns
    unknown: bool  # whether a last column counts what has none
    binary: bool

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.columns) + self.unknown

    def count(self, corpus: Corpus | Tokenized) -> Rows:
        """Counts of some texts."""
        return self.arranged(*self.placed(corpus))

    def placed(self, corpus: Corpus | Tokenized) -> tuple[Rows, Places]:
        """Counts of some texts by their own numbers, and the columns of these."""
        lexicon, rows = self.tokenizer.count(corpus)
        return rows, self.columns.find(lexicon)

    def matrix(self, parts: list[tuple[Rows, Places]], dtype: DTypeLike) -> Any:
        """Counts of many texts: each part is arranged where it will be in the end."""
        ends = np.cumsum([0, *(len(rows.indices) for rows, _ in parts)]).tolist()
        moved, values = np.empty(ends[-1], dtype=np.int32), np.empty(ends[-1])
        tasks = [
            partial(self.arranged, *part, (moved[i:j], values[i:j]))
            for part, (i, j) in zip(parts, pairwise(ends), strict=True)
        ]
        return matrix(stacked(together(tasks), moved, values), self.width, dtype)

    def arranged(self, rows: Rows, places: Places, out: tuple[Indices, Floats] | None = None) -> Rows:
        """Rows by column, written to `out` if it is given."""
        columns, signs = places
        if self.unknown:
            columns = np.where(columns < 0, np.int32(self.width - 1), columns)
        found = kernels.arrange(rows, columns, signs, out)
        if self.binary:  # whatever shares a column, and whatever its sign, as scikit-learn does
            found.counts.fill(1.0)
        return found
