"""Every file of some folders as a message: parsed, learned, judged, passed through and forgotten.

    python -m benchmarks.mail_odd FOLDER … [--slowest 5]

Shows that nothing raises, how long the slowest took, that what is passed through is the same to the byte once
the added headers are removed, and that the store is empty when all is forgotten.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tamis_mail import Sieve
from tamis_mail.store import maintenance
from tamis_mail.verdict import header_fields

_LARGEST = 60 << 20  # a file above is an archive, not a message


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--slowest", type=int, default=5)
    options = parser.parse_args()
    times: list[tuple[float, str]] = []
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as folder, Sieve.open(Path(folder) / "odd.tamis") as sieve:
        for number, path in enumerate(_files(options.folders)):
            raw = path.read_bytes()
            start = time.perf_counter()
            faults += [f"{path}: {fault}" for fault in _treat(sieve, raw, ("spam", "ham")[number % 2])]
            times.append((time.perf_counter() - start, str(path)))
        for path in _files(options.folders):
            sieve.forget(path.read_bytes())
        left = sum(len(table.keys) for table in sieve.store.count_slices())
        faults += maintenance.check(sieve.store)
    sys.stdout.write(f"{len(times):,} messages, {len(faults)} faults, {left} features left at the end\n")
    for seconds, name in sorted(times, reverse=True)[: options.slowest]:
        sys.stdout.write(f"{seconds:8.3f} s  {name}\n")
    sys.stdout.writelines(f"{fault}\n" for fault in faults[:50])
    return int(bool(faults) or left > 0)


def _files(folders: list[Path]) -> Iterator[Path]:
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink() and path.stat().st_size < _LARGEST:
                yield path


def _treat(sieve: Sieve, raw: bytes, label: str) -> Iterator[str]:
    """Judge, learn, pass through; what went wrong."""
    try:
        verdict = sieve.sort(raw)
        for dialect in ("spamassassin", "bogofilter"):
            written = header_fields.add_verdict(raw, verdict, dialect=dialect, required=0.95, version="1")
            if header_fields.remove_verdict(written) != raw:
                yield f"is not the same after {dialect}'s headers were added and removed"
        sieve.learn(raw, label)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is a fault)
        yield f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    sys.exit(main())
