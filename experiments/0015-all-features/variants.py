"""The rules that are compared. Each changes some of the constants of the shipped one."""

from dataclasses import dataclass, replace

import numpy as np
import strength
from tape import SCALES

ALL = (0, 1, 2, 3, 4)  # grams, headers, words, pairs, relations


@dataclass(frozen=True)
class Variant:
    """One rule; the defaults are the shipped one."""

    name: str
    # The layer
    views: tuple[int, ...] = (1, 2, 4)  # whose features have coefficients
    most: int = 2000  # messages of each class that are fitted
    least: int = 2  # messages that must have a feature
    precision: float = 0.02
    values: str = "view"  # 1 / √n by view; "reluctant": 1 / √(n + r); "overall": n of all views
    patience: float = 10.0  # messages of the smaller class at which coefficients count half
    by_view: tuple[float, ...] = ()  # factors of the values of each view: the precision is divided by f²
    by_weight: str = ""  # values times the weight of the feature, see `layer.Priors`
    evidence: str = ""  # chooses the precisions: "one" for all views, "by view"
    cap: float = 0.0  # the offset has at most about this size; -1: the logarithm of the number of messages
    share: float = 1.0  # of the first log-odds that is the offset
    # The worth of the layer by folds, in place of m / (m + patience)
    folds: int = 0
    is_joint: bool = True  # fitted with the scales, by scores of the folds; else after them
    width: float = 0.5  # standard deviation of the worth
    # The scales
    own: float = 0.5  # standard deviation of a scale before any mail, relative to the default
    common: float = 0.0  # … of a factor of all scales
    growth: float = 0.0  # a score is multiplied by a power of the view's features, see `tape.change_means`
    reluctances: tuple[float, ...] = ()  # of the views, in place of those of the rule
    unseen: float = 1.0  # what a feature that was never seen counts in the mean of a view
    shapes: tuple[str, ...] = ()  # of further scores of each view, see `tape.SHAPES`
    shape_width: float = 0.25  # standard deviation of the scale of a further score, relative to the view's
    is_signed: bool = False  # whether scales of further scores may be negative

    @property
    def means(self) -> tuple[float, float, tuple[float, ...]]:
        return self.growth, self.unseen, self.reluctances

    @property
    def changes_means(self) -> bool:
        return bool(self.growth or self.reluctances or self.unseen != 1)

    def make_prior(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The mean and the precision of scales and intercept, and which of them are not negative."""
        further = np.tile(SCALES, len(self.shapes))
        mean = np.concatenate([SCALES, np.zeros(len(further) + 1)])
        of_views = np.append(np.arange(len(SCALES)), len(mean) - 1)
        of_shapes = np.arange(len(SCALES), len(mean) - 1)
        precision = np.zeros((len(mean), len(mean)))
        precision[np.ix_(of_views, of_views)] = strength.make_precision(SCALES, self.own, self.common)
        precision[of_shapes, of_shapes] = 1 / np.square(self.shape_width * further)
        is_bounded = np.ones(len(mean), bool)
        is_bounded[of_shapes] = not self.is_signed
        is_bounded[-1] = False
        return mean, precision, is_bounded


BEFORE = Variant("before")


def vary(name: str, **changes: object) -> Variant:
    return replace(BEFORE, name=name, **changes)


def change_one(view: int, factor: float) -> tuple[float, ...]:
    return tuple(factor if one == view else 1 for one in ALL)


# The final candidates.
CANDIDATES = (
    vary("A", views=ALL, least=3),
    vary("B", views=ALL, least=3, most=10**9),
    vary("C", views=ALL, least=3, by_view=(0.7, 1, 1, 0.7, 1)),
)

# Which features and which messages have a part in the layer, and with which precision.
LAYERS = (
    vary("all messages", most=10**9),
    vary("views (0, 1, 2, 4)", views=(0, 1, 2, 4)),
    vary("views (1, 2, 3, 4)", views=(1, 2, 3, 4)),
    *(vary(f"all views, 2,000, {precision}", views=ALL, precision=precision) for precision in (0.02, 0.05)),
    *(vary(f"from {least}", least=least) for least in (3, 4, 6)),
    *(
        vary(f"grams too, from {least}, 0.7", least=least, views=(0, 1, 2, 4), by_view=(0.7, 1, 1, 1, 1))
        for least in (3, 4, 6)
    ),
    *(vary(f"C from {least}", least=least, views=ALL, by_view=(0.7, 1, 1, 0.7, 1)) for least in (4, 6)),
    *(
        vary(f"reluctant, three views, {precision}", values="reluctant", precision=precision)
        for precision in (0.01, 0.015)
    ),
    *(
        vary(f"{values}, all views, 0.01", values=values, views=ALL, most=10**9, precision=0.01)
        for values in ("reluctant", "overall")
    ),
)

# Other priors of the coefficients.
PRIORS = (
    *(
        vary(f"{word} times {factor}", by_view=change_one(view, factor))
        for word, view in (("headers", 1), ("words", 2), ("relations", 4))
        for factor in (0.5, 2)
    ),
    *(
        vary(f"A, {precision}, {patience}", views=ALL, least=3, precision=precision, patience=patience)
        for precision, patience in ((0.033, 10), (0.02, 20), (0.033, 20))
    ),
    vary("A, relations less", views=ALL, least=3, by_view=(1, 1, 1, 1, 0.7)),
    vary("A, all but headers and words less", views=ALL, least=3, by_view=(0.7, 1, 1, 0.7, 0.7)),
    *(
        vary(f"times weight of {by_weight}, {precision}", by_weight=by_weight, precision=precision)
        for by_weight in ("all", "others")
        for precision in (0.1, 0.5)
    ),
    *(vary(f"evidence, {word}", evidence=word) for word in ("one", "by view")),
)

# The offset of the layer, and its worth.
OFFSETS = (
    *(vary(f"offset up to {cap}", cap=cap) for cap in (-1, 2, 3, 4, 6)),
    *(vary(f"offset times {share}", share=share) for share in (0, 0.5, 0.75)),
    *(vary(f"5 folds, {word}", folds=5, is_joint=word == "jointly") for word in ("jointly", "after")),
)

# The scales: a common factor, and further scores.
SCALE_PRIORS = (
    *(
        vary(f"widths {own}, {common}", own=own, common=common)
        for own, common in ((0.25, 0.0), (0.25, 0.25), (0.25, 0.5), (0.25, 1.0), (0.15, 0.25), (0.15, 0.5))
    ),
    *(vary(f"widths 0.5, {common}", common=common) for common in (0.5, 1.0)),
    vary("also strong, 0.25, positive", shapes=("strong",)),
    vary("also strong, 0.5, signed", shapes=("strong",), shape_width=0.5, is_signed=True),
    *(
        vary(f"also {shape}, 0.25, signed", shapes=(shape,), is_signed=True)
        for shape in ("frequent", "limited", "for spam")
    ),
)

# The mean of a view: between mean and sum, and what features that were never seen count.
MEANS = (
    *(vary(f"growth {growth}", growth=growth) for growth in (0.1, 0.2, 0.3, -0.1)),
    *(
        vary(f"reluctance of words {words}, headers {headers}", reluctances=(100, headers, words, 100, 3))
        for words, headers in ((20, 10), (40, 10), (80, 10), (40, 30), (10, 30), (10, 100))
    ),
    vary("A, reluctance of words 40", views=ALL, least=3, reluctances=(100, 10, 40, 100, 3)),
    *(
        vary(
            f"C, reluctance of words {words}",
            views=ALL,
            least=3,
            by_view=(0.7, 1, 1, 0.7, 1),
            reluctances=(100, 10, words, 100, 3),
        )
        for words in (20, 40)
    ),
    vary("reluctance of pairs 300", reluctances=(100, 10, 10, 300, 3)),
    vary("reluctance of pairs 30", reluctances=(100, 10, 10, 30, 3)),
    vary("reluctance of grams 300", reluctances=(300, 10, 10, 100, 3)),
    vary("reluctance of relations 20", reluctances=(100, 10, 10, 100, 20)),
    *(vary(f"unseen {unseen}", unseen=unseen) for unseen in (0.5, 0.75, 1.25)),
)

VARIANTS = (BEFORE, *CANDIDATES, *LAYERS, *PRIORS, *OFFSETS, *SCALE_PRIORS, *MEANS)
