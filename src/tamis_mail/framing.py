"""What surrounds a message: the postmark before it in an mbox, and the size beyond which nothing is read.

The lowest layer, which readers of mailboxes and readers of messages share. It imports nothing, for a process
that judges one message starts with it.
"""

__all__ = ["LARGEST", "LARGEST_RAW", "exceeds_limit", "is_postmark"]

LARGEST = 50_000_000  # bytes of a message that count; servers refuse larger mail
LARGEST_RAW = 2 * LARGEST  # bytes that are read of it: CR LF at each line of an empty message is twice LF
_CALENDAR = frozenset(
    b"Mon Tue Wed Thu Fri Sat Sun Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
)  # what C's ctime writes in every country


def exceeds_limit(raw: bytes) -> bool:
    """Whether a message has bytes that do not count, for it is larger than LARGEST.

    >>> exceeds_limit(b"Subject: short")
    False
    """
    return len(raw) > LARGEST and len(raw) - raw.count(b"\r\n") > LARGEST


def is_postmark(line: bytes) -> bool:
    """Whether a line that begins with "From " has the year, the time and the day or month of a postmark.

    >>> is_postmark(b"From ann@example.org Mon Jan  1 00:00:00 2024")
    True
    >>> is_postmark(b"From now on we meet at 12:30")
    False
    """
    words = line.replace(b",", b" ").split()
    if _CALENDAR.isdisjoint(words):
        return False
    words.reverse()  # the year is last, as a rule, and the time before it
    return any(map(_is_year, words)) and any(map(_is_time, words))


def _is_year(word: bytes) -> bool:
    return len(word) == 4 and word.isdigit()


def _is_time(word: bytes) -> bool:
    return word[2:3] == b":" and word[:2].isdigit() and word[3:5].isdigit() and len(word) > 4
