"""The explanation of a verdict on the page: tinted (coloured) text, a waterfall chart and counterfactuals.

The bars of a waterfall chart begin where the one before ends. A counterfactual says which tokens would have
to be missing for another verdict. No function reads or writes files. The texts of the parts that are shown
have bounded size.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, exp, log

from tamis_mail.message import Message, fold_text, read_html, remove_style_sheet
from tamis_mail.reporting.evidence import select_strongest, sum_views
from tamis_mail.reporting.wording import VIEW_TITLES
from tamis_mail.surfaces.web.pages import show_invisible
from tamis_mail.tokens.words import LONGEST, split_words
from tamis_mail.verdict import Evidence, Rule, Verdict

_SHOWN_TEXT = 30_000  # characters of a part that are shown
SHOWN_PARTS = 20  # parts of a message that are shown
_PAGE_TEXT = 200_000  # characters of a page of HTML that are read
_TAGS = 20_000  # tags of a page of HTML that are interpreted
_LEVELS = 5  # of tint for spam, and as many against it
_MAX_REMOVED = 12  # tokens that are named as those without which the verdict would be different
_CACHED_WORDS = 20_000  # words whose tint is cached
_MIN_BAR = 0.3  # percent of the width of the chart, so that every bar is visible


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of text with its tint: from -5 (against spam) to 5 (for spam)."""

    text: str
    tint: int = 0

    @property
    def css_class(self) -> str:
        """The CSS class of the tint; empty if there is no tint."""
        if not self.tint:
            return ""
        return f"for-{self.tint}" if self.tint > 0 else f"against-{-self.tint}"


@dataclass(frozen=True, slots=True)
class PartText:
    """A part of a message, with the text that is shown."""

    kind: str  # its MIME type
    name: str  # of its file
    size: int  # bytes
    is_html: bool
    spans: list[Span]
    omitted: int  # characters of the text that are left out, because there are too many
    hidden: str  # text of HTML that a mail program would not show, at most 1000 characters


@dataclass(frozen=True, slots=True)
class Step:
    """One bar of the waterfall chart."""

    title: str
    contribution: float  # `end` minus `start`
    start: float  # log-odds of spam, as `end`
    end: float
    left: float  # percent of the width of the chart, as `width`
    width: float

    @property
    def css_class(self) -> str:
        """spam for a bar to the right, else ham."""
        return "spam" if self.contribution > 0 else "ham"


@dataclass(frozen=True, slots=True)
class Change:
    """The strongest evidence on one side, without which the verdict might be different."""

    label: str  # the other verdict: spam, unsure or wanted mail
    tokens: list[str]  # that would have to be removed, at most _MAX_REMOVED of them
    is_enough: bool  # whether their removal changes the verdict


class Tinter:
    """Splits text into words, each tinted by the evidence of its tokens."""

    def __init__(self, evidence: Sequence[Evidence]) -> None:
        self._words = {one.token: one.contribution for one in evidence if one.view == "words"}
        self._headers = {one.token: one.contribution for one in evidence if one.view == "headers"}
        readable = [abs(value) for values in (self._words, self._headers) for value in values.values()]
        self._largest = max(readable, default=0.0)
        self._cache: dict[tuple[str, str], int] = {}

    def tint(self, text: str, field: str = "") -> list[Span]:
        """Tint the words of the body, or of a header field with this name."""
        contributions = self._headers if field else self._words
        prefix = f"{field}:" if field else ""
        spans: list[Span] = []
        pending = ""
        for piece, is_word in _split_text(text):
            level = self._compute_tint(piece, prefix, contributions) if is_word else 0
            shown = show_invisible(piece, keep="\n\t")
            if level:
                if pending:
                    spans.append(Span(pending))
                    pending = ""
                spans.append(Span(shown, level))
            else:
                pending += shown
        return [*spans, Span(pending)] if pending else spans

    def _compute_tint(self, word: str, prefix: str, contributions: Mapping[str, float]) -> int:
        key = (prefix, word)
        if key not in self._cache:
            if len(self._cache) > _CACHED_WORDS:
                self._cache.clear()
            # As in the store's tokens: folded, and cut to LONGEST characters.
            tokens = dict.fromkeys(token[:LONGEST] for token in split_words(fold_text(word)[0]))
            total = sum(contributions.get(prefix + token, 0.0) for token in tokens)
            level = min(_LEVELS, ceil(_LEVELS * abs(total) / self._largest)) if self._largest else 0
            self._cache[key] = level if total > 0 else -level
        return self._cache[key]


def _split_text(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the words of a text and the pieces between them, each with whether it is a word."""
    start = 0
    is_word = False
    for index, character in enumerate(text):
        # Words may have some punctuation, and combining accents (U+0300 to U+036F).
        is_of_word = character.isalnum() or character in "$!'’_" or "\u0300" <= character <= "\u036f"
        if is_of_word != is_word:
            if index > start:
                yield text[start:index], is_word
            start, is_word = index, is_of_word
    if start < len(text):
        yield text[start:], is_word


def read_parts(message: Message, tinter: Tinter) -> list[PartText]:
    """Return the parts of a message as text; HTML is shown as the text that a mail program would show."""
    parts: list[PartText] = []
    remaining = _SHOWN_TEXT
    for part in message.parts[:SHOWN_PARTS]:
        text, hidden = part.text, ""
        is_html = part.kind == "text/html"
        if is_html:
            page = read_html(text[:_PAGE_TEXT], _TAGS)
            text, hidden = page.visible, page.hidden
        elif text:
            text = remove_style_sheet(text)
        shown = text[: max(0, remaining)]
        remaining -= len(shown)
        parts.append(
            PartText(
                part.kind[:100],
                part.name[:200],
                part.size,
                is_html,
                tinter.tint(shown),
                len(text) - len(shown),
                hidden[:1000],
            )
        )
    return parts


def list_steps(verdict: Verdict, evidence: Sequence[Evidence]) -> list[Step]:
    """Return the bars of the waterfall: the prior, each kind of evidence, and the sum.

    >>> from tamis_mail.verdict import Judgement
    >>> some = (Evidence("(before)", "intercept", 1.0, 0, 0), Evidence("offer", "words", 2.0, 0, 0))
    >>> steps = list_steps(Verdict(Judgement("spam", 0.95, 3.0, {}), lambda: some), some)
    >>> [(step.title, step.start, step.end) for step in steps]
    [('before evidence', 0.0, 1.0), ('words', 1.0, 3.0), ('log-odds of spam', 0.0, 3.0)]
    """
    bars: list[tuple[str, float, float]] = []
    total = 0.0
    for view, contribution in sum_views(evidence).items():
        bars.append((VIEW_TITLES.get(view, view), total, total + contribution))
        total += contribution
    bars.append(("log-odds of spam", 0.0, verdict.log_odds))
    lowest = min(0.0, *(min(start, end) for _, start, end in bars))
    highest = max(0.0, *(max(start, end) for _, start, end in bars))
    scale = 100.0 / ((highest - lowest) or 1.0)
    return [
        Step(
            title,
            end - start,
            start,
            end,
            (min(start, end) - lowest) * scale,
            max(_MIN_BAR, abs(end - start) * scale),
        )
        for title, start, end in bars
    ]


def find_strongest(evidence: Sequence[Evidence], sign: int, limit: int) -> list[Evidence]:
    """Return the strongest evidence with a readable token, for spam (`sign` 1) or against it (-1)."""
    readable = [one for one in evidence if one.view not in ("grams", "intercept")]
    return select_strongest(readable, sign, limit)


def find_changes(verdict: Verdict, evidence: Sequence[Evidence], rule: Rule) -> list[Change]:
    """Return the fewest pieces of readable evidence without which the verdict would be different.

    If even the _MAX_REMOVED strongest pieces are not enough, these are returned. The contributions of other
    evidence are taken as they are; if tokens were removed from the message, they would change a little,
    because contributions are divided by the number of tokens.
    """
    spam_threshold, ham_threshold = _log_odds(rule.spam), _log_odds(rule.ham)
    if verdict.label == "unsure":
        return [
            _find_change(verdict, evidence, -1, "spam", lambda total: total >= spam_threshold),
            _find_change(verdict, evidence, 1, "wanted mail", lambda total: total <= ham_threshold),
        ]
    if verdict.label == "spam":
        return [_find_change(verdict, evidence, 1, "unsure", lambda total: total < spam_threshold)]
    return [_find_change(verdict, evidence, -1, "unsure", lambda total: total > ham_threshold)]


def _find_change(
    verdict: Verdict,
    evidence: Sequence[Evidence],
    sign: int,
    label: str,
    is_changed: Callable[[float], bool],
) -> Change:
    """Remove the strongest evidence for spam (`sign` 1) or against it (-1), until `is_changed` is true.

    `is_changed` says of log-odds whether they lead to the verdict `label`.
    """
    total = verdict.log_odds
    tokens: list[str] = []
    for one in find_strongest(evidence, sign, _MAX_REMOVED):
        total -= one.contribution
        tokens.append(one.token)
        if is_changed(total):
            return Change(label, tokens, True)
    return Change(label, tokens, False)


def _log_odds(probability: float) -> float:
    bounded = min(max(probability, exp(-700)), 1 - 1e-16)  # a threshold of 0 or 1 has finite log-odds, too
    return log(bounded / (1 - bounded))
