"""Would new information help? python run.py DATA [--candidates NAME …] [--streams WORD …]

Each candidate adds tokens to a view of the filter, or makes a view of its own. Without --streams they are
tried at one moment: messages are divided into halves, and those of each are judged by the other. With it,
whole streams are played, for which names of candidates must be complete. Streams, figures and standard errors
are those of experiments 0010 and 0015.
"""

# ruff: noqa: E402, T201
import argparse
import hashlib
import pickle
import re
import runpy
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from email.utils import mktime_tz, parsedate_tz
from functools import cached_property
from itertools import combinations, pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np

EXPERIMENTS = Path(__file__).parents[1]
NAMES = ("0016-last-errors", "0015-all-features", "0010-learned-weights")
sys.path[:0] = [str(EXPERIMENTS / name) for name in NAMES]
played = runpy.run_path(str(EXPERIMENTS / "0016-last-errors/run.py"), run_name="played")
import screen
import tape
from figures import FIGURES, Answers, measure_group, resample_group
from scipy.sparse import csr_matrix
from streams import Corpus, Stream, shuffle

from tamis_mail.message import canonical, fold_text, parse, read_html, remove_style_sheet
from tamis_mail.tokens import body
from tamis_mail.tokens.headers import find_addresses
from tamis_mail.tokens.relations import find_domain
from tamis_mail.tokens.words import split_words
from tamis_mail.verdict import fitting, rule
from tamis_mail.verdict.rule import View

Tokens = Iterable[str]
HEADERS, WORDS, PAIRS, RELATIONS, OWN = 1, 2, 3, 4, 5  # OWN: a view of its own
FEW, MANY = View(1.0, 0.1, True, 5), View(1.7, 0.3, True, 100)  # its parameters, by how many features it has
RULE = screen.RULE


class Mail:
    """What the candidates read of a message."""

    def __init__(self, raw: bytes) -> None:
        self.message = parse(canonical(raw))
        self.fields: dict[str, list[str]] = {}
        for name, value in self.message.headers[:200]:
            self.fields.setdefault(name, []).append(value[:2000])
        self.body = body.read(self.message, 2)

    def first(self, name: str) -> str:
        return self.fields.get(name, [""])[0]

    @cached_property
    def lines(self) -> list[list[str]]:
        """The words of each part."""
        return [line.split() for line in self.body.words.decode("utf-8", "replace").split("\n")]

    @cached_property
    def texts(self) -> list[str]:
        """The text of each part, with its letters' case and its punctuation."""
        texts = []
        for part in self.message.parts[:40]:
            if part.kind == "text/html":
                texts.append(read_html(part.text[:200_000], tags=250, edition=2).visible[:12_000])
            elif part.text:
                texts.append(remove_style_sheet(part.text[:12_000]))
        return texts

    @cached_property
    def page(self) -> str:
        return next((part.text for part in self.message.parts if part.kind == "text/html"), "")[:20_000]

    @cached_property
    def subject(self) -> list[str]:
        return split_words(fold_text(self.first("subject")[:1000])[0])[:40]

    @cached_property
    def domain(self) -> str:
        addresses = find_addresses(self.first("from").lower())
        return find_domain(addresses[-1].rpartition("@")[2]) if addresses else "none"

    @cached_property
    def link_domains(self) -> list[str]:
        hosts = (re.match(r"[a-z]+://([\w.-]+)", link.lower()) for link in self.body.links[:300])
        return sorted({find_domain(host[1]) for host in hosts if host})

    @cached_property
    def markers(self) -> list[str]:
        """Short properties of a message, to be crossed with others."""
        fields, program = self.fields, self.first("x-mailer") or self.first("user-agent")
        charsets = [part.charset for part in self.message.parts if part.text]
        encodings = [part.encoding for part in self.message.parts if part.text]
        zone = re.findall(r"[+-]\d{4}", self.first("date"))
        names = ("list-id", "list-unsubscribe", "precedence", "reply-to", "in-reply-to", "dkim-signature")
        return [
            "has " + " ".join(name for name in names if name in fields),
            f"charset {charsets[0] if charsets else ''}",
            f"encoding {encodings[0] if encodings else ''}",
            f"zone {zone[-1] if zone else ''}",
            f"program {'_'.join(program.lower().split()[:2])[:30]}",
            f"shape {self.message.shape[:60]}",
            f"links {len(self.link_domains).bit_length()}",
            f"own {self.domain in self.link_domains}",
            f"size {len(self.message.raw).bit_length()}",
            f"tld {self.domain.rpartition('.')[2]}",
            f"hops {len(fields.get('received', ()))}",
        ]


def shape(text: str) -> str:
    """Return the classes of a text's characters, with the lengths of runs up to 9."""
    classes = re.sub(r"[A-Z]", "A", re.sub(r"[0-9]", "9", re.sub(r"[a-z]", "a", text[:80])))
    return re.sub(r"([aA9])\1+", lambda run: f"{run[1]}{min(len(run[0]), 9)}", classes)


def read_far_pairs(mail: Mail, distances: Sequence[int] = (2, 3, 4)) -> Tokens:
    for words in mail.lines:
        for distance in distances:
            yield from (
                f"{a} {distance} {b}" for a, b in zip(words[:-distance], words[distance:], strict=True)
            )


def read_thin_pairs(mail: Mail) -> Tokens:
    """One far pair of eight."""
    return (token for token in read_far_pairs(mail) if make_key(token, 0) >> 20 & 7 == 0)


def split_texts(mail: Mail, pattern: str, least: int) -> Tokens:
    for text in mail.texts:
        for piece in re.split(pattern, text)[:300]:
            tidied = " ".join(re.sub(r"\d+", "9", piece.lower()).split())
            if len(tidied) >= least:
                yield tidied


def read_shingles(mail: Mail) -> Tokens:
    """Five words in a row, one of eight such."""
    for words in mail.lines:
        for i in range(len(words) - 4):
            token = " ".join(words[i : i + 5])
            if make_key(token, 0) >> 20 & 7 == 0:
                yield token


def read_places(mail: Mail) -> Tokens:
    """The first and the last words of the text."""
    words = [word for line in mail.lines for word in line]
    yield from (f"first {word}" for word in words[:12])
    yield from (f"last {word}" for word in words[-12:])


def read_crossed(mail: Mail) -> Tokens:
    return [f"{mail.domain} {marker}" for marker in mail.markers]


def read_sender_links(mail: Mail) -> Tokens:
    return [f"{mail.domain} > {domain}" for domain in mail.link_domains[:10]]


def read_sender_subject(mail: Mail) -> Tokens:
    return [f"{mail.domain} : {word}" for word in mail.subject[:15]]


def read_marker_pairs(mail: Mail) -> Tokens:
    return [f"{a} & {b}" for a, b in combinations(mail.markers, 2)]


def read_subject_grams(mail: Mail) -> Tokens:
    text = " " + " ".join(mail.subject) + " "
    return [text[i : i + 4] for i in range(len(text) - 3)]


def read_subject_pairs(mail: Mail) -> Tokens:
    words = ["^", *mail.subject, "$"]
    return [f"s {a} {b}" for a, b in pairwise(words)]


def read_field_names(mail: Mail) -> Tokens:
    """Three fields in a row, and names as they are spelled."""
    names = ["^", "^", *(name for name, _ in mail.message.headers[:200]), "$"]
    yield from (" > ".join(names[i : i + 3]) for i in range(len(names) - 2))
    head = mail.message.raw.replace(b"\r\n", b"\n").partition(b"\n\n")[0]
    for name in re.findall(rb"(?m)^([!-9;-~]+):", head):
        yield f"spelled {name.decode('latin-1')}"


def read_structure(mail: Mail) -> Tokens:
    """Pairs of tags, attributes of tags, and parts with their sizes."""
    tags = re.findall(r"<(/?[a-z][a-z0-9]*)([^>]{0,300})", mail.page.lower())[:300]
    for (a, _), (b, _) in pairwise(tags):
        yield f"<{a}><{b}>"
    for name, attributes in tags:
        yield f"<{name} {' '.join(sorted(set(re.findall(r'([a-z-]+)=', attributes))))}"
    for i, part in enumerate(mail.message.parts[:10]):
        yield f"part {i} {part.kind} {len(part.text).bit_length()} {part.size.bit_length()}"


def read_paths(mail: Mail) -> Tokens:
    """Shapes of links."""
    links = list(dict.fromkeys(mail.body.links))[:20]
    for link in links:
        host, _, path = link.partition("://")[2].partition("/")
        before, _, query = path.partition("?")
        yield f"path {shape(before)[:40]}"
        yield f"depth {path.count('/')} {len(path).bit_length()}"
        yield f"host {re.sub(r'[A-Za-z]+', 'a', re.sub(r'[0-9]+', '9', host))[:40]}"
        yield f"tld {find_domain(host.partition(':')[0] or 'x').rpartition('.')[2][:12]}"
        yield f"end {before.rpartition('/')[2].rpartition('.')[2][:6]}"
        yield "query " + " ".join(re.findall(r"(?:^|&)(\w{1,12})=", query))
    yield f"links {len(links).bit_length()} {len(mail.link_domains)}"


SHAPED = ("message-id", "from", "to", "reply-to", "return-path", "subject", "date", "references")


def read_shapes(mail: Mail, *wanted: str) -> Tokens:
    """Patterns of values: of ids, addresses, names, boundaries, dates."""
    for name in SHAPED:
        if name in mail.fields and (not wanted or name in wanted):
            value = mail.first(name)
            yield f"{name} {shape(value)[:40]}"
            yield f"{name} {re.sub(r'[0-9]+', '', shape(value))[:40]}"
    if not wanted or "boundary" in wanted:
        for found in re.findall(r"boundary=\"?([^\";]+)", mail.first("content-type")):
            yield f"boundary {shape(found)}"
    if not wanted or "hop" in wanted:
        for hop in mail.fields.get("received", ())[-3:]:
            yield "hop " + re.sub(r"[\w.-]*[.\d][\w.-]*", "x", hop.partition(";")[0])[:80]


def read_rough_shapes(mail: Mail, more: Sequence[str] = ("boundary", "hop")) -> Tokens:
    """Patterns without the lengths of runs."""
    for name in ("message-id", "from", "to", "reply-to", "return-path", "subject", "date"):
        if name in mail.fields:
            yield f"{name} {re.sub(r'[0-9]+', '', shape(mail.first(name)))[:40]}"
    yield from read_shapes(mail, *more)


def read_agreements(mail: Mail, most: int = 200) -> Tokens:
    """Whether servers, sender, recipient and text agree, by the oldest hops."""
    hops = [hop.lower().partition(";")[0] for hop in mail.fields.get("received", ())]
    hops = hops[max(len(hops) - most, 0) :]
    for place, hop in (("first", hops[-1:]), ("last", hops[:1] if most > 3 else hops[-2:-1])):
        for found in hop:
            claimed = re.match(r"from \[?([\w.-]+)", found)
            named = re.search(r"\(([\w.-]+) ?\[", found)
            a, b = (find_domain(one[1]) if one else "" for one in (claimed, named))
            relation = "same" if a and a == b else "other" if a and b else "no name" if a else "no claim"
            yield f"{place} hop {relation} {'.' in a} {a.replace('.', '').isdecimal()}"
            yield f"{place} forged {'forged' in found} {'unknown' in found} {'for <' in found}"
    route = {find_domain(host) for hop in hops for host in re.findall(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+", hop)}
    yield f"sender in route {mail.domain in route}"
    for name in ("message-id", "return-path"):
        domain = find_domain(mail.first(name).lower().rpartition("@")[2].strip(" <>") or "none")
        yield f"{name} {domain in route} {domain == mail.domain}"
    known = {address for name in ("to", "cc") for address in find_addresses(mail.first(name).lower())}
    wanted = {address for hop in hops for address in re.findall(r"for <([^>]+)>", hop)}
    yield f"recipient {bool(wanted & known) if wanted else 'unknown'} {len(known).bit_length()}"
    words = {word for line in mail.lines for word in line}
    names = {address.partition("@")[0] for address in known}
    yield f"text names recipient {bool(words & names)} {bool(words & set(mail.first('to').lower().split()))}"
    yield f"text names sender {mail.domain.partition('.')[0] in words}"
    yield f"name in text {any(word.strip(',') in words for word in mail.first('from').lower().split()[:3])}"
    yield f"subject in text {round(4 * np.mean([word in words for word in mail.subject] or [0]))}"


def read_time(value: str) -> float | None:
    try:
        found = parsedate_tz(value)
        return None if found is None else float(mktime_tz(found))
    except (ValueError, OverflowError, TypeError, IndexError):
        return None


def read_times(mail: Mail) -> Tokens:
    """How long a message took, and when it was sent."""
    sent = read_time(mail.first("date"))
    hops = [read_time(hop.rpartition(";")[2]) for hop in mail.fields.get("received", ())]
    known = [hop for hop in hops if hop is not None]
    if sent is None or not known:
        return [f"unknown {sent is None} {bool(known)}"]
    late = known[0] - sent
    took = known[0] - known[-1]
    sizes = [f"{'-' if one < 0 else ''}{int(abs(one) / 60).bit_length()}" for one in (late, took)]
    found = parsedate_tz(mail.first("date"))
    hour = found[3] if found else -1
    return [f"late {sizes[0]}", f"took {sizes[1]}", f"hour {hour // 4}", f"seconds {found and found[5] == 0}"]


def read_programs(mail: Mail) -> Tokens:
    """The program that a message names, with the patterns that it makes."""
    program = (mail.first("x-mailer") or mail.first("user-agent")).lower().split()[:2]
    rough = {one.partition(" ")[0]: one for one in read_rough_shapes(mail)}
    names = ("message-id", "boundary", "date")
    return [f"{'_'.join(program)[:30]} makes {rough[name]}" for name in names if name in rough]


def read_signs(mail: Mail, wanted: str = "") -> Tokens:
    """Punctuation, numbers with their signs, and words in upper case."""
    return (token for token in read_all_signs(mail) if token.startswith(wanted))


def read_delays(mail: Mail) -> Tokens:
    """How long a message took to the first server that says so, and when it was sent."""
    hops = [read_time(hop.rpartition(";")[2]) for hop in mail.fields.get("received", ())[-3:]]
    sent, known = read_time(mail.first("date")), [hop for hop in hops if hop is not None]
    if sent is None or not known:
        return [f"unknown {sent is None} {bool(known)}"]
    late = known[-1] - sent
    found = parsedate_tz(mail.first("date")) or (0,) * 6
    size = f"{'-' if late < 0 else ''}{int(abs(late) / 60).bit_length()}"
    return [f"late {size}", f"hour {found[3] // 4}", f"seconds {found[5] == 0}"]


def read_all_signs(mail: Mail) -> Tokens:
    for text in mail.texts:
        yield from (f"sign {signs}" for signs in re.findall(r"[^\w\s]{2,10}", text)[:100])
        yield from (
            f"number {re.sub('[0-9]', '9', one)}" for one in re.findall(r"[$€£#]?\d[\d.,:/-]*%?", text)[:60]
        )
        yield from (f"loud {word}" for word in re.findall(r"\b[A-Z]{3,20}\b", text)[:60])


def read_style(mail: Mail) -> Tokens:
    """Shares of classes of characters, lengths of lines and words, in steps."""
    text = "\n".join(mail.texts)[:12_000]
    n = max(len(text), 1)
    classes = {
        "upper": sum(map(str.isupper, text)),
        "digits": sum(map(str.isdigit, text)),
        "signs": sum(not c.isalnum() and not c.isspace() for c in text),
        "spaces": text.count(" "),
        "not ascii": sum(c > "\x7f" for c in text),
        "!": text.count("!"),
        "?": text.count("?"),
        "$": text.count("$"),
        ">": text.count("\n>"),
    }
    yield from (f"{name} {round(np.log2((count + 0.1) / n) * 1.5)}" for name, count in classes.items())
    lines, words = text.split("\n"), text.split()
    yield f"line {max(map(len, lines)) // 8 if lines else 0}"
    yield f"word {round(2 * sum(map(len, words)) / max(len(words), 1))}"
    yield f"words {len(words).bit_length()}"
    yield f"distinct {round(10 * len(set(words)) / max(len(words), 1))}"


@dataclass(frozen=True)
class Candidate:
    """Tokens, and where they go: a present view, or a view of its own, with or without coefficients."""

    name: str
    read: Callable[[Mail], Tokens]
    kind: int
    view: View = FEW
    has_coefficients: bool = False
    more: tuple["Candidate", ...] = ()  # others that come along

    @property
    def parts(self) -> tuple["Candidate", ...]:
        return (self, *self.more)


LINES, SENTENCES, PARAGRAPHS = r"\n", r"[.!?]\s|\n\s*\n", r"\n\s*\n"
CANDIDATES = (
    Candidate("far pairs, own view", read_far_pairs, OWN, MANY),
    Candidate("far pairs, in pairs", read_far_pairs, PAIRS),
    Candidate("far pairs of distance 2, in pairs", lambda mail: read_far_pairs(mail, (2,)), PAIRS),
    Candidate("one far pair of eight, in pairs", read_thin_pairs, PAIRS),
    Candidate("lines, own view", lambda mail: split_texts(mail, LINES, 12), OWN),
    Candidate("sentences, own view", lambda mail: split_texts(mail, SENTENCES, 20), OWN),
    Candidate("sentences, in words", lambda mail: split_texts(mail, SENTENCES, 20), WORDS),
    Candidate("paragraphs, own view", lambda mail: split_texts(mail, PARAGRAPHS, 20), OWN),
    Candidate("shingles, own view", read_shingles, OWN),
    Candidate("places of words, own view", read_places, OWN, FEW, True),
    Candidate("places of words, in words", read_places, WORDS),
    Candidate("sender × marker, own view", read_crossed, OWN),
    Candidate("sender × marker, in headers", read_crossed, HEADERS),
    Candidate("sender × links, in headers", read_sender_links, HEADERS),
    Candidate("sender × subject, in headers", read_sender_subject, HEADERS),
    Candidate("marker × marker, own view", read_marker_pairs, OWN, FEW, True),
    Candidate("marker × marker, in relations", read_marker_pairs, RELATIONS),
    Candidate("n-grams of the subject, own view", read_subject_grams, OWN),
    Candidate("pairs of the subject, in pairs", read_subject_pairs, PAIRS),
    Candidate("pairs of the subject, own view", read_subject_pairs, OWN, FEW, True),
    Candidate("names of fields, own view", read_field_names, OWN, FEW, True),
    Candidate("names of fields, in headers", read_field_names, HEADERS),
    Candidate("structure, own view", read_structure, OWN, FEW, True),
    Candidate("structure, in words", read_structure, WORDS),
    Candidate("shapes of links, own view", read_paths, OWN, FEW, True),
    Candidate("shapes of links, in words", read_paths, WORDS),
    Candidate("shapes of values, own view", read_shapes, OWN, FEW, True),
    Candidate("shapes of values, in headers", read_shapes, HEADERS),
    Candidate("times, in relations", read_times, RELATIONS),
    Candidate("signs, own view", read_signs, OWN, FEW, True),
    Candidate("signs, in words", read_signs, WORDS),
    Candidate("style, in relations", read_style, RELATIONS),
    Candidate("agreements, in relations", read_agreements, RELATIONS),
    Candidate("agreements, own view", read_agreements, OWN, FEW, True),
    *(
        Candidate(
            f"shapes of {name}, own view", lambda mail, name=name: read_shapes(mail, name), OWN, FEW, True
        )
        for name in (*SHAPED, "boundary", "hop")
    ),
    Candidate("shapes of values, in relations", read_shapes, RELATIONS),
    Candidate("rough shapes, in relations", read_rough_shapes, RELATIONS),
    Candidate("agreements, oldest hops", lambda mail: read_agreements(mail, 3), RELATIONS),
    Candidate("agreements without hops", lambda mail: read_agreements(mail, 0), RELATIONS),
    Candidate("rough shapes without hops", lambda mail: read_rough_shapes(mail, ["boundary"]), RELATIONS),
    Candidate("delays, in relations", read_delays, RELATIONS),
    Candidate("programs, in relations", read_programs, RELATIONS),
    *(
        Candidate(f"signs: {name}, in words", lambda mail, name=name: read_signs(mail, name), WORDS)
        for name in ("sign", "number", "loud")
    ),
)
BY_NAME = {candidate.name: candidate for candidate in CANDIDATES}


def combine(name: str, *names: str) -> Candidate:
    first, *others = (BY_NAME[one] for one in names)
    return replace(first, name=name, more=tuple(others))


A3, T3, F = "agreements, oldest hops", "delays, in relations", "programs, in relations"
A0, R0 = "agreements without hops", "rough shapes without hops"
S, X, A, T, R, D, N = (
    "pairs of the subject, in pairs",
    "sender × marker, in headers",
    "agreements, in relations",
    "times, in relations",
    "rough shapes, in relations",
    "signs: number, in words",
    "names of fields, in headers",
)
CANDIDATES += (
    combine("together: A T", A, T),
    combine("together: A T R", A, T, R),
    combine("together: A T D", A, T, D),
    combine("together: A T R D S", A, T, R, D, S),
    combine("together: A3 T3 R D S", A3, T3, R, D, S),
    combine("together: A3 R D S", A3, R, D, S),
    combine("together: T3 R D S", T3, R, D, S),
    combine("together: A3 T3 D S", A3, T3, D, S),
    combine("together: A3 T3 R S", A3, T3, R, S),
    combine("together: A3 T3 R D", A3, T3, R, D),
    combine("together: A0 R0 D S", A0, R0, D, S),
    combine("together: A3 T R D S", A3, T, R, D, S),
    combine("together: A3 T3 R D S F", A3, T3, R, D, S, F),
    combine("together: A T R D S X", A, T, R, D, S, X),
    combine("together: A T R D S X N", A, T, R, D, S, X, N),
)


def make_key(token: str, kind: int) -> int:
    """Return the number of a new token; it need not agree with the filter's own."""
    digest = hashlib.blake2b(token.encode("utf-8", "replace"), digest_size=6).digest()
    return int.from_bytes(digest, "little") >> 3 << 3 | kind


class Reader:
    """The tokens of candidates for all messages, each message parsed once and each answer kept."""

    def __init__(self, cache: Path) -> None:
        self.cache, self.mails, self.extended = cache, {}, {}

    def read(self, corpus: Corpus, candidate: Candidate) -> list[np.ndarray]:
        """Return the keys that a candidate adds to each message, ascending."""
        mark = hashlib.sha256(candidate.name.encode())
        for letter in corpus.letters:
            mark.update(letter.digest)
        path = self.cache / "keys" / f"{mark.hexdigest()[:24]}.pickle"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            rows = []
            for letter in corpus.letters:
                if letter.raw not in self.mails:
                    self.mails[letter.raw] = Mail(letter.raw)
                mail = self.mails[letter.raw]
                keys = {make_key(token, one.kind) for one in candidate.parts for token in one.read(mail)}
                rows.append(np.array(sorted(keys), np.uint64))
            path.write_bytes(pickle.dumps(rows))
        return pickle.loads(path.read_bytes())

    def extend(self, corpus: Corpus, candidate: Candidate) -> Corpus:
        """Return the same messages with the tokens of a candidate."""
        mark = id(corpus), candidate.name
        if mark not in self.extended:
            self.extended[mark] = self.make_extended(corpus, candidate)
        return self.extended[mark]

    def make_extended(self, corpus: Corpus, candidate: Candidate) -> Corpus:
        letters = [
            replace(letter, keys={2: np.union1d(letter.keys[2], more)})
            for letter, more in zip(corpus.letters, self.read(corpus, candidate), strict=True)
        ]
        n_ham = int((corpus.labels == 0).sum())
        extended = Corpus(letters[:n_ham], letters[n_ham:])
        extended.ranks, extended.folds = corpus.ranks, getattr(corpus, "folds", None)
        return extended


def make_rule(candidate: Candidate | None) -> rule.Rule:
    is_own = candidate is not None and candidate.kind == OWN
    return replace(RULE, views=(*RULE.views, candidate.view)) if is_own else RULE


def use(candidate: Candidate | None) -> ExitStack:
    """Let the filter and the former experiments have the views of a candidate."""
    stack, chosen = ExitStack(), make_rule(candidate)
    stack.enter_context(patch.object(screen, "RULE", chosen))
    stack.enter_context(patch.object(tape, "RULE", chosen))
    stack.enter_context(patch.object(rule, "VIEWS", tuple(map(str, range(len(chosen.views))))))
    layer = (*rule.LAYER_VIEWS, OWN) if candidate and candidate.has_coefficients else rule.LAYER_VIEWS
    stack.enter_context(patch.object(fitting, "LAYER_VIEWS", layer))
    return stack


class Neighbours:
    """A score of the learned messages that are most similar, by the cosine of their features."""

    def __init__(self, features, messages: np.ndarray, kinds: Sequence[int], number: int) -> None:
        self.number = number
        rows = [features.of(message) for message in messages]
        rows = [row[np.isin(features.kinds[row], kinds)] for row in rows]
        used, places = np.unique(np.concatenate(rows), return_inverse=True)
        starts = np.cumsum([0, *map(len, rows)])
        ones = np.ones(len(places), np.float32)
        self.matrix = csr_matrix((ones, places, starts), (len(rows), len(used)))

    def leave_one_out(self, labels: np.ndarray, known: np.ndarray) -> screen.Column:
        learned = self.matrix[known]
        frequency = np.asarray(learned.sum(axis=0)).ravel()
        rarity = np.log((known.sum() + 1) / (frequency + 1))
        weighed = self.matrix.multiply(rarity.astype(np.float32)).tocsr()
        norms = np.sqrt(np.asarray(weighed.multiply(weighed).sum(axis=1)).ravel()) + 1e-9
        similar = np.asarray((weighed @ weighed[known].T).todense()) / norms[:, None] / norms[known]
        similar[np.flatnonzero(known), np.arange(known.sum())] = 0
        best = np.argpartition(-similar, self.number, axis=1)[:, : self.number]
        worth = np.maximum(np.take_along_axis(similar, best, axis=1), 0) ** 2
        is_spam = labels[known][best] == 1
        s, h = (worth * is_spam).sum(axis=1), (worth * ~is_spam).sum(axis=1)
        return np.log((s + 0.05) / (h + 0.05)), np.ones(len(s))


TEXT, ALL = (WORDS, PAIRS), (HEADERS, WORDS, PAIRS, RELATIONS)
NEIGHBOURS = {
    f"{number} neighbours by {name}": (kinds, number)
    for number in (3, 10)
    for name, kinds in (("text", TEXT), ("all", ALL))
}


class Moment:
    """A set of messages in two halves, each of which is judged by the other."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.messages, self.labels = stream, stream.order, stream.labels
        split = np.random.default_rng(int(stream.name)).permutation(len(self.messages)) % 2 == 0
        self.halves = split, ~split
        self.columns = [
            [
                self.make_table(stream.corpus, kind).leave_one_out(view, self.labels, known)
                for known in self.halves
            ]
            for kind, view in enumerate(RULE.views)
        ]

    def make_table(self, corpus: Corpus, kind: int) -> screen.Table:
        features = corpus.features(2)
        rows = (features.of(message) for message in self.messages)
        return screen.Table([row[features.kinds[row] == kind] for row in rows])

    def judge(
        self, corpus: Corpus, columns: dict[int, list[screen.Column]], views: Sequence[View]
    ) -> Answers:
        """Judge by the columns of the present views, with others in their place, or one more."""
        layer = screen.Layer(corpus.features(2), self.messages, self.labels)
        log_odds = np.zeros(len(self.messages))
        for i, known in enumerate(self.halves):
            chosen = [of_view[i] for of_view in self.columns]
            for kind, column in sorted(columns.items()):
                chosen[kind : kind + 1] = [column[i]]
            train, test = np.flatnonzero(known), np.flatnonzero(~known)
            offset = screen.fit_scales(chosen, views, self.labels, train)(chosen)
            log_odds[test] = offset[test] + layer.judge(train, test, offset)
        return Answers(self.stream, log_odds, RULE.spam, RULE.ham)

    def judge_candidate(self, corpus: Corpus, candidate: Candidate) -> Answers:
        views, columns = make_rule(candidate).views, {}
        for kind in {one.kind for one in candidate.parts}:
            table = self.make_table(corpus, kind)
            columns[kind] = [table.leave_one_out(views[kind], self.labels, known) for known in self.halves]
        return self.judge(corpus, columns, views)

    def judge_by_neighbours(self, kinds: Sequence[int], number: int) -> Answers:
        neighbours = Neighbours(self.stream.corpus.features(2), self.messages, kinds, number)
        columns = [neighbours.leave_one_out(self.labels, known) for known in self.halves]
        return self.judge(self.stream.corpus, {OWN: columns}, [*RULE.views, View(0.5, 1, True, 1)])


def show(value: float, error: float, sign: str = "") -> str:
    return f"{value:{sign}.3g} ± {float(f'{error:.1g}'):g}"


def make_row(title: str, of_rule: list[Answers], of_before: list[Answers]) -> str:
    """Return the figures of a rule, and what is won, tied and lost."""
    figures, draws = measure_group(of_rule), resample_group(of_rule)
    if of_rule is of_before:
        cells = [show(*pair) for pair in zip(figures, draws.std(axis=0), strict=True)]
        return f"{title} | " + " | ".join(cells)
    difference = figures - measure_group(of_before)
    error = (draws - resample_group(of_before)).std(axis=0)
    is_tied = np.abs(difference) <= 2 * error + 1e-12
    words = np.where(is_tied, "", np.where(difference < 0, " WON", " LOST"))
    cells = [show(d, e, "+") + word for d, e, word in zip(difference, error, words, strict=True)]
    return f"{title} | " + " | ".join(cells)


def list_moments(streams: list[Stream]) -> Iterator[tuple[str, list[Stream]]]:
    """The sets of messages of the screen: none that is in held-back streams alone."""
    corpora = {stream.group: stream.corpus for stream in streams}
    modern, videos = corpora["modern mail, shuffled *"], corpora["YouTube ham, YouTube spam"]
    old = corpora["SpamAssassin, one half, shuffled *"]
    half = shuffle(range(len(old)), 7)[: len(old) // 2]

    def take(group: str, corpus: Corpus, pools: Iterable[np.ndarray]) -> tuple[str, list[Stream]]:
        chosen = (np.sort(pool[np.unique(corpus.ranks[pool], return_index=True)[1]]) for pool in pools)
        return group, [Stream(group, f"{i}", corpus, pool) for i, pool in enumerate(chosen)]

    yield take("modern mail", modern, [np.arange(len(modern))] * 4)
    yield take("SpamAssassin, 60", old, [half[60 * i : 60 * i + 60] for i in range(16)])
    yield take("SpamAssassin, 300", old, [half[300 * i : 300 * i + 300] for i in range(10)])
    for group in ("900 spam, 90 ham *", "90 spam, 900 ham *"):
        yield take(group, old, [stream.order for stream in streams if stream.group == group])
    yield take("SpamAssassin, half", old, [half] * 2)
    yield take("YouTube", videos, [np.arange(len(videos))] * 2)


def try_moments(streams: list[Stream], words: Sequence[str], reader: Reader) -> None:
    print("| ", " | ".join(("set and rule", *FIGURES)))
    for group, sets in list_moments(streams):
        moments = [Moment(one) for one in sets]
        corpus = sets[0].corpus
        before = [one.judge(corpus, {}, RULE.views) for one in moments]
        print(make_row(group, before, before), flush=True)
        for name, arguments in NEIGHBOURS.items():
            if not words or any(word in name for word in words):
                rows = [one.judge_by_neighbours(*arguments) for one in moments]
                print(make_row(f"{group}: {name}", rows, before), flush=True)
        for candidate in CANDIDATES:
            if words and not any(word in candidate.name for word in words):
                continue
            extended = reader.extend(corpus, candidate)
            more = np.mean(
                [
                    len(b.keys[2]) - len(a.keys[2])
                    for a, b in zip(corpus.letters, extended.letters, strict=True)
                ]
            )
            with use(candidate):
                rows = [one.judge_candidate(extended, candidate) for one in moments]
            print(make_row(f"{group}: {candidate.name} (+{more:.0f})", rows, before), flush=True)


def play(streams: list[Stream], candidate: Candidate | None, reader: Reader, cache: Path) -> list[Answers]:
    """Play streams by the shipped rule, with the tokens of a candidate. Not for views of their own."""
    name = candidate.name if candidate else "before"
    folder = cache / "streams" / re.sub(r"\W+", "-", name)
    if candidate:
        streams = [replace(one, corpus=reader.extend(one.corpus, candidate)) for one in streams]
    return [played["answer"](one, [played["BEFORE"]], folder)["before"] for one in streams]


def play_all(groups: dict[str, list[Stream]], names: Sequence[str], reader: Reader, cache: Path) -> None:
    print("| ", " | ".join(("streams and rule", *FIGURES)))
    for group, streams in groups.items():
        before = play(streams, None, reader, cache)
        print(make_row(f"{group} ({len(streams)})", before, before), flush=True)
        for candidate in CANDIDATES:
            if candidate.name in names:
                rows = play(streams, candidate, reader, cache)
                print(make_row(f"{group}: {candidate.name}", rows, before), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, default=Path("/tmp/exp17"))
    parser.add_argument("--messages", type=Path, default=Path("/tmp/exp10"), help="cache of experiment 0010")
    parser.add_argument("--candidates", nargs="*", default=[], help="words in their names, all if none")
    parser.add_argument("--streams", nargs="*", help="play the groups with these words in their names")
    parser.add_argument("--held-back", action="store_true", help="the streams that were not developed on")
    parser.add_argument("--thin", action="store_true", help="fits at each fifth more messages")
    options = parser.parse_args()
    streams, reader = played["make_all"](options.data, options.messages), Reader(options.cache)
    if options.streams is None:
        try_moments(streams, options.candidates, reader)
        return
    if options.thin:
        tape.find_scheduled_size = played["find_thin_size"]
        options.cache = options.cache / "thin"
    groups: dict[str, list[Stream]] = {}
    for stream in streams:
        if played["is_held_back"](stream.group) == options.held_back and (
            not options.streams or any(word in stream.group for word in options.streams)
        ):
            groups.setdefault(stream.group, []).append(stream)
    play_all(groups, options.candidates, reader, options.cache)


if __name__ == "__main__":
    main()
