"""Runs `tamis serve web` in a process of its own, and Debian's Chromium without a window."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SCREENSHOTS = Path(__file__).resolve().parents[3] / "build" / "screenshots"
_PROGRAM = "import sys; from tamis_mail.surfaces.cli import main; sys.exit(main(sys.argv[1:]))"


@dataclass(frozen=True)
class Server:
    """A server that answers."""

    address: str  # with the token that opens the page once
    log: Path
    process: "subprocess.Popen[bytes]"
    printed: str = ""  # with a name below localhost, which browsers know and other clients may not

    @property
    def root(self) -> str:
        """The address without path and token."""
        return self.address.partition("/enter")[0]


def require_chromium() -> str:
    """Return the path of Chromium; skip the test, and say why, if it or Playwright is missing."""
    pytest.importorskip("playwright", reason="Playwright is not installed")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    return path


@contextmanager
def run_chromium() -> Iterator["Browser"]:
    """Start a browser; each test opens contexts of its own in it."""
    path = require_chromium()
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 (it may be missing)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def run_page(folder: Path, store: Path, *options: str) -> Iterator[Server]:
    """Start the server at a free port, wait until it prints its address, and stop it by a signal."""
    output = folder / "web.log"
    words = ["serve", "web", "--store", str(store), "--port", "0", "--no-open", *options]
    with output.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *words], stdout=stream, stderr=stream, env=os.environ
        )
    try:
        while not (address := re.search(rb"http://\S+/enter\?token=\S+", output.read_bytes())):
            try:
                status = process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            raise AssertionError(f"the server ended with status {status}: {output.read_text()}")
        printed = address[0].decode()
        yield Server(re.sub("tamis-[0-9a-f]+.localhost", "127.0.0.1", printed), output, process, printed)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
    assert status == 0, output.read_text()


def save_screenshot(page: object, name: str) -> Path:
    """Keep a picture of what the browser shows, as an artefact of the run."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    path = SCREENSHOTS / f"{name}.png"
    page.screenshot(path=path, full_page=True)  # type: ignore[attr-defined]
    return path
