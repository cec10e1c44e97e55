"""Add the verdict to a message as header fields, and remove them again, byte for byte.

The fields are one block at the top, after an mbox's postmark if there is one. Its lines end as the next line
of the message does:

    X-Spam-Flag: YES                                only if it is spam
    X-Spam-Level: *******                           one star per point of the score, at most 50
    X-Spam-Evidence: 'offer' +0.31; 'lunch' -0.12   the strongest evidence, if there is any
    X-Spam-Status: Yes, score=7.31 required=2.94 tests=tamis version=0.2.0

or, for programs that support bogofilter,

    X-Bogosity: Spam, tests=bogofilter, spamicity=0.999300, version=0.2.0

The score is the log-odds of spam, `required` the score from which a message is spam, `tests` what decided,
and `spamicity` bogofilter's word for the probability of spam.

A field that the message already has under one of these names is not this verdict, so it gets the prefix
`X-Old-`; one that has the prefix gets another, so that removal restores it. If the message ends where the
block begins, in a line without a line end, this line gets one, and the block has none at its end. Nothing
else is changed. The last field of the block is never folded, so that the block ends with the line of this
field. Lines at the top that begin with a space or tab would continue the last field of the block, so the
block comes after them. This module does no I/O.
"""

import re
from collections.abc import Iterable, Sequence
from math import log

from tamis_mail.message.envelope import envelope_end
from tamis_mail.verdict.verdict import Evidence, Verdict

DIALECTS = ("spamassassin", "bogofilter")
OLD_PREFIX = b"X-Old-"
_NAMES = rb"X-Spam-(?:Flag|Level|Evidence|Status)|X-Bogosity"  # of the fields of the block
_END_OF_LINE = (
    rb"(?>\r{0,3}\n|\r)"  # the line ends of `message.canonical`, and CR CR CR LF (converted three times)
)
_CONTINUATION = re.compile(rb"(?:[ \t][^\r\n]*+(?:" + _END_OF_LINE + rb"|\Z))*+")
_LF_OR_CRLF = re.compile(rb"\r?\n")
_HEADER_END = re.compile(rb"(?:\A|" + _END_OF_LINE + rb")" + _END_OF_LINE)
_SAME_NAME = re.compile(rb"(?:\A|(?<=[\r\n]))(?=(?:X-Old-)*+(?:" + _NAMES + rb")[ \t]*+:)", re.IGNORECASE)
_NAME = re.compile(rb"(?:X-Old-)*+(?:" + _NAMES + rb")[ \t]*+", re.IGNORECASE)
_RENAMED = re.compile(rb"(?:\A|(?<=[\r\n]))X-Old-(?=(?i:(?:X-Old-)*+(?:" + _NAMES + rb")[ \t]*+:))")
_LINES = (
    rb"(?:(?:X-Spam-Flag: YES\r?\n)?X-Spam-Level:(?: \*++)?\r?\n"
    rb"(?:X-Spam-Evidence:[^\r\n]*+\r?\n(?:\t[^\r\n]*+\r?\n)*+)?X-Spam-Status: [^\r\n]*+"
    rb"|X-Bogosity: [^\r\n]*+)"
)
_BLOCK = re.compile(_LINES + rb"\r?\n")
_BLOCK_AT_END = re.compile(_LINES + rb"\Z")

_MAX_STARS = 50
_MAX_TOKENS = 10  # tokens in the evidence field
_MAX_TOKEN = 40  # characters of a token in the evidence field
_COLUMNS = 76  # maximum length of a line of X-Spam-Evidence


def add_verdict(
    raw: bytes, verdict: Verdict, *, dialect: str, required: float, version: str, newline: bytes | None = None
) -> bytes:
    """Add the verdict to a message; `required` is the probability from which a message is spam.

    Without `newline`, the lines of the block end as the next line of the message does, or in LF.
    """
    start = _find_block_start(raw)
    if newline is None:
        end = _LF_OR_CRLF.search(raw, start) or _LF_OR_CRLF.search(raw)
        newline = b"\r\n" if end and end[0] == b"\r\n" else b"\n"
    block = b"".join(
        line + newline for line in fields(verdict, dialect=dialect, required=required, version=version)
    )
    if start and start == len(raw) and raw[-1:] not in (b"\r", b"\n"):
        return raw + newline + block.removesuffix(newline)  # the last line has no line end
    stop = _find_header_end(raw, start)
    return b"".join((raw[:start], block, _SAME_NAME.sub(OLD_PREFIX, raw[start:stop]), raw[stop:]))


def remove_verdict(raw: bytes) -> bytes:
    """Remove the block of `add_verdict`, or an X-Bogosity of bogofilter where the block would be."""
    start = _find_block_start(raw)
    if start and _BLOCK_AT_END.match(raw, start):
        return raw[:start].removesuffix(b"\n").removesuffix(b"\r")
    block = _BLOCK.match(raw, start)
    if block is None:
        return raw
    stop = _find_header_end(raw, block.end())
    return b"".join((raw[:start], _RENAMED.sub(b"", raw[block.end() : stop]), raw[stop:]))


def has_verdict_name(name: bytes) -> bool:
    """Whether a field has a name of the block, so that `add_verdict` would rename it.

    >>> has_verdict_name(b"x-spam-flag"), has_verdict_name(b"X-Old-X-Bogosity"), has_verdict_name(b"Subject")
    (True, True, False)
    """
    return _NAME.fullmatch(name) is not None


def _find_block_start(raw: bytes) -> int:
    """Return the position of the block: after postmarks, and after lines that begin with a space or tab."""
    lines = _CONTINUATION.match(raw, envelope_end(raw))
    return lines.end() if lines else 0


def _find_header_end(raw: bytes, start: int) -> int:
    """Return the end of the header, searching from a position in it."""
    if blank_line := re.compile(_END_OF_LINE).match(raw, start):
        return blank_line.end()
    end = _HEADER_END.search(raw, start)
    return end.end() if end else len(raw)


def fields(verdict: Verdict, *, dialect: str, required: float, version: str) -> list[bytes]:
    """Return the lines of the block, without line ends."""
    if dialect == "bogofilter":
        return [bogosity(verdict, version).encode("ascii")]
    spam = verdict.label == "spam"
    answer = "Yes" if spam else "Unsure" if verdict.label == "unsure" else "No"
    label = "" if verdict.label in ("spam", "ham", "unsure") else f" label={_to_ascii(verdict.label)}"
    lines = ["X-Spam-Flag: YES"] if spam else []
    score, threshold = score_of(verdict, required)
    tests = ",".join(tests_of(verdict))
    stars = "*" * max(0, min(_MAX_STARS, int(score)))
    lines.append(f"X-Spam-Level: {stars}".rstrip())
    listed = [f"'{_to_ascii(verdict.listed)}'"] if verdict.listed else []
    lines += _fold("X-Spam-Evidence:", listed + _list_evidence(verdict.strongest))
    lines.append(
        f"X-Spam-Status: {answer}, score={score:.2f} required={threshold:.2f} "
        f"tests={tests}{label} version={version}"
    )
    return [line.encode("ascii") for line in lines]


def score_of(verdict: Verdict, required: float) -> tuple[float, float]:
    """Return the score of a verdict and the score from which mail is spam, as log-odds that fit the label."""
    spam = verdict.label == "spam"
    threshold = round(log(max(required, 1e-300) / max(1 - required, 1e-9)), 2)
    # The score of other mail stays below the required score, also after rounding.
    score = verdict.log_odds if spam else min(verdict.log_odds, threshold - 0.01)
    if verdict.listed:  # other programs filter by the score, so it must agree with the label
        score = max(score, threshold) if spam else min(score, 0.0)
    return score, threshold


def tests_of(verdict: Verdict) -> list[str]:
    """Return what decided the label, as names of tests in SpamAssassin's format."""
    if not verdict.listed:
        return ["tamis"]
    decision, _, _ = verdict.listed.partition(":")  # "allowed" or "blocked"; the entry follows
    return ["tamis", decision]


def bogosity(verdict: Verdict, version: str) -> str:
    """Return the field in the format of bogofilter; labels other than spam and unsure become Ham."""
    answer = {"spam": "Spam", "unsure": "Unsure"}.get(verdict.label, "Ham")
    return f"X-Bogosity: {answer}, tests=bogofilter, spamicity={verdict.probability:.6f}, version={version}"


def _list_evidence(evidence: Sequence[Evidence]) -> list[str]:
    """Format the strongest readable evidence, without n-grams."""
    readable = [item for item in evidence if item.view != "grams" and item.contribution]
    return [f"'{_to_ascii(item.token)}' {item.contribution:+.2f}" for item in readable[:_MAX_TOKENS]]


def _to_ascii(token: str) -> str:
    """Return safe ASCII for a header: no line ends, quotes, encoded words or comments."""
    text = token.encode("ascii", "backslashreplace").decode("ascii")
    text = "".join(c if " " <= c <= "~" and c not in "'\";()<>" else "." for c in text)
    return text.replace("=?", "=.").replace("?=", ".=")[:_MAX_TOKEN]


def _fold(name: str, items: Iterable[str]) -> list[str]:
    """Fold the items of a field into lines of at most _COLUMNS, if they fit; return no line without items."""
    lines = [name]
    for number, item in enumerate(items):
        if number:
            lines[-1] += ";"
        if number and len(lines[-1]) + len(item) + 2 > _COLUMNS:
            lines.append("\t" + item)
        else:
            lines[-1] += " " + item
    return lines if lines != [name] else []
