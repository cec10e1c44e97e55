"""`python -m benchmarks.page_speed`: the views of `tamis serve web` in Chromium, with 100,000 messages.

    python -m benchmarks.page_speed [--messages 100000] [--repeats 5] [--pages 200]

The sample mailbox is learned; numbered copies of its messages fill an mbox, which is listed with the verdicts
of the originals. First the list is paged through, and the memory of the server (PSS) and of the page
(JavaScript heap) is printed on the way. Then each view is opened several times. Printed are the medians, and
the largest values, of the first contentful paint and of the end of loading, in milliseconds after the
beginning of the navigation, as the browser measures them.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import cycle, islice
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tamis_mail.catalog import Catalog, FoundMessage, Query, scan_path
from tamis_mail.sample import messages
from tamis_mail.sieve import Sieve
from tests.surfaces.peers.chromium import run_page

_POSTMARK = b"From somebody@mail.example Mon Jan  1 00:00:00 2024\n"
_BATCH = 1000
_LIMIT = 300  # milliseconds, of each view
_TIMES = """() => {
    const paint = performance.getEntriesByType("paint").find((one) => one.name === "first-contentful-paint");
    const navigation = performance.getEntriesByType("navigation")[0];
    return [paint ? paint.startTime : navigation.loadEventEnd, navigation.loadEventEnd];
}"""


def tell(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def make_store(folder: Path, n_messages: int) -> Path:
    """Learn the sample, and list numbered copies of its messages."""
    store, path = folder / "mail.tamis", folder / "mail.mbox"
    sample = [*messages()]
    with Sieve.open(store) as sieve:
        for label in ("spam", "ham"):
            sieve.learn_many([one.raw for one in sample if one.label == label], label, processes=1)
        verdicts = [(one.label, one.probability) for one in sieve.sort_batch([one.raw for one in sample])]
    with path.open("wb") as file:
        for number, one in enumerate(islice(cycle(sample), n_messages)):
            raw = one.raw.replace(b"\r\n", b"\n").replace(b"\nFrom ", b"\n>From ")
            file.write(_POSTMARK + b"X-Number: %d\n" % number + raw.rstrip(b"\n") + b"\n\n")
    with closing(Catalog.of(store)) as catalog:
        source = catalog.add_source(str(path))
        found = scan_path(catalog, source, str(path))
        for number, batch in enumerate(_batches(found)):
            catalog.add_messages(one.entry for one in batch)
            catalog.note_verdicts(
                (one.entry.digest, *verdicts[(number * _BATCH + place) % len(verdicts)])
                for place, one in enumerate(batch)
            )
    return store


def _batches(found: Iterator[FoundMessage]) -> Iterator[list[FoundMessage]]:
    return iter(lambda: [*islice(found, _BATCH)], [])


def measure(tab: Page, address: str, repeats: int) -> tuple[list[float], list[float]]:
    """Open an address several times; return the times of the first paint and of the end of loading."""
    paints, loads = [], []
    for _ in range(repeats):
        response = tab.goto(address, wait_until="load")
        if response is None or response.status != 200:
            raise ValueError(f"{address} was answered by {response and response.status}, expected 200")
        paint, load = tab.evaluate(_TIMES)
        paints.append(paint)
        loads.append(load)
    return paints, loads


def read_memory(process: int) -> int:
    """Return the proportional set size of a process, in bytes."""
    text = Path(f"/proc/{process}/smaps_rollup").read_text()
    return next(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Pss:"))


def main() -> int:
    """Fill a catalog, and measure; return 1 if a view takes too long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--pages", type=int, default=200)
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        begun = time.monotonic()
        store = make_store(folder, options.messages)
        tell(f"{options.messages:,} messages were listed in {time.monotonic() - begun:.0f} s")
        with closing(Catalog.of(store)) as catalog:
            digest = catalog.list_page(Query(order="newest")).rows[0].digest.hex()
        with run_page(folder, store) as server:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            tab = browser.new_page()
            tab.goto(server.address)
            views = {
                "mail, unsure first": "/",
                "mail, newest first": "/?order=newest",
                "spam only": "/?verdict=spam",
                "learned as spam, called ham": "/?label=spam&verdict=ham",
                "search, a common word": "/?text=re",
                "search, a sender": "/?text=rakitin",
                "search, no match": "/?text=qqqq",
                "message": f"/messages/{digest}",
                "journal": "/journal",
                "learning": "/learning",
                "model room": "/rooms",
                "settings": "/settings",
            }
            page_through(tab, server.root, server.process.pid, options.pages)
            slowest = 0.0
            tell(f"{'view':<30}{'first paint':>12}{'(largest)':>12}{'loaded':>12}{'(largest)':>12}")
            for title, path in views.items():
                try:
                    paints, loads = measure(tab, server.root + path, options.repeats)
                except ValueError as error:
                    tell(f"{title:<30}  {error}")
                    continue
                slowest = max(slowest, statistics.median(loads))
                cells = (statistics.median(paints), max(paints), statistics.median(loads), max(loads))
                tell(f"{title:<30}" + "".join(f"{cell:>9.0f} ms" for cell in cells))
            browser.close()
    tell(f"slowest view: {slowest:.0f} ms of {_LIMIT} ms")
    return int(slowest > _LIMIT)


def page_through(tab: Page, root: str, process: int, n_pages: int) -> None:
    """Read page after page, and print the memory and the time on the way."""
    tab.goto(f"{root}/?order=newest")
    browser = tab.context.new_cdp_session(tab)
    tell(f"{'page':<30}{'server':>12}{'JavaScript':>12}{'loaded':>12}")
    for number in range(1, n_pages + 1):
        if number == 1 or not number % (n_pages // 4):
            browser.send("HeapProfiler.collectGarbage")
            heap = browser.send("Runtime.getHeapUsage")["usedSize"]
            _, load = tab.evaluate(_TIMES)
            memory = read_memory(process)
            tell(f"{number:<30}{memory / 1e6:>9.0f} MB{heap / 1e6:>9.1f} MB{load:>9.0f} ms")
        following = tab.locator('a[rel="next"]')
        if not following.count():
            return
        tab.goto(root + str(following.get_attribute("href")), wait_until="load")


if __name__ == "__main__":
    sys.exit(main())
