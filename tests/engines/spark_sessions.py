"""A Spark of this machine: two executors in processes of their own, with speculation."""

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.quantile": "0.5",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# pyspark 4.3 warns of every pandas from 3.0 on, which it works with all the same.
PANDAS = "ignore:PySpark does not yet fully support pandas:FutureWarning"


def find_reason_to_skip() -> str:
    """Say what is missing for a session; "" if nothing is."""
    if find_spec("pyspark") is None:
        return "pyspark is not installed: tools/engine_programs installs it"
    return "" if shutil.which("java") else "Java is not installed: apt install default-jre-headless"


def start_session(folder: Path) -> Any:
    """Start a session of two executors, which keep their files in the folder."""
    import pyspark  # noqa: PLC0415 (where it is missing, tests are skipped)
    from pyspark.sql import SparkSession  # noqa: PLC0415

    os.environ |= {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder),
    }
    builder = SparkSession.builder.master("local-cluster[2,1,512]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session
