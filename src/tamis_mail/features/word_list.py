"""The number of a token of an imported word list; it is the same for all versions of the filter's tokens."""

from _blake2 import blake2b  # noqa: PLC2701 (importing hashlib loads OpenSSL, which takes 4 ms)

from tamis_mail.features.hashing import KEY_BITS


def word_key(token: bytes) -> int:
    """Compute the number of a token of a word list.

    >>> word_key(b"subj:Offer")
    209109344676299
    """
    return int.from_bytes(blake2b(token, digest_size=KEY_BITS // 8).digest(), "big")
