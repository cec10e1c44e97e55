"""Notifications of changes in folders."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tamis_mail.surfaces.maildir import notifications as notices_module
from tamis_mail.surfaces.maildir.notifications import Notifications

pytest.importorskip("watchfiles")


def _refuse(_number: int) -> set[object]:
    raise OSError(28, "OS file watch limit reached")


def wait_while(notifications: Notifications, folder: Path, seconds: float, path: Path) -> float:
    """Create a file while notifications are waited for, and return the seconds that it took."""
    timer = threading.Timer(0.3, path.touch)
    timer.start()
    begun = time.monotonic()
    notifications.wait([str(folder)], seconds)
    timer.join()
    return time.monotonic() - begun


def test_a_message_ends_the_waiting_and_a_file_of_dovecot_does_not(tmp_path: Path) -> None:
    reports: list[str] = []
    notifications = Notifications(None, reports.append)
    notifications.wait([str(tmp_path)], 60)  # which sets it up
    assert wait_while(notifications, tmp_path, 60, tmp_path / "17.M1P2.dovecot") < 60
    assert wait_while(notifications, tmp_path, 2.0, tmp_path / "dovecot-uidlist") >= 2.0
    assert reports == []
    notifications.close()


def test_without_notices_folders_are_looked_at_regularly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_paths: str, **_options: object) -> Iterator[set[object]]:
        yield from map(_refuse, [0])

    monkeypatch.setattr(notices_module, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr("watchfiles.watch", refuse)
    reports: list[str] = []
    notifications = Notifications(None, reports.append)
    for _ in range(3):
        notifications.wait([str(tmp_path)], 60)
    assert reports == ["[Errno 28] OS file watch limit reached"]


def test_a_folder_that_has_just_gone_does_not_end_the_notices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices_module, "_POLL_SECONDS", 0.01)
    reports: list[str] = []
    notifications = Notifications(None, reports.append)
    notifications.wait([str(tmp_path), str(tmp_path / "gone")], 60)
    notifications.wait([str(tmp_path)], 60)
    assert wait_while(notifications, tmp_path, 60, tmp_path / "1.host") < 60
    assert reports == []
    notifications.close()
