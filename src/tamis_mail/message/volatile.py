"""Name of a field → whether a filter, a mailbox or a mail program added the field to the message.

Verdicts of other filters are ignored: otherwise the filter would learn these verdicts instead of the mail,
and they differ between deliveries of one message. All names are in lower case; `*` stands for any ending.
"""

from __future__ import annotations

from collections.abc import Sequence

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from typing import Final

# Fields with verdicts and reports of spam filters and virus scanners.
VERDICT_FIELDS: Final = """
x-spam* x-old-spam* x-rspam* x-bogo* x-dspam* x-crm114* x-text-classification x-popfile* x-mox-*
x-ham-report x-ham-* x-annoyance-filter* x-ifile* x-gonzofilter* x-qsf-* x-sa-* x-assp-* x-tamis*
x-ms-exchange-organization-scl x-ms-exchange-organization-pcl x-ms-exchange-organization-antispam*
x-microsoft-antispam* x-forefront-antispam* x-exchange-antispam* x-ms-exchange-antispam* x-barracuda*
x-virus* x-antivirus* x-anti-virus* x-antispam* x-anti-spam* x-amavis* x-mailscanner* x-mimedefang*
x-scanned* x-clamav* x-sophos* x-kaspersky* x-klms-* x-kse-* x-eset* x-mcafee* x-nai-spam* x-brightmail*
x-symantec* x-tm-as-* x-tmase-* x-proofpoint* x-ironport-anti* x-ironport-av* x-pmx-* x-perlmx* x-cloudmark*
x-cmae-* x-vade* x-vr-spam* x-ovh-spam* x-purgate* x-expurgate* x-gmx-anti* x-ui-filterresults
x-yandex-spam* x-hmailserver-spam* x-smartermail-spam* x-smartermail-totalspamweight x-junk* x-fortimail*
x-razor* x-pyzor* x-dcc-* x-policyd-weight x-greylist* x-whitelist* x-blacklist* x-suspected-spam*
x-filter-score x-filterd-* x-mailcleaner* x-mailfoundry* x-modusmail* x-canit* x-pure-message*
x-messagescreen* x-imss-scan* x-sonicwall* x-watchguard* x-avast* x-avg* x-norton* x-drweb*
x-antiabuse-score x-spf-score x-cnfs-analysis x-aol-scoll-* x-rocket-spam x-yahoofilteredbulk
x-yahoo-filtered-bulk x-gm-spam x-gm-phishy x-mras x-mailru-dmarc x-rim-spam* x-identified-spam x-is-spam
x-probable-spam*
"""

# Fields that mailboxes, programs that fetch mail (such as fetchmail) and mail programs add.
STORAGE_FIELDS: Final = """
status x-status x-uid x-uidl x-keywords x-imap* x-folder x-label x-mozilla* x-account-key x-evolution*
content-length lines x-gnus* x-vm-* x-kmail* x-sylpheed* x-claws* x-getmail* x-fetchmail* x-offlineimap*
x-tuid x-mairix* x-from-line x-rmail-attributes x-replied x-forwarded x-xfmail-* x-pstn-*
x-universally-unique-identifier x-uniform-type-identifier x-apple-mail-remote-attachments x-gmail-labels
x-gm-thrid x-gm-msgid x-dovecot* x-sieve x-tb-* x-unsent-*
"""

LONGEST: Final = 80  # bytes of a name that are compared; every name in these lists has less than half of that

VOLATILE_FIELDS: Final = tuple((VERDICT_FIELDS + STORAGE_FIELDS).split())
_OLD_PREFIX = "x-old-"


def _split_patterns(names: Sequence[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the complete names, and the beginnings of names that end with `*`."""
    exact = frozenset(name for name in names if not name.endswith("*"))
    return exact, tuple(name[:-1] for name in names if name.endswith("*"))


_VERDICT_NAMES, _VERDICT_PREFIXES = _split_patterns(VERDICT_FIELDS.split())
_VOLATILE_NAMES, _VOLATILE_PREFIXES = _split_patterns(VOLATILE_FIELDS)


def _normalise(name: str | bytes) -> str:
    """Return the name in lower case, without the prefix of a renamed field (`X-Old-X-Spam-Flag`)."""
    if isinstance(name, bytes):
        name = name[:LONGEST].decode("latin-1")
    name = name[:LONGEST].rstrip(" \t").lower()
    while name.startswith(_OLD_PREFIX) and not name.startswith("x-old-spam"):  # this one was not renamed
        name = name[len(_OLD_PREFIX) :]
    return name


def is_verdict_header(name: str | bytes) -> bool:
    """Whether a field of this name holds the verdict of a filter.

    >>> is_verdict_header("X-Spam-Status"), is_verdict_header(b"x-bogosity"), is_verdict_header("Subject")
    (True, True, False)
    """
    name = _normalise(name)
    return name in _VERDICT_NAMES or name.startswith(_VERDICT_PREFIXES)


def is_volatile_header(name: str | bytes) -> bool:
    """Whether a field of this name was added after sending: by a filter, a mailbox or a mail program."""
    name = _normalise(name)
    return name in _VOLATILE_NAMES or name.startswith(_VOLATILE_PREFIXES)
