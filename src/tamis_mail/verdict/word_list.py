"""The evidence of a word list that was imported from another filter (bogofilter).

The constants are from experiments/0011-bogofilter-import.

The list has counts of the tokens of another filter. The tokens of a message that are on the list are evidence
in addition to the features of tamis. The weight of a token is log P(token given spam) - log P(token given
other mail), smoothed by the priors of HEADER_TOKENS and BODY_TOKENS as `rule.View` says. A token is strong
if its weight is at least LEAST_WEIGHT in absolute value; weak tokens are ignored. A strong weight is divided
by the number of tokens that are strong or unknown, plus the reluctance, and multiplied by the scale, for
header and body separately. All contributions are then multiplied by three factors:

- TOLERANCE / (TOLERANCE + c), where c is the smaller of the numbers of strong tokens for and against spam: a
  message with many of both is of a kind that the list does not know, such as new wanted mail;
- m / (m + PATIENCE), where m is the number of messages of the smaller class of the list;
- k / (k + n), where n is the number of messages of the smaller class that this store has learned, and k is
  the smaller of m and ENDURANCE: the more mail the store has learned, the less the list counts.
"""

from collections.abc import Mapping, Sequence

from tamis_mail.features.hashing import make_readable
from tamis_mail.labels import Label, count_messages
from tamis_mail.verdict.rule import View
from tamis_mail.verdict.verdict import Evidence

IMPORTED = "imported"  # the view of the evidence
LEAST_WEIGHT = 1.5
TOLERANCE = 15
PATIENCE = 2
ENDURANCE = 100  # with this many learned messages of the smaller class, a large list counts half
# The weight of a token is computed as if each side had more messages: `prior` of them, in which the token is
# as frequent as in all messages (`pooled`), or twice as many, half of which have it.
HEADER_TOKENS = View(scale=2.5, prior=0.01, pooled=True, reluctance=10)
BODY_TOKENS = View(scale=5.0, prior=0.1, pooled=False, reluctance=10)

Counts = tuple[int, int]  # messages of spam and of other mail


def weigh_word_list(
    tokens: Mapping[bytes, Counts | None], totals: Counts, labels: Sequence[Label]
) -> tuple[Evidence, ...]:
    """Return the evidence of the tokens of a message, given the counts of each (None if the list lacks it).

    >>> (one,) = weigh_word_list({b"subj:Offer": (40, 0), b"the": (50, 60)}, (100, 100), [])
    >>> one.token, round(one.contribution, 2)
    ('subj:Offer', 2.21)
    """
    smallest = min(totals)
    if smallest <= 0:
        return ()
    weights: dict[bytes, float] = {}
    for view, is_header in ((HEADER_TOKENS, True), (BODY_TOKENS, False)):
        strong: dict[bytes, float] = {}
        n_unknown = 0
        for token, counts in tokens.items():
            if (b":" in token) == is_header:
                if counts is None:
                    n_unknown += 1
                elif abs(weight := view.weigh(*counts, *totals)) >= LEAST_WEIGHT:
                    strong[token] = weight
        size = len(strong) + n_unknown + view.reluctance
        weights |= {token: view.scale * weight / size for token, weight in strong.items()}
    n_for_spam = sum(weight > 0 for weight in weights.values())
    contradictions = min(n_for_spam, len(weights) - n_for_spam)
    endurance = min(smallest, ENDURANCE)
    factor = TOLERANCE / (TOLERANCE + contradictions) * smallest / (smallest + PATIENCE)
    factor *= endurance / (endurance + min(count_messages(labels)))
    return tuple(
        Evidence(make_readable(token), IMPORTED, factor * weight, *(tokens[token] or (0, 0)))
        for token, weight in weights.items()
    )
