"""the parts of a message → its words in order, and marks: hosts, files, MIME tree, hidden words and tricks.

In a mark, `:` precedes a word or a value, `~` a property, and `url/` a word of a link's path.

Version 1 interprets pages of HTML differently (`message.html`), reads fewer of their characters, and only the
first links. The compiled core reads later versions (core/mail/bodies.cpp): `test_compiled_pages`
compares the two.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from tamis_mail.message import Message, Page, Part, fold_text, read_html, remove_style_sheet
from tamis_mail.message.html import EDITION
from tamis_mail.tokens.words import LONGEST, find_hosts, find_networks, separate_words, split_words

# Limits; what exceeds them is ignored.
_TEXT = 12_000  # characters of a message whose words are read: more words add little and enlarge the store
_TAGS = 250  # tags of a page that are interpreted: the beginning suffices, and each tag takes time
_PAGES = {1: 60_000, 2: 200_000, 3: 200_000}  # characters of a page that are read, by version
_HIDDEN = 200  # hidden words of a part that are read
_LINKS = {1: 60, 2: 40, 3: 40}  # links of a part that are read, by version
_LATER_LINKS = 300  # of the distinct links up to this one, those to new hosts are read, too (since version 2)
_LINK_LENGTH = 300  # characters of a link that are read
_PARTS = 40  # parts of a message that are read
_NUMBERS = 60  # numbers of a part that are read (since version 3)

_HTML = "text/html"
_LINK = re.compile(r"(?:https?://|www\.)[^\s<>\"'()\[\]]{1,400}")
_MAIL_HOST = re.compile(r"@([a-z0-9\-]{1,63}(?:\.[a-z0-9\-]{1,63}){0,5}\.[a-z][a-z0-9\-]{1,62})")
_NUMERIC = re.compile(r"[\d.:\[\]a-fx]+$")  # a host that is an IP address, or a number such as 0xc0000207
_PATH_WORD = re.compile(r"[a-z]{3,30}")
_NAME_WORD = re.compile(r"[^\W_]{2,40}")
_NUMBER = re.compile(r"[$€£#]?+\d[\d.,:/\-]*+%?+")
_NINE_FOR_DIGIT = dict.fromkeys(map(ord, "0123456789"), "9")


@dataclass(slots=True)
class Body:
    """The words and the marks of all parts, as in `Tokens`, and the URLs that the parts refer to."""

    words: bytes = b""
    marks: str = ""
    links: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    hidden: int = 0  # number of hidden words, at most _HIDDEN of a part


def read(message: Message, version: int) -> Body:
    """Return the words and marks of all parts, because mail programs differ in which parts they show."""
    body = Body()
    marks = [f"shape:{message.shape[:100]}", f"size~{len(message.raw).bit_length()}"]
    marks += [f"fault~{fault}" for fault in message.faults]
    words_of_parts: list[bytes] = []
    remaining = _TEXT
    for part in message.parts[:_PARTS]:
        marks.append(f"part:{part.kind}")
        if part.charset:
            marks.append(f"charset:{part.charset[:LONGEST]}")
        if part.name:
            marks += _describe_file(part)
        if part.text and remaining > 0:
            text, text_marks = _read_part(part, body, version)
            marks += text_marks
            words_of_parts.append(separate_words(text[:remaining]))  # one text, in which spaces separate them
            remaining -= len(text)
        elif part.text and version > 2:
            marks += _list_numbers(_read_declared_text(part))
    body.words = b"\n".join(words_of_parts).strip()
    body.marks = "\0".join(marks).replace(" ", "_").replace("\0", " ")
    return body


def _read_part(part: Part, body: Body, version: int) -> tuple[str, list[str]]:
    """Return the folded text of a part, and its marks; add its links and images to the body."""
    links: tuple[str, ...] = ()
    marks: list[str] = []
    text = part.text[:_TEXT]
    is_page = part.kind == _HTML or (text[:200].lstrip()[:1] == "<" and "<html" in text[:1000].lower())
    if is_page:
        page = read_html(part.text[: _PAGES[version]], tags=_TAGS, edition=min(version, EDITION))
        text, links = page.visible[:_TEXT], page.links
        marks = _describe_page(page, version)
        body.images += page.images
        body.hidden += sum(mark.startswith("hidden:") for mark in marks)
        if page.outlook:  # text in comments that only Microsoft Outlook shows
            marks += _list_words(page.outlook, "outlook")
    elif version > 1:
        text = remove_style_sheet(text)
    if version > 2:
        # A part may look like a page without being declared as one: its words are those that the page would
        # show, and its numbers are those of the whole text.
        marks += _list_numbers(_read_declared_text(part) if is_page and part.kind != _HTML else text)
    folded, tricks = fold_text(text)
    marks += [f"trick~{trick}" for trick in tricks]
    if "http" in folded or "www." in folded:
        links += tuple(_LINK.findall(folded))
    body.links += links
    for link in _select_links(links, version):
        marks += _describe_link(link[:_LINK_LENGTH].lower())
    if "@" in folded:
        marks += [
            f"mail:@{host}"
            for address in dict.fromkeys(_MAIL_HOST.findall(folded))
            for host in find_hosts(address)
        ]
    return folded, marks


def _read_declared_text(part: Part) -> str:
    """Return the text of a part by its declared type: of a page, what is visible."""
    if part.kind == _HTML:
        return read_html(part.text[: _PAGES[3]], tags=_TAGS).visible[:_TEXT]
    return remove_style_sheet(part.text[:_TEXT])


def _describe_page(page: Page, version: int) -> list[str]:
    """Return marks of a page of HTML: tricks, numbers of images and links, images, and hidden words."""
    marks = [f"trick~{trick}" for trick in page.tricks]
    marks.append(f"images~{len(page.images).bit_length()}")
    marks.append(f"links~{len(page.links).bit_length()}")
    for image in page.images[: _LINKS[1]] if version == 1 else _select_links(page.images, version):
        marks += [f"image:{mark}" for mark in _describe_link(image[:_LINK_LENGTH].lower())[:4]]
    if page.hidden:
        marks += _list_words(page.hidden, "hidden")
    return marks


def _select_links(links: Sequence[str], version: int) -> list[str]:
    """Return the first _LINKS distinct links and, since version 2, later ones that lead to other hosts."""
    distinct = list(dict.fromkeys(links))
    first = _LINKS[version]
    selected = distinct[:first]
    if version == 1 or len(distinct) <= first:
        return selected
    origins = {_find_origin(link) for link in selected}
    for link in distinct[first:_LATER_LINKS]:
        if _find_origin(link) not in origins:
            origins.add(_find_origin(link))
            selected.append(link)
    return selected


def _find_origin(link: str) -> str:
    """Return the scheme and the host of a link."""
    return "/".join(link.split("/", 3)[:3])


def _list_numbers(text: str) -> list[str]:
    """Return a mark for each number: the sign before it, its digits as 9, the signs within and after it.

    >>> _list_numbers("only $49.95 until 10:30, 100% safe")
    ['number:$99.99', 'number:99:99,', 'number:999%']
    """
    numbers = islice(_NUMBER.finditer(text), _NUMBERS)
    return list(
        dict.fromkeys(f"number:{number[0][:LONGEST].translate(_NINE_FOR_DIGIT)}" for number in numbers)
    )


def _list_words(text: str, prefix: str) -> list[str]:
    """Return a mark for each word of a text, with a prefix."""
    folded, _ = fold_text(text[:5000])
    return [f"{prefix}:{word[:LONGEST]}" for word in split_words(folded)[:_HIDDEN]]


@lru_cache(4096)  # messages of one mailing list or shop end with the same links
def _describe_link(link: str) -> tuple[str, ...]:
    """Return marks of a link: its form, its host and parent domains, and the words of its path."""
    scheme, colon, rest = link.partition("://")
    if not colon:
        scheme, rest = ("www", link) if link.startswith("www.") else (link.partition(":")[0][:12], "")
        if not rest:
            return (f"url~{scheme}",) if scheme.isalpha() else ("url~relative",)
    authority, _, path = rest.partition("/")
    authority = authority.partition("?")[0]
    marks = []
    if "@" in authority:
        marks.append("url~user")
        authority = authority.rpartition("@")[2]
    if "%" in authority:
        marks.append("url~percent")
    host, _, port = authority.partition(":")
    if port:
        marks.append("url~port")
    if _NUMERIC.match(host):
        marks.append("url~number")
    if "xn--" in host:
        marks.append("url~punycode")
    find_names = find_networks if host.replace(".", "").isdecimal() else find_hosts
    marks += [f"url:{name}" for name in find_names(host)]
    marks += [f"url/{word}" for word in _PATH_WORD.findall(path[:200])[:8]]
    return tuple(marks)


def _describe_file(part: Part) -> list[str]:
    """Return marks of a file: words and endings of its name, disposition, and the bit length of its size."""
    name = part.name.lower()[:200]
    stem, _, ending = name.rpartition(".")
    marks = [f"file:{word}" for word in _NAME_WORD.findall(stem)[:8]]
    if ending:
        marks.append(f"file:.{ending[:12]}")
    if "." in stem:
        marks.append(f"file:.{stem.rpartition('.')[2][:12]}.{ending[:12]}")
    marks.append(f"file~{part.disposition}~{part.size.bit_length()}")
    return marks
