"""Which rule for mail? python run.py DATA [--cache FOLDER] [--variants WORD …] [--streams WORD …]"""

import argparse
from pathlib import Path

import numpy as np

from rules import FIGURES, Variant, measure, run
from streams import make_streams

VARIANTS = (
    Variant("fixed"),
    Variant("learned", learned=True),
    Variant("learned, plain intercept", learned=True, plain_intercept=True),
    Variant("learned, narrow", learned=True, width=0.3),
    Variant("learned, wide", learned=True, width=3.0, offset_width=10.0),
    Variant("learned, cut", learned=True, cut=1.5),
    Variant("learned, cut, unseen 0.25", learned=True, cut=1.5, unseen=0.25),
    Variant("learned, age", learned=True, half_life=2.0),
    Variant("learned, layer", learned=True, layer=1.0),
    Variant("fixed, relations", relations=2.0),
    Variant("learned, relations", learned=True, width=0.5, relations=2.0),
    Variant("learned, relations, layer 1", learned=True, width=0.5, relations=2.0, layer=1.0),
    Variant("learned, relations, layer 0.1", learned=True, width=0.5, relations=2.0, layer=0.1),
    Variant("learned, relations, layer 0.02", learned=True, width=0.5, relations=2.0, layer=0.02),
    Variant("learned, relations, cut", learned=True, width=0.5, relations=2.0, cut=1.0),
    Variant("learned, relations, age", learned=True, width=0.5, relations=2.0, half_life=2.0),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, default=Path("/tmp/exp10"))
    parser.add_argument("--variants", nargs="*", help="names, all if none")
    parser.add_argument("--streams", nargs="*", help="words in names of streams, all if none")
    options = parser.parse_args()
    streams = [s for s in make_streams(options.data, options.cache) if not options.streams or any(word in s.name for word in options.streams)]
    groups: dict[str, list] = {}
    for stream in streams:
        groups.setdefault(stream.name.split(", order")[0].split(", draw")[0], []).append(stream)
    print("| stream | rule | " + " | ".join(FIGURES) + " |\n" + "|---" * (2 + len(FIGURES)) + "|")
    for group, members in groups.items():
        for variant in VARIANTS:
            if options.variants and variant.name not in options.variants:
                continue
            rows = np.array([measure(*run(stream, variant)) for stream in members])
            print(f"| {group} ({len(members)}) | {variant.name} | " + " | ".join(f"{x:.4g}" for x in rows.mean(axis=0)) + " |", flush=True)


if __name__ == "__main__":
    main()
