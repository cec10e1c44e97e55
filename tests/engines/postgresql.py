"""Runs PostgreSQL in a folder of its own, at a Unix socket: no port, no file outside of the folder."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MISSING = "needs PostgreSQL's initdb and pg_ctl, which are not installed: apt-get install postgresql"


def find_program(name: str) -> str | None:
    """The path of a program; Debian keeps those of PostgreSQL outside of PATH."""
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(installed[-1]) if installed else None)


@contextmanager
def run_postgresql() -> Iterator[str]:
    """Start a server and yield what `psycopg.connect` takes; stop it and remove its folder at the end."""
    initdb, pg_ctl = find_program("initdb"), find_program("pg_ctl")
    assert initdb is not None, MISSING
    assert pg_ctl is not None, MISSING
    # The programs refuse to run as root.
    user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}

    def run(*words: str) -> None:
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, timeout=60, cwd="/", **identity)  # type: ignore[call-overload]

    with tempfile.TemporaryDirectory(prefix="tamis-pg-", ignore_cleanup_errors=True) as folder:
        if user:
            os.chown(folder, user.pw_uid, user.pw_gid)
        data = f"{folder}/data"
        run(initdb, "-D", data, "-A", "trust", "-U", "tamis", "-E", "UTF8", "--locale=C", "--no-sync")
        options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
        run(pg_ctl, "-D", data, "-l", f"{folder}/log", "-o", options, "-w", "start")
        try:
            yield f"host={folder} user=tamis dbname=postgres"
        finally:
            run(pg_ctl, "-D", data, "-m", "immediate", "-w", "stop")
