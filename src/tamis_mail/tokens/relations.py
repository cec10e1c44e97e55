"""a message and its links → tokens that say whether its parts agree with each other.

A sender can choose every word of a message, but can hardly arrange that links, images, signatures, return
path and name all belong to one domain. Domains are compared by their registered part (`find_domain`); the
domain of From is the message's own domain (`own_domain`).

The last part of a token is, among others:

- `none`: there is no such address;
- `own-domain`, `other-domain`, `mixed`: all addresses, none or some of them belong to the domain of From;
- `8+`: a number from 8 to 15.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from tamis_mail.message import Message, fold_text
from tamis_mail.tokens.body import Body
from tamis_mail.tokens.headers import find_addresses, remove_addresses

# Limits; what exceeds them is ignored.
_FIELDS = 200  # fields of a message that are read
_FIELD = 2000  # characters of a field that are read
_REPEATED = 5  # fields of one name that are read
_LINKS = 300  # links, and as many images, that are read
_ADDRESS = 300  # characters of a link that are read
_PARTS = 20  # parts of a message that are read
_PAGE = 20_000  # characters of a page that are searched for style sheets
_RAW = 10_000  # bytes of the message that are searched for quoted-printable lines
_NESTED = 3  # depth up to which nested comments are removed
_BREAKS = 50  # lines with a soft line break of quoted-printable text that are measured
_LONGEST_LINE = 100  # bytes; a longer line counts as a line of this length

# Under a top-level domain of two letters, these names are not registered domains themselves: co.uk.
_SECOND_LEVEL_NAMES = """
ac asn co com edu firm gen go gob gouv gov gv id ind info ltd me mil ne net nic nom or org plc sch web
"""
# Domains of providers in which each customer has a subdomain.
_SHARED_NAMES = """
amazonaws.com appspot.com azurewebsites.net blogspot.com br.com cloudfront.net cn.com co.com de.com eu.com
firebaseapp.com github.io gitlab.io glitch.me googleapis.com gr.com herokuapp.com jpn.com myshopify.com
netlify.app onmicrosoft.com onrender.com pages.dev r2.dev repl.co ru.com sa.com sharepoint.com uk.com us.com
vercel.app web.app weebly.com windows.net wixsite.com wordpress.com workers.dev za.com
"""
# Free mail providers: names below any top-level domain, and complete domains.
_FREE_NAMES = "aol gmail gmx googlemail hotmail icloud live msn outlook protonmail yahoo yandex"
_FREE_DOMAIN_NAMES = """
126.com 163.com 21cn.com bk.ru freenet.de inbox.ru laposte.net libero.it list.ru mac.com mail.com mail.ru
me.com naver.com orange.fr posteo.de proton.me qq.com rediffmail.com sina.com t-online.de web.de wp.pl
ymail.com zoho.com
"""
_SECOND_LEVEL = frozenset(_SECOND_LEVEL_NAMES.split())
_SHARED = frozenset(_SHARED_NAMES.split())
_FREE = frozenset(_FREE_NAMES.split())
_FREE_DOMAINS = frozenset(_FREE_DOMAIN_NAMES.split())
_ADDRESS_FIELDS = ("reply-to", "return-path", "sender", "message-id", "errors-to")
# Fields whose presence is a token.
_PRESENT = ("feedback-id", "list-id", "mime-version", "precedence", "user-agent", "x-mailer", "x-priority")
# Texts in a page of HTML whose presence is a token; those with "mso-" are by Microsoft Office.
_STYLES = ("@media", "@import", "@font-face", "mso-", "xmlns", "<script", "<form")
# Beginnings of the subjects of answers and of forwarded mail, in several languages.
_REPLIES = ("re:", "fw:", "fwd:", "aw:", "wg:", "sv:", "tr:", "rv:")

_NAME_WORD = re.compile(r"[^\W\d_]{3,30}")
_SIGNER = re.compile(r"\bd\s?=\s?([\w.\-]{1,200}+)")
_COMMENT = re.compile(r"\([^()]*+\)|\"[^\"]*+\"")
# A method of authentication and its result, as Authentication-Results has them (RFC 8601).
_RESULT = re.compile(r"\s*+(spf|dkim|dmarc|arc|iprev)\s?=\s?([a-z]{2,12})")
_HOST_END = re.compile(r"[?#\\]")
_LOWER_CASE_ESCAPE = re.compile(rb"=(?:[0-9][a-f]|[a-f][0-9a-f])")


def read(message: Message, body: Body) -> str:
    """Return the tokens of a message, separated by spaces; `body` is what `body.read` returned for it.

    >>> from tamis_mail.message import parse
    >>> message = parse(b"From: Example Shop <a@example.org>\\nReply-To: b@gmail.com\\n\\nhi")
    >>> read(message, Body(links=["http://evil.example/"])).split()[:4]
    ['from:tld=org', 'name:like-domain', 'reply-to:other-domain', 'reply-to:free-mail']
    """
    fields: dict[str, list[str]] = {}
    for name, value in message.headers[:_FIELDS]:
        values = fields.setdefault(name, [])
        if len(values) < _REPEATED:
            values.append(value[:_FIELD])
    own_domain, tokens = _describe_sender(fields)
    tokens += _compare_addresses(fields, own_domain)
    tokens += _describe_authentication(fields, own_domain)
    tokens += _describe_recipients(fields, own_domain)
    tokens += [f"has:{name}" for name in _PRESENT if name in fields]
    tokens += _describe_parts(message, body)
    tokens += _describe_links(body, own_domain)
    tokens += _describe_encoding(message)
    return " ".join(dict.fromkeys(token.replace(" ", "_") for token in tokens))


@lru_cache(4096)  # a message has many links to few hosts
def find_domain(host: str) -> str:
    """Return the registered domain of a host: its last two labels, or three below co.uk, github.io etc.

    An IPv4 address is returned as it is.

    >>> find_domain("mail.shop.example.co.uk"), find_domain("www.example.com")
    ('example.co.uk', 'example.com')
    """
    labels = host.lower().strip(".").split(".")[-4:]
    if labels[-1].isdecimal():
        return ".".join(labels)  # an IPv4 address
    if ".".join(labels[-2:]) in _SHARED or (
        len(labels[-1]) == 2 and labels[-2:-1] and labels[-2] in _SECOND_LEVEL
    ):
        return ".".join(labels[-3:])
    return ".".join(labels[-2:])


def _find_domains(values: Iterable[str]) -> list[str]:
    """Return the registered domain of each address in some values of fields."""
    addresses = [address for value in values for address in find_addresses(value)]
    return [find_domain(address.rpartition("@")[2]) for address in addresses]


def _compare_domains(name: str, domains: Sequence[str], own_domain: str) -> str:
    """Return the token `name:relation` that says how many of the domains are the domain of From."""
    same = domains.count(own_domain)
    relation = (
        "none"
        if not domains
        else "own-domain"
        if same == len(domains)
        else "mixed"
        if same
        else "other-domain"
    )
    return f"{name}:{relation}"


def _is_free_mail(domain: str) -> bool:
    return domain in _FREE_DOMAINS or domain.partition(".")[0] in _FREE


def describe_size(number: int) -> str:
    """Return the largest power of two that is not above a number, with a plus sign; "0" for 0.

    >>> describe_size(0), describe_size(1), describe_size(13)
    ('0', '1+', '8+')
    """
    return f"{1 << number.bit_length() - 1}+" if number else "0"


def _describe_sender(fields: dict[str, list[str]]) -> tuple[str, list[str]]:
    """Return the domain of From, and tokens of From."""
    sender = fold_text(fields.get("from", [""])[0])[0]
    domains = _find_domains([sender])
    own_domain = domains[-1] if domains else ""
    tokens = [f"from:tld={own_domain.rpartition('.')[2][:20]}" if own_domain else "from:no-domain"]
    words = _NAME_WORD.findall(remove_addresses(sender))
    if not words:
        tokens.append("name:none")
    elif _is_free_mail(own_domain):  # anybody can have an address in this domain
        tokens.append(f"name:{_compare_words(words, find_addresses(sender)[-1].partition('@')[0])}-address")
    else:
        tokens.append(f"name:{_compare_words(words, own_domain.partition('.')[0])}-domain")
    if len(domains) > 1:  # the name is an address, too
        tokens.append(_compare_domains("name-address", domains[:-1], own_domain))
    if _is_free_mail(own_domain):
        tokens.append("from:free-mail")
    return own_domain, tokens


def _compare_words(words: Sequence[str], name: str) -> str:
    """Return `like` if one of the words is in a name, or the name is in the joined words, else `unlike`."""
    is_like = any(len(word) > 3 and word in name for word in words)
    return "like" if is_like or (len(name) > 3 and name in "".join(words)) else "unlike"


def _compare_addresses(fields: dict[str, list[str]], own_domain: str) -> list[str]:
    """Return tokens of the fields with addresses of the sender, and of List-Unsubscribe."""
    tokens = []
    for name in _ADDRESS_FIELDS:
        domains = _find_domains(fields.get(name, ()))
        tokens.append(_compare_domains(name, domains, own_domain))
        if name == "reply-to" and not _is_free_mail(own_domain) and any(map(_is_free_mail, domains)):
            tokens.append("reply-to:free-mail")
    unsubscribe = " ".join(fields.get("list-unsubscribe", ())).replace("<", " ").replace(">", " ").lower()
    domains = _find_domains([unsubscribe])
    domains += [find_domain(host) for host in map(_find_host, unsubscribe.split()) if host]
    tokens.append(_compare_domains("unsubscribe", domains, own_domain))
    if "list-unsubscribe-post" in fields:
        tokens.append("unsubscribe:one-click")
    return tokens


def _describe_authentication(fields: dict[str, list[str]], own_domain: str) -> list[str]:
    """Return tokens of the signatures, and of the results that the user's own server wrote.

    That server adds its results at the top. Results further down may be forged by the sender.
    """
    signers = [
        find_domain(domain)
        for value in fields.get("dkim-signature", ())
        for domain in _SIGNER.findall(value.lower())
    ]
    tokens = [_compare_domains("dkim", signers, own_domain)]
    if own_domain in signers:
        tokens.append("dkim:some-own-domain")
    # Comments and quoted strings may contain text that the sender chose.
    results = fields.get("authentication-results", [""])[0].lower()
    for _ in range(_NESTED):
        results = _COMMENT.sub(" ", results)
    matches = map(_RESULT.match, results.split(";")[1:20])
    return tokens + ([f"auth:{match[1]}={match[2]}" for match in matches if match] or ["auth:none"])


def _describe_recipients(fields: dict[str, list[str]], own_domain: str) -> list[str]:
    """Return tokens of the recipients, and of the subject: whether it names one of them, or is a reply's."""
    recipients = [
        address
        for name in ("to", "cc")
        for value in fields.get(name, ())
        for address in find_addresses(value.lower())
    ]
    tokens = [f"recipients:{describe_size(len(recipients))}"]
    if own_domain in _find_domains(recipients):
        tokens.append("recipients:own-domain")
    subject = fold_text(fields.get("subject", [""])[0])[0]
    local_parts = {address.rpartition("@")[0] for address in recipients[:5]}
    if any(len(local) > 2 and local in subject for local in local_parts):
        tokens.append("subject:names-recipient")
    if subject.startswith(_REPLIES):
        is_reply = "references" in fields or "in-reply-to" in fields
        tokens.append("subject:answers-message" if is_reply else "subject:answers-nothing")
    if not subject.isascii() and any(
        "\u2190" <= letter <= "\u2bff" or letter >= "\U0001f000" for letter in subject
    ):
        tokens.append("subject:symbols")
    return tokens


def _describe_parts(message: Message, body: Body) -> list[str]:
    """Return tokens of the parts: encodings, styles of pages, and sizes of plain, HTML and hidden text."""
    tokens = []
    sizes = {"text/plain": 0, "text/html": 0}
    for part in message.parts[:_PARTS]:
        if part.encoding:
            tokens.append(f"encoding:{part.kind[:20]}={part.encoding[:16]}")
        if part.kind in sizes:
            sizes[part.kind] += len(part.text)
        if part.kind == "text/html":
            page = part.text[:_PAGE]
            tokens += [f"page:{style.strip('<-')}" for style in _STYLES if style in page]
            if "<!doctype" in page[:200].lower():
                tokens.append("page:doctype")
    plain, html = sizes.values()
    if plain and html:
        tokens.append(f"plain-text:{8 * plain // (plain + html)}/8")
    tokens.append(f"hidden-text:{describe_size(body.hidden)}")
    return tokens


def _find_host(link: str) -> str:
    """Return the host of a link; empty if it has none."""
    scheme, colon, rest = link[:_ADDRESS].partition("://")
    host = rest.partition("/")[0]
    if not colon or not scheme.isalpha():
        return ""
    if not host.replace(".", "").isalnum():
        host = _HOST_END.split(host, maxsplit=1)[0].rpartition("@")[2].partition(":")[0]
    return host


def _describe_links(body: Body, own_domain: str) -> list[str]:
    """Return tokens that compare the domains of links and images with each other and with that of From."""
    links = body.links[:_LINKS]
    hosts = [host for host in map(_find_host, links) if host]
    domains = [find_domain(host) for host in hosts]
    tokens = [
        _compare_domains("links", domains, own_domain),
        f"link-domains:{describe_size(len(set(domains)))}",
    ]
    if domains:
        ((frequent, _),) = Counter(domains).most_common(1)
        tokens += [
            f"links:tld={frequent.rpartition('.')[2][:20]}",
            _compare_domains("most-links", [frequent], own_domain),
        ]
        if own_domain in domains:
            tokens.append("links:some-own-domain")
        if any(host.replace(".", "").isdecimal() for host in hosts):
            tokens.append("links:numeric-address")
        unencrypted = sum(link[:5].lower() == "http:" for link in links)
        if unencrypted:
            tokens.append("links:all-http" if unencrypted == len(hosts) else "links:some-http")
    images = body.images[:_LINKS]
    image_domains = [find_domain(host) for host in map(_find_host, images) if host]
    tokens.append(_compare_domains("images", image_domains, own_domain))
    if image_domains and domains:
        tokens.append("images:as-links" if set(image_domains) & set(domains) else "images:elsewhere")
    if any(image[:4].lower() == "cid:" for image in images):
        tokens.append("images:attached")
    return tokens


def _describe_encoding(message: Message) -> list[str]:
    """Describe the line breaks and escapes of quoted-printable text, which differ between mail programs."""
    if not any(part.encoding == "quoted-printable" for part in message.parts[:_PARTS]):
        return []
    raw = message.raw[:_RAW]
    begin = max(0, raw.find(b"\n\n"))
    longest = 0
    end = raw.find(b"=\n", begin)
    for _ in range(_BREAKS):
        if end < 0:
            break
        line_begin = raw.rfind(b"\n", max(begin, end - _LONGEST_LINE), end)
        longest = max(longest, end - line_begin if line_begin >= 0 else _LONGEST_LINE)
        end = raw.find(b"=\n", end + 1)
    tokens = [f"quoted-printable:lines={longest}" if longest else "quoted-printable:short-lines"]
    if _LOWER_CASE_ESCAPE.search(raw, begin):
        tokens.append("quoted-printable:lower-case")
    return tokens
