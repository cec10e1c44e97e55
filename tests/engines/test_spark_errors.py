"""Spark's errors, a page of Java each, become one line that names the exception in the code of a task."""

import re
import traceback

import pytest

from tamis.engines.spark import explain_failures

SparkError = type("SparkError", (Exception,), {"__module__": "pyspark.errors"})


class EndOfRows(Exception):  # noqa: N818 (a name that does not end in Error)
    """An exception of a user's code."""


def fail_without_text() -> None:
    raise AssertionError


def fail_with_another_name() -> None:
    raise EndOfRows("at row 7")


def fail_with_two_lines() -> None:
    raise ValueError("first line\nsecond line: WrongError: no")


def fail_while_handling() -> None:
    try:
        raise KeyError("x")
    except KeyError:
        raise ValueError("no column x") from None


def fail_in_a_chain() -> None:
    try:
        raise KeyError("x")
    except KeyError as error:
        raise TypeError("no column x") from error


def fail_in_a_handler() -> None:
    try:
        raise KeyError("x")
    except KeyError:
        fail_without_text()


CAUSES = {
    fail_without_text: "AssertionError",
    fail_with_another_name: f"{__name__}.EndOfRows: at row 7",
    fail_with_two_lines: "ValueError: first line",
    fail_while_handling: "ValueError: no column x",
    fail_in_a_chain: "TypeError: no column x",
    fail_in_a_handler: "AssertionError",
}


@pytest.mark.parametrize("fail", CAUSES)
def test_the_exception_of_a_task_is_named_in_one_line(fail) -> None:  # type: ignore[no-untyped-def]
    try:
        fail()
    except Exception:  # noqa: BLE001 (as a worker of Spark does)
        text = traceback.format_exc()
    stage = "An error occurred while calling o5.collect.\n: org.apache.spark.SparkException: Job aborted"
    java = "\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:581)\n"
    for page in (
        f"\n  An exception was thrown from the Python worker:\n{text}",
        f"{stage}: {text}\n{java}\nDriver stacktrace:\n{java}Caused by: PythonException: {text}\n{java}",
    ):
        expected = f"Spark did not finish the work, nothing was learned: {CAUSES[fail]}"
        with pytest.raises(RuntimeError, match=f"^{re.escape(expected)}$"), explain_failures():
            raise SparkError(page)


def test_without_a_traceback_the_first_line_is_the_cause() -> None:
    for page, cause in (("\n  no space left\n\tat x.y\n", "no space left"), ("", "no reason given")):
        with pytest.raises(RuntimeError, match=rf"nothing was learned: {cause}$"), explain_failures():
            raise SparkError(page)
