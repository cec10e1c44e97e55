"""The contents of a store: the type and the range of every column and every setting.

Every reader of a store or of a part of one (`open`, `check`, `restore`, `import`, the rule of the verdict)
validates against this module. The tables are created by the migrations (`store.database`);
`tests/mail/store/test_schema.py` compares the two.

To add a table, add a migration that creates it, its columns in TABLES, and, if its rows refer to no other
table, its name in LISTS. Then older files get the table when they are opened, `check` finds invalid values in
it, backups, exports and imports carry it, and `merge` adds the rows that a store does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module

from tamis_mail.features import KEY_BITS, VIEWS_OF
from tamis_mail.labels import GUESSED_LABELS, check_label
from tamis_mail.records import record

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from typing import Any

# Limit of a sum of counts, and of other integers: the sum of two smaller ones fits into 64 bits.
MAX_COUNT = 1 << 62
MAX_DECAYS = 40  # a message then has the weight 2**40, and MAX_COUNT is the weight of 2**22 messages
MAX_LABELS = 1000  # users have a dozen; memory grows with the product of labels and features
MAX_RUNS = 1000  # runs are merged continually: a store of 10**9 features has about 80
MAX_BUNDLE_MESSAGES = 256  # messages, at most, whose features are stored in one row, a bundle
MAX_BUNDLE_FEATURES = 1 << 20  # of all messages of a bundle; the features of a larger message are not stored
_MAX_BUNDLE_BYTES = 1 << 23  # bytes of a bundle, which needs at most about 7 per feature
MAX_WORD_COUNT = 10**12  # messages with one word that another filter had counted
_MAX_OPERATIONS = 10**9  # limit of numbers of operations: prunings, versions, generations
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799  # the years 1 to 9999, as seconds since 1970
MAX_SOURCE_LENGTH = 1 << 12  # characters of the name of a mailbox; a longer name is truncated
_MAX_SETTING_LENGTH = 1 << 12  # characters of the value of a setting
MAX_ENTRY_LENGTH = 255  # characters of an address, or of @ and a domain
# Characters of all addresses of a sent message: escaped as in JSON, they still fit into one line of the text
# that `tamis store export` writes.
MAX_SENDERS_LENGTH = 1000
MAX_RECIPIENTS_LENGTH = 1 << 12
_MAX_WEIGHTS_LENGTH = 1 << 10  # weights that the filter writes have about 300 characters
_MAX_RULE_LENGTH = 1 << 12  # a rule that `tamis tune` fits and writes has about 600 characters


# The kinds of values. `accepts` says whether a value is of the kind, `str` describes the kind for messages,
# and `make_fault_condition` returns the SQL condition that is true where a column has an invalid value.


@record(frozen=True, slots=True)
class Integer:
    """An integer in a range."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"a whole number from {self.low} to {self.high}"

    def accepts(self, value: object) -> bool:
        return type(value) is int and self.low <= value <= self.high

    def accepts_digits(self, text: str) -> bool:
        """Whether the text is such a number in decimal digits, at most 19, the form of settings."""
        return text.isascii() and text.isdigit() and len(text) <= 19 and self.accepts(int(text))

    def make_fault_condition(self, column: str) -> str:
        return f"(typeof({column}) <> 'integer' OR {column} NOT BETWEEN {self.low} AND {self.high})"


@record(frozen=True, slots=True)
class Text:
    """Text of limited length."""

    longest: int

    def __str__(self) -> str:
        return f"text of at most {self.longest} characters"

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and len(value) <= self.longest

    def make_fault_condition(self, column: str) -> str:
        return f"(typeof({column}) <> 'text' OR length({column}) > {self.longest})"


@record(frozen=True, slots=True)
class Bytes:
    """Bytes of limited length."""

    shortest: int
    longest: int

    def __str__(self) -> str:
        return f"{self.shortest} to {self.longest} bytes"

    def accepts(self, value: object) -> bool:
        return isinstance(value, bytes) and self.shortest <= len(value) <= self.longest

    def make_fault_condition(self, column: str) -> str:
        return (
            f"(typeof({column}) <> 'blob' OR length({column}) NOT BETWEEN {self.shortest} AND {self.longest})"
        )


@record(frozen=True, slots=True)
class Nullable:
    """A value of another kind, or NULL."""

    kind: Integer | Text | Bytes

    def __str__(self) -> str:
        return f"{self.kind}, or NULL"

    def accepts(self, value: object) -> bool:
        return value is None or self.kind.accepts(value)

    def make_fault_condition(self, column: str) -> str:
        return f"({column} IS NOT NULL AND {self.kind.make_fault_condition(column)})"


@record(frozen=True, slots=True)
class Real:
    """A finite number in a range."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"a number from {self.low:g} to {self.high:g}"

    def accepts(self, value: object) -> bool:
        return type(value) in (int, float) and self.low <= value <= self.high  # type: ignore[operator]


@record(frozen=True, slots=True)
class Boolean:
    """True or false."""

    def __str__(self) -> str:
        return "true or false"

    def accepts(self, value: object) -> bool:
        return isinstance(value, bool)


# A sum of counts. A negative one is accepted here: `check` reports the negative count, with its feature.
_SUM = Integer(-MAX_COUNT, MAX_COUNT)
_WEIGHT = Integer(0, MAX_COUNT)

# The tables and their columns; `store.database.MIGRATIONS`, which creates them, says what each column holds.
TABLES: Mapping[str, Mapping[str, Integer | Text | Bytes | Nullable]] = {
    "migration": {"name": Text(200), "time": Integer(_FIRST_SECOND, _LAST_SECOND)},
    "setting": {"name": Text(200), "value": Text(_MAX_SETTING_LENGTH)},
    "label": {
        "id": Integer(0, MAX_LABELS - 1),
        "name": Text(40),
        "messages": Integer(0, MAX_COUNT),
        "weight": _WEIGHT,
        "lent": _WEIGHT,
        "features": _SUM,
    },
    "source": {"id": Integer(0, MAX_COUNT), "name": Text(1 << 16)},
    "journal": {
        "digest": Bytes(1, 64),
        "label": Integer(0, MAX_COUNT),
        "weight": _WEIGHT,
        "rest": _WEIGHT,
        "version": Integer(0, _MAX_OPERATIONS),
        "era": Integer(0, _MAX_OPERATIONS),
        "source": Integer(0, MAX_COUNT),
        "time": Integer(_FIRST_SECOND, _LAST_SECOND),
    },
    "run": {
        "id": Integer(0, MAX_COUNT),
        "generation": Integer(0, MAX_COUNT),
        "start": Integer(0, MAX_COUNT),  # the id of its first shelf
        "bits": Integer(0, KEY_BITS),  # it has 2**bits shelves
        "width": Integer(1, 8),  # bytes of a count
        "labels": Integer(1, MAX_LABELS),  # the number of counts of an entry
        "entries": Integer(0, 1 << KEY_BITS),
    },
    "word_list": {
        "key": Integer(0, (1 << KEY_BITS) - 1),
        "spam": Integer(0, MAX_WORD_COUNT),
        "ham": Integer(0, MAX_WORD_COUNT),
    },
    "shelf": {"id": Integer(0, MAX_COUNT), "data": Bytes(1, 1 << 31)},
    "bundle": {
        "id": Integer(0, MAX_COUNT),
        "messages": Integer(1, MAX_BUNDLE_MESSAGES),
        "data": Bytes(1, _MAX_BUNDLE_BYTES),
    },
    "coefficient": {"id": Integer(0, 1 << KEY_BITS), "data": Bytes(1, 1 << 31)},
    "message": {
        "digest": Bytes(1, 64),
        "bundle": Nullable(Integer(0, MAX_COUNT)),
        "place": Integer(0, MAX_BUNDLE_MESSAGES - 1),
        "date": Nullable(Integer(_FIRST_SECOND, _LAST_SECOND)),
    },
    "listed": {"entry": Text(MAX_ENTRY_LENGTH), "is_allowed": Integer(0, 1)},
    "sent": {
        "digest": Text(64),
        "senders": Text(MAX_SENDERS_LENGTH),
        "recipients": Text(MAX_RECIPIENTS_LENGTH),
    },
    "correspondent": {
        "address": Text(MAX_ENTRY_LENGTH),
        "received": Integer(0, MAX_COUNT),  # sent messages to the address
        "wrote": Integer(0, MAX_COUNT),  # sent messages from the address, which is one of the user's own
    },
}

# Tables whose rows refer to no other table. Their columns are integers and text; the first is the key.
LISTS: tuple[str, ...] = ("listed", "sent", "word_list")

# The setting of a replica that holds the position of its rows (`store.replica`). It does not belong to the
# contents of the store.
REPLICA_POSITION = "replica"

_INTEGER_SETTINGS = {
    "epoch": Integer(0, MAX_DECAYS),
    "era": Integer(0, _MAX_OPERATIONS),
    "tokens": Integer(0, _MAX_OPERATIONS),  # the version of the tokens that an import counts
}

# The fields of `verdict.rule.View` and `verdict.rule.Rule`. Of a view, `prior` is the number of
# pseudo-messages of the Beta prior of each feature, and `pooled` says whether the mean of this prior is the
# feature's overall rate. Of a rule, `spam` and `ham` are the thresholds of the probability, and `guessed` is
# the weight of a message with a guessed label. Divisors (prior, reluctance, acquaintance) are positive. The
# limits are far beyond the values that `tamis tune` can fit, and narrow enough that log-odds do not overflow.
_CENTRE = Real(-1e4, 1e4)
_VIEW_FIELDS: dict[str, Real | Boolean] = {
    "scale": Real(0, 1e4),
    "prior": Real(1e-9, 1e6),
    "pooled": Boolean(),
    "reluctance": Real(1e-9, 1e6),
    "tilt": Real(-1e4, 1e4),
    "doubt": Real(-1e4, 1e4),
    "centre": _CENTRE,
}
_RULE_FIELDS: dict[str, Real | Boolean] = {
    "patience": Real(0, 1e9),
    "acquaintance": Real(1e-9, 1e9),
    "spam": Real(0, 1),
    "ham": Real(0, 1),
    "guessed": Real(0, 1e3),
}
_INTERCEPT = Real(-1e4, 1e4)
_SCALE = Real(0, 1e4)
_DEVIATION = Real(0, 1e6)
_FITTED_MESSAGES = Integer(1, MAX_COUNT)
_SHELF_BITS = Integer(0, KEY_BITS)


def find_row_fault(table: str, values: Mapping[str, object]) -> str | None:
    """Describe the first invalid value among these columns of a row, or return None."""
    kinds = TABLES[table]
    for column, value in values.items():
        if not kinds[column].accepts(value):
            return f"{table}.{column} is {_format_value(value)}, expected {kinds[column]}"
    return None


def find_label_fault(name: str) -> str | None:
    """Describe why this cannot be the name of a label, or return None."""
    if name not in GUESSED_LABELS:
        try:
            check_label(name)
        except ValueError as error:
            return str(error)
    return None


def find_setting_fault(name: object, value: object) -> str | None:
    """Describe what is wrong with a setting, or return None. Settings of unknown names are valid."""
    fault = find_row_fault("setting", {"name": name, "value": value})
    if fault or not isinstance(name, str) or not isinstance(value, str):
        return fault
    if name in _INTEGER_SETTINGS and not _INTEGER_SETTINGS[name].accepts_digits(value):
        return f"the setting {name!r} is {_format_value(value)}, expected {_INTEGER_SETTINGS[name]}"
    if name == "log" and value not in ("on", "off"):
        return f"the setting 'log' is {_format_value(value)}, expected on or off"
    parsers: dict[str, Callable[[str], object]] = {"rule": parse_rule, "weights": parse_weights}
    if value and name in parsers:  # an empty value means the default
        try:
            parsers[name](value)
        except ValueError as error:
            return f"the setting {name!r}: {error}"
    return None


def parse_weights(
    text: str, views: int | None = None
) -> tuple[int, int, list[float], list[float], list[float]]:
    """Read fitted weights; return messages, bits, values, standard deviations and centres.

    The text lists numbers: how many messages the weights were fitted to; bits, where 2**bits is the number of
    shelves of coefficients; the value and the standard deviation of the intercept, then of the scale of each
    view; and the centre of each view. `views` is the number of views; None allows that of any version of the
    tokens. Weights that were fitted before views had centres have none: they are read as 0.

    >>> parse_weights("12 3 0.5 1 1.6 0.2 1 0.1 3 1.5 1.7 0.8 -0.1 -0.2 -0.3 0.4")
    (12, 3, [0.5, 1.6, 1.0, 3.0, 1.7], [1.0, 0.2, 0.1, 1.5, 0.8], [-0.1, -0.2, -0.3, 0.4])
    >>> parse_weights("12 3 0.5 1 1.6 0.2 1 0.1 3 1.5 1.7 0.8")[4]
    [0.0, 0.0, 0.0, 0.0]
    >>> parse_weights("12 3 nan 1")
    Traceback (most recent call last):
    ValueError: it has 4 numbers, expected 12 or 14 or 16 or 19
    """
    if len(text) > _MAX_WEIGHTS_LENGTH:
        raise ValueError(f"it has {len(text)} characters, expected at most {_MAX_WEIGHTS_LENGTH}")
    words = text.split()
    allowed_views = {len(names) for names in VIEWS_OF.values()} if views is None else {views}
    # Four numbers do not belong to a view: messages, bits, the intercept and its standard deviation. Each
    # view has two numbers, or three with its centre.
    views_by_length = {4 + n * count: count for count in allowed_views for n in (2, 3)}
    if len(words) not in views_by_length:
        expected = " or ".join(map(str, sorted(views_by_length)))
        raise ValueError(f"it has {len(words)} numbers, expected {expected}")
    counts: list[int] = []
    for word, kind in zip(words[:2], (_FITTED_MESSAGES, _SHELF_BITS), strict=True):
        if not kind.accepts_digits(word):
            raise ValueError(f"got {_format_value(word)}, expected {kind}")
        counts.append(int(word))
    numbers: list[float] = []
    n_before_centres = 2 * (views_by_length[len(words)] + 1)  # values and deviations
    for index, word in enumerate(words[2:]):
        if index >= n_before_centres:
            range_of_value = _CENTRE
        else:
            range_of_value = _DEVIATION if index % 2 else _SCALE if index else _INTERCEPT
        try:
            numbers.append(float(word))
        except ValueError:
            raise ValueError(f"got {_format_value(word)}, expected {range_of_value}") from None
        if not range_of_value.accepts(numbers[-1]):
            raise ValueError(f"got {_format_value(word)}, expected {range_of_value}")
    centres = numbers[n_before_centres:] or [0.0] * (n_before_centres // 2 - 1)
    values, deviations = numbers[:n_before_centres:2], numbers[1:n_before_centres:2]
    return counts[0], counts[1], values, deviations, centres


def parse_rule(text: str, token_version: int | None = None) -> dict[str, Any]:
    """Read a rule from JSON; its numbers must be finite and in range.

    It has as many views as a version of the tokens, or as any version if none is given. The intercept and the
    centre of a view may be absent, and are then 0; every other number must be present.

    >>> parse_rule("[NaN]")
    Traceback (most recent call last):
    ValueError: a list is no rule, expected an object with views, patience, acquaintance, spam, ham, guessed
    """
    if len(text) > _MAX_RULE_LENGTH:
        raise ValueError(f"it has {len(text)} characters, expected at most {_MAX_RULE_LENGTH}")
    try:
        rule = import_module("json").loads(text)  # most stores have no rule
    except (ValueError, RecursionError):
        raise ValueError(f"{_format_value(text)} is not JSON") from None
    if isinstance(rule, dict):
        intercept = rule.pop("intercept", 0.0)
        if not _INTERCEPT.accepts(intercept):
            raise ValueError(f"intercept is {_format_value(intercept)}, expected {_INTERCEPT}")
    _refuse_other_keys(rule, ("views", *_RULE_FIELDS), "rule")
    _refuse_values(rule, _RULE_FIELDS, prefix="")
    views = rule["views"]
    sizes = [len(names) for version, names in VIEWS_OF.items() if token_version in (None, version)]
    if not isinstance(views, list) or len(views) not in sizes:
        given = f"a list of {len(views)}" if isinstance(views, list) else _format_value(views)
        raise ValueError(f"views is {given}, expected a list of {' or '.join(map(str, sizes))}")
    for number, view in enumerate(views):
        if isinstance(view, dict):
            view.setdefault("centre", 0.0)
        _refuse_other_keys(view, _VIEW_FIELDS, "view")
        _refuse_values(view, _VIEW_FIELDS, prefix=f"views[{number}].")
    if rule["ham"] > rule["spam"]:
        raise ValueError(f"ham is {rule['ham']} and spam {rule['spam']}, expected ham to be the smaller")
    valid: dict[str, Any] = {**rule, "intercept": intercept}
    return valid


def _refuse_other_keys(value: object, keys: Iterable[str], kind: str) -> None:
    if not isinstance(value, dict) or set(value) != set(keys):
        raise ValueError(f"{_format_value(value)} is no {kind}, expected an object with {', '.join(keys)}")


def _refuse_values(values: Mapping[str, object], kinds: Mapping[str, Real | Boolean], *, prefix: str) -> None:
    for name, kind in kinds.items():
        if not kind.accepts(values[name]):
            raise ValueError(f"{prefix}{name} is {_format_value(values[name])}, expected {kind}")


def _format_value(value: object) -> str:
    """Format an untrusted value on one short line, in ASCII."""
    if isinstance(value, int) and abs(value) >= 1 << 64:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, list | dict):  # not printed, because it may be nested deeply
        return "a list" if isinstance(value, list) else "an object"
    text = ascii(value[:60] if isinstance(value, str | bytes) else value)
    return text if len(text) <= 60 else f"{text[:57]}..."
