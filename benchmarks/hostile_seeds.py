"""A saved model of each kind, what its users do with it, and the cases that are made of both."""

import copy
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.pipeline import make_pipeline

import tamis
from benchmarks.hostile_files import MUTATORS, Forgery
from benchmarks.hostile_tables import Table, mutated_table, read_table
from tamis.basis import FourierBasis, GaussianBasis, PolynomialBasis, SigmoidBasis, SplineBasis
from tamis.text import LogCounts, NaiveBayesWeights, TfIdf, TokenCounts, UnitLength

__all__ = ["Case", "Seed", "case_of", "seeds"]

_NAMED = 100_000  # columns whose names are asked for; a transformer of hashed tokens has any number of them
# How much work learning is, parameters say: the caller looks at them before a stranger's model learns more.
_WORK = (
    "max_iter",
    "n_init",
    "n_draws",
    "burn_in",
    "n_kept",
    "n_components",
    "order",
    "degree",
    "centres",
    "knots",
)


Verb = Callable[[Any], Any]


@dataclass
class Seed:
    """A saved model, and what to do with one that is loaded from a file like it."""

    name: str
    forgery: Forgery
    verbs: dict[str, Verb]
    params: dict[str, Any] = field(default_factory=dict)

    def use(self, model: Any, folder: Path) -> int:
        """Do all that; whatever it refuses is refused by an exception. How many verbs went through."""
        done = 0
        for name, verb in self.verbs.items():
            try:
                if name in ("partial_fit", "unlearn", "merge"):
                    model.set_params(**self.params)
                verb(model)
                done += 1
            except MemoryError:
                raise
            except Exception:  # noqa: BLE001 (any refusal is right; only a crash is not)
                continue
        try:
            model.save(folder / "again.tamis") if hasattr(model, "save") else tamis.save(
                model, folder / "again.tamis"
            )
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001
            return done
        tamis.load(folder / "again.tamis")  # what could be saved can be loaded
        return done + 1


def _calling(name: str, rows: Any) -> Verb:
    return lambda fitted: getattr(fitted, name)(rows)


def _verbs(rows: Any, labels: Any, model: Any) -> dict[str, Verb]:
    """What a model that learned such rows can do with some of them."""
    few, some = rows[:6], labels[:6]
    found: dict[str, Verb] = {}
    for name in ("predict", "predict_proba", "predict_joint_log_proba", "decision_function", "transform"):
        found[name] = _calling(name, few)
    for name in ("explain", "inverse_transform", "score_samples"):
        found[name] = _calling(name, few)
    found["sample"] = lambda fitted: fitted.sample(3, random_state=0)
    found["names"] = lambda fitted: fitted.n_features_in_ < _NAMED and fitted.get_feature_names_out()
    found["attributes"] = lambda fitted: [
        getattr(fitted, name, None) for name in ("coef_", "classes_", "log_evidence_")
    ]
    found["partial_fit"] = lambda fitted: copy.deepcopy(fitted).partial_fit(few, some)
    found["unlearn"] = lambda fitted: copy.deepcopy(fitted).unlearn(few, some)
    found["unlearn_approximately"] = lambda fitted: copy.deepcopy(fitted).unlearn_approximately(few, some)
    found["decay"] = lambda fitted: copy.deepcopy(fitted).decay(0.5)
    found["merge"] = lambda fitted: copy.deepcopy(model).merge(fitted)
    return {
        name: verb for name, verb in found.items() if hasattr(model, name) or name in ("names", "attributes")
    }


def _rating_verbs(ratings: list[tuple[Any, Any, float]]) -> dict[str, Verb]:
    pairs = [(user, item) for user, item, _ in ratings[:6]]
    user, item = pairs[0]
    return {
        "predict": lambda model: model.predict([*pairs, ("nobody", item)]),
        "recommend": lambda model: model.recommend(user, 3),
        "recommend_all": lambda model: model.recommend([one for one, _ in pairs], 3),
        "similar": lambda model: model.similar_items(item, 3),
        "explain": lambda model: model.explain(user, item),
        "fold_in": lambda model: model.predict([(model.fold_in_user({item: 3.0}), item)]),
        "partial_fit": lambda model: copy.deepcopy(model).partial_fit(
            [(user, "new", 3.0), ("new", item, 2.0)]
        ),
        "unlearn": lambda model: copy.deepcopy(model).unlearn(ratings[:3]),
        "unlearn_items": lambda model: copy.deepcopy(model).unlearn(ratings[3:5], of_items=True),
        "forget": lambda model: copy.deepcopy(model).forget(user, item),
    }


def _saved(name: str, model: Any, verbs: dict[str, Verb]) -> Seed:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tamis"
        tamis.save(model, path)
        params = {name: x for name, x in model.get_params(deep=False).items() if name in _WORK}
        return Seed(name, Forgery.of(path.read_bytes()), verbs, params)


def seeds() -> list[Seed]:
    """A saved model of each kind that can be saved."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(24, 3)) + np.arange(24)[:, None] % 3
    labels = np.array(["a", "b", "c"])[np.arange(24) % 3]
    counts = rng.poisson(1.5, size=(24, 4)).astype(np.float64)
    mixed = np.array([[float(i % 5), ["red", "blue"][i % 2], i % 3 == 0] for i in range(24)], dtype=object)
    flags, codes, two = (counts > 1).astype(np.float64), np.minimum(counts, 2.0), labels == "a"
    texts = ["buy cheap pills now", "see you at noon", "cheap watches", "lunch at noon?"] * 6
    y = rows @ [1.0, -2.0, 0.5] + 1.0
    many = np.tile(rows, (1000, 1))  # so many that products are rounded, and the statistic holds how much
    absent = np.column_stack([rows, np.full(24, np.nan)]).astype(
        object
    )  # a column of which no value was seen
    ratings = [(f"u{u}", f"i{i}", float(1 + (u * i) % 5)) for u in range(6) for i in range(5) if (u + i) % 3]
    timed: dict[str, Any] = {
        "user": [u for u, _, _ in ratings],
        "item": [i for _, i, _ in ratings],
        "rating": [r for _, _, r in ratings],
        "time": np.arange(float(len(ratings))).tolist(),
    }
    plain: list[tuple[Any, Any, Any]] = [
        (tamis.GaussianNB(), rows, labels),
        (tamis.NaiveBayes(), rows, labels),
        (tamis.NaiveBayes(), mixed, labels),
        (tamis.NaiveBayes(), absent, labels),
        (tamis.MultinomialNB(), counts, labels),
        (tamis.ComplementNB(), counts, labels),
        (tamis.PoissonNB(), counts, labels),
        (tamis.BernoulliNB(), flags, labels),
        (tamis.CategoricalNB(), codes, labels),
        (tamis.GaussianDiscriminant(), rows, labels),
        (tamis.GaussianDiscriminant(), many, np.tile(labels, 1000)),
        (tamis.GaussianDiscriminant("diag"), rows, labels),
        (tamis.FisherDiscriminant(), rows, labels),
        (tamis.Mixture(2, random_state=0), rows, None),
        (tamis.LogisticRegression(), rows, labels),
        (tamis.LogisticRegression(), rows, two),
        (tamis.GeneralizedLinear("poisson"), rows, counts[:, 0]),
        (tamis.GeneralizedLinear("gaussian", alpha=1.0), rows, y),
        (tamis.BayesianLinearRegression(), rows, y),
        (tamis.BayesianLinearRegression(), many, np.tile(y, 1000)),
        (tamis.PCA(2), rows, None),
        (tamis.PCA(2), many, None),
        (tamis.PCA(1, solver="rows"), rows, None),
        (FourierBasis(), rows, None),
        (GaussianBasis(), rows, None),
        (GaussianBasis(rows[:5]), rows, None),
        (PolynomialBasis(), rows, None),
        (SigmoidBasis(), rows, None),
        (SplineBasis(), rows, None),
        (TokenCounts(), texts, labels),
        (TokenCounts(form="hashed", n_features=64, names=5), texts, labels),
        (TfIdf(), counts, labels),
        (NaiveBayesWeights(), counts, two),
        (LogCounts(), counts, None),
        (UnitLength(), counts, None),
        (make_pipeline(TokenCounts(), TfIdf(), tamis.MultinomialNB()), texts, labels),
        (make_pipeline(SplineBasis(), tamis.BayesianLinearRegression()), rows, y),
        (tamis.GaussianDiscriminant(shrinkage="auto", estimate="mle"), rows, labels),
    ]
    found = []
    for number, (model, given, target) in enumerate(plain):
        fitted = model.fit(given) if target is None else model.fit(given, target)
        some = labels if target is None else target
        found.append(_saved(f"{number}-{type(model).__name__}", fitted, _verbs(given, some, fitted)))
    ways: list[dict[str, Any]] = [
        {},
        {"feedback": "implicit", "ridge": 0.1},
        {"method": "gibbs", "n_draws": 6, "burn_in": 2, "n_kept": 3},
    ]
    for more in ways:
        model = tamis.MatrixFactorization(n_factors=2, max_iter=3, tol=0.0, random_state=0, **more)
        name = f"MatrixFactorization-{'-'.join(map(str, more.values()))}"
        found.append(_saved(name, model.fit(ratings), _rating_verbs(ratings)))
    model = tamis.MatrixFactorization(2, max_iter=3, tol=0.0, time_bins=3, half_life=5.0, random_state=0).fit(
        pa.table(timed)
    )
    found.append(_saved("MatrixFactorization-timed", model, _rating_verbs(ratings)))
    return found


# ── cases ──


@dataclass
class Case:
    """One file or table, by its number."""

    name: str
    size: int
    run: Callable[[Path], str]  # "refused", "read" or "used"; anything else is raised


def case_of(number: int, seed: int, files: Sequence[Seed], statistics: Sequence[Table]) -> Case:
    """The case of that number: every fifth is a table."""
    rng = Random(f"{seed}-{number}")
    if number % 5 == 4:
        one = rng.choice(statistics)
        table = mutated_table(rng, one, statistics)
        return Case(f"{number} {one.name}", table.nbytes, lambda folder: read_table(one.kind, table))
    file = files[number % len(files)] if rng.random() < 0.7 else rng.choice(files)
    forged, used = file.forgery.copy(), []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        mutate = rng.choice(MUTATORS)
        used.append(mutate.__name__)
        try:
            mutate(rng, forged, [other.forgery for other in files])
            is_whole = forged.raw is None and len(forged.members) == len(forged.arrays())
        except (
            AttributeError,
            ValueError,
            TypeError,
            LookupError,
            RecursionError,
            MemoryError,
        ):  # by what an earlier one changed
            break
        if not is_whole:
            break
    try:
        raw = forged.write()
    except (ValueError, RecursionError, TypeError):  # JSON has no such tree
        raw = file.forgery.write()[:-1]
    return Case(
        f"{number} {file.name} {' '.join(used)}", len(raw), lambda folder: _read_file(file, raw, folder)
    )


def _read_file(file: Seed, raw: bytes, folder: Path) -> str:
    path = folder / "model.tamis"
    path.write_bytes(raw)
    try:
        model = tamis.load(path)
    except ValueError as refusal:
        if str(path) not in str(refusal) or "\n" in str(refusal):
            raise AssertionError(f"not one line that names the file: {refusal}") from None
        return "refused"
    return "used" if file.use(model, folder) else "read"
