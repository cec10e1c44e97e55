"""a message → its probability by the Bayes classifiers of SpamAssassin and rspamd, each run as a daemon.

Rules, network tests and everything else of both programs are off; the classifier has the settings it comes
with, so that it is unsure of every message until it has learned 200 spam and 200 ham. Neither program calls
mail spam by its classifier alone. Here spam is a probability of 0.95 or more, and ham one of 0.05 or less.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from benchmarks.mail_answer import FAILED, Answer
from benchmarks.mail_corpus import give_up
from tamis_mail.labels import HAM, SPAM, UNSURE

__all__ = ["Rspamd", "SpamAssassin"]

_SPAM, _HAM = 0.95, 0.05
_START = 60  # seconds that a daemon may take to start
_ANSWER = 120  # seconds that it may take to answer

_PRE = "loadplugin Mail::SpamAssassin::Plugin::Check\nloadplugin Mail::SpamAssassin::Plugin::Bayes\n"
_RULES = """use_bayes 1
bayes_path {folder}/bayes
bayes_file_mode 0777
bayes_auto_learn 0
body BAYES_ANY eval:check_bayes('0.00', '1.00')
score BAYES_ANY 1
add_header all Bayes _BAYES_
"""

_RSPAMD = """
options {{ pidfile = "{folder}/pid"; filters = []; control_socket = "{folder}/control"; temp_dir = "{folder}";
  url_tld = "/usr/share/rspamd/effective_tld_names.dat"; disable_monitoring = true; local_addrs = []; }}
logging {{ type = "file"; filename = "{folder}/log"; level = "error"; }}
worker "normal" {{ bind_socket = "{folder}/judge mode=0666"; count = 1; }}
worker "controller" {{ bind_socket = "{folder}/learn mode=0666"; count = 1;
  password = "q1"; enable_password = "q1"; }}
classifier "bayes" {{
  tokenizer {{ name = "osb"; }}
  backend = "sqlite3"; languages_enabled = true; min_tokens = 11; min_learns = 200;
  cache {{ type = "sqlite3"; path = "{folder}/cache.sqlite"; }}
  statfile {{ symbol = "BAYES_HAM"; path = "{folder}/ham.sqlite"; spam = false; }}
  statfile {{ symbol = "BAYES_SPAM"; path = "{folder}/spam.sqlite"; spam = true; }}
}}
metric {{ name = "default"; actions {{ reject = 1000000; }} }}
"""


def _call(probability: float) -> str:
    return SPAM if probability >= _SPAM else HAM if probability <= _HAM else UNSURE


class _Daemon:
    """A process that ends when the filter is closed."""

    def __init__(self, words: Sequence[str], sockets: Sequence[Path]) -> None:
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        begun = time.monotonic()
        while not all(path.exists() and _can_connect(path) for path in sockets):
            if self._process.poll() is not None or time.monotonic() - begun > _START:
                self.close()
                give_up(f"{words[0]} did not start; run it in a terminal to see why: {' '.join(words)}")
            time.sleep(0.1)

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_ANSWER)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _can_connect(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as one:
        try:
            one.connect(str(path))
        except OSError:
            return False
    return True


class SpamAssassin:
    """`spamd` with its Bayes plugin alone; PROCESS judges a message, TELL learns it."""

    def __init__(self, folder: Path) -> None:
        (folder / "init.pre").write_text(_PRE, encoding="ascii")
        (folder / "local.cf").write_text(_RULES.format(folder=folder), encoding="utf-8")
        folder.chmod(0o777)
        self._path = folder / "socket"
        words = [
            "spamd",
            "--configpath",
            str(folder),
            "--siteconfigpath",
            str(folder),
            "--local",
            "--allow-tell",
        ]
        words += ["--nouser-config", "--socketpath", str(self._path), "--socketmode", "0666"]
        words += ["--max-children", "1", "--helper-home-dir", str(folder), "--syslog", "null"]
        words += ["--username", "nobody"] if os.geteuid() == 0 else []
        self._daemon = _Daemon(words, [self._path])

    def judge(self, raw: bytes) -> Answer:
        answer = self._ask("PROCESS", raw)
        for line in answer.split(b"\n"):
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"x-spam-bayes":
                with contextlib.suppress(ValueError):
                    probability = float(value)
                    return Answer(probability, probability, _call(probability))
        return FAILED

    def learn(self, raw: bytes, label: str) -> None:
        self._ask("TELL", raw, f"Message-class: {label}\r\nSet: local\r\n")

    def _ask(self, verb: str, raw: bytes, more: str = "") -> bytes:
        head = f"{verb} SPAMC/1.5\r\nContent-length: {len(raw)}\r\n{more}\r\n"
        parts = []
        with socket.socket(socket.AF_UNIX) as connection, contextlib.suppress(OSError):
            connection.settimeout(_ANSWER)
            connection.connect(str(self._path))
            connection.sendall(head.encode() + raw)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                parts.append(part)
        return b"".join(parts)

    def close(self) -> None:
        self._daemon.close()


class Rspamd:
    """`rspamd` with its classifier alone: one worker judges, the controller learns."""

    def __init__(self, folder: Path) -> None:
        config = folder / "rspamd.conf"
        config.write_text(_RSPAMD.format(folder=folder), encoding="utf-8")
        folder.chmod(0o777)
        self._judge, self._learn = folder / "judge", folder / "learn"
        user = ["-u", "_rspamd", "-g", "_rspamd"] if os.geteuid() == 0 else []
        if user:
            shutil.chown(folder, "_rspamd", "_rspamd")
        self._daemon = _Daemon(["rspamd", "-f", *user, "-c", str(config)], [self._judge, self._learn])

    def judge(self, raw: bytes) -> Answer:
        try:
            symbols = json.loads(_post(self._judge, "/checkv2", raw))["symbols"]
        except (OSError, HTTPException, ValueError, KeyError):
            return FAILED
        for name in ("BAYES_SPAM", "BAYES_HAM"):
            if name in symbols:
                stated = (
                    float(symbols[name]["options"][0].rstrip("%")) / 100
                )  # of the kind that the symbol names
                probability = stated if name == "BAYES_SPAM" else 1.0 - stated
                return Answer(probability, probability, _call(probability))
        return Answer(0.5, 0.5, UNSURE)

    def learn(self, raw: bytes, label: str) -> None:
        with contextlib.suppress(OSError, HTTPException):
            _post(self._learn, f"/learn{label}", raw)

    def close(self) -> None:
        self._daemon.close()


class _UnixConnection(HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_ANSWER)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_ANSWER)
        self.sock.connect(str(self._path))


def _post(path: Path, address: str, raw: bytes) -> bytes:
    connection = _UnixConnection(path)
    try:
        connection.request("POST", address, raw, {"Password": "q1"})
        return connection.getresponse().read()
    finally:
        connection.close()
