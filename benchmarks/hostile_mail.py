"""Messages that were made to cost a reader much time: each repeats one structure of mail, to any size.

`CASES` names them. A case is a text of some script (`_TEXTS`) at some place of a message (`_PLACES`), or a
structure of its own (`_STRUCTURES`). Numbers in them differ, so that nothing is remembered from before.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Final

__all__ = ["CASES"]

Case = Callable[[int], bytes]

# Text whose characters are dear to decode, to normalise, to fold or to split. `{}` becomes a number.
_TEXTS: Final = {
    "ascii words": "word{} ",
    "one long word": "abcdefgh",
    "single letters": "a ",
    "spaced-out letters": "v i a g r a x{} ",
    "combining marks": "\u0301",
    "a letter with many marks": "a" + "\u0301\u0334" * 25,
    "marks out of order": "\u0301\u0323\u0334",
    "marks made by NFKC": "\uff9e\u0334",
    "marks after letters": "a\u0334\u0301\u0323b\u0334\u0301\u0323",
    "hebrew points": "\u05d0\u05b0\u05b1\u05bc",
    "presentation forms": "\ufdfa",
    "long decompositions": "\ufdfb\u3316\u3357",
    "ligatures": "\ufb03\u01c4\u2a74",
    "hangul jamo": "\u1100\u1161\u11a8",
    "thai": "\u0e01\u0e33\u0e49",
    "tibetan marks": "\u0f71\u0f72\u0f74\u0f80",
    "devanagari": "\u0915\u093c\u094d\u0958",
    "zero width": "v\u200bi\u2060\ufeff",
    "only zero width": "\u200b",
    "soft hyphens": "v\xadi\xad",
    "bidi": "\u202ea\u202c\u2067b\u2069",
    "tag characters": "\U000e0041a",
    "mixed scripts": "a\u0430 ",
    "mixed scripts in one word": "a\u0430",
    "greek and latin": "\u03b1b{} ",
    "full width": "\uff21\uff42",
    "mathematical": "\U0001d400\U0001d51f",
    "circled": "\u24b6\U0001f130",
    "cjk": "\u9650\u65f6\u4f18\u60e0",
    "cjk compatibility": "\uf900\U0002f800",
    "cjk and latin": "\u9650a",
    "cjk of one letter": "\u9650 ",
    "emoji": "\U0001f600\u200d\u2764\ufe0f",
    "sharp s": "\u00df\u1e9e\u0130",
    "replacement": "\ufffd",
    "addresses": "a{}@b{}.example, ",
    "addresses without commas": "a@b",
    "at signs": "@",
    "hosts of many labels": "@" + "a." * 60,
    "links": "http://h{}.example/p/q?r=1 ",
    "links without end": "http://",
    "www": "www.a{} ",
    "exclamation": "!",
    "questions and dollars": "?$ ",
    "parentheses": "(",
    "comments": "(c{}) ",
    "quotes": '"',
    "quoted strings": '"q{}" ',
    "backslashes": "\\",
    "semicolons": ";",
    "parameters": "; p{}=v",
    "equals": "=",
    "question marks": "=?",
    "dots": ".",
    "hyphens": "-",
    "digits": "9",
    "angle brackets": "<",
    "closing brackets": ">",
    "tags": "<b>",
    "tags with attributes": '<b a{}="c" d=e>',
    "ampersands": "&",
    "entities": "&eacute;",
    "entities by number": "&#{};",
    "names of no entity": "&notanentity{};",
    "numbers": "{} ",
}


def _text(unit: str, size: int) -> str:
    """The unit, repeated to at least so many bytes of UTF-8."""
    if "{}" not in unit:
        return unit * (size // len(unit.encode()) + 1)
    pieces: list[str] = []
    length = 0
    for number in count(1000):
        if length >= size:
            break
        pieces.append(unit.replace("{}", str(number)))
        length += len(pieces[-1].encode())
    return "".join(pieces)


def _rows(row: Callable[[int], bytes], size: int) -> bytes:
    """Rows by their number, as many as fit."""
    rows: list[bytes] = []
    length = 0
    for number in count(1000 + size):
        rows.append(row(number))
        length += len(rows[-1])
        if length >= size:
            return b"".join(rows)
    raise AssertionError


_FIELD = 9500  # bytes of a value: a little below what is read of one


def _in_field(name: str, length: int, unit: str, size: int) -> bytes:
    value = _text(unit, min(size, length)).replace("\n", " ").encode()
    return _rows(lambda number: f"{name}: {number} ".encode() + value + b"\n", size) + b"\nbody"


def _in_words(kind: str, charset: str, unit: str, size: int) -> bytes:
    """In encoded words of a field."""
    data = _text(unit, 5000 if kind == "q" else 7000).encode(charset, "replace")
    value = b64encode(data).decode() if kind == "b" else "".join(f"={code:02X}" for code in data[:3100])
    word = f"=?{charset}?{kind}?{value}?=".encode()
    return _rows(lambda number: f"Cc: {number} ".encode() + word + b"\n", size) + b"\nbody"


def _in_body(head: str, before: str, after: str, charset: str, unit: str, size: int) -> bytes:
    text = before + _text(unit, size) + after
    return f"Subject: x\n{head}\n\n".encode() + text.encode(charset, "replace")


def _in_parts(kind: str, unit: str, size: int) -> bytes:
    """In forty parts: as many as are read."""
    text = _text(unit, min(size // 40, 60_000)).encode()
    part = f"\n--b\nContent-Type: {kind}; charset=utf-8\n\n".encode() + text
    return b"Content-Type: multipart/mixed; boundary=b\n" + part * (size // len(part) + 1) + b"\n--b--\n"


def _in_name(unit: str, size: int) -> bytes:
    """In file names of parts."""
    value = _text(unit.replace('"', "'"), 9000).encode()
    part = (
        b'\n--b\nContent-Type: a/b; name="'
        + value
        + b'"\nContent-Disposition: attachment; filename="'
        + value
    )
    part += b'"\n\nx'
    return b"Content-Type: multipart/mixed; boundary=b\n" + part * (size // len(part) + 1) + b"\n--b--\n"


_HTML = "Content-Type: text/html; charset=utf-8"
_PLACES: Final[dict[str, Callable[[str, int], bytes]]] = {
    "in To": partial(_in_field, "To", _FIELD),
    "in short To": partial(_in_field, "To", 60),
    "in Subject": partial(_in_field, "Subject", _FIELD),
    "in X-Any": partial(_in_field, "X-Any", _FIELD),
    "in Received": partial(_in_field, "Received", _FIELD),
    "in Content-Type": partial(_in_field, "Content-Type", _FIELD),
    "in Message-ID": partial(_in_field, "Message-ID", _FIELD),
    "in DKIM": partial(_in_field, "DKIM-Signature: d", _FIELD),
    "in encoded words (b)": partial(_in_words, "b", "utf-8"),
    "in encoded words (q)": partial(_in_words, "q", "utf-8"),
    "in text": partial(_in_body, "Content-Type: text/plain; charset=utf-8", "", "", "utf-8"),
    "in text of UTF-16": partial(_in_body, "Content-Type: text/plain; charset=utf-16", "", "", "utf-16"),
    "in text of UTF-7": partial(_in_body, "Content-Type: text/plain; charset=utf-7", "", "", "utf-7"),
    "in HTML": partial(_in_body, _HTML, "<p>", "</p>", "utf-8"),
    "hidden in HTML": partial(_in_body, _HTML, "<p style='display:none'>", "</p>", "utf-8"),
    "in an attribute": partial(_in_body, _HTML, '<a href="', '">x</a>', "utf-8"),
    "in a style": partial(_in_body, _HTML, "<b style='", "'>x</b>", "utf-8"),
    "in a comment": partial(_in_body, _HTML, "<!--[if mso]>", "-->", "utf-8"),
    "in parts of text": partial(_in_parts, "text/plain"),
    "in parts of HTML": partial(_in_parts, "text/html"),
    "in file names": _in_name,
}


def _repeat(before: bytes, unit: bytes, after: bytes = b"") -> Case:
    return lambda size: before + unit * (size // len(unit) + 1) + after


def _number(before: bytes, row: str, after: bytes = b"") -> Case:
    """Rows with `{}` for a number."""
    return lambda size: before + _rows(lambda n: row.replace("{}", str(n)).encode("utf-8"), size) + after


def _boundaries(size: int) -> bytes:
    head = b""
    for depth in range(30):
        names = "".join(f";boundary={depth * 100 + number:04d}" for number in range(100)).encode()
        head += b"Content-Type: multipart/mixed" + names + b"\n\n--%04d\n" % (depth * 100)
    return head + b"\n" + b"--99999--\n" * (size // 10)


def _nested_multiparts(size: int) -> bytes:
    """Open thirty levels, close them all by the outermost boundary, and again."""
    row = b"\n--b0\n" + b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (depth, depth) for depth in range(1, 29)
    )
    return b"Content-Type: multipart/mixed; boundary=b0\n\n" + row * (size // len(row) + 1)


def _nested_messages(size: int) -> bytes:
    inner = b"Content-Type: message/rfc822\n" + b"bad line\n" * 1000 + b"worse\n"
    return inner * 30 + b"a: b\n" * (size // 5)


def _rfc2231(size: int) -> bytes:
    pieces = "".join(f";name*{n}*=%e2%82%ac{n}" for n in range(99)).encode()
    part = b"\n--b\nContent-Type: a/b" + pieces + b"\n\nx"
    return b"Content-Type: multipart/mixed; boundary=b\n" + part * (size // len(part) + 1)


def _charset_words(charset: str, word: str) -> Case:
    """Fields that are full of short encoded words, of two charsets in turn so that they are not joined."""
    words = f"=?{charset}?q?{word}?= =?x?q?=FF?= " * 50
    return _number(b"", "Cc: {} " + words + "\n", b"\nbody")


def _encoded_body(encoding: str, kind: str, unit: bytes) -> Case:
    head = f"Content-Type: {kind}\nContent-Transfer-Encoding: {encoding}\n\n".encode()
    return _repeat(head, unit)


def _text_of(charset: str, unit: bytes) -> Case:
    return _repeat(f"Content-Type: text/plain; charset={charset}\n\n".encode(), unit)


def _parts_of(charset: str, unit: bytes) -> Case:
    """A thousand parts of a charset."""
    part = f"\n--b\nContent-Type: text/plain; charset={charset}\n\n".encode()

    def make(size: int) -> bytes:
        body = unit * (max(1, size // 1000 - len(part)) // len(unit) + 1)
        return b"Content-Type: multipart/mixed; boundary=b\n" + (part + body) * (size // len(part + body) + 1)

    return make


def _page(unit: str, before: str = "", after: str = "") -> Case:
    return _number(f"{_HTML}\n\n{before}".encode(), unit, after.encode())


def _colliding(size: int) -> bytes:
    """Words whose numbers in a 61-bit prime field are alike: nothing here may use `hash` of integers."""
    return b"Subject: x\n\n" + b" ".join(str(n * (2**61 - 1)).encode() for n in range(1, size // 22))


_MULTIPART = b"Content-Type: multipart/mixed; boundary=b\n\n"
_STRUCTURES: Final[dict[str, Case]] = {
    "dashed lines under 3000 boundaries": _boundaries,
    "dashed lines": _repeat(_MULTIPART + b"--b\n\n", b"--99999--\n"),
    "dashes only": _repeat(_MULTIPART, b"\n--"),
    "dashed lines of blanks": _repeat(_MULTIPART, b"\n--" + b" " * 190 + b"x"),
    "boundaries": _repeat(_MULTIPART, b"--b\n"),
    "closed boundaries": _repeat(_MULTIPART, b"--b--\n"),
    "empty parts": _repeat(_MULTIPART, b"--b\n\n\n"),
    "nested multiparts": _nested_multiparts,
    "nested messages with broken headers": _nested_messages,
    "messages in messages": _repeat(b"", b"Content-Type: message/rfc822\n\n"),
    "parts with messages": _repeat(_MULTIPART, b"--b\nContent-Type: message/rfc822\n\n"),
    "digest": _repeat(b"Content-Type: multipart/digest; boundary=b\n\n", b"--b\n\nSubject: x\n\nx\n"),
    "pieces of RFC 2231": _rfc2231,
    "boundary parameters": _number(b"Content-Type: multipart/mixed", ";boundary={}", b"\n\nx"),
    "content types": _number(b"", "Content-Type: text/{}\n", b"\nx"),
    "empty fields": _repeat(b"", b"a:\n", b"\nx"),
    "fields x-": _repeat(b"", b"x-:\n", b"\nx"),
    "distinct fields": _number(b"", "x-{}: {}\n", b"\nx"),
    "distinct short fields": _number(b"", "{}:\n", b"\nx"),
    "folded lines": _repeat(b"To:", b"\n a", b"\n\nx"),
    "folded blanks": _repeat(b"To:", b"\n \t", b"\n\nx"),
    "bad lines": _repeat(b"a: b\n", b"bad\na: b\n", b"\nx"),
    "postmarks in the header": _repeat(b"a: b\n", b"From x\na: b\n", b"\nx"),
    "blanks before a colon": _repeat(b"", b"a" + b" " * 500, b"\n\nx"),
    "names without a colon": _repeat(b"", b"a", b"\n\nx"),
    "received": _number(b"", "Received: from a{}.b.example by c.example id {}; Mon, 1 Jan 2024\n", b"\nx"),
    "received id": _repeat(b"Received: ", b"id id ", b"\n\nx"),
    "dates": _number(b"", "Date: Mon, {} Jan 2024 00:00:00 +0000\n", b"\nx"),
    "dates of words": _repeat(b"Date: ", b"abc) ", b"\n\nx"),
    "empty encoded words": _number(b"", "Cc: {} " + "=?utf-8?q??= " * 90 + "\n", b"\nx"),
    "open encoded words": _repeat(b"Cc: ", b"=?utf-8?q?", b"\n\nx"),
    "broken base64 words": _number(b"", "Cc: {} " + "=?utf-8?b?A=A=A=?= " * 90 + "\n", b"\nx"),
    "words of cp857": _charset_words("cp857", "=D5"),
    "words of iso-2022-jp": _charset_words("iso-2022-jp", "=1B$B=1B(B"),
    "words of utf-7": _charset_words("utf-7", "+AGE-"),
    "words of hz": _charset_words("hz-gb-2312", "~{VP~}"),
    "words of gb2312": _charset_words("gb2312", "=FF=FF"),
    "words of utf-8, broken": _charset_words("utf-8", "=FF=C3"),
    "words of a huge charset": _charset_words("x" * 60, "=FF"),
    "raw bytes in fields": _repeat(b"Subject: ", b"\xff", b"\n\nx"),
    "base64": _encoded_body("base64", "text/plain", b"YWJjZCBlZmdo" * 6 + b"\n"),
    "base64 of one letter a line": _encoded_body("base64", "text/plain", b"Y\n"),
    "base64 with padding": _encoded_body("base64", "text/plain", b"YQ=="),
    "base64 of equals": _encoded_body("base64", "text/plain", b"="),
    "base64 with junk": _encoded_body("base64", "text/plain", b"YWJjZCBlZmdoYWJjZCBlZmdo!"),
    "base64 of blanks": _encoded_body("base64", "text/plain", b" \t"),
    "quoted-printable": _encoded_body("quoted-printable", "text/plain", b"=C3=A9"),
    "quoted-printable, broken": _encoded_body("quoted-printable", "text/plain", b"=Z"),
    "quoted-printable, loose ends": _encoded_body("quoted-printable", "text/plain", b"=" + b" " * 200),
    "quoted-printable, soft ends": _encoded_body("quoted-printable", "text/plain", b"=\n"),
    "quoted-printable, blanks": _encoded_body("quoted-printable", "text/plain", b"= \t"),
    "uuencoded": _repeat(b"\n", b"begin 644 a\nM" + b"A" * 60 + b"\n`\nend\n"),
    "uuencoded beginnings": _repeat(b"\n", b"begin 644 a\n"),
    "uuencoded without end": _repeat(b"\nbegin 644 a\n", b"M" + b"A" * 60 + b"\n"),
    "begin": _repeat(b"\n", b"begin "),
    "iso-2022-jp escapes": _text_of("iso-2022-jp", b"\x1b$B\x1b(B"),
    "iso-2022-jp broken": _text_of("iso-2022-jp", b"\x1b$B\xff\x1b"),
    "undeclared iso-2022-jp": _text_of("", b"\x1b$B!!\x1b(B\xff"),
    "iso-2022-kr": _text_of("iso-2022-kr", b"\x0e\xff\x0f"),
    "hz": _text_of("hz-gb-2312", b"~{VP~}"),
    "hz broken": _text_of("hz-gb-2312", b"~{\xff~"),
    "utf-7": _text_of("utf-7", b"+AGE-"),
    "utf-7 broken": _text_of("utf-7", b"+\xff-+!"),
    "utf-7 surrogates": _text_of("utf-7", b"+2AA-"),
    "utf-8 broken": _text_of("utf-8", b"\xff\xc3"),
    "utf-8 broken, mostly whole": _text_of("utf-8", "é".encode() * 3 + b"\xff"),
    "utf-16 broken": _text_of("utf-16-le", b"\x00\xdc"),
    "utf-32 broken": _text_of("utf-32-le", b"\xff\xff\xff\xff"),
    "gb18030 broken": _text_of("gb18030", b"\xff\x81"),
    "big5 broken": _text_of("big5", b"\xff\x81"),
    "shift-jis broken": _text_of("shift-jis", b"\xff\x81"),
    "euc-jp broken": _text_of("euc-jp", b"\xff\x8f"),
    "euc-kr broken": _text_of("euc-kr", b"\xff\x81"),
    "johab broken": _text_of("johab", b"\xff\x81"),
    "cp1252 undefined": _text_of("cp1252", b"\x81"),
    "cp857 undefined": _text_of("cp857", b"\xd5"),
    "nul": _text_of("utf-8", b"a\0b"),
    "parts of cp857": _parts_of("cp857", b"\xd5"),
    "parts of gb18030": _parts_of("gb18030", b"\xff\x81"),
    "parts of iso-2022-jp": _parts_of("iso-2022-jp", b"\x1b$B\xff\x1b"),
    "parts of utf-7": _parts_of("utf-7", b"+\xff-+!"),
    "parts of a huge charset": _parts_of("x" * 9000, b"\xff"),
    "carriage returns": _repeat(b"a: b", b"\r", b"x"),
    "carriage returns and line feeds": _repeat(b"a: b\r\n\r\n", b"\r\n", b"x"),
    "doubled carriage returns": _repeat(b"a: b\r\n\r\n", b"\r\r\n", b"x"),
    "mixed line ends": _repeat(b"a: b\r\n\r\n", b"\rx\r\ny\r\r\n", b"x"),
    "line feeds": _repeat(b"a: b\n\n", b"\n", b"x"),
    "leading line feeds": _repeat(b"", b"\n", b"a: b\n\nx"),
    "postmarks": _repeat(b"", b"From a\n", b"a: b\n\nx"),
    "quoted From": _repeat(b"a: b\n\n", b">From \n", b"x"),
    "From quoted often": _repeat(b"a: b\n\n", b">>>>>>>>", b"From x"),
    "verdict fields": _number(b"", "X-Spam-{}: y\n", b"\nx"),
    "headers of verdict fields only": _repeat(b"", b"X-Spam: y\n\n", b"a: b\n\nx"),
    "links in HTML": _page('<a href="http://h{}.example/{}">h{}.example</a>'),
    "links in HTML that differ": _page('<a href="http://h{}.example/">x{}.example</a> '),
    "links with many attributes": _page("<a " + "b=c " * 2000 + 'href="http://h{}.example/">x</a>'),
    "links without an address": _page("<a " + "b " * 4000 + ">x</a>"),
    "images": _page('<img src="http://h{}.example/{}.png">'),
    "images of data": _page('<img src="data:image/png;base64,' + "A" * 300 + '">'),
    "data without end": _page("data:"),
    "data of blanks": _page("data:a" + " " * 150 + "!"),
    "hidden elements": _page('<p style="display:none">x{}'),
    "distinct styles": _page('<b style="color:#{};font-size:{}px">x</b>'),
    "long styles": _page('<b style="' + "color:red;" * 100 + '{}">x</b>'),
    "styles of comments": _page('<b style="' + "/*" * 400 + '{}">x</b>'),
    "styles of colons": _page('<b style="' + "color :" * 130 + '{}">x</b>'),
    "styles of blanks": _page('<b style="' + ";" + " " * 900 + '{}">x</b>'),
    "styles of one tag": _page(";color:red", "<b style='", "'>"),
    "attributes color": _page("<b " + "color=red " * 90 + "{}>x</b>"),
    "attributes hidden": _page("<b " + "hidden" * 150 + "{}>x</b>"),
    "open elements": _page("<div><b><i>"),
    "marks within each other": _page("<div style='display:none'><b hidden>"),
    "paragraphs that hide": _page("<p style='font-size:0'>x<p style='font-size:9px'>y"),
    "comments": _page("<!-- x -->"),
    "comments for Outlook": _page("<!--[if mso]>x{}<![endif]-->"),
    "open comments": _page("<!--"),
    "comments that split words": _page("v<!---->i"),
    "scripts": _page("<script>x{}</script>"),
    "open scripts": _page("<script "),
    "styles": _page("<style>b{color:red}</style>", "", ""),
    "open tags": _page("<a "),
    "open quotes in tags": _page('<a b="'),
    "quotes in tags": _page("<a b='\">"),
    "end tags": _page("</b>"),
    "empty elements in words": _page("v<b></b>i"),
    "elements in words, not empty": _page("v<bbbbbbbbbbbb " + "c" * 90 + "></b>i"),
    "words before a bracket": _page("a<aaaaaaaaaaaa"),
    "entities, long": _page("&" + "a" * 31),
    "entities without semicolon": _page("&copy{}"),
    "entities of letters": _page("&#118;&#x69;"),
    "tables": _page("<table><tr><td>x{}</td></tr></table>"),
    "breaks": _page("<br>"),
    "unknown elements": _page("<x{}>y"),
    "elements of a long name": _page("<" + "x" * 5000 + "{}>y"),
    "names of colons": _page("<a :::::::::::::::href=x>y"),
    "attributes without end": _page("a=", "<a ", ">"),
    "attributes of dashes": _page("-", "<a ", "=x>"),
    "colliding words": _colliding,
    "distinct words": _number(b"Subject: x\n\n", "w{}x{} "),
    "subjects of exclamations": _number(b"", "Subject: {} " + "!x" * 450 + "\n", b"\nx"),
    "many distinct addresses": _number(b"To: ", "a{}@b{}.c{}.d{}.example.com,\n ", b"\n\nx"),
    "many distinct hosts in text": _number(b"a: b\n\n", "@a{}.b{}.c{}.d{}.e{}.ff "),
    "many distinct links": _number(b"a: b\n\n", "http://a{}.b{}.c{}.d{}.e{}.ff/abc/def/ghi "),
    "signatures": _number(b"", "DKIM-Signature: " + "d=a{}.b.c.d.e.f " * 100 + "\n", b"\nx"),
    "protocols": _number(b"", "Received: {} " + "with aa " * 600 + "\n", b"\nx"),
}


def _products() -> Iterator[tuple[str, Case]]:
    for place, put in _PLACES.items():
        for name, unit in _TEXTS.items():
            yield f"{name} {place}", partial(put, unit)


CASES: Final[dict[str, Case]] = _STRUCTURES | dict(_products())
