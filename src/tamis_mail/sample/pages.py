"""A body in light markup → plain text, or HTML in the style of one of several programs.

Blank lines separate paragraphs. The markup is `# heading`, `* item`, `= label = value`,
`> quoted`, `-> text of the link => address`, `! description of the picture => address`, and
`~word~` for a word that a trick may hide.
"""

import textwrap
from collections.abc import Callable
from html import escape
from itertools import groupby

from tamis_mail.sample.dice import Dice

_SIGNS = ("# ", "* ", "= ", "-> ", "! ")


def _find_sign(line: str) -> str:
    """Return the sign of markup with which a line begins; empty if there is none."""
    return ">" if line.startswith(">") else next((sign for sign in _SIGNS if line.startswith(sign)), "")


def render_plain(body: str, width: int = 0) -> str:
    """Return the body as plain text, wrapped at `width` if it is not 0."""
    lines: list[str] = []
    for line in body.split("\n"):
        sign, rest = _find_sign(line), line[len(_find_sign(line)) :]
        if sign == "# ":
            lines.extend((rest.upper() if rest.isascii() else rest, "-" * min(len(rest), 60)))
        elif sign == "= ":
            label, _, value = rest.partition(" = ")
            lines.append(f"  {label:<32} {value:>12}")
        elif sign == "-> ":
            label, _, address = rest.partition(" => ")
            lines.append(address if label == address else f"{label}: {address}")
        elif sign == "* ":
            lines.append(f"  * {rest}")
        elif sign == "! ":
            lines.append(f"[{rest.partition(' => ')[0]}]")
        elif width and not sign and len(line) > width and not line.startswith(" "):
            lines.extend(textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False))
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def render_html(body: str, skin: str, dice: Dice) -> str:
    """Return the body as HTML in one of the styles of `SKINS`."""
    return SKINS[skin](body, dice)


def _group_lines(body: str) -> list[tuple[str, list[str]]]:
    """Group lines of one kind within each paragraph, without their signs."""
    blocks: list[tuple[str, list[str]]] = []
    for paragraph in body.split("\n\n"):
        for sign, lines in groupby((line for line in paragraph.split("\n") if line), _find_sign):
            blocks.append((sign, [line[len(sign) :].strip() for line in lines]))
    return blocks


def _render(body: str, paragraph: str, link: str, picture: str, line_break: str = "<br>\n") -> str:
    """Render a body by templates, in which `{}` is the content, `{0}` the label and `{1}` the address."""
    pieces: list[str] = []
    for sign, lines in _group_lines(body):
        if sign in {"-> ", "! "}:
            template = link if sign == "-> " else picture
            pairs = (line.partition(" => ") for line in lines)
            pieces.extend(
                template.format(escape(label, quote=False), escape(address)) for label, _, address in pairs
            )
            continue
        safe = [escape(line, quote=False) for line in lines]
        if sign == "# ":
            pieces.extend(f"<h2>{line}</h2>" for line in safe)
        elif sign == "* ":
            pieces.append("<ul>\n" + "".join(f"<li>{line}</li>\n" for line in safe) + "</ul>")
        elif sign == "= ":
            cells = (line.partition(" = ") for line in safe)
            rows = "".join(
                f'<tr><td>{label}</td><td align="right">{value}</td></tr>\n' for label, _, value in cells
            )
            pieces.append(f'<table cellpadding="4">\n{rows}</table>')
        elif sign == ">":
            pieces.append(f"<blockquote>{line_break.join(safe)}</blockquote>")
        else:
            pieces.append(paragraph.format(line_break.join(safe)))
    return "\n".join(pieces) + "\n"


def _render_webmail(body: str, dice: Dice) -> str:
    inner = _render(
        body, "<div>{}</div><div><br></div>", '<div><a href="{1}">{0}</a></div>', '<img src="{1}" alt="{0}">'
    )
    return (
        f'<div dir="auto">{inner}</div>\n'
        if dice.chance(0.7)
        else f"<html><head></head><body>{inner}</body></html>\n"
    )


def _render_office(body: str, dice: Dice) -> str:
    """Write a page as word processors do, with the class names and style sheet of Microsoft Word."""
    font = dice.pick(("Calibri", "Aptos", "Arial"))
    inner = _render(
        body,
        "<p class=MsoNormal>{}<o:p></o:p></p>",
        '<p class=MsoNormal><a href="{1}">{0}</a><o:p></o:p></p>',
        '<p class=MsoNormal><img src="{1}" alt="{0}"></p>',
    )
    return (
        '<html xmlns:o="urn:schemas:office">\n<head>\n'
        '<meta name="Generator" content="Office writer 16 (filtered)">\n'
        f"<style><!--\np.MsoNormal, li.MsoNormal {{margin:0cm; font-size:11.0pt;"
        f' font-family:"{font}",sans-serif;}}\n'
        f'--></style>\n</head>\n<body lang="EN-GB" link="blue" vlink="purple">\n'
        f'<div class="WordSection1">\n{inner}</div>\n'
        "</body>\n</html>\n"
    )


def _render_shop(body: str, dice: Dice) -> str:
    """Write a page as shops do, with nested tables, a button, and a hidden text.

    Mail programs show the hidden text in the list of messages.
    """
    colour, width = (
        dice.pick(("#0b6b53", "#b3261e", "#1a4fa0", "#333333", "#d97706")),
        dice.pick((600, 620, 640)),
    )
    inner = _render(
        body,
        '<p style="margin:0 0 16px;font:15px/1.5 Helvetica,Arial,sans-serif;color:#333">{}</p>',
        f'<table role="presentation" cellspacing="0" cellpadding="0"><tr><td bgcolor="{colour}"'
        ' style="border-radius:4px;padding:12px 24px"><a href="{1}" style="color:#ffffff;'
        'text-decoration:none">{0}</a></td></tr></table>',
        '<img src="{1}" width="560" alt="{0}" style="display:block;border:0">',
    )
    first = next((lines[0] for sign, lines in _group_lines(body) if not sign), "")
    return (
        '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN">\n<html><head>\n'
        '<meta http-equiv="Content-Type" content="text/html">\n'
        f"<style>@media only screen and (max-width:{width}px){{.outer{{width:100%!important}}}}</style>\n"
        "</head>\n"
        '<body style="margin:0;padding:0;background:#f4f4f4">\n'
        f'<div style="display:none;max-height:0;overflow:hidden">{escape(first[:90], quote=False)}</div>\n'
        f'<table class="outer" width="{width}" align="center" bgcolor="#ffffff">\n'
        f'<tr><td style="padding:24px">\n{inner}'
        "</td></tr></table>\n</body></html>\n"
    )


def _render_kit(body: str, dice: Dice) -> str:
    """Write a page as spam kits do (programs that send spam), with obsolete tags, some of them unclosed."""
    colour, size = dice.pick(("#FF0000", "navy", "#000080", "green", "#CC0066")), dice.pick(("3", "4", "5"))
    inner = _render(
        body,
        "<P>{}",
        f'<P ALIGN=center><A HREF="{{1}}"><FONT COLOR="{colour}" SIZE={size}><B>{{0}}</B></FONT></A>',
        '<CENTER><IMG SRC="{1}" ALT="{0}" BORDER=0></CENTER>',
        "<BR>\n",
    )
    opening = dice.pick(
        ("<HTML><BODY BGCOLOR=#FFFFFF>\n", "<html>\n<body>\n<center>\n", "<FONT FACE=Verdana SIZE=2>\n")
    )
    return opening + inner + dice.pick(("</BODY></HTML>\n", "</html>\n", "", "</center></td></tr>\n"))


# The styles of HTML, by the kind of program that writes them.
SKINS: dict[str, Callable[[str, Dice], str]] = {
    "webmail": _render_webmail,
    "office": _render_office,
    "shop": _render_shop,
    "kit": _render_kit,
}
