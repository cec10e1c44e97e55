"""A page on a store of its own, for a client in this process."""

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tamis_mail.catalog import Catalog
from tamis_mail.surfaces.web.app import Context, make_app, make_context
from tamis_mail.surfaces.web.imports import add_folders
from tamis_mail.surfaces.web.security import Limits, Security

with warnings.catch_warnings():  # Starlette will use another client in a later version
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

PORT = 8000
HOST = f"127.0.0.1:{PORT}"
API_TOKEN = "the-token-of-a-program"


@dataclass(frozen=True)
class Page:
    """A client with a session, and the context of its server."""

    client: TestClient
    context: Context
    csrf: str

    def post(self, address: str, **fields: object) -> httpx.Response:
        """Post a form of the page; redirections are followed."""
        response: httpx.Response = self.client.post(address, data={"csrf": self.csrf, **fields})
        return response

    def post_json(self, address: str, value: object) -> httpx.Response:
        """Post JSON as the scripts of the page do."""
        response: httpx.Response = self.client.post(address, json=value, headers={"x-csrf-token": self.csrf})
        return response


@contextmanager
def open_page(store: Path, limits: Limits | None = None, mail: Sequence[str] = ()) -> Iterator[Page]:
    """Serve a store and watched folders, and enter the page as a browser does."""
    with closing(Catalog.of(store)) as catalog:
        add_folders(catalog, mail)
    security = Security(PORT, api_token=API_TOKEN, limits=limits)
    context = make_context(store, security)
    with TestClient(make_app(context), base_url=f"http://{HOST}") as client:
        client.get(f"/enter?token={security.make_entry_token()}", follow_redirects=False)
        token = re.search('name="csrf-token" content="([^"]+)"', client.get("/jobs/none").text)
        assert token
        yield Page(client, context, token[1])


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """The page of an empty store."""
    with open_page(tmp_path / "mail.tamis") as opened:
        yield opened
