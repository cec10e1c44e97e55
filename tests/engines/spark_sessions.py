"""A Spark cluster on this machine: two executors in processes of their own, on two hosts, with speculation.

Spark runs the second attempt of a slow task on another host only, and not at all in its local modes. So a
master and two workers are started here, whose hosts are two addresses of the loopback interface.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
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
_HOSTS = ("127.0.0.2", "127.0.0.3")


def find_reason_to_skip() -> str:
    """Say what is missing for a session; "" if nothing is."""
    if find_spec("pyspark") is None:
        return "pyspark is not installed: tools/engine_programs installs it"
    if not sys.platform.startswith("linux"):
        return "the loopback interface has one address only, expected two: use Linux"
    return "" if shutil.which("java") else "Java is not installed: apt install default-jre-headless"


@contextmanager
def run_cluster(folder: Path) -> Iterator[Any]:
    """A session of a cluster that keeps its files in the folder."""
    import pyspark  # noqa: PLC0415 (where it is missing, tests are skipped)
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    os.environ |= {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": "--driver-memory 512m pyspark-shell",
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    gateway = launch_gateway()
    java, deploy = gateway.jvm, gateway.jvm.org.apache.spark.deploy
    own = java.org.apache.spark.SparkConf(False).set("spark.ui.enabled", "false")
    master = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, own)._1()
    servers, urls = [master], gateway.new_array(java.java.lang.String, 1)
    urls[0] = f"spark://127.0.0.1:{master.address().port()}"
    for number, host in enumerate(_HOSTS):
        servers.append(
            deploy.worker.Worker.startRpcEnvAndEndpoint(
                host,
                0,
                0,
                1,  # core
                512,  # MB
                urls,
                str(folder / host),
                java.scala.Option.apply(number),
                own,
                java.scala.Option.empty(),
            )
        )
    settings = (
        pyspark.SparkConf(_jvm=java).setMaster(urls[0]).setAppName("tamis").setAll(list(SETTINGS.items()))
    )
    context = pyspark.SparkContext(conf=settings, gateway=gateway)
    context.setLogLevel("OFF")
    try:
        yield SparkSession(context)
    finally:
        context.stop()
        for server in reversed(servers):
            server.shutdown()
