"""Find the Python codec for a charset that mail or a web page declares.

One table serves the readers of text (`tamis.text`) and of mail (`tamis_mail.message`). It imports nothing
heavy, because a process that judges one message loads it.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from typing import Final

# The codec by which browsers read a declared charset. It is often a superset of the charset, because senders
# declare the charset and use characters of the superset.
ALIASES: Final = {
    "us-ascii": "ascii",
    "ansi-x3.4-1968": "ascii",
    "646": "ascii",
    "utf8": "utf-8",
    "unicode-1-1-utf-8": "utf-8",
    "unicode-1-1-utf-7": "utf-7",
    "utf7": "utf-7",
    "unicode": "utf-16",
    "ucs-2": "utf-16",
    "utf16": "utf-16",
    "iso-8859-1": "cp1252",
    "iso8859-1": "cp1252",
    "iso-8859-1-windows-3.1-latin-1": "cp1252",
    "latin1": "cp1252",
    "latin-1": "cp1252",
    "l1": "cp1252",
    "ansi": "cp1252",
    "x-user-defined": "cp1252",
    "iso-8859-9": "cp1254",
    "iso-8859-11": "cp874",
    "tis-620": "cp874",
    "iso-8859-8-i": "iso8859-8",
    "iso-8859-8-e": "iso8859-8",
    "iso-8859-6-i": "iso8859-6",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "x-gbk": "gb18030",
    "cp936": "gb18030",
    "gb-2312-80": "gb18030",
    "hz-gb-2312": "hz",
    "big5": "big5hkscs",
    "big5-hkscs": "big5hkscs",
    "x-x-big5": "big5hkscs",
    "cn-big5": "big5hkscs",
    "shift-jis": "cp932",
    "x-sjis": "cp932",
    "sjis": "cp932",
    "ms-kanji": "cp932",
    "windows-31j": "cp932",
    "x-euc-jp": "euc-jp",
    "iso-2022-jp": "iso2022-jp-ext",
    "iso-2022-jp-1": "iso2022-jp-ext",
    "iso-2022-jp-2": "iso2022-jp-2",
    "iso-2022-kr": "iso2022-kr",
    "euc-kr": "cp949",
    "ks-c-5601-1987": "cp949",
    "ks-c-5601": "cp949",
    "ksc5601": "cp949",
    "x-windows-949": "cp949",
    "macintosh": "mac-roman",
    "x-mac-roman": "mac-roman",
    "x-mac-cyrillic": "mac-cyrillic",
}

# The codecs that untrusted input may name. Python has others, which take quadratic time (punycode), emit
# warnings (unicode_escape) or return bytes (base64).
_CODECS: Final = """
ascii utf-8 utf-7 utf-16 utf-16-le utf-16-be utf-16le utf-16be utf-32 utf-32-le utf-32-be utf-32le utf-32be
cp437 cp720 cp737 cp775 cp850 cp852 cp855 cp857 cp858 cp860 cp861 cp862 cp863 cp864 cp865 cp866 cp869 cp874
cp932 cp949 cp950 cp1125 cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258
iso8859-2 iso8859-3 iso8859-4 iso8859-5 iso8859-6 iso8859-7 iso8859-8 iso8859-10 iso8859-13 iso8859-14
iso8859-15 iso8859-16 koi8-r koi8-u koi8-t kz1048 ptcp154 mac-roman mac-cyrillic mac-greek mac-latin2
mac-turkish gb18030 hz big5hkscs euc-jp euc-jis-2004 shift-jis-2004 johab
iso2022-jp-ext iso2022-jp-2 iso2022-kr hp-roman8 tis-620
"""
CODECS: Final = frozenset(_CODECS.split())
BYTE_ORDER_MARKS: Final = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\0\0", "utf-32-le"),  # before UTF-16: it begins with the same bytes
    (b"\0\0\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)


def resolve_alias(charset: str) -> str:
    """Return the codec that browsers use for a charset.

    A charset without an alias is returned in lower case, with - in place of _.

    >>> resolve_alias("ISO-8859-1"), resolve_alias("KOI8-R")
    ('cp1252', 'koi8-r')
    """
    name = charset.lower().replace("_", "-")
    return ALIASES.get(name, name)


def find_codec(charset: str) -> str | None:
    """Return the codec for a charset; "" for the empty string; None if none of `CODECS` has that name.

    >>> find_codec("ISO-8859-1"), find_codec("windows-1251"), find_codec("punycode")
    ('cp1252', 'cp1251', None)
    """
    name = resolve_alias(charset)
    if name not in CODECS:
        name = name.replace("windows-", "cp").replace("ibm", "cp").replace("iso-8859", "iso8859")
        name = name.replace("x-cp", "cp").replace("cp-", "cp")
    return name if not name or name in CODECS else None
