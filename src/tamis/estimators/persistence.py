"""A fitted face ↔ a file of numbers and names: it holds no code, and loading it runs none."""

import importlib
from pathlib import Path
from typing import Any

from tamis.estimators import files, values
from tamis.estimators.reading import Schema
from tamis.estimators.state import Fitted
from tamis.models.generative import CLASSES
from tamis.stats import Joint, Keys

# The only classes that a file can name, and where they live.
FACES = {
    "BernoulliNB": "tamis.estimators.discrete",
    "CategoricalNB": "tamis.estimators.discrete",
    "ComplementNB": "tamis.estimators.discrete",
    "FisherDiscriminant": "tamis.estimators.discriminant",
    "GaussianDiscriminant": "tamis.estimators.discriminant",
    "GaussianNB": "tamis.estimators.naive_bayes",
    "Mixture": "tamis.estimators.mixture",
    "MultinomialNB": "tamis.estimators.discrete",
    "NaiveBayes": "tamis.estimators.naive_bayes",
    "PoissonNB": "tamis.estimators.discrete",
}


def save(face: Any, path: str | Path) -> None:
    """Write a fitted model to a file.

    >>> import tamis, tempfile
    >>> model = tamis.GaussianNB().fit([[1.0], [1.5], [4.0], [4.5]], ["low", "low", "high", "high"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.tamis")
    ...     tamis.load(f"{folder}/model.tamis").predict([[3.5]]).tolist()
    ['high']
    """
    name = type(face).__name__
    if FACES.get(name) != type(face).__module__:
        raise TypeError(f"a {name} cannot be saved, expected one of {', '.join(FACES)}")
    fitted = face._checked()
    schema = fitted.schema
    content = {
        "params": face.get_params(deep=False),
        "schema": (schema.width, schema.kinds, schema.names, schema.library),
        "statistic": fitted.learned,
        "declared": fitted.declared,
        "iterations": fitted.iterations,
        "temperature": fitted.temperature,
        "extra": face._extra_state() if hasattr(face, "_extra_state") else None,
    }
    arrays: dict[str, Any] = {}
    files.write(path, {"face": name, "content": values.pack(content, arrays)}, arrays)


def load(path: str | Path) -> Any:
    """Read a model that `save` wrote."""
    manifest, arrays = files.read(path)
    name = manifest.get("face")
    if not isinstance(name, str) or name not in FACES:
        raise ValueError(f"{path} holds a {name!r}, expected one of {', '.join(FACES)}: fetch the file anew")
    content = values.unpack(manifest.get("content"), arrays)
    face = getattr(importlib.import_module(FACES[name]), name)
    try:
        found = face(**content["params"])
        width, kinds, names, library = content["schema"]
        statistic, declared = content["statistic"], content["declared"]
        if not isinstance(statistic, Joint) or not isinstance(declared, Keys):
            raise TypeError("no statistic")
        schema = Schema(width, kinds, names, library)
        model = found._model(schema, Keys(()), Keys(()))
        if set(statistic.parts) != {CLASSES, *model.blocks}:
            raise TypeError("its statistic is of other columns")
        fitted = Fitted(schema, model, statistic, declared, None, int(content["iterations"]))
        fitted.temperature = float(content["temperature"])
        extra = content["extra"]
    except (TypeError, KeyError, ValueError) as problem:
        raise ValueError(
            f"{path} does not hold a {name} as this tamis knows it ({problem}): was it made by a newer one?"
        ) from None
    found._fitted = fitted
    if extra is not None:
        found._take_extra_state(extra)
    return found
