"""Addresses of stores on servers that are not valid."""

import pytest

from tamis_mail.locations import LocationError, parse_address


@pytest.mark.parametrize("weight", ["", "0", "-1", "1001", "1.5", "²", "9" * 5000])
def test_a_weight_that_is_no_number_from_1_to_1000_is_refused(weight: str) -> None:
    with pytest.raises(LocationError, match="expected 1 to 1000"):
        parse_address(f"redis://localhost/0?store=ann&site=all&weight={weight}")


def test_the_weight_of_an_address_is_read() -> None:
    assert parse_address("redis://localhost/0?site=all&weight=1000").weight == 1000
