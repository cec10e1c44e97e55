"""Wait until something changes in folders: by notifications of the system, or by polling.

The package `watchfiles`, which the extra `tamis[maildir]` installs, gets the notifications (on Linux by
inotify).
"""

import os
import time
from collections.abc import Callable, Generator, Iterable
from importlib import import_module
from typing import Any

_WAIT_MILLISECONDS = 1000  # time that one call of `watchfiles` waits for a change
_DEBOUNCE_MILLISECONDS = 400  # time in which changes are gathered, because a delivery makes several
_POLL_SECONDS = 10.0  # maximum time between two passes, if there are no notifications
# Beginnings of the names of other files and folders, beside `cur` and `new`.
_OTHER_FILES = ("dovecot", "maildirsize", "subscriptions", "tmp")


class Notifications:
    """Notifications of changes in folders.

    With `poll`, no notifications are used: `wait` only lets at most so many seconds pass. If the system can
    send none, `report` is called once with the reason, and `wait` lets at most 10 seconds pass.
    """

    def __init__(self, poll: float | None, report: Callable[[str], None]) -> None:
        self._poll = poll
        self._report = report
        self._folders: tuple[str, ...] = ()
        self._changes: Generator[set[Any], None, None] | None = None
        self._has_notifications = poll is None

    def wait(self, folders: Iterable[str], seconds: float) -> None:
        """Return when something has changed in a folder, and about at the end of the seconds in any case.

        Return at once if notifications are not set up for these folders yet, and set them up.
        """
        if not self._has_notifications:
            time.sleep(min(seconds, self._poll or _POLL_SECONDS))
            return
        wanted = tuple(sorted(folders))
        if wanted != self._folders or self._changes is None:
            # The next pass finds changes from before the notifications were set up.
            self._start(wanted)
            return
        limit = time.monotonic() + seconds
        try:
            while time.monotonic() < limit:
                if next(self._changes):
                    return
        except KeyboardInterrupt:  # raised after any signal, which the watcher has noted
            self.close()
        except OSError as error:
            self._fall_back_to_polling(str(error))

    def close(self) -> None:
        """Stop the notifications."""
        if self._changes is not None:
            self._changes.close()
            self._changes = None

    def _start(self, folders: tuple[str, ...]) -> None:
        self.close()
        self._folders = folders
        try:
            watch = import_module("watchfiles").watch
        except ModuleNotFoundError:
            self._fall_back_to_polling('watchfiles is not installed: pip install "tamis[maildir]"')
            return
        self._changes = watch(
            *folders,
            watch_filter=_is_wanted,
            debounce=_DEBOUNCE_MILLISECONDS,
            rust_timeout=_WAIT_MILLISECONDS,
            yield_on_timeout=True,
            recursive=False,
        )
        try:
            next(self._changes)
        except KeyboardInterrupt:
            self.close()
        except FileNotFoundError:  # a folder has just gone: the next pass does not list it
            self.close()
            time.sleep(_POLL_SECONDS / 10)  # the caller may list the folders again and again
        except (OSError, RuntimeError) as error:  # inotify has too many watches
            self._fall_back_to_polling(str(error))

    def _fall_back_to_polling(self, reason: str) -> None:
        self.close()
        self._has_notifications = False
        self._report(reason)


def _is_wanted(_change: object, path: str) -> bool:
    """Whether a change concerns messages or folders, not other files."""
    return not os.path.basename(path).startswith(_OTHER_FILES)  # noqa: PTH119 (pathlib is slower)
