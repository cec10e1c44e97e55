"""bogofilter beside the rules: one process judges a message and one learns it, with default settings."""

import subprocess
import tempfile

import numpy as np
from streams import Stream

SPAM, HAM = 0.99, 0.45  # its default cutoffs
_NEAREST = 1e-16  # to 0 and 1; -TT prints 16 digits


def run_bogofilter(stream: Stream) -> np.ndarray:
    """The log-odds of each judged message; a probability of 0 if bogofilter says nothing."""
    letters, labels = stream.corpus.letters, stream.corpus.labels
    with tempfile.TemporaryDirectory() as folder:

        def call(flag: str, message: int) -> bytes:
            command = ["bogofilter", "-d", folder, flag]
            return subprocess.run(
                command, input=letters[message].raw, capture_output=True, check=False
            ).stdout

        probabilities = []
        for place, message in enumerate(stream.order.tolist()):
            if place >= stream.known:
                probabilities.append(float(call("-TT", message) or 0))
            if place < stream.known or stream.learns:
                call("-s" if labels[message] else "-n", message)
    p = np.array(probabilities)
    return np.log(np.maximum(p, _NEAREST)) - np.log(np.maximum(1 - p, _NEAREST))
