"""Which scoring rule for mail, from counts alone?  python run.py DATA [final variants crosses few bogofilter]"""

import csv
import email
import email.policy
import glob
import html
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
import tempfile
import zlib

import numba as nb
import numpy as np

# ---------------------------------------------------------------- reading

SKIP = re.compile(rb"^(x-spam|x-bogosity|x-spamprobe|x-dspam|x-rspamd|x-crm114|x-classifier|x-virus|status$|x-status$|x-uid|x-keywords|"
                  rb"x-mozilla|x-imap|content-length$|lines$|x-evolution|x-gnus|x-folder|x-pmflags|xref$)", re.I)
TAG = re.compile(r"<[^<>]{0,4000}>")
WORD = re.compile(r"[\w$%€£'!-]+")
URL = re.compile(r"(?:https?://|www\.)([^\s\"'<>)]{1,300})", re.I)
HOST = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+", re.I)
IP = re.compile(r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}")


def header_lines(raw):
    """Splits off the headers: a list of (name, value) in bytes, and the body."""
    if raw.startswith(b"From ") or raw.startswith(b">From "):
        raw = raw.partition(b"\n")[2]
    raw = raw.replace(b"\r\n", b"\n")
    head, sep, body = raw.partition(b"\n\n")
    fields = []
    for line in head.split(b"\n"):
        if line[:1] in b" \t" and fields:
            fields[-1][1] += b"\n" + line
        else:
            name, colon, value = line.partition(b":")
            if not colon or b" " in name:
                continue
            fields.append([name, value])
    return [(n, v) for n, v in fields if not SKIP.match(n)], body


def decoded(part):
    try:
        data = part.get_payload(decode=True) or b""
    except Exception:
        return ""
    charset = "utf-8"
    try:
        charset = part.get_content_charset() or "utf-8"
        return data.decode(charset, "replace")
    except Exception:
        return data.decode("latin-1")


def header_text(value):
    try:
        pieces = email.header.decode_header(value.decode("latin-1"))
        out = []
        for text, cs in pieces:
            if isinstance(text, bytes):
                try:
                    text = text.decode(cs or "utf-8", "replace")
                except LookupError:
                    text = text.decode("latin-1")
            out.append(text)
        return " ".join(out)
    except Exception:
        return value.decode("latin-1")


def suffixes(host):
    bits = host.lower().split(".")
    return [".".join(bits[i:]) for i in range(max(0, len(bits) - 4), len(bits) - 1)]


def header_tokens(fields):
    out, before = [], "start"
    for name, value in fields:
        low = name.decode("latin-1").lower()[:40]
        out.append("h:" + low)
        out.append("o:" + before + ">" + low)
        before = low
        if low == "received":
            text = value.decode("latin-1")
            for host in HOST.findall(text)[:8]:
                if IP.fullmatch(host):
                    bits = host.split(".")
                    out += ["ip:" + ".".join(bits[:k]) for k in (2, 3, 4)]
                else:
                    out += ["rh:" + s for s in suffixes(host)]
            out += ["rw:" + w for w in re.findall(r"\([^()]{1,40}\)|with \w+", text)[:6] if not HOST.search(w)]
        elif low in ("from", "to", "cc", "reply-to", "return-path", "sender", "errors-to", "delivered-to", "x-original-to"):
            text = header_text(value).lower()
            for local, host in re.findall(r"([^\s<>@,;\"']{1,80})@([a-z0-9.-]{1,100})", text):
                out.append(low + ":u:" + local)
                out.append(low + ":a:" + local + "@" + host)
                out += [low + ":d:" + s for s in suffixes(host)]
            out += [low + ":" + w for w in WORD.findall(re.sub(r"\S+@\S+", " ", text))[:20]]
        elif low == "message-id":
            text = value.decode("latin-1").strip().strip("<>")
            local, _, host = text.partition("@")
            out += ["mid:" + s for s in suffixes(host)]
            out.append("mids:" + re.sub(r"[0-9]+", "9", re.sub(r"[a-z]+", "a", re.sub(r"[A-Z]+", "A", local)))[:30])
        elif low == "date":
            text = value.decode("latin-1")
            zone = re.search(r"([+-]\d{4}|[A-Z]{3,4})\s*(\(.*\))?\s*$", text)
            out.append("zone:" + (zone.group(0).strip() if zone else "none"))
            out.append("dshape:" + re.sub(r"\d", "9", re.sub(r"[A-Za-z]", "a", text))[:40])
        else:
            text = header_text(value)
            if low == "subject":
                out += ["S:" + w for w in WORD.findall(text)[:30]]
                text = text.lower()
                words = WORD.findall(text)[:30]
                out += ["subject:" + w for w in words]
                out += ["subject2:" + a + " " + b for a, b in zip(words, words[1:])]
            else:
                text = text.lower()
                out += [low + ":" + w[:30] for w in WORD.findall(text)[:20]]
                if low in ("x-mailer", "user-agent", "content-type", "content-transfer-encoding", "mime-version"):
                    out.append(low + "=" + re.sub(r"\d+", "9", text.strip())[:60])
    return out


def read_mail(raw):
    """(raw without unwanted headers, header block, body with markup, header tokens, body words in order, url tokens)."""
    fields, _ = header_lines(raw)
    head = b"\n".join(n + b":" + v for n, v in fields) + b"\n"
    lean = b"\n".join(n + b":" + v for n, v in fields if n.lower() not in (b"received", b"date", b"message-id")) + b"\n"
    _, _, rawbody = raw.replace(b"\r\n", b"\n").partition(b"\n\n")
    tokens = header_tokens(fields)
    texts, marked = [], []
    try:
        parts = list(email.message_from_bytes(raw, policy=email.policy.compat32).walk())
    except Exception:
        parts = []
    for part in parts[:50]:
        kind = part.get_content_type()
        tokens.append("part:" + kind)
        name = None
        try:
            name = part.get_filename()
        except Exception:
            pass
        if name:
            tokens.append("ext:" + str(name).lower().rpartition(".")[2][:10])
        if part.is_multipart() or not kind.startswith("text/"):
            continue
        text = decoded(part)[:100000]
        marked.append(text)
        if kind == "text/html" or "<html" in text[:2000].lower():
            text = re.sub(r"(?is)<(style|script)\b.{0,20000}?</\1>", " ", text)
            text = html.unescape(TAG.sub(lambda m: "" if len(m.group(0)) < 5 else " ", text))
        texts.append(text)
    if not parts:
        texts = marked = [rawbody.decode("latin-1")[:100000]]
    body = "\n".join(texts)
    full = "\n".join(marked)
    urls = []
    for u in URL.findall(full)[:100]:
        host, _, path = u.partition("/")
        host = host.rpartition("@")[2].partition(":")[0].lower()
        urls += ["u:" + s for s in (suffixes(host) if not IP.fullmatch(host) else ["ip", host])]
        urls += ["up:" + w for w in WORD.findall(path.lower())[:5] if len(w) < 25]
    tags = ["t:" + t.lower() for t in re.findall(r"<(/?[a-zA-Z][a-zA-Z0-9]{0,10})", full[:50000])]
    words = [w.lower()[:30] for w in WORD.findall(body[:40000])][:2000]
    return (head[:6000] + b"\n" + rawbody[:6000], head[:6000], full[:6000].encode("utf-8", "replace"), body[:6000].encode("utf-8", "replace"),
            lean[:6000], tokens, words, urls + tags)


def line_mail(text, name=None):
    return ("Subject: \n\n" + text + "\n").encode() if name is None else ("From: " + name + "\nSubject: \n\n" + text + "\n").encode()


def load(data, cache="/tmp/exp5/mails.pickle"):
    """{corpus: (labels, views)}; SpamAssassin in the order of its sorted paths."""
    if os.path.exists(cache):
        with open(cache, "rb") as f:
            return pickle.load(f)
    out = {}

    def put(name, pairs, extra=None):
        out[name] = (np.array([y for y, _ in pairs]), [read_mail(r) for _, r in pairs], extra)
        print(name, len(pairs), flush=True)

    sa, paths = [], []
    for folder in ("easy_ham", "easy_ham_2", "hard_ham", "spam", "spam_2"):
        for path in sorted(glob.glob(f"{data}/spamassassin/{folder}/*")):
            if os.path.basename(path) == "cmds":
                continue
            with open(path, "rb") as f:
                raw = f.read()
            sa.append((int(folder.startswith("spam")), raw))
            date = None
            try:
                date = email.utils.parsedate_to_datetime(re.findall(rb"(?:;|^Date:)\s*([A-Z][a-z]{2}, .{10,40})$", raw[:8000], re.M)[0].decode("latin-1")).timestamp()
            except Exception:
                pass
            paths.append(date)
    put("sa", sa, paths)
    spam26 = []
    for path in sorted(glob.glob(f"{data}/cwl-email-corpus-2026/submissions/*/*/emails/*.eml")):
        with open(path, "rb") as f:
            spam26.append((1, f.read()))
    put("spam26", spam26)
    news = []
    everything = sorted(glob.glob(f"{data}/20news-bydate-train/*/*"))
    for path in random.Random(1).sample(everything, 2000):
        with open(path, "rb") as f:
            news.append((0, f.read()))
    put("news", news)
    with open(f"{data}/sms-spam-collection/SMSSpamCollection", encoding="utf-8", errors="replace") as f:
        put("sms", [(int(a == "spam"), line_mail(b)) for a, b in (line.rstrip("\n").split("\t", 1) for line in f)])
    tube = []
    for path in sorted(glob.glob(f"{data}/youtube-spam/labelled/*.csv")):
        with open(path, encoding="utf-8", errors="replace") as f:
            tube += [(int(r["CLASS"]), line_mail(r["CONTENT"], r["AUTHOR"])) for r in csv.DictReader(f)]
    put("tube", tube)
    os.makedirs(os.path.dirname(cache), exist_ok=True)
    with open(cache, "wb") as f:
        pickle.dump(out, f)
    return out

# ---------------------------------------------------------------- features

RAW, HEAD, MARKED, TEXT, LEAN = 0, 1, 2, 3, 4


def tidy(head, how):
    """The header block without times and queue numbers; how: 1 in order, 2 Received last, 3 without Received."""
    first, last = [], []
    for line in re.sub(rb"\n[ \t]+", b" ", head).split(b"\n"):
        low = line[:9].lower()
        if low == b"received:":
            line = re.sub(rb"\bid [^ ;]+", b"", line.rpartition(b";")[0] or line)
            (first if how == 1 else last).append(line)
        elif low[:5] == b"date:":
            first.append(b"Date:" + re.sub(rb"\d", b"9", line[5:])[-12:])
        else:
            first.append(line)
    return b"\n".join(first + (last if how < 3 else []))


def grams(data, n, k):
    """Distinct byte n-grams (n <= 7) of the first k bytes, packed."""
    a = np.frombuffer(data[:k], np.uint8).astype(np.int64)
    if len(a) < n:
        return np.zeros(0, np.int64)
    g = a[: len(a) - n + 1].copy()
    for i in range(1, n):
        g = (g << 8) | a[i : len(a) - n + 1 + i]
    return np.unique(g)


ADDRESSES = tuple(n + ":" for n in ("from", "to", "cc", "reply-to", "return-path", "sender", "errors-to", "delivered-to", "x-original-to",
                                    "subject", "subject2", "S"))


def fingerprint(token):
    data = token.encode("utf-8", "replace")
    return (zlib.crc32(data) << 31) ^ zlib.adler32(data[::-1]) ^ (len(data) << 10)


def of(mail, view):
    """view: ("g", source, n, k[, keep one in m]), ("h",), ("w",), ("p", furthest), ("hw",)."""
    kind = view[0]
    if kind == "g":
        g = grams(tidy(mail[HEAD], view[1] - 10) if view[1] > 10 else mail[view[1]], view[2], view[3])
        if len(view) > 4:
            mixed = (g * -7046029254386353131) >> 40 & 0xFFFF
            g = g[mixed % view[4] == 0]
        return g
    if kind == "gg":  # several sources or sizes in one view
        return np.unique(np.concatenate([(of(mail, v) * 31 + i * 7919 * (1 << 50)) for i, v in enumerate(view[1:])]))
    if kind == "h":
        return np.unique(np.array([fingerprint(t) for t in mail[5]], np.int64))
    if kind == "hx":  # the headers' tokens split: received, addresses and subject, the rest
        which = lambda t: 0 if t.startswith(("rh:", "ip:", "rw:")) else 1 if t.startswith(ADDRESSES) else 2
        return np.unique(np.array([fingerprint(t) for t in mail[5] if which(t) in view[1]], np.int64))
    if kind == "u":  # tokens of addresses of pages (u:, up:) and of markup (t:), by prefix
        return np.unique(np.array([fingerprint(t) for t in mail[7] if t.startswith(view[1])], np.int64))
    if kind == "wu":
        return np.unique(np.array([fingerprint(t) for t in mail[6][: view[1]] + [t for t in mail[7] if t[0] == "u"]], np.int64))
    if kind == "hn":  # the headers' tokens without some
        return np.unique(np.array([fingerprint(t) for t in mail[5] if not t.startswith(view[1])], np.int64))
    if kind == "ww":
        return np.unique(np.array([fingerprint(t) for t in mail[6][: view[1]]], np.int64))
    if kind == "wd":  # words with every digit as 9
        return np.unique(np.array([fingerprint(re.sub(r"\d", "9", t)) for t in mail[6][: view[1]]], np.int64))
    if kind == "wp":  # words and pairs in one view
        w = mail[6][: view[2]]
        return np.unique(np.array([fingerprint(t) for t in w + mail[7]] + [fingerprint(f"{d} {a} {b}") for d in range(1, view[1] + 1) for a, b in zip(w, w[d:])], np.int64))
    if kind == "w":
        return np.unique(np.array([fingerprint(t) for t in mail[6][: view[1]] + mail[7]], np.int64))
    if kind == "hw":
        return np.unique(np.array([fingerprint(t) for t in mail[5] + mail[6][: view[1]] + mail[7]], np.int64))
    if kind == "p":
        w = mail[6][: view[2]]
        return np.unique(np.array([fingerprint(f"{d} {a} {b}") for d in range(1, view[1] + 1) for a, b in zip(w, w[d:])], np.int64))
    raise ValueError(kind)


_views = {}


def view_of(corpus, mails, view):
    """(starts, ids, how many distinct) of a view, ids dense."""
    key = corpus, view
    if key not in _views:
        rows = [of(m, view) for m in mails]
        starts = np.concatenate([[0], np.cumsum([len(r) for r in rows])])
        distinct, ids = np.unique(np.concatenate(rows), return_inverse=True)
        _views[key] = starts, ids.astype(np.int32), len(distinct)
    return _views[key]


# ---------------------------------------------------------------- scoring

@nb.njit(cache=True)
def weight(s, h, ns, nh, kind, a, b):
    if kind == 0:  # log ratio, smoothing a
        return np.log((s + a) / (ns + 2 * a)) - np.log((h + a) / (nh + 2 * a))
    if kind == 1:  # the same, times a confidence n / (n + b)
        n = s + h
        return (np.log((s + a) / (ns + 2 * a)) - np.log((h + a) / (nh + 2 * a))) * n / (n + b)
    if kind == 2:  # Robinson: shrunk probability, strength a, then log odds
        ps, ph = s / max(ns, 1), h / max(nh, 1)
        n = s + h
        p = ps / (ps + ph) if n > 0 else 0.5
        p = (0.5 * a + n * p) / (a + n)
        return np.log(p / (1 - p))
    if kind == 3:  # OSBF's confidence factor on log ratio
        hs, hh = s / (ns + 1e-9), h / (nh + 1e-9)
        sh = s + h
        if sh == 0:
            return 0.0
        hi, lo = max(s, h), min(s, h)
        cf = (((hi - lo) ** 2 + hi * lo - 0.25 / sh) / sh**2) ** b / (1 + 8.0 / (sh * 3.0))
        return cf * (np.log((s + a) / (ns + 2 * a)) - np.log((h + a) / (nh + 2 * a)))
    if kind == 5:  # floor a under the share of spam, balanced; times n^-b
        ps, ph = s / max(ns, 1), h / max(nh, 1)
        q = ps / (ps + ph)
        return np.log((q + a) / (1 - q + a)) * (s + h) ** -b
    if kind == 6:  # the same, times (log 1/rate)^b
        ps, ph = s / max(ns, 1), h / max(nh, 1)
        q = ps / (ps + ph)
        return np.log((q + a) / (1 - q + a)) * np.log((ns + nh + 1.0) / (s + h)) ** b
    if kind == 9:  # as 4, the pooled rate with classes balanced
        r = (s / max(ns, 1) + h / max(nh, 1)) / 2
        return np.log((s + a * r) / (ns + a)) - np.log((h + a * r) / (nh + a))
    if kind == 10:  # as 4, less b log(Nh / Ns)
        r = (s + h + 1e-3) / (ns + nh + 1e-3)
        return np.log((s + a * r) / (ns + a)) - np.log((h + a * r) / (nh + a)) - b * np.log((nh + 1) / (ns + 1))
    if kind == 11:  # as 5, the floor a / N
        ps, ph = s / max(ns, 1), h / max(nh, 1)
        q = ps / (ps + ph)
        a = a / (ns + nh + 2)
        return np.log((q + a) / (1 - q + a))
    if kind == 12:  # as 4, shares by (N + b) so that the first few weigh little
        r = (s + h) / (ns + nh + b)
        return np.log((s + a * r + 1e-9) / (ns + a)) - np.log((h + a * r + 1e-9) / (nh + a))
    if kind == 7:  # floor a / N under the share of spam, balanced
        ps, ph = s / max(ns, 1), h / max(nh, 1)
        q = ps / (ps + ph)
        a = a / (ns + nh + 2)
        return np.log((q + a) / (1 - q + a)) / np.log((1 + a) / a)
    if kind == 8:  # plain difference of shares, to the power b
        ps, ph = s / max(ns, 1), h / max(nh, 1)
        q = 2 * ps / (ps + ph) - 1
        return np.sign(q) * abs(q) ** b
    # 4: smoothing of rates: prior mass a at the pooled rate
    r = (s + h + 1e-3) / (ns + nh + 1e-3)
    return np.log((s + a * r) / (ns + a)) - np.log((h + a * r) / (nh + a))


@nb.njit(cache=True)
def stream(order, y, starts, ids, size, learn, kind, a, b, cap, least):
    """Per message: sum of weights, features, features seen; judged before learnt. learn: how many to learn (then only judged)."""
    s = np.zeros(size, np.int32)
    h = np.zeros(size, np.int32)
    out = np.zeros((len(order), 6))
    ns = nh = 0
    for i in range(len(order)):
        m = order[i]
        total = 0.0
        up = 0.0
        seen = 0
        used = 0
        for j in range(starts[m], starts[m + 1]):
            f = ids[j]
            if s[f] + h[f] == 0:
                continue
            seen += 1
            w = weight(s[f], h[f], ns, nh, kind, a, b)
            if w > cap:
                w = cap
            elif w < -cap:
                w = -cap
            if abs(w) < least:
                continue
            used += 1
            total += w
            if w > 0:
                up += w
        out[i, 0] = total
        out[i, 1] = starts[m + 1] - starts[m]
        out[i, 2] = seen
        out[i, 3] = ns
        out[i, 4] = nh
        out[i, 5] = used
        if i < learn:
            if y[m]:
                ns += 1
            else:
                nh += 1
            for j in range(starts[m], starts[m + 1]):
                if y[m]:
                    s[ids[j]] += 1
                else:
                    h[ids[j]] += 1
    return out


# ---------------------------------------------------------------- measures

def roca(score, y):
    """100 (1 - ROC area)."""
    from scipy.stats import rankdata
    r = rankdata(score)
    p = y.sum()
    n = len(y) - p
    return 100 * (1 - (r[y == 1].sum() - p * (p + 1) / 2) / (p * n))


def missed(score, y, loss=0.001):
    """Per cent of spam at or below the threshold that loses `loss` of the ham."""
    ham = np.sort(score[y == 0])[::-1]
    k = int(np.floor(loss * len(ham)))
    return 100 * np.mean(score[y == 1] <= ham[k])


def fixed(p, y, high=0.9, low=0.1):
    bins = np.clip((p * 10).astype(int), 0, 9)
    ece = sum(abs(p[bins == k].mean() - y[bins == k].mean()) * np.mean(bins == k) for k in range(10) if (bins == k).any())
    return 100 * np.mean(p[y == 0] >= high), 100 * np.mean(p[y == 1] < high), 100 * np.mean((p < high) & (p > low)), np.mean((p - y) ** 2), ece


def halves(y, seed=5):
    """Development and held-out half of SpamAssassin."""
    idx = list(range(len(y)))
    random.Random(seed).shuffle(idx)
    return np.array(idx[: len(y) // 2]), np.array(idx[len(y) // 2 :])


def orders(idx, count, seed=100):
    out = []
    for k in range(count):
        one = sorted(idx)
        random.Random(seed + k).shuffle(one)
        out.append(np.array(one))
    return out

# ---------------------------------------------------------------- the recipe

# view: what it is, weight's kind, its smoothing a, c
RECIPE = {
    "T": (("g", 11, 5, 1500, 2), 4, 0.01, 100),
    "H": (("h",), 4, 0.01, 10),
    "W": (("wd", 2000), 0, 0.1, 10),
    "P": (("p", 1, 2000), 4, 0.3, 300),
}
# views: their coefficients, then the bias of a text without headers, and what full headers add
COEFFICIENTS = {"THWP": (1.6, 1.0, 6.0, 1.7, -3.1, 4.8), "THW": (2.0, 0.9, 6.7, -3.3, 5.1), "HW": (2.2, 6.4, -3.7, 5.6)}
HIGH, LOW = 0.93, 0.1


def judged(corpus, mails, y, order, names="THWP", learn=10**9):
    """Log-odds of each message of the order, judged before it is learnt."""
    coefficients = COEFFICIENTS[names]
    total = 0.0
    for name, coefficient in zip(names, coefficients):
        view, kind, a, c = RECIPE[name]
        r = stream(order, y, *view_of(corpus, mails, view), learn, kind, a, 0.0, 99.0, 0.0)
        total = total + coefficient * r[:, 0] / (r[:, 1] + c)
        if name == names[0]:
            headed = r[:, 1] / (r[:, 1] + (100 if name == "T" else 30))
    m = np.minimum(r[:, 3], r[:, 4])
    return squeeze(m / (m + 1) * (total + coefficients[-2] + coefficients[-1] * headed), m)


def squeeze(score, m):
    """No more than so sure after m messages of the rarer class."""
    cap = 1 + 2 * np.log(m + 1)
    return cap * np.tanh(score / cap)


def row(name, s, y, high=HIGH, low=LOW):
    p = 1 / (1 + np.exp(-s))
    hl, sm, unsure, brier, ece = fixed(p, y, high, low)
    lost = 100 * np.mean(p[y == 1] <= low)
    print(f"| {name} | {roca(s, y):.3f} | {missed(s, y):.1f} | {hl:.2f} ({int((p[y == 0] >= high).sum())}) | {sm:.1f} | {lost:.2f} | {unsure:.1f} | {brier:.4f} | {ece:.3f} |", flush=True)


# ---------------------------------------------------------------- few labels

@nb.njit(cache=True)
def soft_sums(share, starts, ids, size, kind, a):
    """Sum of weights of every message, from counts of messages with shares (of spam, of ham)."""
    s, h = np.zeros(size), np.zeros(size)
    ns, nh = share[:, 0].sum(), share[:, 1].sum()
    for m in range(len(share)):
        if share[m, 0] + share[m, 1] > 0:
            for j in range(starts[m], starts[m + 1]):
                s[ids[j]] += share[m, 0]
                h[ids[j]] += share[m, 1]
    out = np.zeros(len(share))
    for m in range(len(share)):
        for j in range(starts[m], starts[m + 1]):
            f = ids[j]
            if s[f] + h[f] > 1e-6:
                out[m] += weight(s[f], h[f], ns, nh, kind, a, 0.0)
    return out


def from_shares(mails, share, names="THWP"):
    m, total = share.sum(0).min(), 0.0
    for name, coefficient in zip(names, COEFFICIENTS[names]):
        view, kind, a, c = RECIPE[name]
        starts, ids, size = view_of("sa", mails, view)
        n = np.diff(starts)
        total = total + coefficient * soft_sums(share, starts, ids, size, kind, a) / (n + c)
        if name == names[0]:
            headed = n / (n + (100 if name == "T" else 30))
    z = total + COEFFICIENTS[names][-2] + COEFFICIENTS[names][-1] * headed
    return z, 1 / (1 + np.exp(-squeeze(m / (m + 1) * z, m)))


def twenty(y, k):
    r = random.Random(1000 + k)
    return r.sample(list(np.flatnonzero(y == 1)), 20) + r.sample(list(np.flatnonzero(y == 0)), 20)


def unlabelled(z, p, known, base, rule, much):
    """Shares with the unlabelled added, by one of the rules."""
    share, rest = base.copy(), np.flatnonzero(~known)
    if rule == "all":
        share[rest] = much * np.stack([p[rest], 1 - p[rest]], 1)
    elif rule == "sure":
        rest = rest[(p[rest] > 0.9) | (p[rest] < 0.1)]
        share[rest] = much * np.stack([p[rest], 1 - p[rest]], 1)
    elif rule == "hard":
        share[rest] = much * np.stack([p[rest] > 0.5, p[rest] <= 0.5], 1)
    elif rule == "even":  # as many of each, the surest, at most a tenth each
        rest = rest[np.argsort(z[rest])]
        k = min(len(rest) // 10, (p[rest] > 0.9).sum(), (p[rest] < 0.1).sum())
        share[rest[:k], 1] = share[rest[len(rest) - k :], 0] = much
    return share


def few(y, mails):
    print("\n| 20 and 20 | mean ROC area % | least |\n|---|---|---|")
    for names in COEFFICIENTS:
        got = []
        for k in range(20):
            known = np.zeros(len(y), bool)
            known[twenty(y, k)] = True
            share = np.stack([known & (y == 1), known & (y == 0)], 1).astype(float)
            z, _ = from_shares(mails, share, names)
            got.append(100 - roca(z[~known], y[~known]))
        print(f"| {names} | {np.mean(got):.2f} | {min(got):.2f} |", flush=True)
    print("\n| unlabelled counted (THWP) | weight | after 1 pass | won of 20 | after 2 |\n|---|---|---|---|---|")
    for rule, much in (("even", 1), ("even", 0.3), ("sure", 0.1), ("all", 0.1), ("hard", 0.1)):
        got = []
        for k in range(20):
            known = np.zeros(len(y), bool)
            known[twenty(y, k)] = True
            base = np.stack([known & (y == 1), known & (y == 0)], 1).astype(float)
            z, p = from_shares(mails, base)
            areas = [100 - roca(z[~known], y[~known])]
            for _ in range(2):
                z, p = from_shares(mails, unlabelled(z, p, known, base, rule, much))
                areas.append(100 - roca(z[~known], y[~known]))
            got.append(areas)
        got = np.array(got)
        print(f"| {rule} | {much} | {got[:, 1].mean():.2f} | {(got[:, 1] > got[:, 0]).sum()} | {got[:, 2].mean():.2f} |", flush=True)


def bogofilter(data, y):
    paths = [p for f in ("easy_ham", "easy_ham_2", "hard_ham", "spam", "spam_2") for p in sorted(glob.glob(f"{data}/spamassassin/{f}/*"))
             if os.path.basename(p) != "cmds"]
    got = []
    for k in range(20):
        known, folder = twenty(y, k), tempfile.mkdtemp()
        for flag, idx in (("-s", known[:20]), ("-n", known[20:])):
            subprocess.run(["bogofilter", "-d", folder, flag, "-b"], input="\n".join(paths[i] for i in idx) + "\n", text=True, check=True)
        rest = np.setdiff1d(np.arange(len(y)), known)
        text = subprocess.run(["bogofilter", "-d", folder, "-b", "-T"], input="\n".join(paths[i] for i in rest) + "\n", text=True,
                              capture_output=True).stdout
        scores = {line.split()[0]: float(line.split()[-1]) for line in text.splitlines()}
        got.append(100 - roca(np.array([scores.get(paths[i], 0.5) for i in rest]), y[rest]))
        shutil.rmtree(folder)
    print(f"\nbogofilter after 20 and 20: mean ROC area {np.mean(got):.2f} %, least {min(got):.2f} %")


# ---------------------------------------------------------------- tables

TITLE = "\n| {} | 1-ROCA % | missed at 0.1 % | ham called spam % (n) | spam not called spam % | spam called ham % | unsure % | Brier | ECE |\n|---|---|---|---|---|---|---|---|---|"


def final(y, mails):
    dev, held = halves(y)
    whole = list(range(len(y)))
    random.Random(2026).shuffle(whole)
    for names in COEFFICIENTS:
        count = sum(np.diff(view_of("sa", mails, RECIPE[n][0])[0]).mean() for n in names)
        print(TITLE.format(f"{names}, {count:.0f} features per message"))
        for name, order in (("development half", orders(dev, 1, 77)[0]), ("held-out half", orders(held, 1, 77)[0]), ("whole", np.array(whole)),
                            ("whole, another order", orders(range(len(y)), 1, 78)[0])):
            row(name, judged("sa", mails, y, order, names), y[order])


def crosses(corpora):
    y0, _, dates = corpora["sa"]
    dev, _ = halves(y0)
    y, mails, at = [], [], {}
    for name, (labels, views, _) in corpora.items():
        at[name] = range(len(y), len(y) + len(labels))
        y += list(labels)
        mails += views
    y = np.array(y)

    def mix(idx, seed, spam, ham):
        r = random.Random(seed)
        one = r.sample([i for i in idx if y[i]], spam) + r.sample([i for i in idx if not y[i]], ham)
        r.shuffle(one)
        return np.array(one)

    when = np.array([dates[i] or 1.03e9 for i in dev])
    ham = [i for i in dev if not y[i]]
    streams = {"in order of time (half)": dev[np.argsort(when, kind="stable")], "200 spam, 2000 ham": mix(dev, 11, 200, 2000),
               "900 spam, 90 ham": mix(dev, 12, 900, 90), "newsgroups and spam of 2026": mix([*at["news"], *at["spam26"]], 13, 1000, 2000),
               "SpamAssassin's ham and spam of 2026": mix([*ham, *at["spam26"]], 14, 800, 1500), "SMS": mix(at["sms"], 15, 747, 4827),
               "YouTube": mix(at["tube"], 16, 1000, 950)}
    for names in COEFFICIENTS:
        print(TITLE.format(names))
        for name, order in streams.items():
            row(name, judged("all", mails, y, order, names), y[order])


def variants(y, mails):
    """Development half, 4 orders; coefficients refitted for each by logistic regression; paired bootstrap over messages."""
    from sklearn.linear_model import LogisticRegression
    dev, _ = halves(y)
    todo = orders(dev, 4, 300)

    def scores(views):
        out, count = [], sum(np.diff(view_of("sa", mails, v[0])[0]).mean() for v in views.values())
        for o in todo:
            columns = []
            for view, kind, a, c in views.values():
                r = stream(o, y, *view_of("sa", mails, view), 10**9, kind, a, 1.0 if kind == 1 else 4.0 if kind == 3 else 0.0, 99.0, 0.0)
                m = np.minimum(r[:, 3], r[:, 4])
                columns.append(m / (m + 1) * r[:, 0] / (r[:, 1] + c))
            x = np.stack(columns + [m / (m + 1)], 1)
            s = x @ LogisticRegression(C=3, fit_intercept=False, max_iter=2000).fit(x, y[o]).coef_[0]
            back = np.empty(len(y))
            back[o] = s
            out.append(back)
        return out, count

    def areas(many, idx):
        return np.mean([roca(s[idx], y[idx]) for s in many])

    T, H, W, P = (RECIPE[n] for n in "THWP")
    only = lambda **k: k
    ref = only(T=T, H=H, W=W, P=P)
    grams6 = (("g", RAW, 6, 3000), 4, 0.1, 0)
    table = [("T+H+W+P (reference)", ref), ("T+H+W", only(T=T, H=H, W=W)), ("T+W", only(T=T, W=W)), ("H+W", only(H=H, W=W)), ("H+W+P", only(H=H, W=W, P=P)),
             ("W alone", only(W=W)), ("T alone", only(T=T)),
             ("raw 4-grams of 3,000 bytes", only(G=(("g", RAW, 4, 3000), 4, 0.1, 0))), ("raw 6-grams of 3,000 bytes", only(G=grams6)),
             ("raw 6-grams of 1,500 bytes", only(G=(("g", RAW, 6, 1500), 4, 0.1, 0))), ("raw 6-grams + H + W", only(G=grams6, H=H, W=W)),
             ("T: every gram", {**ref, "T": (("g", 11, 5, 1500), *T[1:])}), ("T: one in four", {**ref, "T": (("g", 11, 5, 1500, 4), *T[1:])}),
             ("T: 4-grams", {**ref, "T": (("g", 11, 4, 1500, 2), *T[1:])}), ("T: 6-grams", {**ref, "T": (("g", 11, 6, 1500, 2), *T[1:])}),
             ("T: 1,000 bytes", {**ref, "T": (("g", 11, 5, 1000, 2), *T[1:])}), ("T: 2,500 bytes", {**ref, "T": (("g", 11, 5, 2500, 2), *T[1:])}),
             ("T: times left in", {**ref, "T": (("g", HEAD, 5, 1500, 2), *T[1:])}), ("T: Received last", {**ref, "T": (("g", 12, 5, 1500, 2), *T[1:])}),
             ("T: without Received", {**ref, "T": (("g", 13, 5, 1500, 2), *T[1:])}),
             ("W: digits as they are", {**ref, "W": (("ww", 2000), *W[1:])}), ("W: with tokens of URLs", {**ref, "W": (("wu", 2000), *W[1:])}),
             ("W: with tokens of URLs and tags", {**ref, "W": (("w", 2000), *W[1:])}), ("W: first 300 words", {**ref, "W": (("wd", 300), *W[1:])}),
             ("W: a 0.01", {**ref, "W": (W[0], 0, 0.01, 10)}), ("W: a 1", {**ref, "W": (W[0], 0, 1.0, 10)}), ("W: pooled rate, a 10", {**ref, "W": (W[0], 4, 10.0, 10)}),
             ("W: Robinson, strength 0.1", {**ref, "W": (W[0], 2, 0.1, 10)}), ("W: confidence n/(n+1)", {**ref, "W": (W[0], 1, 0.1, 10)}),
             ("T, H: log ratio, a 0.001", {**ref, "T": (T[0], 0, 0.001, 100), "H": (H[0], 0, 0.001, 10)}),
             ("T, H: log ratio, a 0.1", {**ref, "T": (T[0], 0, 0.1, 100), "H": (H[0], 0, 0.1, 10)}),
             ("T, H: Robinson, strength 0.1", {**ref, "T": (T[0], 2, 0.1, 100), "H": (H[0], 2, 0.1, 10)}),
             ("T, H: OSBF's confidence", {**ref, "T": (T[0], 3, 0.1, 100), "H": (H[0], 3, 0.1, 10)}),
             ("P: pairs up to 3 apart", {**ref, "P": (("p", 3, 2000), *P[1:])}), ("and 5-grams of the text", {**ref, "B": (("g", TEXT, 5, 1500, 2), 4, 0.3, 100)}),
             ("and 5-grams of the marked-up body", {**ref, "B": (("g", MARKED, 5, 1500, 2), 4, 0.3, 100)})]
    print("\n| variant | features | 1-ROCA % | missed at 0.1 % | difference to the reference (95 %) | |\n|---|---|---|---|---|---|")
    first = None
    r = np.random.default_rng(5)
    draws = [r.choice(dev, len(dev)) for _ in range(150)]
    for name, views in table:
        many, count = scores(views)
        boot = np.array([areas(many, d) for d in draws])
        area = areas(many, dev)
        lost = np.mean([missed(s[dev], y[dev]) for s in many])
        if first is None:
            first, verdict, span = (boot, area), "", ""
        else:
            low, high = np.quantile(boot - first[0], [0.025, 0.975])
            verdict = "won" if high < 0 else "lost" if low > 0 else "tied"
            span = f"{area - first[1]:+.3f} ({low:+.3f} to {high:+.3f})"
        print(f"| {name} | {count:.0f} | {area:.3f} | {lost:.1f} | {span} | {verdict} |", flush=True)
        for v in views.values():
            if v[0] not in [x[0] for x in RECIPE.values()] and v[0][0] == "g":
                _views.pop(("sa", v[0]), None)


if __name__ == "__main__":
    data = sys.argv[1] if len(sys.argv) > 1 else "/tmp/data"
    tables = sys.argv[2:] or ["final", "variants", "crosses", "few", "bogofilter"]
    corpora = load(data)
    y, mails, _ = corpora["sa"]
    if "final" in tables:
        final(y, mails)
    if "variants" in tables:
        variants(y, mails)
    if "crosses" in tables:
        crosses(corpora)
    if "few" in tables:
        few(y, mails)
    if "bogofilter" in tables and shutil.which("bogofilter"):
        bogofilter(data, y)
