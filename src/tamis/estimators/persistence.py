"""A fitted face ↔ a file of numbers and names: it holds no code, and loading it runs none."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from tamis.estimators import files, saved, saved_classifiers, values
from tamis.estimators.generative_state import GenerativeState
from tamis.estimators.schema import Anything, Group, Record, Series, Text, check
from tamis.models.generative.em import History
from tamis.schema import Schema
from tamis.stats import Keys

# The only classes that a file can name, and where they live.
FACES = {
    "BernoulliNB": "tamis.estimators.discrete",
    "CategoricalNB": "tamis.estimators.categorical",
    "ComplementNB": "tamis.estimators.discrete",
    "FisherDiscriminant": "tamis.estimators.discriminant",
    "GaussianDiscriminant": "tamis.estimators.discriminant",
    "GaussianNB": "tamis.estimators.naive_bayes",
    "Mixture": "tamis.estimators.mixture",
    "MultinomialNB": "tamis.estimators.discrete",
    "NaiveBayes": "tamis.estimators.naive_bayes",
    "PoissonNB": "tamis.estimators.discrete",
}
# What these have learned they tell and take back themselves.
MODELS = {
    "BayesianLinearRegression": "tamis.estimators.linear_regression",
    "GeneralizedLinear": "tamis.estimators.generalized_linear",
    "LogisticRegression": "tamis.estimators.logistic",
    "MatrixFactorization": "tamis.estimators.matrix_factorization",
    "PCA": "tamis.estimators.pca",
}
TRANSFORMERS = {
    "FourierBasis": "tamis.basis",
    "GaussianBasis": "tamis.basis",
    "LogCounts": "tamis.text.weights",
    "NaiveBayesWeights": "tamis.text.weights",
    "PolynomialBasis": "tamis.basis",
    "SigmoidBasis": "tamis.basis",
    "SplineBasis": "tamis.basis",
    "TfIdf": "tamis.text.weights",
    "TokenCounts": "tamis.text.counts",
    "UnitLength": "tamis.text.weights",
}
_PIPELINE = "Pipeline"  # scikit-learn's, of these
_TELLING = MODELS | TRANSFORMERS
_KNOWN = (*FACES, *_TELLING, _PIPELINE)
_TOLD = Record({"params": Anything(), "state": Anything()})
_STEPS = Record(
    {
        "steps": Series(
            list,
            Group({"name": Text(), "kind": Text((*FACES, *_TELLING)), "content": Anything()}),
            "steps",
        )
    }
)
_LONGEST = 300  # characters of what is wrong, which may repeat what a file says


def save(model: Any, path: str | Path) -> None:
    """Write a fitted model, a transformer of text or of columns, or a pipeline of them to a file.

    >>> import tamis, tempfile
    >>> model = tamis.GaussianNB().fit([[1.0], [1.5], [4.0], [4.5]], ["low", "low", "high", "high"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.tamis")
    ...     tamis.load(f"{folder}/model.tamis").predict([[3.5]]).tolist()
    ['high']
    """
    if isinstance(model, Pipeline):
        name = _PIPELINE
        steps = [(step, type(part).__name__, _content(part)) for step, part in model.steps]
        content: dict[str, Any] = {"steps": steps}
    else:
        name, content = type(model).__name__, _content(model)
    arrays: dict[str, Any] = {}
    files.write(path, {"face": name, "content": values.pack(content, arrays)}, arrays)


def load(path: str | Path) -> Any:
    """Read a model that `save` wrote. The file may come from a stranger: no code in it runs.

    Whatever is wrong with what a file holds is a ValueError that names the file. Sizes, types and ranges are
    checked before a model is made of it (see `saved`), and no number in it makes a model larger than the file
    and some 32 MB. What a model learns later goes by the parameters that the file holds: see `get_params`.
    """
    manifest, arrays = files.read(path)
    name = manifest.get("face")
    if not isinstance(name, str) or name not in _KNOWN:
        raise ValueError(
            f"{path} holds a {str(name)[:40]!r}, expected one of {', '.join(_KNOWN)}: fetch the file anew"
        )
    length = Path(path).stat().st_size
    try:
        content = values.unpack(manifest.get("content"), arrays)
        if name != _PIPELINE:
            return _made(name, content, length)
        check(_STEPS, content, "the pipeline", length)
        return Pipeline([(step, _made(kind, part, length)) for step, kind, part in content["steps"]])
    except Exception as problem:  # noqa: BLE001 (a stranger's file can make any line of a constructor fail)
        said = " ".join(str(problem).split())[:_LONGEST] or type(problem).__name__
        raise ValueError(
            f"{path} does not hold a {name} as this tamis knows it ({said}): was it made by a newer one?"
        ) from None


def _content(model: Any) -> dict[str, Any]:
    """What a file holds of a model."""
    name, home = type(model).__name__, type(model).__module__
    if name in _TELLING and f"{home}.".startswith(f"{_TELLING[name]}."):
        given = model.get_params(deep=False)
        params = {name: sorted(x) if isinstance(x, set | frozenset) else x for name, x in given.items()}
        if "dtype" in params:
            params["dtype"] = np.dtype(params["dtype"]).name
        return {"params": params, "state": model._saved()}
    if FACES.get(name) != home:
        raise TypeError(f"a {name} cannot be saved, expected one of {', '.join((*FACES, *_TELLING))}")
    fitted = model.state_
    schema = fitted.schema
    return {
        "params": model.get_params(deep=False),
        "schema": (schema.width, schema.kinds, schema.names, schema.library),
        "statistic": fitted.statistic,
        "declared": fitted.declared,
        "history": _describe_history(fitted.history),
        "temperature": fitted.temperature,
        "choice": model._describe_choice(),
    }


def _made(name: str, content: Any, length: int) -> Any:
    """The model that a file of so many bytes holds."""
    home = (FACES | _TELLING)[name]
    kind = getattr(importlib.import_module(home), name)
    if name in _TELLING:
        check(_TOLD, content, name, length)
        check(saved.STATES[name], content["state"], name, length)
        found = _constructed(kind, content["params"], length)
        found._restore(content["state"])
        return found
    saved_classifiers.check_face(content, length)
    found = _constructed(kind, content["params"], length)
    schema = Schema(*content["schema"])
    statistic = content["statistic"]
    model = found._model(schema, Keys(()), Keys(()))
    saved_classifiers.check_statistic(model, statistic, schema.width, length)
    model = found._restore_choice(model, content.get("choice"))
    history = _read_history(content["history"])
    fitted = GenerativeState(schema, model, statistic, content["declared"], None, history)
    fitted.temperature = float(content["temperature"])
    found._fitted = fitted
    return found


def _describe_history(history: History | None) -> dict[str, Any] | None:
    if history is None:
        return None
    return {
        "log_likelihoods": np.array(history.log_likelihoods),
        "weight": history.weight,
        "converged": history.converged,
    }


def _read_history(content: dict[str, Any] | None) -> History | None:
    if content is None:
        return None
    return History(tuple(content["log_likelihoods"].tolist()), float(content["weight"]), content["converged"])


def _constructed(kind: Any, params: Any, length: int) -> Any:
    """A model of these parameters, which it checks itself when it needs them."""
    if type(params) is not dict:
        raise ValueError("it has no parameters")
    for name, rule in saved.PARAMETERS.items():
        if name in params:
            check(rule, params[name], name, length)
    return kind(**params)
