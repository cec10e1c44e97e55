"""The families by name: this is the only list of them.

A family of one column needs only a file and its lines here: then `NaiveBayes` and `Mixture` accept it, it can
be saved, and the laws (property tests) of `tamis.testing` test it. `MultivariateGaussian` has no name,
because it is not the family of a column: models learn dependent Gaussian columns by another kind of block,
`GaussianVectors`.
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

# Maps a family's name to a simple member of it. Only the block `FamilyColumns` uses the member's mean, for
# columns without observations. A fixed parameter (`size`, `shape`) is an example for an error message: users
# give it.
FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "gaussian": Gaussian(0.0, 1.0),
        "bernoulli": Bernoulli(0.5),
        "categorical": Categorical([0.5, 0.5]),
        "poisson": Poisson(0.0),
        "multinomial": Multinomial(1, [0.5, 0.5]),  # one distribution of all its columns together
        "exponential": Exponential(1.0),
        "geometric": Geometric(0.5),
        "negative_binomial": NegativeBinomial(size=2.0),
        "gamma": Gamma(shape=2.0),
    }
)

# Maps the kind of a column's values to its default family, except for the kind "integer", whose family is the
# parameter `integers` of the estimators.
AUTOMATIC: Mapping[str, str] = MappingProxyType(
    {
        "bool": "bernoulli",
        "category": "categorical",
        "number": "gaussian",
        "unknown": "gaussian",  # until the first value is known
    }
)

_NAMES = {type(member): name for name, member in FAMILIES.items()}


def find_family(family: object, where: str = "") -> Family:
    """Return the member that has this name, or `family` itself if it is a member.

    `where` is added to error messages, such as " in families=…".

    >>> find_family("poisson"), find_family(Gamma(shape=3)).shape
    (Poisson(rate=array(0.)), 3.0)
    """
    if isinstance(family, Family) and type(family) in _NAMES:
        if family.batch:  # the shape of its parameters, which is () for one member
            raise ValueError(f"got {one_line(family)}{where}, a batch of {family.batch}, expected one member")
        return family
    if not isinstance(family, str) or family not in FAMILIES:
        raise ValueError(f"got {one_line(family)}{where}, expected one of {', '.join(FAMILIES)}")
    member = FAMILIES[family]
    # A parameter that is fixed is never inferred from data, so the user has to give it.
    if isinstance(member, ConjugateFamily) and member.fixed:
        constructor = f"tamis.families.{type(member).__name__}"
        example = ", ".join(f"{name}={getattr(member, name):g}" for name in member.fixed)
        raise ValueError(
            f"got {family!r}{where} without its {' and '.join(member.fixed)}, expected a member of the "
            f"family that has it: {constructor}({example})"
        )
    return member


def name_of(family: Family) -> str:
    """Return the name of a family, without its parameters.

    >>> name_of(Gamma(shape=3))
    'gamma'
    """
    return _NAMES[type(family)]


def label_of(family: Family) -> str:
    """Return the name of a family with its fixed parameters; columns with equal labels have the same family.

    This label is a text for users and a key for columns; it has nothing to do with the labels of classes.

    >>> label_of(Gamma(shape=3)), label_of(Poisson(1))
    ('gamma(shape=3)', 'poisson')
    """
    fixed = family.fixed if isinstance(family, ConjugateFamily) else ()
    if not fixed:
        return name_of(family)
    return f"{name_of(family)}({', '.join(f'{name}={getattr(family, name):.17g}' for name in fixed)})"
