"""Immutable values with named fields, as `dataclasses.dataclass(frozen=True, slots=True)` makes them.

Importing `dataclasses` and generating methods as source text took 15 of the 100 ms of a process that judges
one message; `record` makes a class in some 15 microseconds. Type checkers take the class for a dataclass. So
do `dataclasses.replace`, `asdict` and `fields`, which read its attribute `__dataclass_fields__`.
`tests/mail/test_records.py` compares a record with a dataclass.
"""

from importlib import import_module
from itertools import repeat
from operator import call

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from dataclasses import dataclass as record
    from dataclasses import field, replace
else:

    class _Field:
        """A default value, and whether the field is compared and shown."""

        __slots__ = ("compare", "default", "repr")

        def __init__(self, *, default=..., compare=True, repr=True):
            self.default = default  # `...` if there is none
            self.compare = compare
            self.repr = repr

    class _DataclassFields:
        """A descriptor of the fields as `dataclasses` describes them; they are made when first read."""

        def __init__(self, namespace):
            self._namespace = namespace  # the attributes of the class, with its defaults

        def __get__(self, instance, owner):
            dataclasses = import_module("dataclasses")
            attributes = {name: self._namespace[name] for name in owner.__slots__ if name in self._namespace}
            for name, value in attributes.items():
                if isinstance(value, _Field):
                    options = {"compare": value.compare, "repr": value.repr}
                    if value.default is not ...:
                        options["default"] = value.default
                    attributes[name] = dataclasses.field(**options)
            attributes["__annotations__"] = self._namespace.get("__annotations__", {})
            real_dataclass = dataclasses.dataclass(frozen=True)(type(owner.__name__, (), attributes))
            owner.__dataclass_fields__ = real_dataclass.__dataclass_fields__
            return owner.__dataclass_fields__

    def field(*, default=..., compare=True, repr=True):
        """Describe a field as `dataclasses.field` does."""
        return _Field(default=default, compare=compare, repr=repr)

    def replace(value, /, **changes):
        """Return a copy of the record `value` with these fields changed, as `dataclasses.replace` does."""
        return type(value)(**{name: getattr(value, name) for name in value.__slots__} | changes)

    def record(*, frozen, slots):
        """Return a decorator that makes a class an immutable value with the fields that it annotates."""
        if not (frozen and slots):
            raise TypeError("a record is frozen and has slots: expected record(frozen=True, slots=True)")
        return _make_record

    def _make_record(annotated_class):
        namespace = dict(vars(annotated_class))
        # Only annotations of this class are fields: unlike a dataclass, a record inherits no fields.
        names = tuple(namespace.get("__annotations__", ()))
        options = {}
        for name in names:
            value = namespace.get(name, ...)
            options[name] = value if isinstance(value, _Field) else _Field(default=value)
        attributes = {name: value for name, value in namespace.items() if name not in names}
        for name in ("__dict__", "__weakref__"):
            attributes.pop(name, None)
        record_class = type(annotated_class)(
            annotated_class.__name__, annotated_class.__bases__, {**attributes, "__slots__": names}
        )
        setters = [vars(record_class)[name].__set__ for name in names]
        compared = [name for name in names if options[name].compare]
        shown = [name for name in names if options[name].repr]
        n_fields = len(names)
        defaults = {name: option.default for name, option in options.items() if option.default is not ...}

        def bind(values, named):
            """Return the value of each field, from positional and named values and defaults."""
            try:
                bound = [
                    *values,
                    *[named.pop(n) if n in named else defaults[n] for n in names[len(values) :]],
                ]
            except KeyError:
                bound = []
            if named or len(bound) != n_fields:
                raise TypeError(
                    f"{record_class.__name__} has the fields {', '.join(names)}: expected one value of each"
                )
            return bound

        def initialise(self, *values, **named):
            if named or len(values) != n_fields:
                values = bind(values, named)
            any(map(call, setters, repeat(self), values))  # twice as fast as a loop; setters return None

        def show(self):
            fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
            return f"{type(self).__qualname__}({fields})"

        def equals(self, other):
            if type(other) is not type(self):
                return NotImplemented
            return all(getattr(self, name) == getattr(other, name) for name in compared)

        def compute_hash(self):
            return hash(tuple([getattr(self, name) for name in compared]))

        def reduce(self):
            return type(self), tuple([getattr(self, name) for name in names])

        methods = {
            "__init__": initialise,
            "__repr__": show,
            "__eq__": equals,
            "__hash__": compute_hash,
            "__reduce__": reduce,
            "__setattr__": _refuse_assignment,
            "__delattr__": _refuse_deletion,
        }
        for name, method in methods.items():
            if name not in attributes:
                setattr(record_class, name, method)
        record_class.__match_args__ = names
        record_class.__dataclass_fields__ = _DataclassFields(namespace)
        return record_class

    def _refuse_assignment(self, name, value):
        raise import_module("dataclasses").FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_deletion(self, name):
        raise import_module("dataclasses").FrozenInstanceError(f"cannot delete field {name!r}")


__all__ = ["field", "record", "replace"]
