"""message → relations between its parts, as tokens: does the name agree with the domain, do the links lead there?

What is compared is the registered domain (the label below the public suffix, roughly).
"""

import re

from tamis_mail.message import Message, fold_text, read_html

_SECOND = frozenset("ac co com edu gov ltd me net nom ne or org sch gob gouv".split())
_ADDRESS = re.compile(r"[\w.+\-=]{1,64}@([\w\-]{1,63}(?:\.[\w\-]{1,63}){1,6})")
_HOST = re.compile(r"(?:https?://)?(?:[^/@\s]{0,60}@)?((?:[\w\-]{1,63}\.){1,6}[a-z]{2,20})", re.ASCII)
_DKIM = re.compile(r"\bd=([\w.\-]{1,200})")
_RESULT = re.compile(r"\b(spf|dkim|dmarc|arc)\s?=\s?(\w{2,12})")
_WORD = re.compile(r"[^\W\d_]{3,30}")
_FREE = frozenset("gmail googlemail yahoo hotmail outlook live aol icloud gmx web mail proton protonmail qq 163 126 msn yandex".split())


def registered(host: str) -> str:
    """The domain somebody registered: two labels, or three below co.uk and its like."""
    labels = host.lower().strip(".").split(".")
    if len(labels) > 2 and len(labels[-1]) == 2 and labels[-2] in _SECOND:
        return ".".join(labels[-3:])
    return ".".join(labels[-2:])


def _domains(value: str) -> list[str]:
    return [registered(domain) for domain in _ADDRESS.findall(value.lower()[:5000])]


def _compare(name: str, domains: list[str], own: str) -> list[str]:
    if not domains:
        return [f"{name}~none"]
    same = sum(domain == own for domain in domains)
    return [f"{name}~own" if same == len(domains) else f"{name}~other" if not same else f"{name}~mixed"]


def relations(message: Message) -> list[str]:
    """The relations of a message."""
    fields: dict[str, list[str]] = {}
    for name, value in message.headers[:200]:
        fields.setdefault(name, []).append(value[:5000])

    def first(name: str) -> str:
        return fields.get(name, [""])[0]

    sender = first("from")
    own = (_domains(sender) or ["?"])[-1]
    found = [f"tld:{own.rpartition('.')[2]}"]
    stem = own.split(".")[0]
    display = _ADDRESS.sub(" ", fold_text(sender)[0]).strip(" <>\"'")
    words = _WORD.findall(display)
    joined = "".join(words)
    if not words:
        found.append("name~none")
    elif any(len(word) > 3 and word in stem for word in words) or (len(stem) > 3 and stem in joined):
        found.append("name~own")
    else:
        found.append("name~other")
    if len(_domains(sender)) > 1:
        found += _compare("name-address", _domains(sender)[:-1], own)
    if stem in _FREE:
        found.append("from~free")
    for name in ("reply-to", "return-path", "sender", "message-id", "list-unsubscribe", "errors-to"):
        value = " ".join(fields.get(name, []))
        domains = _domains(value) if name != "list-unsubscribe" else [registered(h) for h in _HOST.findall(value.lower())]
        found += _compare(name, domains, own)
    if stem not in _FREE and any(domain.split(".")[0] in _FREE for domain in _domains(first("reply-to"))):
        found.append("reply-to~free")
    signed = [registered(domain) for value in fields.get("dkim-signature", []) for domain in _DKIM.findall(value.lower())]
    found += _compare("dkim", signed, own)
    if own in signed:
        found.append("dkim~has-own")
    results = _RESULT.findall(first("authentication-results").lower())
    found += [f"auth:{kind}={result}" for kind, result in dict.fromkeys(results)] or ["auth~none"]
    receivers = _domains(first("to") + " " + " ".join(fields.get("cc", [])))
    found.append(f"to~{min(len(receivers), 3)}")
    if own in receivers:
        found.append("to~own-domain")
    local = first("to").rpartition("@")[0].rpartition("<")[2].lower()
    subject = fold_text(first("subject"))[0]
    if len(local) > 2 and local in subject:
        found.append("subject~local-part")
    if subject.startswith(("re:", "fw:", "fwd:", "aw:")):
        found.append("re~answers" if "references" in fields or "in-reply-to" in fields else "re~claims")
    if "list-unsubscribe-post" in fields:
        found.append("list~one-click")
    if "list-id" in fields:
        found.append("list~id")
    found += [f"has~{name}" for name in ("feedback-id", "sender", "x-mailer", "x-priority", "precedence", "mime-version", "user-agent") if name in fields]
    links: list[str] = []
    images: list[str] = []
    plain = html = 0
    for part in message.parts[:20]:
        if part.encoding:
            found.append(f"coded:{part.kind[:20]}={part.encoding[:16]}")
        if part.kind == "text/html":
            html += len(part.text)
            page = read_html(part.text[:200_000], 4000)
            links += page.links
            images += page.images
            text = part.text[:60_000]
            low = text.lower()
            found += [f"css~{mark}" for mark in ("@media", "mso-", "@import", "@font-face", "!doctype", "<script", "<form", "xmlns") if mark in low]
            if page.hidden.strip():
                found.append(f"hidden~{len(page.hidden).bit_length()}")
        elif part.kind.startswith("text/"):
            plain += len(part.text)
            links += re.findall(r"https?://[^\s<>\"')]{4,300}", part.text[:60_000])
    if plain and html:
        found.append(f"plain-of-html~{(8 * plain // max(plain + html, 1))}")
    hosts = [registered(h) for link in links[:300] if link.startswith("http") for h in _HOST.findall(link[:200].lower())[:1]]
    found += _compare("links", hosts, own)
    found.append(f"link-domains~{min(len(set(hosts)), 7).bit_length()}")
    if hosts:
        most = max(set(hosts), key=hosts.count)
        found += [f"url-tld:{most.rpartition('.')[2]}", "most-links~own" if most == own else "most-links~other"]
        if any(link.startswith("http:") for link in links[:300]):
            found.append("links~http")
        if own in hosts:
            found.append("links~has-own")
    pictures = [registered(h) for link in images[:300] if link.startswith("http") for h in _HOST.findall(link[:200].lower())[:1]]
    found += _compare("images", pictures, own)
    if pictures and hosts:
        found.append("images~as-links" if set(pictures) & set(hosts) else "images~elsewhere")
    if any(link.startswith("cid:") for link in images[:50]):
        found.append("images~inside")
    raw = message.raw
    sample = raw[:100_000]
    if b"quoted-printable" in sample.lower():
        longest = max((len(line) for line in sample.split(b"\n") if line.endswith(b"=")), default=0)
        found.append(f"qp~{longest}")
        if re.search(rb"=[0-9][a-f]|=[a-f][0-9]", sample):
            found.append("qp~lower")
    if any(ord(c) > 0x2000 for c in first("subject")):
        found.append("subject~symbols")
    return list(dict.fromkeys(found))
