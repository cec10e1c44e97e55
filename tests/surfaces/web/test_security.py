"""The page is opened by its token, used by its session, and changed by its own forms only."""

from tests.surfaces.web.conftest import Page


def test_the_address_opens_the_page_once(page: Page) -> None:
    token = page.context.security.make_entry_token()
    assert page.client.get(f"/enter?token={token}", follow_redirects=False).status_code == 303
    assert page.client.get(f"/enter?token={token}", follow_redirects=False).status_code == 401
