"""The families by name: this is the only list of them.

A family of one column that is written in a file of its own and named here is a column of `NaiveBayes` and of
`Mixture`, can be saved, and is tested by the equations in `tamis.testing`.
"""

from collections.abc import Mapping
from types import MappingProxyType

from tamis.arrays import one_line
from tamis.families.bernoulli import Bernoulli
from tamis.families.categorical import Categorical
from tamis.families.conjugacy import ConjugateFamily
from tamis.families.exponential import Exponential
from tamis.families.family import Family
from tamis.families.gamma import Gamma
from tamis.families.gaussian import Gaussian
from tamis.families.geometric import Geometric
from tamis.families.multinomial import Multinomial
from tamis.families.multivariate_gaussian import MultivariateGaussian
from tamis.families.negative_binomial import NegativeBinomial
from tamis.families.poisson import Poisson

# The classes that `tamis.families` offers.
__all__ = [
    "Bernoulli",
    "Categorical",
    "Exponential",
    "Family",
    "Gamma",
    "Gaussian",
    "Geometric",
    "Multinomial",
    "MultivariateGaussian",
    "NegativeBinomial",
    "Poisson",
]

# Maps a family's name to one of its members (distributions), which is also used where nothing was observed.
FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "gaussian": Gaussian(0.0, 1.0),
        "bernoulli": Bernoulli(0.5),
        "categorical": Categorical([0.5, 0.5]),
        "poisson": Poisson(0.0),
        "multinomial": Multinomial(1, [0.5, 0.5]),  # of all its columns together
        "exponential": Exponential(1.0),
        "geometric": Geometric(0.5),
        "negative_binomial": NegativeBinomial(size=2.0),
        "gamma": Gamma(shape=2.0),
    }
)

# Maps the kind of a column's values to its default family.
AUTOMATIC: Mapping[str, str] = MappingProxyType(
    {
        "bool": "bernoulli",
        "category": "categorical",
        "number": "gaussian",
        "unknown": "gaussian",  # until the first value comes
    }
)

_NAMES = {type(member): name for name, member in FAMILIES.items()}


def find_family(given: object, where: str = "") -> Family:
    """Return the member that a name stands for, or `given` itself if it is a member.

    `where` says in a message what the family was given for.

    >>> find_family("poisson"), find_family(Gamma(shape=3)).shape
    (Poisson(rate=array(0.)), 3.0)
    """
    if isinstance(given, Family) and type(given) in _NAMES:
        if given.batch:
            raise ValueError(f"got {one_line(given)}{where}, a batch of {given.batch}, expected one member")
        return given
    if not isinstance(given, str) or given not in FAMILIES:
        raise ValueError(f"got {one_line(given)}{where}, expected one of {', '.join(FAMILIES)}")
    member = FAMILIES[given]
    if isinstance(member, ConjugateFamily) and member.fixed:
        kind = f"tamis.families.{type(member).__name__}"
        example = ", ".join(f"{name}={getattr(member, name):g}" for name in member.fixed)
        raise ValueError(
            f"got {given!r}{where} without its {' and '.join(member.fixed)}, expected a member of the family "
            f"that has it: {kind}({example})"
        )
    return member


def name_of(family: Family) -> str:
    """The name of a family, without its parameters.

    >>> name_of(Gamma(shape=3))
    'gamma'
    """
    return _NAMES[type(family)]


def label_of(family: Family) -> str:
    """The name of a family with the parameters that are fixed, by which columns of one family are known.

    >>> label_of(Gamma(shape=3)), label_of(Poisson(1))
    ('gamma(shape=3)', 'poisson')
    """
    fixed = family.fixed if isinstance(family, ConjugateFamily) else ()
    if not fixed:
        return name_of(family)
    return f"{name_of(family)}({', '.join(f'{name}={getattr(family, name):.17g}' for name in fixed)})"
