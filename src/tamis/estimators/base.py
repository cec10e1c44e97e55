"""The base classes of all faces (scikit-learn estimators), each of which holds parameters and one state.

The state is all that was learned, one immutable value. Each method that learns makes a new state and assigns
it at the end, so that a call that raises leaves the model unchanged. The base classes check that a model is
fitted, copy fitted attributes, read names of columns, set the tags by which scikit-learn asks what input an
estimator accepts, check models that are to be merged, report progress and save files.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if

from tamis.arrays import one_line
from tamis.engines import Batch, BatchShards, DatabaseShards, UnsupportedSumsError
from tamis.estimators.sharded import learn_in_one_pass, make_shards_error
from tamis.inputs import read_first_table, read_next_table, to_label_array
from tamis.progress import Bar, StepReport
from tamis.schema import Schema
from tamis.tables import Table

# Parameters that some face accepts as an array; each face checks their shapes.
_ARRAY_PARAMETERS = frozenset(
    (
        "alpha",
        "beta",
        "class_prior",
        "means_init",
        "min_categories",
        "precisions_init",
        "prior",
        "priors",
        "weights_init",
    )
)


class State(Protocol):
    """All that a face has learned."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was learned yet; the columns may be known already."""


class TableState(State, Protocol):
    """All that a face has learned from rows of columns."""

    @property
    def schema(self) -> Schema:
        """The columns that the first rows had."""


S = TypeVar("S", bound=State)
T = TypeVar("T", bound=TableState)

# scikit-learn 1.9 introduced callbacks. Their module imports the package rich, which takes 0.1 s, so it
# is imported only when a callback is set.
_CALLBACKS = "sklearn.callback"
_HAS_CALLBACKS = find_spec(_CALLBACKS) is not None


class _CallbackSupport:
    """The methods of scikit-learn's `CallbackSupportMixin`, which is imported when one of them is called."""

    @available_if(lambda face: _HAS_CALLBACKS)  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def set_callbacks(self, *callbacks: Any) -> Self:
        """Set the callbacks that scikit-learn calls during `fit`; without arguments, remove all callbacks."""
        import_module(_CALLBACKS).CallbackSupportMixin.set_callbacks(self, *callbacks)
        return self

    def _init_callback_context(self, **options: Any) -> Any:
        mixin = import_module(_CALLBACKS).CallbackSupportMixin
        return vars(mixin)["_init_callback_context"](self, **options)


def _has_callbacks(face: object) -> bool:
    return bool(getattr(face, "_skl_callbacks", None))


def _refuse_matrices(params: dict[str, Any]) -> None:
    """Raise if an array or list of two or more axes was given for a parameter that must not be an array.

    Arrays of one axis are refused later, by the check of each parameter.
    """
    for name, value in params.items():
        if name not in _ARRAY_PARAMETERS and isinstance(value, np.ndarray | list) and _count_axes(value) > 1:
            raise ValueError(f"got {name}={one_line(value)}, expected one value: pass no array")


def _count_axes(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return value.ndim
    return 1 + max((_count_axes(item) for item in value if isinstance(item, np.ndarray | list)), default=0)


def with_sklearn_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate `fit`: let scikit-learn call the callbacks that were given to `set_callbacks`.

    Before that, parameters that are matrices are refused. One decorator does both, because every `fit` needs
    both, and no other method needs either.
    """

    @wraps(method)
    def check_and_call(face: "Face[Any]", *args: Any, **kwargs: Any) -> Any:
        _refuse_matrices(face.get_params(deep=False))
        if not _has_callbacks(face):
            return method(face, *args, **kwargs)
        return import_module(_CALLBACKS).with_callbacks(method)(face, *args, **kwargs)

    return check_and_call


def refuse_to_forget_all(weight: float) -> None:
    """Raise if the rows that are left have no weight."""
    if not weight > 0:
        raise ValueError(
            "every row would be forgotten, expected some to be left: make a new model instead; nothing was "
            "changed"
        )


def _check_and_copy(name: str, read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap the getter of a fitted attribute: raise if the model is not fitted, otherwise return a copy."""

    @wraps(read)
    def read_copy(self: Any) -> Any:
        self._require_state(name)
        return _copy_arrays(read(self))

    return read_copy


def _copy_arrays(value: Any) -> Any:
    """Copy an array, or each array in a list; return other values as they are."""
    if type(value) is np.ndarray:
        return value.copy()
    if type(value) is list:
        return [item.copy() if type(item) is np.ndarray else item for item in value]
    return value


class Face(_CallbackSupport, BaseEstimator, Generic[S]):  # type: ignore[misc]  # scikit-learn has no types
    """An estimator that stores all it has learned in one state, `_fitted`.

    Every property whose name ends in `_` raises NotFittedError if nothing was learned. An array, or a list of
    arrays, is copied, so that writing to it does not change the model.
    """

    verbose: int

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, member in list(vars(cls).items()):
            is_public = name.endswith("_") and not name.startswith("_")
            if is_public and isinstance(member, property) and member.fget is not None:
                read = _check_and_copy(name, member.fget)
                setattr(cls, name, property(read, member.fset, member.fdel, member.__doc__))

    # ── the state ──

    def _get_state_or_none(self) -> S | None:
        """Return the state, which may be empty; None if no rows and no columns were given yet."""
        return self.__dict__.get("_fitted")

    def _require_state(self, attribute: str = "") -> S:
        """Return the state; if there is none, raise NotFittedError, which names the attribute, if given."""
        state = self._get_state_or_none()
        if state is None or state.is_empty:
            message = f"this {type(self).__name__} has learned nothing yet, expected a call to fit first"
            raise NotFittedError(f"{message}: no {attribute}" if attribute else message)
        return state

    @property
    def state_(self) -> S:
        """All that was learned, as one value; `merge` and `save` read it."""
        return self._require_state()

    @state_.setter
    def state_(self, state: S) -> None:
        self._fitted = state

    def __sklearn_is_fitted__(self) -> bool:
        state = self._get_state_or_none()
        return state is not None and not state.is_empty

    @contextmanager
    def _set_params_or_roll_back(self, params: dict[str, Any]) -> Iterator[None]:
        """Set parameters; restore the old ones if the `with` block raises or is interrupted."""
        before = self.get_params(deep=False)
        try:
            self.set_params(**params)
            yield
        except BaseException:
            self.set_params(**before)
            raise

    # ── shards ──

    def learn_shards(self, shards: BatchShards[Batch], anew: bool) -> Self:
        """Raise; faces that learn from shards override this, for `fit` if `anew`, else for `partial_fit`."""
        raise make_shards_error(self)

    # ── files ──

    def save(self, path: str | Path) -> None:
        """Write the model to a file that `tamis.load` reads, and that can run no code."""
        import_module("tamis.estimators.saved").save(self, path)  # imported here: it loads sklearn.pipeline

    def describe_state(self) -> dict[str, Any]:
        """Return the state as a dict of types that can be saved."""
        raise NotImplementedError

    def restore_state(self, state: dict[str, Any]) -> None:
        """Set the state from what `describe_state` returned; raise if it does not match the parameters."""
        raise NotImplementedError

    # ── progress ──

    @contextmanager
    def _report_progress(self, max_steps: int, X: object, y: object = None) -> Iterator[StepReport]:
        """Yield a function to be called after each step, with its objective or None.

        The function draws a bar if `verbose` is set, and calls the callbacks of scikit-learn, to which X and
        y are passed.
        """
        bar = Bar(type(self).__name__, max_steps) if self.verbose else None
        context = None  # of scikit-learn: it calls the callbacks at the start and end of `fit` and of steps
        if _has_callbacks(self):
            context = self._init_callback_context(max_subtasks=max_steps)
            context.call_on_fit_task_begin(estimator=self, X=X, y=y)

        def report_step(objective: float | None) -> None:
            if bar is not None:
                bar.step(objective)
            if context is not None:
                step_context = context.subcontext(task_name="step")
                step_context.call_on_fit_task_begin(estimator=self, X=X, y=y)
                step_context.call_on_fit_task_end(estimator=self, X=X, y=y)

        try:
            yield report_step
        finally:
            if bar is not None:
                bar.close()
            if context is not None:
                context.call_on_fit_task_end(estimator=self, X=X, y=y)


class TableFace(Face[T]):
    """A face that learns from rows of columns.

    To learn from shards, it needs `partial_fit`, `merge` and `infer`; or it overrides `learn_shards`.
    """

    @property
    def _accepts_sparse(self) -> bool:
        """Whether rows may be sparse."""
        return False

    @property
    def _takes_missing(self) -> bool:
        """Whether values may be missing (NaN)."""
        return False

    def learn_shards(self, shards: BatchShards[Batch], anew: bool) -> Self:
        """Learn from rows in shards (`tamis.engines`), as `fit` if `anew`, else as `partial_fit`."""
        learned: Any = learn_in_one_pass(self, shards).face
        if anew or self._get_state_or_none() is None:
            # So far, statistics were only added. `infer` computes the posterior, or raises if it cannot.
            self.state_ = (learned.infer() if anew else learned).state_
        else:
            self.merge(learned)
        return self

    def learn_sums(self, shards: DatabaseShards) -> None:
        """Learn from sums that a database computes; raise UnsupportedSumsError if it cannot compute them."""
        raise UnsupportedSumsError(f"a {type(self).__name__} needs sums that a database does not compute")

    def expect_columns(self, X: object) -> Schema:
        """Read the columns of the first shard's rows; subclasses may store them and their kinds."""
        return read_first_table(X, self._accepts_sparse)[1]

    def _list_states_to_merge(self, others: tuple[Self, ...]) -> list[T]:
        """Return the states of this model and of others of its class, which must have the same columns."""
        states = [self.state_]
        for other in others:
            if type(other) is not type(self):
                raise TypeError(
                    f"got a {type(other).__name__} to merge, expected another {type(self).__name__}"
                )
            ours, theirs = states[0].schema, other.state_.schema
            named = None not in (ours.names, theirs.names)
            if theirs.width != ours.width or (named and theirs.names != ours.names):
                raise ValueError("the models have different columns, expected the same in the same order")
            states.append(other.state_)
        return states

    def _read_next_table(self, X: object) -> Table:
        """Read further rows of the same columns."""
        return read_next_table(
            X, self.state_.schema, type(self).__name__, self._accepts_sparse, takes_missing=False
        )

    @property
    def n_features_in_(self) -> int:
        """The number of columns."""
        return self.state_.schema.width

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the columns, if these were strings."""
        names = self.state_.schema.names
        if names is None or not all(isinstance(name, str) for name in names):
            raise AttributeError(f"this {type(self).__name__} was fitted without names of columns")
        return to_label_array(names).astype(object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._accepts_sparse
        tags.input_tags.allow_nan = self._takes_missing
        return tags
