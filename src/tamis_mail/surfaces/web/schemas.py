"""Check JSON values by the schemas of the OpenAPI document: the part of JSON Schema that the API uses."""

import re
from collections.abc import Callable, Mapping
from typing import Any

Schema = Mapping[str, Any]


def find_fault(value: Any, schema: Schema, name: str = "the body") -> str | None:
    """Return in one line why a value does not follow a schema; None if it does.

    >>> find_fault(
    ...     {"limit": 0}, {"type": "object", "properties": {"limit": {"type": "integer", "minimum": 1}}}
    ... )
    'limit is 0, expected at least 1'
    """
    types = schema.get("type", ())
    types = (types,) if isinstance(types, str) else types
    if types and not any(_IS_TYPE[one](value) for one in types):
        return f"{name} is {_quote(value)}, expected {' or '.join(map(str, types))}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{name} is {_quote(value)}, expected one of {', '.join(map(str, schema['enum']))}"
    if isinstance(value, str):
        return _find_fault_in_text(value, schema, name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _find_fault_in_number(value, schema, name)
    if isinstance(value, list):
        return _find_fault_in_list(value, schema, name)
    if isinstance(value, dict):
        return _find_fault_in_object(value, schema, name)
    return None


def read_parameter(text: str, schema: Schema) -> Any:
    """Read a value of an address: an integer if the schema says so, else text."""
    if schema.get("type") == "integer":
        return int(text) if re.fullmatch("-?(0|[1-9][0-9]{0,17})", text, re.ASCII) else text
    return text


def _find_fault_in_text(value: str, schema: Schema, name: str) -> str | None:
    longest, shortest = schema.get("maxLength"), schema.get("minLength", 0)
    if longest is not None and len(value) > longest:
        return f"{name} has {len(value)} characters, expected at most {longest}"
    if len(value) < shortest:
        return f"{name} has {len(value)} characters, expected at least {shortest}"
    if "pattern" in schema and not re.search(schema["pattern"].replace("$", r"\Z"), value, re.ASCII):
        return f"{name} is {_quote(value)}, expected the form {schema['pattern']}"
    return None


def _find_fault_in_number(value: float, schema: Schema, name: str) -> str | None:
    if "minimum" in schema and value < schema["minimum"]:
        return f"{name} is {value}, expected at least {schema['minimum']}"
    if "maximum" in schema and value > schema["maximum"]:
        return f"{name} is {_quote(value)}, expected at most {schema['maximum']}"
    return None


def _find_fault_in_list(value: list[Any], schema: Schema, name: str) -> str | None:
    if len(value) > schema.get("maxItems", len(value)):
        return f"{name} has {len(value)} items, expected at most {schema['maxItems']}"
    if len(value) < schema.get("minItems", 0):
        return f"{name} has {len(value)} items, expected at least {schema['minItems']}"
    items = schema.get("items", {})
    return next(filter(None, (find_fault(one, items, f"an item of {name}") for one in value)), None)


def _find_fault_in_object(value: dict[str, Any], schema: Schema, name: str) -> str | None:
    properties = schema.get("properties", {})
    missing = [key for key in schema.get("required", ()) if key not in value]
    if missing:
        return f"{name} has no {', '.join(missing)}"
    if schema.get("additionalProperties") is False:
        unknown = sorted(value.keys() - properties.keys())
        if unknown:
            return f"{name} has {_quote(unknown[0])}, expected only {', '.join(properties)}"
    checks = (find_fault(one, properties[key], key) for key, one in value.items() if key in properties)
    return next(filter(None, checks), None)


def _quote(value: object) -> str:
    return f"{value!r:.40}"


_IS_TYPE: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}
