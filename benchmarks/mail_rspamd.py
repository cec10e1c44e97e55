"""rspamd's Bayes classifier on a Redis server, without its other modules: how many messages it judges."""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.surfaces.peers.daemon import find_free_port

__all__ = ["count_processor_seconds", "has_rspamd", "measure_rspamd"]

CONNECTIONS = 8
START_SECONDS = 60.0
_JUDGED = "Metric: default"  # in the answer for each message that was judged
CONFIGURATION = """
options {{
  pidfile = "{folder}/pid"; filters = ""; history_file = "{folder}/history";
  control_socket = "{folder}/control mode=0600"; dns {{ nameserver = ["127.0.0.1:1"]; timeout = 0.1s; }}
}}
logging {{ type = "file"; filename = "{folder}/log"; level = "error"; }}
lua = "{folder}/empty.lua";
worker "normal" {{ bind_socket = "127.0.0.1:{normal}"; count = 2; }}
worker "controller" {{ bind_socket = "127.0.0.1:{controller}"; count = 1; secure_ip = "127.0.0.1"; }}
classifier "bayes" {{
  tokenizer {{ name = "osb"; }}
  backend = "redis"; servers = "{redis}"; new_schema = true; min_learns = 10; min_tokens = 1;
  statfile {{ symbol = "BAYES_HAM"; spam = false; }}
  statfile {{ symbol = "BAYES_SPAM"; spam = true; }}
}}
metric {{
  name = "default"; actions {{ reject = 15; }}
  group "bayes" {{ symbol "BAYES_SPAM" {{ weight = 4; }} symbol "BAYES_HAM" {{ weight = -3; }} }}
}}
"""


def has_rspamd() -> bool:
    """Whether rspamd and its client are installed."""
    return all(shutil.which(name) for name in ("rspamd", "rspamc"))


def measure_rspamd(
    redis: str, mail: Mapping[str, Sequence[bytes]], folder: Path, seconds: float
) -> dict[str, float]:
    """Learn messages of spam and ham, then judge them again and again; `redis` is a host and a port."""
    ports = {name: find_free_port() for name in ("normal", "controller")}
    configuration = folder / "rspamd.conf"
    configuration.write_text(CONFIGURATION.format(folder=folder, redis=redis, **ports), encoding="utf-8")
    (folder / "empty.lua").touch()
    files: dict[str, list[str]] = {}
    for label, messages in mail.items():
        for number, raw in enumerate(messages):
            path = folder / f"{label}{number}.eml"
            path.write_bytes(raw)
            files.setdefault(label, []).append(str(path))
    with subprocess.Popen(
        ["rspamd", "-i", "-f", "-c", str(configuration)], stderr=subprocess.DEVNULL
    ) as server:
        try:
            end = time.monotonic() + START_SECONDS
            everything = [path for paths in files.values() for path in paths]
            # rspamc prints "Results for file" for a connection that was refused, too.
            while not (
                _JUDGED in _ask(ports["normal"], "symbols", everything[:1])
                and "Messages scanned" in _ask(ports["controller"], "stat", [])
            ):
                if time.monotonic() > end:
                    raise SystemExit("rspamd does not answer: see its log")
                time.sleep(0.1)
            learned = 0
            for label, paths in files.items():
                learned += _ask(ports["controller"], f"learn_{label}", paths).count("success = true")
            judged, with_bayes, begun = 0, 0, time.perf_counter()
            processor = count_processor_seconds(server.pid)
            while time.perf_counter() < begun + seconds:
                answer = _ask(ports["normal"], "symbols", everything)
                judged += answer.count(_JUDGED)
                with_bayes += answer.count("Symbol: BAYES")
            spent = time.perf_counter() - begun
            processor = count_processor_seconds(server.pid) - processor
        finally:
            server.terminate()
    if not with_bayes:
        raise SystemExit(f"rspamd judged {judged} messages, and none of them by its Bayes classifier")
    return {
        "rspamd: learned messages": learned,
        "rspamd: judged messages": judged,
        "rspamd: of these with a Bayes symbol": with_bayes,
        "rspamd: messages per second": judged / spent,
        "rspamd: messages per second of processor time": judged / processor,
    }


def _ask(port: int, command: str, paths: Sequence[str]) -> str:
    words = ["rspamc", "-n", str(CONNECTIONS), "-h", f"127.0.0.1:{port}", command, *paths]
    return subprocess.run(words, capture_output=True, check=False).stdout.decode("utf-8", "replace")


def count_processor_seconds(process: int) -> float:
    """Return the processor time of a process and of its children."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()
    ticks = 0
    for number in (process, *map(int, children)):
        fields = Path(f"/proc/{number}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
