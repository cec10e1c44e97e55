"""Rows on a server are decoded only if this tamis knows them."""

import pytest

from tamis_mail.store.database import StoreError
from tamis_mail.store.shared_rows import SHARED_TABLES, decode_key, encode_key


def test_the_key_of_a_table_of_a_newer_tamis_asks_for_an_upgrade() -> None:
    last = len(SHARED_TABLES) - 1
    assert decode_key(encode_key(last, b"word")) == (last, b"word")
    with pytest.raises(
        StoreError, match=rf"row of table {last + 1}, .* 0 to {last}: if a newer .*, upgrade this one"
    ):
        decode_key(encode_key(last + 1, b"word"))


@pytest.mark.parametrize("key", [b"", b"\0", b"\xff", b"\0x", encode_key(0, 1) + encode_key(0, 1)[1:]])
def test_an_invalid_key_is_reported_as_damage(key: bytes) -> None:
    with pytest.raises(StoreError, match="on the server are damaged"):
        decode_key(key)
