"""The postmark line ("From ...") before a message in an mbox, and the maximum size of a message.

This module imports nothing, because every process that judges one message loads it.
"""

LARGEST = 50_000_000  # bytes of a message; what follows is ignored. Most servers refuse larger mail
LARGEST_RAW = 2 * LARGEST  # bytes that are read: line ends CR LF make a message at most twice as long
_CALENDAR = frozenset(
    b"Mon Tue Wed Thu Fri Sat Sun Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
)  # as C's ctime writes them in every locale


def exceeds_limit(raw: bytes) -> bool:
    """Whether a message has more than LARGEST bytes, CR LF counted as one, so that its end is ignored.

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
    # Most postmarks end with a time and a year, and this test is faster than the next.
    if len(words) > 1 and _is_year(words[-1]) and _is_time(words[-2]):
        return True
    return any(map(_is_year, words)) and any(map(_is_time, words))


def _is_year(word: bytes) -> bool:
    return len(word) == 4 and word.isdigit()


def _is_time(word: bytes) -> bool:
    return word[2:3] == b":" and word[:2].isdigit() and word[3:5].isdigit() and len(word) > 4
