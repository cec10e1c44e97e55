"""Parse the usual options of `tamis sort` for one message without `argparse`.

Loading `argparse` and building its parser takes 12 ms, and mail servers start this command for each message.
Other words (mailboxes, rare options, mistakes) are left to the parser: `tests/surfaces/test_plain_options.py`
compares the two.
"""

from types import SimpleNamespace

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


def read_plain_options(words: list[str]) -> SimpleNamespace | None:
    """Return the options of `tamis sort` for one message, or None if the parser must read the words.

    >>> read_plain_options(["sort", "-pe", "--store", "mail.tamis"]).store
    'mail.tamis'
    >>> read_plain_options(["sort", "inbox.mbox"])
    """
    if words[:1] != ["sort"]:
        return None
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
    remaining = iter(words[1:])
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
