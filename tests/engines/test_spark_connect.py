"""Spark Connect: the same models through a server of Spark, in a process of its own."""

import json
import subprocess
import sys
from base64 import b64decode
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import tamis
from tamis.engines.messages import decode
from tests.engines.spark_connect_program import make_rows
from tests.engines.spark_sessions import find_reason_to_skip

ROOT = Path(__file__).parents[2]
REASON = find_reason_to_skip() or (
    "" if find_spec("grpc") else "grpcio is not installed: tools/engine_programs"
)
pytestmark = [pytest.mark.engines, pytest.mark.skipif(bool(REASON), reason=REASON)]


def test_a_server_of_spark_fits_the_models_of_one_process() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.engines.spark_connect_program"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    rows = make_rows()
    columns, labels = rows.select(["a", "b"]), rows["label"].to_pylist()
    assert ".connect." in answer["frame"]
    assert decode(b64decode(answer["counted"])) == tamis.GaussianNB().fit(columns, labels).statistic_
    expected = tamis.LogisticRegression().fit(columns, labels)
    np.testing.assert_allclose(answer["coefficients"], expected.coef_, rtol=1e-6)
    assert answer["after the end"].startswith("Spark did not finish the work, nothing was learned: ")
