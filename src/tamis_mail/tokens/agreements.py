"""a message → tokens that say whether its servers, sender, recipient and text agree, and how late it was.

A Received field is called a hop. In it, a server writes the name that the sending computer claimed, the name
that the server found for the computer's address, this address, and often the recipient of the message:
`from claimed (found [192.0.2.1]) by … for <recipient>; date`. Only the three oldest hops are read
(`headers.select_fields`): the newest are written by the recipient's own servers, and are missing if mail is
judged before it is delivered. The *route* is the set of the registered domains of all hosts that these hops
name. Where a field has no domain, `none` takes the place of the domain.
"""

import re
from collections.abc import Mapping, Sequence

from tamis_mail.message import fold_text
from tamis_mail.message.dates import parse_date, parse_sent_time
from tamis_mail.tokens.headers import find_addresses
from tamis_mail.tokens.relations import describe_size, find_domain
from tamis_mail.tokens.words import split_words

# Limits; what exceeds them is ignored.
_SUBJECT = 1000  # characters of the subject that are read
_SUBJECT_WORDS = 40
_NAME_WORDS = 3  # words of From that are searched for in the text
_DATE = 300  # characters of Date, and of a Received field after its last semicolon, that are searched

_CLAIMED_NAME = re.compile(r"from \[?+([\w.\-]++)")
_FOUND_NAME = re.compile(r"\(([\w.\-]++) ?+\[")
_HOST = re.compile(r"(?<![a-z0-9\-])[a-z0-9\-]++(?:\.[a-z0-9\-]++)++")


def read(fields: Mapping[str, str], hops: Sequence[str], words: bytes) -> str:
    """Return the tokens of a message, separated by spaces.

    `headers.select_fields` returns `fields` and `hops`; `words` is `Tokens.words`, the words of the text.

    >>> hop = "from mail.example.org (mx.example.org [192.0.2.1]) by mx.example.com for <bob@example.com>"
    >>> fields = {"from": "Ann <ann@example.org>", "to": "bob@example.com", "subject": "A plan for Bob"}
    >>> read(fields, [hop], b"dear bob here is the plan").split()[:3]
    ['oldest-hop:domain=same', 'oldest-hop-says:recipient', 'route:has-sender']
    >>> read(fields, [hop], b"dear bob here is the plan").split()[5:9]
    ['hop-recipient:addressed,1+', 'recipient-in-text:local-part', 'sender-in-text:no', 'from-in-text:no']
    """
    texts = [hop.lower().partition(";")[0] for hop in hops]
    tokens = [
        token
        for name, hop in zip(("oldest-hop", "second-hop"), reversed(texts), strict=False)
        for token in _describe_hop(name, hop)
    ]
    senders = find_addresses(fields.get("from", "").lower())
    own_domain = find_domain(senders[-1].rpartition("@")[2]) if senders else "none"
    tokens += _describe_route(fields, texts, own_domain)
    tokens += _describe_text(fields, frozenset(words.decode("utf-8", "replace").split()), own_domain)
    tokens += _describe_delay(fields.get("date", ""), hops)
    return " ".join(tokens)


def read_subject_words(subject: str) -> list[str]:
    """Return the words of the subject."""
    return split_words(fold_text(subject[:_SUBJECT])[0])[:_SUBJECT_WORDS]


def _describe_hop(name: str, hop: str) -> list[str]:
    """Return two tokens of a hop: whether the claimed and the found name have one domain, and the remarks."""
    claimed, found = (
        find_domain(match[1]) if match else ""
        for match in (_CLAIMED_NAME.match(hop), _FOUND_NAME.search(hop))
    )
    if not claimed:
        relation = "no-claim"
    else:
        is_number = claimed.replace(".", "").isdecimal()
        kind = ("address" if is_number else "domain") if "." in claimed else "number" if is_number else "word"
        relation = f"{kind}={'unnamed' if not found else 'same' if claimed == found else 'other'}"
    remarks = {"forged": "forged", "unknown": "unknown", "recipient": "for <"}
    present = "+".join(remark for remark, text in remarks.items() if text in hop)
    return [f"{name}:{relation}", f"{name}-says:{present or 'nothing'}"]


def _describe_route(fields: Mapping[str, str], hops: Sequence[str], own_domain: str) -> list[str]:
    """Return tokens that compare the hops with From, Message-ID, Return-Path, To and Cc."""
    route = {find_domain(host) for hop in hops for host in _HOST.findall(hop)}
    tokens = ["route:has-sender" if own_domain in route else "route:lacks-sender"]
    for name in ("message-id", "return-path"):
        domain = find_domain(fields.get(name, "").lower().rpartition("@")[2].strip(" <>") or "none")
        place = "in-route" if domain in route else "not-in-route"
        tokens.append(f"{name}-domain:{place},{'own' if domain == own_domain else 'other'}")
    recipients = _find_recipients(fields)
    named = {address for hop in hops for address in _find_hop_recipients(hop)}
    relation = "unknown" if not named else "addressed" if named & recipients else "not-addressed"
    return [*tokens, f"hop-recipient:{relation},{describe_size(len(recipients))}"]


def _find_recipients(fields: Mapping[str, str]) -> set[str]:
    return {address for name in ("to", "cc") for address in find_addresses(fields.get(name, "").lower())}


def _find_hop_recipients(hop: str) -> list[str]:
    """Return what stands in `for <…>` in a hop."""
    recipients: list[str] = []
    start = hop.find("for <")
    while start >= 0 and (end := hop.find(">", start)) >= 0:
        if end > start + 5:
            recipients.append(hop[start + 5 : end])
        start = hop.find("for <", end)
    return recipients


def _describe_text(fields: Mapping[str, str], words: frozenset[str], own_domain: str) -> list[str]:
    """Return tokens that say which words of To, Cc, From and Subject the text repeats."""
    names = {address.partition("@")[0] for address in _find_recipients(fields)}
    kinds = {"local-part": names, "word": fields.get("to", "").lower().split()}
    repeated = "+".join(kind for kind, candidates in kinds.items() if not words.isdisjoint(candidates))
    sender_words = [word.strip(",") for word in fields.get("from", "").lower().split()[:_NAME_WORDS]]
    subject = read_subject_words(fields.get("subject", ""))
    # A half is rounded to the even number.
    quarters = round(4 * sum(word in words for word in subject) / max(len(subject), 1))
    return [
        f"recipient-in-text:{repeated or 'no'}",
        f"sender-in-text:{_format_flag(own_domain.partition('.')[0] in words)}",
        f"from-in-text:{_format_flag(not words.isdisjoint(sender_words))}",
        f"subject-in-text:{quarters}/4",
    ]


def _format_flag(flag: bool) -> str:
    return "yes" if flag else "no"


def _describe_delay(date: str, hops: Sequence[str]) -> list[str]:
    """Return tokens of the time from Date to the oldest hop with a date, and of the time of day in Date."""
    sent = parse_sent_time(date[:_DATE])
    # The date of a hop is what follows its last semicolon.
    dates = (parse_date(hop.rpartition(";")[2][:_DATE]) for hop in reversed(hops) if ";" in hop)
    arrived = next((seconds for seconds in dates if seconds is not None), None)
    if sent is None or arrived is None:
        missing = "dates" if sent is None and arrived is None else "date" if sent is None else "hop-date"
        return [f"delay:no-{missing}"]
    delay = arrived - sent.seconds
    minutes = describe_size(abs(delay) // 60)
    first_hour = sent.hour // 4 * 4
    return [
        f"delay:{'-' if delay < 0 else ''}{minutes}min",
        f"sent-hour:{first_hour}-{first_hour + 3}",
        f"sent-seconds:{'other' if sent.second else 'zero'}",
    ]
