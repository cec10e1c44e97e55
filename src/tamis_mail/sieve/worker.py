"""The program of a worker process of `pool`: read jobs from standard input, write results to standard output.

Results go to a duplicate of the descriptor of standard output, which is then redirected to standard error,
so that a job that prints cannot damage results. Ctrl-C sends SIGINT to all processes of the terminal; workers
ignore it, and the parent stops them.
"""

import os
import signal
import sys
from typing import BinaryIO

from tamis_mail.sieve.executor import find_job
from tamis_mail.sieve.open_stores import keep_stores_open
from tamis_mail.sieve.pipe import receive, send


def main() -> None:
    """Run jobs until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with keep_stores_open():
        _run_jobs(results)


def _run_jobs(results: BinaryIO) -> None:
    while True:
        try:
            job, arguments = receive(sys.stdin.buffer)
        except EOFError:
            return
        try:
            result = (True, find_job(job)(*arguments))
        except Exception as error:  # noqa: BLE001 (sent to the parent, which raises it)
            result = (False, error)
        try:
            send(results, result)
        except BrokenPipeError:
            return
