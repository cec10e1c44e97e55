"""Waits until something changes in folders: by notifications of the system (inotify), or by polling."""

import os
import time
from collections.abc import Callable, Generator, Iterable
from importlib import import_module
from typing import Any

_ARM_MILLISECONDS = 1000  # for which one call waits
_DEBOUNCE_MILLISECONDS = 400  # for which changes are gathered: a delivery is several
_POLL_SECONDS = 10.0  # between two looks, if there are no notices
_OTHER_FILES = ("dovecot", "maildirsize", "subscriptions", "tmp")  # in a folder, beside `cur` and `new`


class Notices:
    """Notices of changes in folders.

    `report` is called once with the reason why there are none, and folders are then looked at regularly.
    """

    def __init__(self, poll: float | None, report: Callable[[str], None]) -> None:
        self._poll = poll
        self._report = report
        self._folders: tuple[str, ...] = ()
        self._changes: Generator[set[Any], None, None] | None = None
        self._can_notice = poll is None

    def wait(self, folders: Iterable[str], seconds: float) -> None:
        """Return when something has changed in a folder, and after some seconds in any case."""
        if not self._can_notice:
            time.sleep(min(seconds, self._poll or _POLL_SECONDS))
            return
        wanted = tuple(sorted(folders))
        if wanted != self._folders or self._changes is None:
            # What changes while the notices are being set up is found by the next look, at once.
            self._begin(wanted)
            return
        limit = time.monotonic() + seconds
        try:
            while time.monotonic() < limit:
                if next(self._changes):
                    return
        except KeyboardInterrupt:  # any signal: the watcher knows which
            self.close()
        except OSError as error:
            self._give_up(str(error))

    def close(self) -> None:
        """Ask for no more notices."""
        if self._changes is not None:
            self._changes.close()
            self._changes = None

    def _begin(self, folders: tuple[str, ...]) -> None:
        self.close()
        self._folders = folders
        try:
            watch = import_module("watchfiles").watch
        except ModuleNotFoundError:
            self._give_up('watchfiles is not installed: pip install "tamis[maildir]"')
            return
        self._changes = watch(
            *folders,
            watch_filter=_is_wanted,
            debounce=_DEBOUNCE_MILLISECONDS,
            rust_timeout=_ARM_MILLISECONDS,
            yield_on_timeout=True,
            recursive=False,
        )
        try:
            next(self._changes)
        except KeyboardInterrupt:
            self.close()
        except FileNotFoundError:  # a folder has just gone, and will not be asked for again
            self.close()
            time.sleep(_POLL_SECONDS / 10)
        except (OSError, RuntimeError) as error:  # too many watches
            self._give_up(str(error))

    def _give_up(self, reason: str) -> None:
        self.close()
        self._can_notice = False
        self._report(reason)


def _is_wanted(_change: object, path: str) -> bool:
    """Whether a change is one of messages or of folders."""
    return not os.path.basename(path).startswith(_OTHER_FILES)  # noqa: PTH119 (once per change)
