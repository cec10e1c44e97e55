"""What an act of the owner teaches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis_mail.watching.lessons import find_lesson, is_kept_by_owner
from tamis_mail.watching.roles import Role

KEYWORDS = ["$Junk", "Junk", "$NotJunk", "NonJunk", "\\Answered", "\\Seen", "\\Flagged", "work"]
keyword_sets = st.frozensets(st.sampled_from(KEYWORDS))
NONE: frozenset[str] = frozenset()

# before → after: inbox, junk, unsure, archive, other, trash, drafts, sent
MOVES = {
    None: "- spam - - - - - -",
    Role.INBOX: "- spam - - - - - -",
    Role.JUNK: "ham - - ham ham - - -",
    Role.UNSURE: "ham spam - ham ham - - -",
    Role.ARCHIVE: "- spam - - - - - -",
    Role.OTHER: "- spam - - - - - -",
    Role.TRASH: "- spam - - - - - -",
    Role.DRAFTS: "- spam - - - - - -",
    Role.SENT: "- spam - - - - - -",
}
AFTER = [Role.INBOX, Role.JUNK, Role.UNSURE, Role.ARCHIVE, Role.OTHER, Role.TRASH, Role.DRAFTS, Role.SENT]


@pytest.mark.parametrize(
    ("before", "after", "lesson"),
    [
        (before, after, None if lesson == "-" else lesson)
        for before, row in MOVES.items()
        for after, lesson in zip(AFTER, row.split(), strict=True)
    ],
)
def test_a_move_teaches_what_the_table_says(before: Role | None, after: Role, lesson: str | None) -> None:
    assert find_lesson(before, after, None if before is None else NONE, NONE) == lesson


@pytest.mark.parametrize(
    ("keywords_before", "keywords", "lesson"),
    [
        ([], ["$Junk"], "spam"),
        ([], ["Junk"], "spam"),
        ([], ["junk"], "spam"),
        ([], ["$NotJunk"], "ham"),
        ([], ["NonJunk"], "ham"),
        ([], ["$Junk", "$NotJunk"], None),
        (["$Junk"], ["$Junk", "$NotJunk"], "ham"),
        (["$Junk"], ["$Junk"], None),
        (["$Junk"], [], None),
        (["$JUNK"], ["$Junk"], None),
        ([], ["\\Answered"], "ham"),
        ([], ["\\Answered", "$Junk"], "spam"),
        (["\\Answered"], ["\\Answered"], None),
        ([], ["\\Seen", "\\Flagged", "work"], None),
    ],
)
def test_a_keyword_teaches_when_it_is_set(
    keywords_before: list[str], keywords: list[str], lesson: str | None
) -> None:
    given_before, given_now = frozenset(keywords_before), frozenset(keywords)
    for role in (Role.INBOX, Role.ARCHIVE, Role.OTHER):
        assert find_lesson(role, role, given_before, given_now) == lesson


@given(st.sampled_from(Role), keyword_sets)
def test_what_has_not_changed_teaches_nothing(role: Role, keywords: frozenset[str]) -> None:
    assert find_lesson(role, role, keywords, keywords) is None


@given(st.sampled_from([*Role, None]), keyword_sets, keyword_sets)
def test_what_is_put_in_the_trash_teaches_nothing(
    before: Role | None, keywords_before: frozenset[str], keywords: frozenset[str]
) -> None:
    for after in (Role.TRASH, Role.DRAFTS, Role.SENT):
        assert find_lesson(before, after, keywords_before, keywords) is None


@given(st.sampled_from([Role.INBOX, Role.JUNK, Role.OTHER]), keyword_sets)
def test_with_only_moves_the_first_sight_of_a_message_teaches_no_spam(
    after: Role, keywords: frozenset[str]
) -> None:
    assert find_lesson(None, after, None, keywords, only_moves=True) in (None, "ham")
    assert find_lesson(Role.INBOX, Role.JUNK, NONE, keywords, only_moves=True) == "spam"


@given(keyword_sets)
def test_a_move_counts_more_than_a_keyword(keywords: frozenset[str]) -> None:
    assert find_lesson(Role.INBOX, Role.JUNK, NONE, keywords) == "spam"
    assert find_lesson(Role.JUNK, Role.INBOX, NONE, keywords) == "ham"


def test_what_the_owner_has_answered_or_flagged_is_kept() -> None:
    assert is_kept_by_owner(frozenset({"\\Flagged", "\\Seen"}))
    assert is_kept_by_owner(frozenset({"\\answered"}))
    assert not is_kept_by_owner(frozenset({"\\Seen", "$Junk"}))
