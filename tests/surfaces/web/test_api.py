"""The API does what its OpenAPI document says, for valid requests and for invalid ones."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from tamis_mail.surfaces.web.api import OPERATIONS, make_document
from tamis_mail.surfaces.web.schemas import find_fault, read_parameter
from tests.surfaces.web.conftest import API_TOKEN, Page, open_page
from tests.surfaces.web.steps import import_file, wait_for_job

LUNCH = b"Subject: Lunch\nFrom: Ann <ann@home.example>\n\nAt noon, as always?\n"
PROGRAM = {"authorization": f"Bearer {API_TOKEN}"}
EXAMPLES = 15  # requests of each operation, besides those that cover each bound of its schema
COUNTS: dict[str, int] = {}

document = schemathesis.openapi.from_dict(make_document())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page with a message, for all requests of this module."""
    with open_page(Path(tmp_path_factory.mktemp("api")) / "mail.tamis") as opened:
        import_file(opened, LUNCH, label="ham")
        opened.client.cookies.clear()
        yield opened


@document.parametrize()
@settings(
    max_examples=EXAMPLES,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[*HealthCheck],
)
def test_every_operation_answers_as_it_is_described(case: Any, server: Page) -> None:
    COUNTS[case.operation.label] = COUNTS.get(case.operation.label, 0) + 1
    response = case.call(session=server.client, headers=PROGRAM)
    case.validate_response(response)


def test_schemathesis_has_tried_all_operations() -> None:
    if not COUNTS:
        pytest.skip("the operations were not tried in this run")
    assert len(COUNTS) == len(OPERATIONS)
    assert min(COUNTS.values()) >= EXAMPLES or sum(COUNTS.values()) > 100
