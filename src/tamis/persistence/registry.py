"""Save models of the listed classes to files, and load them; models of other classes are refused.

A file names a class; the name is looked up in the list of entries. An entry has the module of the class, and
the rule that the saved state must satisfy before the model is built.
"""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tamis.persistence import archive, values
from tamis.persistence.rules import Anything, DictOf, Rule, SequenceOf, Text, TupleOf, check

_CONTENT_RULE = DictOf({"params": Anything(), "state": Anything()})  # unless `Entry.is_state_inline`
# The key of the manifest (the JSON in a file) under which it has the name of the class. Most classes are
# faces, which are scikit-learn estimators; this key is used for the others, too.
_CLASS_KEY = "face"
_PIPELINE = "Pipeline"
_MAX_REASON = 300  # characters of an error that are shown: it may quote long content of a file


class Saveable(Protocol):
    """A model that can be saved: it has parameters, and a state of the types that `values` can pack."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of its constructor."""

    def describe_state(self) -> dict[str, Any]:
        """Return what was learned, by name, in types that `values` can pack."""

    def restore_state(self, state: dict[str, Any]) -> None:
        """Restore the state from its description; raise if it does not match the parameters."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A class that a file may name."""

    name: str
    module: str  # the module or package that exports the class; imported when such a file is read
    rule: Rule  # of the state
    # True: the content is {"params": …, **state}; False: it is {"params": …, "state": state}
    is_state_inline: bool = False

    def matches(self, model: object) -> bool:
        """Return whether the model's class has this name and is defined in this module or below it.

        The class itself is not compared, so that its module need not be imported.
        """
        name, module = type(model).__name__, type(model).__module__
        return name == self.name and f"{module}.".startswith(f"{self.module}.")

    def describe(self, model: Saveable) -> dict[str, Any]:
        """Return what a file with this model has under "content"."""
        params = {  # sets as lists, because `values` cannot pack sets
            name: sorted(value) if isinstance(value, set | frozenset) else value
            for name, value in model.get_params(deep=False).items()
        }
        if "dtype" in params:
            params["dtype"] = np.dtype(params["dtype"]).name
        state = model.describe_state()
        return {"params": params, **state} if self.is_state_inline else {"params": params, "state": state}

    def make(self, content: Any, file_bytes: int, parameters: Mapping[str, Rule]) -> Saveable:
        """Build the model from what `describe` returned, perhaps forged; raise if it breaks a rule.

        `file_bytes` is the size of the file, which bounds what the rules let the model allocate. `parameters`
        has rules for parameters of the constructor, by name.
        """
        if type(content) is not dict or type(params := content.get("params")) is not dict:
            raise ValueError("it has no parameters")
        if self.is_state_inline:
            state = {name: value for name, value in content.items() if name != "params"}
        else:
            check(_CONTENT_RULE, content, self.name, file_bytes)
            state = content["state"]
        check(self.rule, state, self.name, file_bytes)
        for name, rule in parameters.items():
            if name in params:
                check(rule, params[name], name, file_bytes)
        model: Saveable = getattr(importlib.import_module(self.module), self.name)(**params)
        model.restore_state(state)
        return model


@dataclass(frozen=True)
class Registry:
    """The classes whose models can be saved, and the class of pipelines, whose steps are such models."""

    entries: Sequence[Entry]
    pipeline: type  # its constructor takes a list of (name, model), which is its attribute `steps`
    # Rules, by name, for those constructor parameters of any class that decide how much memory a model takes.
    parameters: Mapping[str, Rule] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The names of the classes whose models can be saved."""
        return [entry.name for entry in self.entries]

    def save(self, model: Any, path: str | Path) -> None:
        """Write a model, or a pipeline of models, to a file."""
        if isinstance(model, self.pipeline):
            name = _PIPELINE
            steps = [(step, *self.describe(part)) for step, part in model.steps]  # type: ignore[attr-defined]
            content: dict[str, Any] = {"steps": steps}
        else:
            name, content = self.describe(model)
        arrays: archive.Arrays = {}
        archive.write(path, {_CLASS_KEY: name, "content": values.pack(content, arrays)}, arrays)

    def load(self, path: str | Path) -> Any:
        """Read a model that `save` wrote.

        Raise ValueError, which names the file, if the content is anything else; a missing or unreadable file
        gives an OSError, such as FileNotFoundError.
        """
        manifest, arrays = archive.read(path)
        name, known = manifest.get(_CLASS_KEY), [*self.names, _PIPELINE]
        if not isinstance(name, str) or name not in known:
            raise ValueError(
                f"{path} holds a {str(name)[:40]!r}, expected one of {', '.join(known)}: fetch the file anew"
            )
        file_bytes = Path(path).stat().st_size
        try:
            content = values.unpack(manifest.get("content"), arrays)
            return (
                self._make_pipeline(content, file_bytes)
                if name == _PIPELINE
                else self.restore(name, content, file_bytes)
            )
        except Exception as problem:  # noqa: BLE001 (an untrusted file can make any line of a constructor fail)
            reason = " ".join(str(problem).split())[:_MAX_REASON] or type(problem).__name__
            raise ValueError(
                f"{path} does not hold a {name} that this version of tamis can read ({reason}): "
                "was it written by a newer version?"
            ) from None

    def describe(self, model: Any) -> tuple[str, dict[str, Any]]:
        """Return the name of a model's class, and what a file has under "content" for the model."""
        for entry in self.entries:
            if entry.matches(model):
                return entry.name, entry.describe(model)
        raise TypeError(f"a {type(model).__name__} cannot be saved, expected one of {', '.join(self.names)}")

    def restore(self, name: str, content: Any, file_bytes: int) -> Saveable:
        """Build the model from the name of its class and its content: the inverse of `Registry.describe`."""
        entry = next(entry for entry in self.entries if entry.name == name)
        return entry.make(content, file_bytes, self.parameters)

    def _make_pipeline(self, content: Any, file_bytes: int) -> Any:
        step = TupleOf({"name": Text(), "class_name": Text(tuple(self.names)), "content": Anything()})
        check(DictOf({"steps": SequenceOf(list, step, "steps")}), content, "the pipeline", file_bytes)
        return self.pipeline(
            [
                (name, self.restore(class_name, part, file_bytes))
                for name, class_name, part in content["steps"]
            ]
        )
