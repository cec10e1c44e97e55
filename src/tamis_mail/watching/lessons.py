"""The label that an action of the mailbox's owner teaches: spam, ham, or nothing.

    action                                                         label
    a move                  into junk                              spam
                            out of junk or unsure, not into them   ham
    a keyword is added      $Junk or Junk                          spam
                            $NotJunk, NonJunk or NotJunk           ham
    an answer to a message  which adds the flag \\Answered          ham

Junk and unsure are the folders to which the filter moves spam, and mail of which it is unsure. A message that
is seen for the first time in junk counts as moved there, and its answer teaches nothing. A message in the
trash, in drafts, in a folder of sent mail or in a virtual folder (which shows messages of other folders)
teaches nothing. A move takes precedence over a keyword, and a keyword over an answer; keywords of both labels
count as none. Moves and keywords of the filter itself teach nothing: the memory records them, so that they
are recognised.
"""

from tamis_mail.labels import HAM, SPAM
from tamis_mail.watching.roles import Role

SEEN, ANSWERED = "\\Seen", "\\Answered"
SPAM_KEYWORDS = frozenset({"$Junk", "Junk"})
HAM_KEYWORDS = frozenset({"$NotJunk", "NonJunk", "NotJunk"})
# The mail program sets these when the owner acts on a message.
_OWNER_FLAGS = frozenset({ANSWERED, "\\Flagged", "\\Draft", "\\Deleted"})
# The roles of folders whose messages teach nothing.
_NO_LESSON = frozenset({Role.TRASH, Role.DRAFTS, Role.SENT, Role.VIRTUAL})


def find_lesson(
    before: Role | None,
    after: Role,
    keywords_before: frozenset[str] | None,
    keywords: frozenset[str],
    *,
    only_moves: bool = False,
) -> str | None:
    """Return the label that an action of the owner teaches, or None.

    `before` is the role of the folder in which the message was last seen, or None if it was never seen;
    `keywords_before` are the keywords that it had there. With `only_moves`, neither the folder nor a keyword
    of a message that is seen for the first time teaches anything, because the server's filter may have chosen
    them; the flag \\Answered still does.

    >>> find_lesson(Role.INBOX, Role.JUNK, frozenset(), frozenset())
    'spam'
    >>> find_lesson(Role.JUNK, Role.TRASH, frozenset(), frozenset()) is None
    True
    """
    if after in _NO_LESSON:
        return None
    added = _fold(keywords) - _fold(keywords_before or frozenset())
    is_new = before is None
    lesson = _find_lesson_of_move(before, after) or _find_lesson_of_keywords(added)
    if lesson is not None and not (is_new and only_moves):
        return lesson
    if ANSWERED.casefold() not in added or (is_new and after == Role.JUNK):
        return None
    return HAM


def is_kept_by_owner(keywords: frozenset[str]) -> bool:
    r"""Whether flags say that the owner has dealt with a message, so that the filter leaves it where it is.

    >>> is_kept_by_owner(frozenset({"\\Flagged"})), is_kept_by_owner(frozenset({"\\Seen"}))
    (True, False)
    """
    return not _fold(keywords).isdisjoint(_fold(_OWNER_FLAGS))


def _find_lesson_of_move(before: Role | None, after: Role) -> str | None:
    if before == after:
        return None
    if after == Role.JUNK:
        return SPAM
    return HAM if before in (Role.JUNK, Role.UNSURE) and after != Role.UNSURE else None


def _find_lesson_of_keywords(added: frozenset[str]) -> str | None:
    is_spam = not added.isdisjoint(_fold(SPAM_KEYWORDS))
    is_ham = not added.isdisjoint(_fold(HAM_KEYWORDS))
    if is_spam == is_ham:
        return None
    return SPAM if is_spam else HAM


def _fold(keywords: frozenset[str]) -> frozenset[str]:
    """Fold the case of keywords, which IMAP ignores."""
    return frozenset(keyword.casefold() for keyword in keywords)
