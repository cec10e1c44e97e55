"""Steps that several tests of the page take."""

import re
import time
from collections.abc import Iterable
from typing import Any

from tests.surfaces.web.conftest import Page


def import_file(page: Page, content: bytes, *, name: str = "mail.mbox", label: str = "") -> dict[str, Any]:
    """Send a mailbox as the page does, wait until it is read, and return the job."""
    response = page.client.post(
        "/imports",
        params={"name": name, "label": label},
        content=content,
        headers={"x-csrf-token": page.csrf, "content-type": "application/octet-stream"},
    )
    assert response.status_code == 202, response.text
    return wait_for_job(page, response.json()["key"])


def wait_for_job(page: Page, key: str) -> dict[str, Any]:
    """Ask for a job until it is finished."""
    while not (job := page.client.get(f"/jobs/{key}").json())["finished"]:
        time.sleep(0.01)
    return dict(job)


def join_mbox(messages: Iterable[bytes]) -> bytes:
    """Write messages as an mbox."""
    postmark = b"From somebody@mail.example Mon Jan  1 00:00:00 2024\n"
    return b"".join(
        postmark + re.sub(rb"(?m)^(>*From )", rb">\1", raw.replace(b"\r\n", b"\n")).rstrip(b"\n") + b"\n\n"
        for raw in messages
    )
