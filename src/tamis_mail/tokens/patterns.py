"""header fields → the patterns of their values, which are typical of the program that wrote them.

There are three kinds of patterns:

- `pattern:message-id=…`, and those of other fields: a run of capital letters of ASCII is `A`, a run of small
  letters is `a`, and digits are left out;
- `pattern:boundary=…`: a run of digits is `9`, and each run of several letters or digits is followed by its
  length, at most 9;
- `pattern:hop=…`: one of the oldest Received fields without its date, in which each word with a point or a
  digit is replaced by `x`.

All other characters stay, but a space is written as `_`, and `_` as `0`, which no pattern has otherwise.
Patterns are longer than other tokens, so that all their bytes are hashed (`features.hashing`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence

# Limits; what exceeds them is ignored.
_VALUE = 80  # characters of the value of a field, and of a boundary, that are read
_PATTERN = 40  # characters of the pattern of a field
_HOP = 80  # characters of the pattern of a Received field
_RUN = 9  # longer runs of a boundary are written with this length

_FIELDS = ("message-id", "from", "to", "reply-to", "return-path", "subject", "date")
_CLASS = {
    ord("A"): "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    ord("a"): "abcdefghijklmnopqrstuvwxyz",
    ord("9"): "0123456789",
}
_TO_CLASS = {ord(letter): sign for sign, letters in _CLASS.items() for letter in letters}
_RUNS = re.compile(r"A++|a++|9++")
_BOUNDARY = re.compile(r"boundary=\"?+([^\";]++)")
_WORD = re.compile(r"[\w.\-]++")
_POINT_OR_DIGIT = re.compile(r"[.\d]")
_SPACE_TO_UNDERSCORE = {ord(" "): "_", ord("_"): "0"}


def read(fields: Mapping[str, str], hops: Sequence[str]) -> str:
    """Return the tokens of the fields and hops that `headers.select_fields` returned, separated by spaces.

    >>> read({"message-id": "<20020823.AB12cd@mail.Example.org>"}, ["from mx1.example.org by mail; Fri"])
    'pattern:message-id=<.Aa@a.Aa.a> pattern:hop=from_x_by_mail'
    >>> read({"content-type": 'multipart/mixed; boundary="--=_Next_0012"'}, [])
    'pattern:boundary=--=0Aa3094'
    """
    tokens = dict.fromkeys(
        f"pattern:{name}={pattern.translate(_SPACE_TO_UNDERSCORE)}"
        for name, pattern in _list_patterns(fields, hops)
    )
    return " ".join(tokens)


def _list_patterns(fields: Mapping[str, str], hops: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each pattern, in which spaces and underscores are not replaced yet."""
    for name in _FIELDS:
        if name in fields:
            pattern = _RUNS.sub(_shorten_run, fields[name][:_VALUE].translate(_TO_CLASS))
            yield name, pattern[:_PATTERN]
    for boundary in _BOUNDARY.findall(fields.get("content-type", "")):
        yield "boundary", _RUNS.sub(_measure_run, boundary[:_VALUE].translate(_TO_CLASS))
    for hop in hops:
        yield "hop", _WORD.sub(_replace_name, hop.partition(";")[0])[:_HOP]


def _shorten_run(run: re.Match[str]) -> str:
    return "" if run[0][0] == "9" else run[0][0]


def _measure_run(run: re.Match[str]) -> str:
    return run[0] if len(run[0]) == 1 else f"{run[0][0]}{min(len(run[0]), _RUN)}"


def _replace_name(word: re.Match[str]) -> str:
    return "x" if _POINT_OR_DIGIT.search(word[0]) else word[0]
