"""How much CPU time one hostile message takes, stage by stage.

    python -m benchmarks.mail_bounds [--size 1000000] [--largest 12] [--only WORD] [--worst 5]

Each case repeats one structure of mail: fields, addresses, encoded words, parameters, parts, tags, marks,
charsets and so on. Each is made at 100 KB and at `--size` bytes, and the cases that are dearest there are
made once more at the size limit of the filter (50 MB). The table lists the dearest cases of each stage. The
bounds are 0.3 s per MB for all stages together, beside 50 ms for small messages, and 1 s for any message; the
exit status is 1 if a case is above them.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.hostile_mail import CASES
from tamis_mail import Sieve, features, tokens
from tamis_mail.framing import LARGEST
from tamis_mail.message import canonical, digest, parse
from tamis_mail.reporting.gram_spans import join_grams
from tamis_mail.verdict import Rule, judge

__all__ = ["CONSTANT", "PER_MB", "PER_MESSAGE", "STAGES", "allowed_seconds", "measure"]

STAGES = ("canonical", "digest", "parse", "tokens", "features", "verdict", "explain")
PER_MB = 0.3  # seconds
PER_MESSAGE = 1.0
CONSTANT = 0.05  # a short message costs some milliseconds, whatever is in it
_SMALL = 100_000
_AGAIN = 2  # measurements of a case that seems to be above the bound: the least counts
_HEAD = 4000  # characters in which `tamis explain` looks for grams


class Cost(NamedTuple):
    """CPU seconds of one case."""

    case: str
    size: int
    seconds: dict[str, float]  # by stage

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


def allowed_seconds(size: int) -> float:
    """The CPU time that a message of so many bytes may take."""
    return min(PER_MESSAGE, CONSTANT + PER_MB * size / 1e6)


def measure(raw: bytes, sieve: Sieve) -> dict[str, float]:
    """CPU seconds of each stage for a message, as if all of its features had been learned as spam."""
    store = sieve.store
    labels, rule, unit = store.labels(), Rule.of(store), store.message_weight()
    learned = tuple(unit if label.name == "spam" else 0 for label in labels)
    seconds: dict[str, float] = {}

    @contextmanager
    def clock(stage: str) -> Iterator[None]:
        start = time.process_time()
        yield
        seconds[stage] = time.process_time() - start

    with clock("canonical"):
        plain = canonical(raw)
    with clock("digest"):
        digest(plain)
    with clock("parse"):
        message = parse(plain)
    with clock("tokens"):
        read = tokens.read(message)
    with clock("features"):
        keys = features.hash_tokens(read)
    with clock("verdict"):
        with store.snapshot():
            counts = store.counts(keys)
        verdict = judge(
            dict.fromkeys(counts, learned), labels, rule, unit, lambda: features.name_features(read)
        )
    with clock("explain"):
        evidence = verdict.evidence
        join_grams(plain[:_HEAD].decode("utf-8", "replace"), [one for one in evidence if one.view == "grams"])
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=int, default=1_000_000, help="bytes of a large message")
    parser.add_argument("--largest", type=int, default=12, help="cases to repeat at the size limit")
    parser.add_argument("--only", default="", help="cases with this in their name")
    parser.add_argument("--worst", type=int, default=5, help="cases to print for each stage")
    options = parser.parse_args()
    chosen = {name: make for name, make in CASES.items() if options.only in name}
    with tempfile.TemporaryDirectory() as folder, Sieve.open(Path(folder) / "bounds.tamis") as sieve:
        for number in range(20):
            sieve.learn(b"Subject: lunch %d\n\nAt noon, as always?" % number, ("spam", "ham")[number % 2])
        measure(b"Subject: hello\nContent-Type: text/html\n\n<p>caf\xe9</p>", sieve)  # loads what is lazy
        small = [_cost(name, make, _SMALL, sieve) for name, make in chosen.items()]
        _print_table("small", small, options.worst)
        large = [_cost(name, make, options.size, sieve) for name, make in chosen.items()]
        _print_table("large", large, options.worst)
        largest = [_cost(name, chosen[name], LARGEST, sieve) for name in _dearest(large, options.largest)]
        _print_table("largest", largest, options.worst)
    above = [cost for cost in (*small, *large, *largest) if cost.total > allowed_seconds(cost.size)]
    sys.stdout.write(
        f"\n{len(small) + len(large) + len(largest)} messages of {len(chosen)} cases, "
        f"{len(above)} above the bound\n"
    )
    sys.stdout.writelines(
        f"    {cost.case}, {cost.size:,} bytes: {cost.total:.3f} s of {allowed_seconds(cost.size):.3f} s\n"
        for cost in above
    )
    return int(bool(above))


def _cost(name: str, make: Callable[[int], bytes], size: int, sieve: Sieve) -> Cost:
    raw = make(size)
    best = Cost(name, len(raw), measure(raw, sieve))
    for _ in range(_AGAIN):
        if best.total <= allowed_seconds(len(raw)):
            break
        again = Cost(name, len(raw), measure(raw, sieve))
        best = min(best, again, key=lambda cost: cost.total)
    return best


def _dearest(costs: list[Cost], most: int) -> list[str]:
    """The names of the dearest cases: in all, and of each stage."""
    names: dict[str, None] = {}
    ranked = [sorted(costs, key=lambda cost: -cost.total)]
    ranked += [sorted(costs, key=lambda cost, stage=stage: -cost.seconds[stage]) for stage in STAGES[:4]]  # type: ignore[misc]
    for row in zip(*ranked, strict=True):
        names.update(dict.fromkeys(cost.case for cost in row))
    return list(names)[:most]


def _print_table(title: str, costs: list[Cost], worst: int) -> None:
    sys.stdout.write(f"\n{title}: CPU seconds, the dearest cases of each stage\n")
    for stage in (*STAGES, "total"):

        def seconds(cost: Cost, stage: str = stage) -> float:
            return cost.total if stage == "total" else cost.seconds[stage]

        for cost in sorted(costs, key=seconds, reverse=True)[:worst]:
            spent = seconds(cost)
            rate = spent / cost.size * 1e6
            sys.stdout.write(f"{stage:<10}{spent:8.3f} s{rate:8.3f} s/MB{cost.size:12,} bytes  {cost.case}\n")


if __name__ == "__main__":
    sys.exit(main())
