"""`tamis learn --sent`: learn the people to whom the user writes."""

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import TextIO

from tamis_mail.mailbox import Source
from tamis_mail.mailbox.raw_message import printable
from tamis_mail.message import canonical
from tamis_mail.message.addresses import read_senders
from tamis_mail.sieve import Sieve
from tamis_mail.store.people import count_people
from tamis_mail.surfaces.cli.since import DateFilter
from tamis_mail.surfaces.cli.sources import SourceReader, Task, run_tasks

# Before any message of a source is learned, the domains of the senders of its first messages are counted.
_SAMPLE = 200  # maximum number of these messages
_SAMPLE_BYTES = 16 << 20  # after so many bytes, no more of them are read
_MIN_SAMPLE = 10  # with fewer messages, the domains are not counted
_MAX_DOMAINS = 8  # domains from which one person may send


def learn_sent(out: TextIO, options: Namespace, sources: Sequence[Source]) -> int:
    """Learn the recipients of sent mail; print one line per source, and how many people are known."""
    date_filter = None if options.since is None else DateFilter(options.since)
    with Sieve.open(options.store) as sieve:
        tasks = [
            Task(
                source,
                partial(_learn_source, sieve, source, date_filter),
                ("learned", "known", "ignored"),
                label="sent",
            )
            for source in sources
        ]
        total, status = run_tasks(out, "learn", options, tasks, so_far="learned so far")
        if not options.quiet:
            if date_filter:
                out.write(date_filter.format_summary() + "\n")
            people = count_people(sieve.store).correspondents
            out.write(f"you write to {people:,} {'person' if people == 1 else 'people'}\n")
    if not total and not options.quiet:
        sys.stderr.write("tamis learn: there was no sent message\n")
    return status


def _learn_source(
    sieve: Sieve, source: Source, date_filter: DateFilter | None, reader: SourceReader
) -> Counter[str]:
    messages = date_filter.select(reader.contents()) if date_filter else reader.contents()
    sample: list[bytes] = []
    size = 0
    for raw in messages:
        sample.append(raw)
        size += len(raw)
        if len(sample) == _SAMPLE or size >= _SAMPLE_BYTES:
            break
    _refuse_received_mail(sample, source)
    return sieve.learn_sent(chain(sample, messages), progress=reader.advance)


def _refuse_received_mail(sample: Sequence[bytes], source: Source) -> None:
    """Raise ValueError for mail from many domains. One person sends from a few, and receives from many."""
    senders = [address for raw in sample for address in read_senders(canonical(raw)).addresses[:1]]
    domains = {address.rpartition("@")[2] for address in senders}
    if len(sample) >= _MIN_SAMPLE and len(domains) > max(_MAX_DOMAINS, len(sample) // 4):
        raise ValueError(
            f"{printable(source.path)} has mail from {len(domains)} domains, expected mail that you sent: "
            "name the folder of your sent mail; nothing of this one was learned"
        )
