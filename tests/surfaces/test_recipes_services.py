"""The recipes for systemd, Prometheus and Thunderbird name options, metrics and fields that exist."""

import re
import shlex
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from urllib.request import urlopen

import pytest

from tamis_mail.serving.listeners import Listener
from tamis_mail.serving.metrics import PrometheusMetrics
from tamis_mail.surfaces.cli import command_line
from tamis_mail.verdict import Judgement, Verdict
from tamis_mail.verdict.header_fields import add_verdict
from tests.surfaces.peers.daemon import find_free_port

CONTRIB = Path(__file__).parents[2] / "contrib"
UNITS = sorted((CONTRIB / "systemd").glob("*.service"))
_PROGRAM = "/usr/local/bin/tamis"
_PROGRAM_OF_USER = "%h/.local/bin/tamis"
# The greatest exposure, in tenths of systemd's figure: 0 is no access, 100 all. The unit of a user reads the
# mail of that user, and a user's systemd may not give it namespaces of its own.
_EXPOSURE, _EXPOSURE_OF_USER = 15, 65
needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed (apt install systemd)"
)


def is_of_user(unit: Path) -> bool:
    """Whether a user's own systemd runs the unit."""
    return "WantedBy=default.target" in unit.read_text()


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_starts_a_command_that_exists(unit: Path) -> None:
    (line,) = re.findall(r"(?m)^ExecStart=(.*)$", unit.read_text())
    program, *words = shlex.split(line)
    assert program == (_PROGRAM_OF_USER if is_of_user(unit) else _PROGRAM)
    words = [word.replace("%i", "home").replace("%h", "/home/ann") for word in words]
    options = command_line(words[0]).parse_args(words)
    assert (options.command, options.action) == (words[0], words[1])


@pytest.mark.peers
@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_understands_a_unit_and_finds_it_confined(unit: Path, tmp_path: Path) -> None:
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace(_PROGRAM_OF_USER, "/bin/true").replace(_PROGRAM, "/bin/true"))
    exposure = _EXPOSURE_OF_USER if is_of_user(unit) else _EXPOSURE
    for words in (["verify", "--man=no"], ["security", "--offline=true", f"--threshold={exposure}"]):
        done = subprocess.run(["systemd-analyze", *words, str(copy)], capture_output=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()
        if words[0] == "verify":
            assert done.stderr == b""


@pytest.mark.skipif(find_spec("prometheus_client") is None, reason="prometheus-client is not installed")
def test_the_rules_for_prometheus_name_metrics_that_are_served(tmp_path: Path) -> None:
    port = find_free_port()
    metrics = PrometheusMetrics(Listener("127.0.0.1", port), tmp_path / "mail.tamis")
    try:
        metrics.count_verdict("spam", 0.1)
        metrics.count_fault("store")
        metrics.count_fault("next-hop")
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as page:
            served = page.read().decode()
    finally:
        metrics.close()
    rules = (CONTRIB / "prometheus" / "tamis-rules.yml").read_text()
    names = set(re.findall(r'tamis_\w+(?:\{kind="[\w-]+"\})?', rules))
    assert len(names) == 4
    for name in names:
        assert re.search(rf"(?m)^{re.escape(name)}[ {{]", served), name


# The rules of Thunderbird 153 (isp/SpamAssassin.sfd, isp/Bogofilter.sfd): a field, and how it begins.
JUNK = {
    "spamassassin": [(b"X-Spam-Status", b"Yes"), (b"X-Spam-Flag", b"YES")],
    "bogofilter": [(b"X-Bogosity", b"Spam"), (b"X-Bogosity", b"Y")],
}
GOOD = {
    "spamassassin": [(b"X-Spam-Status", b"No")],
    "bogofilter": [(b"X-Bogosity", b"Ham"), (b"X-Bogosity", b"N")],
}


def meets(raw: bytes, rules: list[tuple[bytes, bytes]]) -> bool:
    return any(re.search(rb"(?m)^%s: %s" % rule, raw) for rule in rules)


@pytest.mark.parametrize("dialect", ["spamassassin", "bogofilter"])
@pytest.mark.parametrize("label", ["spam", "ham", "unsure", "work"])
def test_thunderbird_trusts_the_verdict(dialect: str, label: str) -> None:
    forged = b"X-Spam-Status: Yes\nX-Spam-Flag: YES\nX-Bogosity: Spam\nSubject: a\n\nb\n"
    verdict = Verdict(Judgement(label, 0.999 if label == "spam" else 0.1, 0.0, {}), tuple)
    raw = add_verdict(forged, verdict, dialect=dialect, required=0.97, version="0")
    assert meets(raw, JUNK[dialect]) == (label == "spam")
    assert meets(raw, GOOD[dialect]) == (label in ("ham", "work"))


@pytest.mark.peers
@pytest.mark.parametrize("name", ["SpamAssassin", "Bogofilter"])
def test_the_rules_are_those_of_thunderbird(name: str) -> None:
    path = Path("/usr/share/thunderbird/isp") / f"{name}.sfd"
    if not path.exists():
        pytest.skip("Thunderbird is not installed")
    conditions = re.findall(r'(?m)^condition="(.*)"$', path.read_text())
    for condition, rules in zip(conditions, (JUNK[name.lower()], GOOD[name.lower()]), strict=True):
        found = re.findall(r'\(\\"([\w-]+)\\",begins with,(\w+)\)', condition)
        assert [(field.encode(), start.encode()) for field, start in found] == rules
