"""The page is opened by its token, used by its session, and changed by its own forms only."""

import bz2
import gzip
import io
import lzma
import re
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tamis_mail.surfaces.web.app import make_app, make_context
from tamis_mail.surfaces.web.security import CONTENT_SECURITY_POLICY, Limits, Security
from tests.surfaces.web.conftest import API_TOKEN, HOST, PORT, Page, open_page
from tests.surfaces.web.steps import import_file

VIEWS = ("/", "/messages/" + "0" * 32, "/api/v1/status", "/api/v1/messages", "/jobs/none", "/nothing")
CHANGES = ("/mark", "/undo", "/judge", "/judge-all", "/imports", "/api/v1/labels", "/api/v1/imports")
SMALL = Limits(body=10_000, message=50_000, upload=200_000, seconds=20.0, idle_seconds=5.0)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """One page for the tests that leave nothing behind."""
    with open_page(Path(tmp_path_factory.mktemp("security")) / "mail.tamis") as opened:
        yield opened


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Page]:
    """The page of an empty store."""
    with open_page(tmp_path / "fresh.tamis") as opened:
        yield opened


@pytest.fixture
def stranger(page: Page) -> TestClient:
    """A client without a session, at the same server."""
    return TestClient(page.client.app, base_url=f"http://{HOST}")


def test_the_address_opens_the_page_once(page: Page, stranger: TestClient) -> None:
    token = page.context.security.make_entry_token()
    first = stranger.get(f"/enter?token={token}", follow_redirects=False)
    assert first.status_code == 303
    cookie = first.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert stranger.get("/").status_code == 200
    stranger.cookies.clear()
    assert stranger.get(f"/enter?token={token}", follow_redirects=False).status_code == 401
    assert stranger.get("/").status_code == 401


@pytest.mark.parametrize("token", ["", "wrong", "é" * 43, "x" * 5000])
def test_a_wrong_token_opens_nothing(stranger: TestClient, token: str) -> None:
    assert stranger.get("/enter", params={"token": token}, follow_redirects=False).status_code == 401


@pytest.mark.parametrize("address", VIEWS)
def test_nothing_is_shown_without_a_session(stranger: TestClient, address: str) -> None:
    assert stranger.get(address).status_code == 401
    stranger.cookies.set(f"tamis_session_{PORT}", "guessed")
    assert stranger.get(address).status_code == 401


@pytest.mark.parametrize("address", CHANGES)
def test_nothing_is_changed_without_the_csrf_token(page: Page, stranger: TestClient, address: str) -> None:
    assert stranger.post(address, content=b"x").status_code == 401
    assert page.client.post(address, content=b"x").status_code == 403
    assert page.client.post(address, data={"csrf": "guessed"}).status_code == 403
    assert page.client.post(address, content=b"x", headers={"x-csrf-token": "é".encode()}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": f"http://127.0.0.1:{PORT + 1}"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
    ids=str,
)
def test_a_post_from_another_site_is_refused(page: Page, headers: dict[str, str]) -> None:
    own = page.client.post("/mark", data={"csrf": page.csrf, "action": "spam"})
    assert own.status_code == 200
    foreign = page.client.post("/mark", data={"csrf": page.csrf, "action": "spam"}, headers=headers)
    assert foreign.status_code == 403


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        f"evil.example:{PORT}",
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost.",
        "",
        f"localhost:{PORT}.evil",
    ],
)
def test_another_host_name_reaches_nothing(page: Page, host: str) -> None:
    assert page.client.get("/", headers={"host": host}).status_code == 421
    assert page.client.get("/static/page.css", headers={"host": host}).status_code == 421
    assert page.client.get("/", headers={"host": f"LocalHost:{PORT}"}).status_code == 200


def test_a_name_that_was_given_is_answered(tmp_path: Path) -> None:
    security = Security(PORT, host_names=["mail.home.example"])
    with TestClient(make_app(make_context(tmp_path / "a.tamis", security))) as client:
        for host in (f"mail.home.example:{PORT}", "Mail.Home.Example", f"127.0.0.1:{PORT}"):
            assert client.get("/static/page.css", headers={"host": host}).status_code == 200
        assert client.get("/static/page.css").status_code == 421


def test_a_program_needs_its_token_and_reaches_the_api_only(stranger: TestClient) -> None:
    good = {"authorization": f"Bearer {API_TOKEN}"}
    assert stranger.get("/api/v1/status", headers=good).status_code == 200
    assert stranger.get("/", headers=good).status_code == 401
    for value in ("Bearer wrong", f"Basic {API_TOKEN}", "Bearer", API_TOKEN):
        assert stranger.get("/api/v1/status", headers={"authorization": value}).status_code == 401


@pytest.mark.parametrize("address", ["/", "/static/page.css", "/api/v1/status", "/nothing"])
def test_every_answer_binds_the_browser(page: Page, address: str) -> None:
    headers = page.client.get(address).headers
    assert headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    is_static = address.startswith("/static/")
    assert headers["cache-control"] == ("private, max-age=300" if is_static else "no-store")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_no_page_has_inline_scripts_or_styles() -> None:
    folder = Path(__file__).parents[3] / "src/tamis_mail/surfaces/web"
    for path in (folder / "templates").glob("*.html"):
        text = path.read_text()
        assert "style=" not in text, path
        assert "<style" not in text, path
        assert not re.search(r"\son[a-z]+\s*=", text), path
        assert text.count("<script") == text.count('<script type="module" src="/static/'), path
        assert "| safe" not in text, path
    for path in (folder / "static").glob("*.js"):
        text = path.read_text()
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "http:",
            "https:",
        ):
            assert word not in text.replace("http://www.w3.org/", ""), (path, word)


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2f..%2f..%2fetc/passwd",
        "/static//etc/passwd",
        "/static/%00",
        "/messages/..%2f..%2fetc%2fpasswd",
        "/jobs/..%2fx",
        "/templates/base.html",
    ],
)
def test_a_path_leads_nowhere_else(page: Page, path: str) -> None:
    response = page.client.get(path)
    assert response.status_code in (400, 404)
    assert "root:" not in response.text
    assert "import" not in response.text


def test_the_name_of_an_import_is_no_path(fresh: Page) -> None:
    job = import_file(fresh, b"Subject: a\n\nb", name="../../evil\u202e.mbox")
    assert job["fault"] == ""
    files = [path for path in fresh.context.imports.rglob("*") if path.is_file()]
    assert [path.parent for path in files] == [fresh.context.imports]
    assert "evil" not in files[0].name
    assert "\u202e" not in job["title"]


@pytest.mark.parametrize(
    "address", ["//evil.example/", "https://evil.example", "/\\evil.example", "javascript:alert(1)"]
)
def test_a_form_leads_back_to_the_page_only(page: Page, address: str) -> None:
    form = {"csrf": page.csrf, "action": "spam", "next": address}
    response = page.client.post("/mark", data=form, follow_redirects=False)
    assert (response.status_code, response.headers["location"]) == (303, "/")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Page]:
    """A page with small limits."""
    with open_page(tmp_path / "small.tamis", SMALL) as opened:
        yield opened


def send(page: Page, content: bytes) -> int:
    headers = {"x-csrf-token": page.csrf}
    status: int = page.client.post("/imports?name=a", content=content, headers=headers).status_code
    return status


def test_a_body_that_is_too_large_is_refused(small: Page) -> None:
    assert send(small, b"x" * 200_001) == 413
    assert small.post("/mark", action="x" * 20_000).status_code == 413
    assert small.post_json("/judge", {"digests": ["x" * 20_000]}).status_code == 413
    program = {"authorization": f"Bearer {API_TOKEN}", "content-type": "message/rfc822"}
    assert small.client.post("/api/v1/verdicts", content=b"x" * 40_000, headers=program).status_code == 200
    assert small.client.post("/api/v1/verdicts", content=b"x" * 60_000, headers=program).status_code == 413
    assert not [*small.context.imports.glob("*")]


def test_a_body_without_a_length_is_bounded_too(small: Page) -> None:
    def stream() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * 10_000

    response = small.client.post("/imports?name=a", content=stream(), headers={"x-csrf-token": small.csrf})
    assert response.status_code == 413
    assert not [*small.context.imports.glob("*")]


def make_zip(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mail.mbox", content)
    return file.getvalue()


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, make_zip])
@pytest.mark.parametrize("start", [b"", b"From a Mon Jan  1 00:00:00 2024\nSubject: a\n\n"])
def test_a_bomb_does_not_unfold(small: Page, pack: object, start: bytes) -> None:
    bomb = pack(start + b"x" * 30_000_000)  # type: ignore[operator]
    assert len(bomb) < 100_000
    job = import_file(small, bomb)
    assert "unpack" in job["fault"]
    assert not [*small.context.imports.glob("*")]  # nothing is kept
    assert small.client.get("/").status_code == 200


def test_a_gzipped_mailbox_is_imported(fresh: Page) -> None:
    job = import_file(
        fresh, gzip.compress(b"From a Mon Jan  1 00:00:00 2024\nSubject: Packed lunch\n\nHere\n")
    )
    assert job["fault"] == ""
    assert "Packed lunch" in fresh.client.get("/").text


def test_a_file_that_is_no_mail_is_refused_in_a_sentence(fresh: Page) -> None:
    for content in (b"\x89PNG\r\n\x1a\n" + bytes(100), b"SQLite format 3\0" + bytes(200)):
        job = import_file(fresh, content, name="picture.mbox")
        assert job["fault"].startswith("picture.mbox is ")
        assert "not mail" in job["fault"]
    assert not [*fresh.context.imports.glob("*")]


def test_the_page_has_a_host_name_that_nobody_else_knows(page: Page) -> None:
    one, other = (Security(PORT) for _ in range(2))
    assert re.fullmatch(r"tamis-[0-9a-f]{16}\.localhost", one.host_name)
    assert one.is_own_host(f"{one.host_name}:{PORT}")
    assert not one.is_own_host(f"{other.host_name}:{PORT}")
    assert not one.is_own_host(one.host_name)


def test_a_preview_does_not_use_the_address_up(page: Page, stranger: TestClient) -> None:
    token = page.context.security.make_entry_token()
    assert stranger.head(f"/enter?token={token}", follow_redirects=False).status_code == 405
    assert stranger.get(f"/enter?token={token}", follow_redirects=False).status_code == 303


def test_an_address_that_was_not_opened_in_time_is_not_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    security = Security(PORT)
    token = security.make_entry_token()
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 3600)
    assert security.enter(token) is None


@pytest.mark.parametrize("other", ['prefs={"a":1}', "a[b]=1", "foo", "x=a b c", "x=\u00e9"])
def test_cookies_of_other_servers_do_not_end_the_session(page: Page, other: str) -> None:
    key = page.client.cookies[page.context.security.cookie]
    cookies = f"{other}; {page.context.security.cookie}={key}".encode()
    client = TestClient(page.client.app, base_url=f"http://{HOST}")
    assert client.get("/jobs/none", headers={"cookie": cookies}).status_code == 404


def test_the_limit_of_json_does_not_depend_on_its_type(tmp_path: Path) -> None:
    with open_page(tmp_path / "mail.tamis", SMALL) as opened:
        headers = {"x-csrf-token": opened.csrf, "content-type": "message/rfc822"}
        assert opened.client.post("/judge", content=b"[" * 20_000, headers=headers).status_code == 413
        assert opened.client.post("/judge", content=b"{}", headers=headers).status_code == 415


def test_an_error_of_the_program_has_the_security_headers_and_no_token(
    page: Page, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(page.context.jobs, "find", fail)
    answer = page.client.get("/jobs/none")
    assert answer.status_code == 500
    assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert page.csrf not in answer.text
    assert "ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["//[", "//evil.example", "/\\evil.example", "http://evil.example", "x"])
def test_an_action_leads_back_to_a_page_of_ours(page: Page, address: str) -> None:
    fields = {"csrf": page.csrf, "action": "spam", "next": address}
    answer = page.client.post("/mark", data=fields, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


def test_input_that_is_almost_right_is_refused(page: Page) -> None:
    assert page.post_json("/api/v1/undo", {"events": "1\n"}).status_code == 400
    assert page.post("/undo", digests="0" * 32 + f" {'0' * 32}" * 1000).status_code == 400
    assert page.post("/settings/folders", path="~no-such-user/x").status_code < 500


def test_one_job_judges_all_messages_however_often_it_is_asked_for(page: Page) -> None:
    keys = [page.post_json("/judge-all", {}).json()["key"] for _ in range(150)]
    jobs = [page.context.jobs.find(key) for key in keys]
    assert all(job is None or job.is_cancelled for job in jobs[:-1])
    assert jobs[-1] is not None
