"""The evidence of an imported word list: what counts, how much, and when it gives way."""

import pytest

from tamis_mail.labels import Label
from tamis_mail.verdict.rule import View
from tamis_mail.verdict.word_list import (
    BODY_TOKENS,
    ENDURANCE,
    HEADER_TOKENS,
    PATIENCE,
    TOLERANCE,
    Counts,
    weigh_word_list,
)

TOTALS = (200, 300)
SPAMMY: Counts = (100, 0)
HAMMY: Counts = (0, 150)


def total(tokens: dict[bytes, Counts | None], labels: list[Label] | None = None) -> float:
    return sum(one.contribution for one in weigh_word_list(tokens, TOTALS, labels or []))


def learned(spam: int, ham: int, guessed: int = 0) -> list[Label]:
    numbers = (("spam", spam), ("ham", ham), ("work", 0), ("spam?", guessed), ("ham?", guessed))
    return [Label(i, name, number, number, 0, 0) for i, (name, number) in enumerate(numbers)]


@pytest.mark.parametrize(("token", "view"), [(b"subj:Offer", HEADER_TOKENS), (b"offer", BODY_TOKENS)])
def test_a_token_weighs_as_in_its_view(token: bytes, view: View) -> None:
    (one,) = weigh_word_list({token: (100, 1)}, TOTALS, [])
    weight = view.weigh(100, 1, *TOTALS)
    expected = view.scale * weight / (1 + view.reluctance) * 200 / (200 + PATIENCE)
    assert one.contribution == pytest.approx(expected)
    assert (one.token, one.view, one.spam, one.ham) == (token.decode(), "imported", 100, 1)


def test_common_words_are_ignored_and_unknown_ones_dilute() -> None:
    alone = total({b"offer": SPAMMY})
    assert total({b"offer": SPAMMY, b"the": (200, 300), b"and": (150, 190)}) == alone
    unknown: dict[bytes, Counts | None] = {b"new%d" % number: None for number in range(11)}
    assert total(unknown | {b"offer": SPAMMY}) == pytest.approx(alone / 2)
    assert total({b"offer": SPAMMY, b"head:New": None}) == alone  # of another view


def test_contradictions_weaken_all_evidence() -> None:
    def spammy(number: int) -> dict[bytes, Counts | None]:
        return {b"spam%d" % n: SPAMMY for n in range(number)}

    hammy: dict[bytes, Counts | None] = {b"ham%d" % n: HAMMY for n in range(TOLERANCE)}
    (weakened,) = {one.contribution for one in weigh_word_list(spammy(40) | hammy, TOTALS, []) if one.spam}
    (alone,) = {one.contribution for one in weigh_word_list(spammy(40 + TOLERANCE), TOTALS, []) if one.spam}
    assert weakened == pytest.approx(alone / 2)


def test_the_list_gives_way_to_own_mail_of_both_kinds() -> None:
    alone = total({b"offer": SPAMMY})
    assert total({b"offer": SPAMMY}, learned(1000, 0)) == alone
    assert total({b"offer": SPAMMY}, learned(0, 0, guessed=1000)) == alone
    assert total({b"offer": SPAMMY}, learned(ENDURANCE, 9999)) == pytest.approx(alone / 2)
    assert total({b"offer": SPAMMY}, learned(9 * ENDURANCE, 9 * ENDURANCE)) == pytest.approx(alone / 10)


def test_a_small_list_gives_way_sooner() -> None:
    def small(labels: list[Label]) -> float:
        return sum(one.contribution for one in weigh_word_list({b"offer": (8, 0)}, (10, 20), labels))

    assert small(learned(10, 10)) == pytest.approx(small([]) / 2)


def test_without_strong_tokens_there_is_no_evidence() -> None:
    assert weigh_word_list({}, TOTALS, []) == ()
    assert weigh_word_list({b"new": None, b"the": (200, 300)}, TOTALS, []) == ()


def test_names_of_tokens_are_printable() -> None:
    (one,) = weigh_word_list({b"a\x1b[2J\xff\xc2\x85": SPAMMY}, TOTALS, [])
    assert one.token.isprintable()
