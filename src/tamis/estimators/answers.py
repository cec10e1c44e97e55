"""From posteriors to what scikit-learn's users expect to get back."""

import importlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis import validate
from tamis.arrays import Array
from tamis.estimators.explanation import Explanation, pairs
from tamis.estimators.reading import make_generator
from tamis.models.generative import Contrast, Generative, LabelledRows, Posterior
from tamis.schema import Schema
from tamis.stats import Keys
from tamis.tables import Table


def decision(joint: Array) -> Array:
    """Log-odds (n,) for two classes, else the log-joint."""
    if joint.shape[1] != 2:
        return joint[:, 0] if joint.shape[1] == 1 else joint
    with np.errstate(invalid="ignore"):
        odds = joint[:, 1] - joint[:, 0]
    return np.where(np.isnan(odds), 0.0, odds)


def place_of(keys: Keys, label: object) -> int:
    """Where a class is among the keys."""
    if label not in keys:
        raise ValueError(f"got class {label!r}, expected one of {keys!r}")
    return int(keys.find([label])[0])


def opponents(
    joint: Array, keys: Keys, for_: object = None, against: object = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The two classes of each row that an explanation compares: those that are named, and the likeliest."""
    one, other = pairs(joint)
    for named, place in ((for_, one), (against, other)):
        if named is not None:
            place[:] = place_of(keys, named)
    if for_ is not None and against is not None and for_ == against:
        raise ValueError(f"got class {for_!r} against itself, expected two classes")
    return apart(joint, one, other, moves=for_ is None) if (one == other).any() else (one, other)


def apart(
    joint: Array, one: NDArray[np.int64], other: NDArray[np.int64], moves: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where both classes of a pair are the same, the one that was not named moves to the next best."""
    others = joint.copy()
    others[np.arange(len(joint)), other if moves else one] = -np.inf
    best = others.argmax(axis=1).astype(np.int64)
    same = one == other
    return (np.where(same, best, one), other) if moves else (one, np.where(same, best, other))


def explanation(
    face: Any,
    contrasts: dict[str, Contrast],
    prior: Array,
    one: NDArray[np.int64],
    other: NDArray[np.int64],
    X: object,
    table: Table,
) -> Explanation:
    """The blocks' contrasts as columns in the order of the data; a frame for a frame."""
    schema = face.state_.schema
    blocks = face._blocks(schema)
    parts = [(blocks[name].columns, contrast) for name, contrast in contrasts.items()]
    rest = sum((contrast.rest for _, contrast in parts), np.zeros(len(one)))
    if len(parts) == 1 and parts[0][0] is None:
        terms: Any = parts[0][1].terms
    else:
        terms = np.zeros((len(one), schema.width))
        for columns, contrast in parts:
            found = contrast.terms.toarray() if hasattr(contrast.terms, "toarray") else contrast.terms
            terms[:, list(columns if columns is not None else range(schema.width))] = found
    names = tuple(schema.name(j) for j in range(schema.width))
    if schema.names is not None and table.names is not None and not hasattr(terms, "tocsr"):
        library = type(X).__module__.partition(".")[0]
        terms = frame(dict(zip(names, terms.T, strict=True)), library, like=X)
    labels = face.classes_
    return Explanation(terms, rest, prior, labels[one], labels[other], names)


def linear_terms(table: Table, mean: Array, coefficients: Array, schema: Schema, like: object) -> Any:
    """(x − mean) · coefficients of each row (n, d): sparse for sparse rows, a frame for a frame."""
    if table.sparse is not None:
        rows = table.sparse.matrix()
        each = np.repeat(np.arange(len(coefficients)), np.diff(rows.indptr))
        rows.data = rows.data * coefficients[each, rows.indices]
        return rows
    terms = (table.numbers() - mean) * coefficients
    if schema.names is None or table.names is None:
        return terms
    return frame(dict(zip(schema.names, terms.T, strict=True)), type(like).__module__.partition(".")[0], like)


def frame(columns: dict[Any, Any], library: str | None, like: Any = None) -> Any:
    """A frame of that library, with the row names of the one it is like."""
    if library == "pandas":
        pandas = importlib.import_module("pandas")
        return pandas.DataFrame(columns, index=getattr(like, "index", None))
    if library in ("polars", "pyarrow", "modin", "cudf"):
        narwhals = importlib.import_module("narwhals.stable.v2")
        found = narwhals.from_dict({str(name): list(c) for name, c in columns.items()}, backend=library)
        return found.to_native()
    return np.column_stack(list(columns.values()))


def drawn(
    face: Any, posterior: Posterior, schema: Schema, n: int, random_state: Any
) -> tuple[Any, NDArray[Any]]:
    """Rows in the order of the data's columns, a frame if the model was fitted to one, and their labels."""
    if int(n) != n or n < 1:
        raise ValueError(f"got n_samples={n}, expected a whole number of at least 1")
    group, blocks = posterior.draw(make_generator(random_state), int(n))
    columns: list[NDArray[Any]] = [np.empty(0)] * schema.width
    for name, block in face._blocks(schema).items():
        places = range(schema.width) if block.columns is None else block.columns
        for place, values in zip(places, blocks[name], strict=True):
            columns[place] = _as_learned(values, schema.kind(place), block.type_of_draws)
    labels = face.classes_[group]
    if schema.library is not None and schema.names is not None:
        return frame(dict(zip(schema.names, columns, strict=True)), schema.library), labels
    if isinstance(schema.kinds, tuple) and len(set(schema.kinds)) > 1:  # flags and numbers stay what they are
        columns = [values.astype(object) for values in columns]
    return np.column_stack(columns), labels


def _as_learned(values: NDArray[Any], kind: str, draws: type[np.generic]) -> NDArray[Any]:
    """Counts and flags as integers and flags again, if the column held those."""
    if values.dtype.kind != "f" or draws is np.float64 or kind not in ("bool", "integer"):
        return values
    return values.astype(draws if kind == "bool" else np.int64)


def held_out(
    model: Generative, evidence: LabelledRows, folds: int | str | ArrayLike, groups: Any, random_state: Any
) -> validate.HeldOut:
    """Cross-validation by what `folds` says."""
    fold = fold_of_each(folds, len(evidence.rows), evidence.labels.group, groups, random_state)
    if fold is None:
        return validate.leave_one_out(model, evidence)
    return validate.cross_validate(model, evidence, fold)


def fold_of_each(
    folds: int | str | ArrayLike,
    rows: int,
    group: NDArray[np.int64] | None,
    groups: Any,
    random_state: Any,
) -> NDArray[np.int64] | None:
    """The fold of each row by what `folds` says; None to leave out one at a time."""
    if isinstance(folds, str):
        if folds != "leave-one-out":
            raise ValueError(f"got folds={folds!r}, expected a number, folds of rows, or 'leave-one-out'")
        return None
    if np.ndim(folds) == 0:
        rng = None if random_state is None else make_generator(random_state)
        if np.asarray(folds).dtype.kind not in "iu":
            raise TypeError(
                f"got folds={folds!r}, expected a whole number, the fold of each row, or 'leave-one-out'"
            )
        return validate.split(rows, int(np.asarray(folds)), rng, group if groups is None else None, groups)
    _, fold = Keys.of(np.asarray(folds))
    if len(fold) != rows:
        raise ValueError(f"got {len(fold)} folds for {rows} rows, expected one per row")
    return fold
