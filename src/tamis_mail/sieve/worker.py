"""jobs on standard input → results on standard output: the other end of `pool`.

Results are written to a copy of the output, so that nothing a job may print gets between them. An interrupt
from the keyboard reaches the whole group of processes; the parent alone answers it.
"""

import gc
import os
import signal
import sys

from tamis_mail.sieve.pool import receive, send


def main() -> None:
    """Do jobs until there are no more."""
    gc.disable()  # nothing here makes cycles, and looking for them takes a tenth of the time
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            job, arguments = receive(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = (True, job(*arguments))
        except Exception as error:  # noqa: BLE001 (told to the parent, which raises it)
            answer = (False, error)
        try:
            send(answers, answer)
        except BrokenPipeError:
            return
