"""text → words, in any script: the definition of a word of the body and of the subject."""

import re

LONGEST = 40  # characters to which `headers` and `body` truncate a word in a token such as `subject:offer`
_WORD_SIGNS = "$!"  # ASCII characters besides letters and digits that belong to words
_SPACE_FOR_NON_WORD = bytes(
    code if chr(code).isalnum() or chr(code) in _WORD_SIGNS or code >= 128 else 32 for code in range(256)
)
# All of \u0300-\u036f are accents that follow their letter; they stay within the word.
_NON_ASCII_PUNCTUATION = re.compile(r"[^\w\x00-\x7f\u0300-\u036f]+")
# Thai and Lao, Burmese, Khmer, Japanese kana, Chinese characters, and Hangul, which has spaces, but attaches
# particles to words: each pair of consecutive letters is a token.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff]+"
)


def separate_words(text: str) -> bytes:
    """Separate the words of text by spaces; `message.fold_text` has put it into lower case before.

    >>> separate_words("see you, at noon!\\nbye")
    b'see you  at noon! bye'
    >>> separate_words("限时优惠 now").decode()
    ' 限时 时优 优惠  now'
    """
    if not text.isascii():
        text = _UNSPACED.sub(_pair_letters, _NON_ASCII_PUNCTUATION.sub(" ", text))
    return text.encode("utf-8", "replace").translate(_SPACE_FOR_NON_WORD)


def split_words(text: str) -> list[str]:
    """Return the words of folded text."""
    return separate_words(text).decode().split()


def _pair_letters(match: re.Match[str]) -> str:
    letters = match[0]
    if len(letters) == 1:
        return f" {letters} "
    return " " + " ".join([letters[start : start + 2] for start in range(len(letters) - 1)]) + " "


def find_hosts(name: str) -> list[str]:
    """Return a host and its parent domains, without the top-level domain.

    Of more than six labels, the last six count; a host of one label is returned as it is.

    >>> find_hosts("www.shop.example.com"), find_hosts("localhost")
    (['www.shop.example.com', 'shop.example.com', 'example.com'], ['localhost'])
    """
    name = name.strip(".")[:200]
    labels = name.split(".")
    if len(labels) > 6:
        labels = labels[-6:]
    return [".".join(labels[start:]) for start in range(max(1, len(labels) - 1))]


def find_networks(address: str) -> list[str]:
    """Return an IPv4 address and its networks of 16 and 24 bits.

    >>> find_networks("192.0.2.7")
    ['192.0.2.7', '192.0', '192.0.2']
    """
    dots = [index for index, letter in enumerate(address) if letter == "."]
    return [address, *(address[:dot] for dot in dots[1:3])]
