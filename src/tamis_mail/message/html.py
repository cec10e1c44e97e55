"""HTML → Page: visible text, hidden text, links, images, and the obfuscation tricks that were used.

The tags are read in one pass, by a regular expression without backtracking, so that unclosed quotes and tags
cost little time. No tree is built: a short stack holds the styled elements, those that hide text or show it
again. An address is here a URL.

The compiled core reads edition 2 the same way (core/mail/pages.cpp): `test_compiled_pages` compares the two.
"""

import re
from functools import cache
from itertools import islice
from typing import Final, NamedTuple

from tamis_mail.message.entities import decode_entities
from tamis_mail.message.styles import WHITE, Colour, effect_of, is_same_colour
from tamis_mail.message.values import Page

EDITION: Final = 2  # the newest version of these rules; stores with tokens of version 1 use edition 1
# Limits, so that time and memory are bounded for any page.
TAGS: Final = 50_000  # tags that are interpreted; later ones are removed and their text is kept
LINKS: Final = 500  # links that are recorded, and as many images
ADDRESS: Final = 2000  # characters of an address that are read
_BEGINNING: Final = 120  # characters of an address after the interpreted tags: they include the host
_LONGEST: Final = 1 << 21  # characters of a page that are read
_REST: Final = 30_000  # characters after the last interpreted tag that edition 2 reads as text
_MAX_STYLED: Final = 30  # nested elements that hide text or show it again
_QUOTED: Final = 20_000  # characters between quotes, so that an unclosed quote does not consume the page

# The known elements: their tags stand for nothing (inline), for a line break, or for a space (cell). Those
# with a colon are of Microsoft Office. Void elements have no content and no end tag.
_INLINE_NAMES = """
a abbr acronym area audio b base bdi bdo big blink body cite code data del dfn em embed font frame head
html i iframe img input ins kbd label link map mark meta nobr noscript o:p object param picture q s samp
small source span st1:city st1:place strike strong sub sup svg tbody tfoot thead time tt u var video wbr
"""
_BREAK_NAMES = """
address article aside blockquote br button caption center dd details dialog dir div dl dt fieldset
figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr legend li main menu nav ol optgroup option p
pre section select summary table textarea title tr ul xmp
"""
_VOID_NAMES = "area base br col embed hr img input link meta param source track wbr"
_FILE_ENDING_NAMES = "pdf htm html txt doc docx xls xlsx ppt pptx jpg jpeg png gif zip exe rar csv php js css"
_INLINE = frozenset(_INLINE_NAMES.split())
_BREAK = frozenset(_BREAK_NAMES.split())
_CELL = frozenset(["td", "th"])
# Elements whose end also ends all elements within them.
_BOXES = frozenset(["table", "tr", "td", "div", "body", "center", "ul", "ol", "blockquote", "section"])
_VOID = frozenset(_VOID_NAMES.split())
_ADDRESS_ATTRIBUTES = {
    "a": "href",
    "area": "href",
    "form": "action",
    "frame": "src",
    "iframe": "src",
    "img": "src",
    "input": "src",
}
_FILE_ENDINGS = frozenset(_FILE_ENDING_NAMES.split())  # a file name may look like a host name: report.pdf
# Elements that the next element of the same name closes.
_UNCLOSED = frozenset(["p", "li", "option", "dt", "dd"])
# The name of an element → elements that end where it begins, if they have no end tag.
_CLOSED_BY = {name: (name,) for name in _UNCLOSED} | dict.fromkeys(["dt", "dd"], ("dt", "dd"))
# Character references of spaces and invisible characters, without the `&`.
_BLANK_REFERENCES = (
    "nbsp|zwnj|zwj|shy|ensp|emsp|thinsp|lrm|rlm"
    "|#0*+(?:32|160|173|847|819[2-9]|820[0-7]|65279)|#x0*+(?:20|a0|ad|34f|200[0-9a-f]|feff)"
)
# Actions for a tag: nothing, a line break, a space, reading an address; and the action for unknown tags.
_NOTHING, _BREAKS, _SPACES, _HAS_ADDRESS, _UNKNOWN = range(5)


class _Patterns(NamedTuple):
    tag: re.Pattern[str]  # its groups: name, attributes, and `>` unless the tag is unclosed
    raw_text: re.Pattern[str]  # tags of scripts and style sheets, whose content is not HTML
    long_data: re.Pattern[str]  # a long address that begins with `data:`
    split_word: re.Pattern[str]  # an empty element within a word
    attribute: re.Pattern[str]  # its groups: name, and the value in any kind of quotes or none
    address_tag: re.Pattern[str]  # tags with an address
    never_shown: re.Pattern[str]  # elements whose content no program shows
    blank: re.Pattern[str]  # white space, as characters or as references
    host: re.Pattern[str]  # a host at the beginning of a text, perhaps after a scheme and a user


@cache
def _compile_patterns() -> _Patterns:
    """Compile the patterns on first use: a message of plain text needs none."""
    quoted = rf'"[^"]{{0,{_QUOTED}}}+"|\'[^\']{{0,{_QUOTED}}}+\''
    return _Patterns(
        re.compile(rf"<([a-zA-Z/!?][^\s<>/\"']*+)((?:[^<>\"']++|{quoted}|[\"'])*+)(>?)"),
        re.compile(r"<(/?)(script|style)(?=[\s>/])[^>]*+>?", re.IGNORECASE | re.ASCII),
        re.compile(r"data:([a-zA-Z/+.-]{0,60})[a-zA-Z0-9;=,+/%\s-]{200,}+"),
        re.compile(r"<(?<=[A-Za-z]<)(?:([a-zA-Z]{1,12})[^<>]{0,100}></\1>)(?=[A-Za-z])"),
        re.compile(
            r"""(?<![a-zA-Z:_-])([a-zA-Z:_-]++)\s*+=\s*+(?:"([^"]*+)"?|'([^']*+)'?|([^\s"'>]++))""", re.ASCII
        ),
        re.compile(
            rf"<(a|area|form|frame|iframe|img|input)(?=[\s/])((?:[^<>\"']++|{quoted}|[\"'])*+)",
            re.IGNORECASE | re.ASCII,
        ),
        re.compile(r"<(style|xml|script)(?=[\s>])[^<]*+(?:<(?!/\1)[^<]*+)*+", re.IGNORECASE | re.ASCII),
        re.compile(rf"(?:\s|&(?:{_BLANK_REFERENCES});?)*+", re.IGNORECASE),
        re.compile(
            r"(?:https?://)?(?:[^\s/@<>]{0,100}@)?((?:[a-z0-9_-]{1,63}\.){1,10}[a-z]{2,20})(?=[/:?#\s]|$)",
            re.ASCII,
        ),
    )


@cache
def _map_actions() -> dict[str, int]:
    """Map the name of a tag (with `/` for an end tag) to an action."""
    actions = dict.fromkeys(_INLINE, _NOTHING)
    actions |= dict.fromkeys(_BREAK, _BREAKS)
    actions |= dict.fromkeys(_CELL, _SPACES)
    actions |= {"/" + name: action for name, action in actions.items()}
    return actions | dict.fromkeys(_ADDRESS_ATTRIBUTES, _HAS_ADDRESS) | {"/a": _HAS_ADDRESS}


def read_html(text: str, tags: int = TAGS, edition: int = EDITION) -> Page:
    """Read a page; any text is accepted. After `tags` tags, the rest is read as text without tags.

    Edition 2 reads _REST characters of that rest, and its links. Edition 1 reads all of it, but not its
    links, knows fewer ways to hide text (`styles`) and fewer elements without end tags, and counts text that
    only Outlook shows, style sheets and blanks as hidden text.

    >>> page = read_html(
    ...     '<p>v<b></b>iagra <a href="http://x.example/">here</a><i style="display:none">ham</i>'
    ... )
    >>> page.visible, page.hidden, page.links, page.tricks
    ('viagra here', 'ham', ('http://x.example/',), ('hidden-text', 'split-words'))
    """
    reader = _PageReader(edition)
    patterns = _compile_patterns()
    text = text[:_LONGEST].replace("\n", " ").replace("\0", "")
    if "data:" in text:
        text = patterns.long_data.sub(r"data:\1", text)
    if "<!--" in text:
        text = reader.remove_comments(text)
    if "<s" in text or "<S" in text:
        text = reader.remove_scripts(text)
    if patterns.split_word.search(text, 0, len(text) if edition == 1 else _REST):
        reader.tricks.add("split-words")
    return reader.read(text, tags)


class _State(NamedTuple):
    """The reasons why text cannot be read, and the background of its element."""

    is_hidden: bool = False
    is_tiny: bool = False  # the font is too small
    is_thin: bool = False  # the lines are too low
    is_same_colour: bool = False  # as the background
    background: Colour | None = None  # None if unknown, and in edition 1


class _StyledElement(NamedTuple):
    """An element that hides text or shows it again, and the state outside of it."""

    name: str
    depth: int  # `_PageReader.counts` of the name when the element began, itself included
    boxes: int  # `_PageReader.boxes` when the element began
    before: _State


class _PageReader:
    """The state of a page while it is read."""

    def __init__(self, edition: int) -> None:
        self.edition = edition
        self.visible: list[str] = []
        self.hidden: list[str] = [""]
        self.outlook: list[str] = []
        self.links: list[str] = []
        self.images: list[str] = []
        self.tricks: set[str] = set()
        self.styled: list[_StyledElement] = []  # those that are open, the outermost first
        self.counts: dict[str, int] = {}  # open elements by name, from the first styled one on
        self.boxes = 0  # number of these that are in _BOXES: their end closes all elements within
        self.state = _State()
        self.is_shown = True
        self.page_background: Colour = WHITE
        self.has_background = False  # an element has a background; without a tree, its extent is unknown
        # The address of the open link, and the index in `visible` at which its text begins.
        self.link: tuple[str, int] | None = None

    def remove_comments(self, text: str) -> str:
        """Remove comments; keep the text of conditional comments, which only Outlook shows, separately.

        Edition 1 keeps it with the hidden text.
        """
        pieces, last = [], 0
        while (start := text.find("<!--", last)) >= 0:
            end = text.find("-->", start + 2)  # `<!-->` is a complete comment
            if end < 0:
                self.tricks.add("no-close")
                break
            pieces.append(text[last:start])
            if start and text[start - 1].isalpha() and text[end + 3 : end + 4].isalpha():
                self.tricks.add("split-words")
            if text.startswith("[if", start + 4):
                comment = text[start + 4 : end].partition(">")[2]
                if self.edition > 1:
                    comment = _compile_patterns().never_shown.sub(" ", comment)
                text_for_outlook = _compile_patterns().tag.sub(" ", comment).replace("<![endif]", " ") + "\n"
                (self.hidden if self.edition == 1 else self.outlook).append(text_for_outlook)
            last = end + 3
        pieces.append(text[last:])
        return "".join(pieces)

    def remove_scripts(self, text: str) -> str:
        """Remove scripts and styles, from tag to end tag."""
        pieces, last, open_element, start = [], 0, "", 0
        for match in _compile_patterns().raw_text.finditer(text):
            name = match[2].lower()
            if open_element and match[1] and name == open_element:
                self.has_background = self.has_background or "background" in text[start : match.start()]
                last, open_element = match.end(), ""
            elif not open_element and not match[1]:
                pieces.append(text[last : match.start()])
                open_element, start = name, match.end()
                self.tricks.add(name)
        if open_element:
            self.tricks.add("no-close")
        else:
            pieces.append(text[last:])
        self.tricks.discard("style")
        return "".join(pieces)

    def read(self, text: str, tags: int) -> Page:
        """Read a page without comments and scripts, of which `tags` tags are interpreted."""
        patterns, actions = _compile_patterns(), _map_actions()
        # The text before the first tag; then, of each tag, name, attributes, `>` and the text after it.
        pieces = patterns.tag.split(text, tags)
        rest = pieces[-1]
        if len(pieces) > 4 * tags:
            self.tricks.add("many-tags")
            pieces[-1] = patterns.tag.sub(" ", rest if self.edition == 1 else rest[:_REST])
        out = self.visible
        out.append(pieces[0])
        for name, attributes, end_sign, after in zip(
            pieces[1::4], pieces[2::4], pieces[3::4], pieces[4::4], strict=True
        ):
            name = name.lower()
            action = actions.get(name, _UNKNOWN)
            if action:
                if action == _BREAKS:
                    out.append("\n")
                elif action == _SPACES:
                    out.append(" ")
                elif action == _HAS_ADDRESS:
                    self.read_address(name, attributes)
                elif after[:1].isalpha() and out[-1][-1:].isalpha() and name[0] != "!":
                    self.tricks.add("split-words")
            if not end_sign:
                self.tricks.add("no-close")
            if self.styled:
                self.update_styled(name)
                out = self.visible if self.is_shown else self.hidden
            if len(attributes) > 4:
                lower_attributes = attributes.lower()
                if (
                    "style" in lower_attributes or "color" in lower_attributes or "hidden" in lower_attributes
                ) and name not in _VOID:
                    self.apply_style(name, lower_attributes)
                    out = self.visible if self.is_shown else self.hidden
            if after:
                out.append(after)
                if out is self.hidden and not after.isspace():
                    self.note_hidden(after)
        if len(pieces) > 4 * tags and self.edition > 1:
            self.record_addresses(rest)
        return self.make_page()

    def update_styled(self, name: str) -> None:
        """Count the elements since the first styled one; remove the styled ones that a tag closes."""
        counts, styled = self.counts, self.styled
        if name[0] == "/":
            name = name[1:]
            self.boxes -= name in _BOXES
            if counts.get(name):
                counts[name] -= 1
            if (
                self.edition > 1
                and self.boxes >= styled[-1].boxes
                and name not in [element.name for element in styled]
            ):
                return  # no styled element can end with this tag
        elif self.edition > 1:
            if name in _CLOSED_BY:
                self.close_before(name)
            if name not in _VOID:
                counts[name] = counts.get(name, 0) + 1
                self.boxes += name in _BOXES
            return
        elif name in _UNCLOSED and styled[-1].name == name:  # the new element closes the styled one
            counts[name] -= 1
        elif name not in _VOID:
            counts[name] = counts.get(name, 0) + 1
            self.boxes += name in _BOXES
            return
        for index, element in enumerate(styled):
            if self.boxes < element.boxes or (element.name == name and counts.get(name, 0) < element.depth):
                self.change_state(element.before)
                del styled[index:]
                break

    def close_before(self, name: str) -> None:
        """Remove styled elements without an end tag that end where an element of this name begins."""
        closed, styled = _CLOSED_BY[name], self.styled
        while styled and styled[-1].name in closed and self.boxes == styled[-1].boxes:
            element = styled.pop()
            self.counts[element.name] -= 1
            self.change_state(element.before)

    def change_state(self, state: "_State") -> None:
        """Change the state; each hidden piece of text begins on a new line."""
        self.state = state
        is_shown = not (state.is_hidden or state.is_tiny or state.is_thin or state.is_same_colour)
        if self.is_shown and not is_shown and self.edition > 1:
            self.hidden.append("\n")
        self.is_shown = is_shown

    def apply_style(self, name: str, attributes: str) -> None:
        """Record an element as styled if it hides its content or shows it again."""
        effect = effect_of(attributes, self.edition)
        before = self.state
        is_hidden = before.is_hidden or effect.is_hidden or effect.is_visible is False
        is_tiny = before.is_tiny if effect.is_tiny is None else effect.is_tiny
        is_thin = before.is_thin if effect.is_thin is None else effect.is_thin
        same_colour = before.is_same_colour
        background = before.background
        if name == "body":
            self.page_background = effect.background or self.page_background
        elif effect.background is not None:
            same_colour = False
            self.has_background = self.has_background or not is_same_colour(
                effect.background, self.page_background
            )
            if self.edition > 1:
                background = effect.background
        if effect.has_image:
            same_colour, background, self.has_background = False, None, True
        if effect.colour is not None:
            if effect.background is not None:
                same_colour = is_same_colour(effect.colour, effect.background)
            elif background is not None:
                same_colour = is_same_colour(effect.colour, background)
            else:
                same_colour = not self.has_background and is_same_colour(effect.colour, self.page_background)
        after = _State(is_hidden, is_tiny, is_thin, same_colour, background)
        if name[0] == "/" or after == before or len(self.styled) >= _MAX_STYLED:
            return
        if not self.styled:
            self.counts, self.boxes = {name: 1}, 0
        self.styled.append(_StyledElement(name, self.counts.setdefault(name, 1), self.boxes, before))
        self.change_state(after)

    def note_hidden(self, text: str) -> None:
        """Note the tricks by which a text is hidden; blanks do not count in edition 2."""
        if self.edition > 1 and _compile_patterns().blank.fullmatch(text):
            return
        self.tricks.add("hidden-text")
        if self.state.is_tiny:
            self.tricks.add("tiny-font")
        if self.state.is_same_colour:
            self.tricks.add("invisible-ink")

    def read_address(self, name: str, attributes: str) -> None:
        """Record the address of a tag, and whether the text of a link names another host than its address."""
        if self.link is not None and name in ("a", "/a"):
            previous_address, start = self.link
            self.link = None
            if _names_other_host("".join(self.visible[start : start + 20]), previous_address):
                self.tricks.add("link-mismatch")
        if name == "/a":
            return
        if name in ("form", "iframe"):
            self.tricks.add(name)
            self.visible.append("\n")
        target = self.record_address(name, attributes)
        if name == "a" and target is not None:
            self.link = (target, len(self.visible))

    def record_addresses(self, text: str) -> None:
        """Record the addresses of all tags of a text."""
        known: set[str] = set()
        for match in islice(_compile_patterns().address_tag.finditer(text), 4 * LINKS):
            if match[0] not in known:
                known.add(match[0])
                self.record_address(match[1].lower(), match[2], _BEGINNING)

    def record_address(self, name: str, attributes: str, longest: int = ADDRESS) -> str | None:
        """Record the address among the attributes of a tag, and return it; None if there is none."""
        attribute = _ADDRESS_ATTRIBUTES[name]
        for match in _compile_patterns().attribute.finditer(attributes):
            if match[1].lower() == attribute:
                address = _clean_address((match[2] or match[3] or match[4] or "")[:longest])
                addresses = self.images if name in ("img", "input") else self.links
                if address and len(addresses) < LINKS:
                    addresses.append(address)
                return address
        return None

    def make_page(self) -> Page:
        """Return what was read, with character references decoded."""
        visible, has_hidden_letters = decode_entities("".join(self.visible))
        if has_hidden_letters:
            self.tricks.add("entity-letters")
        hidden = decode_entities("".join(self.hidden))[0]
        outlook = decode_entities("".join(self.outlook))[0]
        return Page(
            _normalise_lines(visible),
            _normalise_lines(hidden),
            tuple(self.links),
            tuple(self.images),
            tuple(sorted(self.tricks)),
            _normalise_lines(outlook),
        )


def _normalise_lines(text: str) -> str:
    """Normalise text to one space between words and one line break between blocks."""
    return "\n".join([line for line in [" ".join(line.split()) for line in text.split("\n")] if line])


def _clean_address(address: str) -> str:
    """Decode the references in an address, and remove white space; keep only the beginning of `data:`."""
    address = decode_entities(address)[0]
    address = "".join(address.split())
    return address[:60] if address[:5].lower() == "data:" else address


def _find_host(text: str) -> str:
    """Return the host that a text begins with, without "www."; empty if it begins with none."""
    match = _compile_patterns().host.match(text.strip().lower())
    return match[1].removeprefix("www.") if match else ""


def _names_other_host(text: str, address: str) -> bool:
    """Whether the text of a link names a host that is unrelated to the host of its address."""
    text = text.strip()[:300]
    if not address or "." not in text or " " in text or not address.lower().startswith(("http:", "https:")):
        return False
    text_host, address_host = _find_host(text), _find_host(address)
    if not text_host or (text_host.rpartition(".")[2] in _FILE_ENDINGS and "//" not in text) or "@" in text:
        return False
    return not (
        text_host == address_host
        or text_host.endswith("." + address_host)
        or address_host.endswith("." + text_host)
    )
