"""Each case against its peer, side by side: `python -m benchmarks`."""
