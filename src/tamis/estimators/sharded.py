"""Fit an estimator (face) to shards, the parts of data in files or on a cluster.

A face that learns in one pass is fitted to each shard separately, by the worker that has the shard, and the
results (`Learned`) are merged. Faces that iterate override `Face.learn_shards`.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import Any, Generic, TypeVar, cast

import numpy as np
from sklearn.base import clone

from tamis import protocols
from tamis.engines import (
    Batch,
    BatchShards,
    DatabaseShards,
    Request,
    UnsupportedSumsError,
    is_source,
    open_shards,
)
from tamis.schema import Schema
from tamis.warning import warn

F = TypeVar("F")
M = TypeVar("M", bound=Callable[..., Any])

_ROLES = ("y", "sample_weight")  # arguments of `fit` that are fields of `Request`; the others are in `others`


@dataclass(frozen=True, slots=True, eq=False)
class Learned(Generic[F]):
    """A face fitted to some shards; + merges the faces of two, and * multiplies the weight of its rows."""

    face: F | None  # None if it learned nothing
    unlabelled: int = 0  # the number of rows that were skipped because their label is missing

    def __add__(self, other: "Learned[F]") -> "Learned[F]":
        unlabelled = self.unlabelled + other.unlabelled
        if self.face is None or other.face is None:
            return Learned(other.face if self.face is None else self.face, unlabelled)
        merged: Any = copy.copy(self.face)
        return Learned(merged.merge(other.face), unlabelled)

    def __mul__(self, weight: float) -> "Learned[F]":
        if self.face is None:
            return self
        scaled: Any = copy.copy(self.face)
        return Learned(scaled.decay(weight), self.unlabelled)


@dataclass(frozen=True, slots=True, eq=False)
class LearnShard(Generic[F]):
    """A function that fits a copy of a face to a batch; it returns None if no row has a weight above 0."""

    face: F
    schema: Schema | None = None  # the columns that all shards must have
    skip_unlabelled: bool = False  # whether rows whose label is missing are skipped

    def __call__(self, batch: Batch) -> Learned[F] | None:
        if not has_rows(batch):
            return None
        face: Any = copy.copy(self.face)
        given = {"y": batch.y, "sample_weight": batch.sample_weight}
        arguments = {name: value for name, value in given.items() if value is not None}
        skipped = 0
        if self.skip_unlabelled:
            skipped = face.learn_labelled(batch.X, **arguments)
        else:
            face.partial_fit(batch.X, **arguments, **batch.others)
        if skipped == batch.rows:
            return Learned(None, skipped)
        if self.schema is not None:
            refuse_drift(face.state_.schema, self.schema)
        return Learned(face, skipped)


def has_rows(batch: Batch) -> bool:
    """Return whether a batch has rows with a weight above 0."""
    weights = batch.sample_weight
    return batch.rows > 0 and (weights is None or bool(np.any(np.asarray(weights) != 0)))


def refuse_drift(schema: Schema, expected: Schema) -> None:
    """Raise if a shard's schema differs from that of the first: other columns, or another order."""
    if schema.width != expected.width:
        raise ValueError(
            f"got {schema.width} columns, expected the {expected.width} of the first shard: "
            "give all shards the same columns"
        )
    if None in (schema.names, expected.names) or schema.names == expected.names:
        return
    ours, theirs = next(
        (ours, theirs)
        for ours, theirs in zip(schema.names or (), expected.names or (), strict=True)
        if ours != theirs
    )
    raise ValueError(
        f"got column {ours!r} where the first shard has {theirs!r}, expected the same in the same order"
    )


def learn_in_one_pass(face: F, shards: BatchShards[Batch], skip_unlabelled: bool = False) -> Learned[F]:
    """Fit a face with the parameters of `face` to all shards in one pass."""
    fresh: Any = clone(face)
    if isinstance(shards, DatabaseShards):
        try:
            fresh.learn_sums(shards)
        except UnsupportedSumsError as reason:
            warn(
                f"the database cannot compute the sums of this model, so that its rows are read: {reason}",
                UserWarning,
            )
        else:
            return Learned(fresh)
    head = shards.read_first()
    schema = fresh.expect_columns(head.X) if has_rows(head) else None
    learned: Learned[F] = shards.total(LearnShard(fresh, schema, skip_unlabelled))
    return learned


def with_shards(method: M) -> M:
    """Decorate `fit` or `partial_fit`: X may be data in shards; then y and sample_weight name its columns."""
    arguments = signature(method)
    is_fit = method.__name__ == "fit"

    @wraps(method)
    def open_and_call(face: Any, X: object, *args: Any, **kwargs: Any) -> Any:
        if not is_source(X):
            return method(face, X, *args, **kwargs)
        given = dict(arguments.bind_partial(face, X, *args, **kwargs).arguments)
        # The first two arguments are the face and X.
        others = {name: value for name, value in list(given.items())[2:] if name not in _ROLES}
        if others.pop("classes", None) is not None:
            raise TypeError(
                "got classes beside shards, expected none: the shards show which classes there are"
            )
        bar = type(face).__name__ if getattr(face, "verbose", 0) else ""
        request = Request(given.get("y"), given.get("sample_weight"), others, progress=bar)
        return face.learn_shards(open_shards(X, request), anew=is_fit)

    return cast("M", open_and_call)


def make_shards_error(face: object) -> TypeError:
    """Return the error for a face that does not learn from shards."""
    return TypeError(
        f"a {type(face).__name__} does not learn from shards, expected rows in memory: read them first"
    )


def fit(
    model: Any,
    data: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    columns: list[str] | None = None,
    engine: Any = None,
    progress: bool = False,
) -> Any:
    """Fit a face, or a model of `tamis.models`, to data that may be larger than memory, or on a cluster.

    `data` is a path of Parquet, CSV or Arrow files, a dataset (some files) or a reader (a stream) of Arrow, a
    relation (a query) of DuckDB, a table of a database (`tamis.engines.sql`), a memory map, batches
    (`tamis.engines.Batches`, or an iterator of them), an array, data frame or bag (a list in parts) of Dask,
    or a data frame of Spark. `y` and `sample_weight` are the names of columns, or data of the same kind.
    `columns` are the names of the columns to learn from; by default all others. `engine` says where the rows
    are observed: "threads", "sql", or in a cluster, given by a Client of Dask or a SparkSession; by default
    in threads of this process, or by the engine that holds the data. A face is fitted in place and returned;
    for a model, the posterior is returned.
    """
    name = type(model).__name__ if progress else ""
    shards = open_shards(data, Request(y, sample_weight, columns=columns, engine=engine, progress=name))
    if hasattr(model, "learn_shards"):
        return model.learn_shards(shards, anew=True)
    return protocols.fit(model, shards.map(_unwrap_rows))


def _unwrap_rows(batch: Batch) -> Any:
    """Return the rows alone if the batch has no targets, weights or other arguments; else the batch."""
    has_rows_alone = batch.y is None and batch.sample_weight is None and not batch.others
    return batch.X if has_rows_alone else batch
