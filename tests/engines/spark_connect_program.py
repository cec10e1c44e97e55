"""Fit models through Spark Connect and print what they learned, one line of JSON: run by test_spark_connect.

A process has either a classic session or one of Spark Connect, so this is a program of its own.
"""

import json
import os
import sys
import warnings
from base64 import b64encode
from typing import Any

import numpy as np
import pyarrow as pa

import tamis
from tamis.engines.messages import encode


def make_rows() -> pa.Table:
    rng = np.random.default_rng(22)
    labels = np.array(["ham", "spam"])[rng.integers(0, 2, 200)]
    columns: dict[str, Any] = {name: rng.normal(size=200) + (labels == "spam") for name in ("a", "b")}
    return pa.table(columns | {"label": labels})


def main() -> None:
    from pyspark.sql import SparkSession  # noqa: PLC0415 (where it is missing, the test is skipped)

    warnings.simplefilter("ignore")  # pyspark warns of pandas 3, and leaves sockets open
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.remote("local[2]")
    session = builder.config("spark.ui.enabled", "false").config("spark.driver.memory", "512m").getOrCreate()
    frame = session.createDataFrame(make_rows()).repartition(3)
    counted = tamis.GaussianNB().fit(frame, "label")
    logistic = tamis.LogisticRegression().fit(frame, "label")
    session.stop()
    try:
        tamis.GaussianNB().fit(frame, "label")
        message = ""
    except RuntimeError as problem:
        message = str(problem)
    answer = {
        "frame": type(frame).__module__,
        "counted": b64encode(encode(counted.statistic_)).decode(),
        "coefficients": logistic.coef_.tolist(),
        "after the end": message,
    }
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
