"""Parse the usual options of `tamis learn`, and of `tamis sort` for one message, without `argparse`.

Loading `argparse` and building its parser takes 12 ms, and mail servers start `tamis sort` for each message.
Other words (mailboxes to sort, rare options, mistakes) are left to the parser:
`tests/surfaces/test_plain_options.py` compares the two.
"""

from types import SimpleNamespace

# The attributes that the parser makes of the options of `tamis sort`. With `passthrough`, the message is
# written with the verdict in its header; with `exit_zero`, the exit status of each verdict is 0.
_FLAGS = {
    "-p": "passthrough",
    "--passthrough": "passthrough",
    "-e": "exit_zero",
    "--exit-zero": "exit_zero",
    "--json": "json",
    "--no-log": "no_log",
    "-q": "quiet",
    "--quiet": "quiet",
}
_SHORT_FLAGS = frozenset("peq")  # flags that can be joined, as in -pe
_WITH_VALUE = {"--store": "store", "--dialect": "dialect"}
_DIALECTS = ("spamassassin", "bogofilter")
_LEARN_FLAGS = {"--mbox": "mbox", "--no-log": "no_log", "-q": "quiet", "--quiet": "quiet"}


def read_plain_options(words: list[str]) -> SimpleNamespace | None:
    """Return the options of `tamis learn` or `tamis sort`, or None if the parser must read the words.

    >>> read_plain_options(["sort", "-pe", "--store", "mail.tamis"]).store
    'mail.tamis'
    >>> read_plain_options(["sort", "inbox.mbox"])
    >>> read_plain_options(["learn", "--spam", "junk", "--ham", "a", "b"]).labelled_paths
    [('spam', ['junk']), ('ham', ['a', 'b'])]
    """
    read = {"sort": _read_sort, "learn": _read_learn}.get(words[0]) if words else None
    return read(words[1:]) if read else None


def _read_learn(words: list[str]) -> SimpleNamespace | None:
    """Read options of `tamis learn` that give each message a label, and each label a path."""
    labelled_paths: list[tuple[str, list[str]]] = []
    options = {
        "version": False,
        "command": "learn",
        "paths": [],
        "labelled_paths": labelled_paths,
        "sent": [],
        "since": None,
        "mbox": False,
        "no_log": False,
        "store": None,
        "quiet": False,
    }
    remaining = iter(words)
    for word in remaining:
        name, equals, value = word.partition("=")
        if word in _LEARN_FLAGS:
            options[_LEARN_FLAGS[word]] = True
        elif name == "--store":
            value = value if equals else next(remaining, "")
            if not value or value[0] == "-":
                return None
            options["store"] = value
        elif word in ("--spam", "--ham"):
            labelled_paths.append((word[2:], []))
        elif word and word[0] != "-" and labelled_paths:
            labelled_paths[-1][1].append(word)
        else:
            return None
    if not labelled_paths or not all(paths for _, paths in labelled_paths):
        return None
    return SimpleNamespace(**options)


def _read_sort(words: list[str]) -> SimpleNamespace | None:
    """Read options of `tamis sort` for one message."""
    options = {
        "version": False,
        "command": "sort",
        "paths": [],
        "passthrough": False,
        "exit_zero": False,
        "dialect": "spamassassin",
        "undo": False,
        "json": False,
        "move": None,
        "unsure": None,
        "dry_run": False,
        "no_log": False,
        "store": None,
        "quiet": False,
    }
    remaining = iter(words)
    for word in remaining:
        name, equals, value = word.partition("=")
        if word in _FLAGS:
            options[_FLAGS[word]] = True
        elif name in _WITH_VALUE:
            value = value if equals else next(remaining, "")
            if not value or value[0] == "-" or (name == "--dialect" and value not in _DIALECTS):
                return None
            options[_WITH_VALUE[name]] = value
        elif len(word) > 2 and word[0] == "-" and _SHORT_FLAGS.issuperset(word[1:]):
            options.update({_FLAGS[f"-{letter}"]: True for letter in word[1:]})
        else:
            return None
    if options["passthrough"] and options["json"]:
        return None  # a contradiction, which the parser reports
    return SimpleNamespace(**options)
