"""Metrics for Prometheus: verdicts, seconds, faults, the size of the store and when it last changed.

The package `prometheus-client`, which the extra `tamis[daemons]` installs, counts verdicts and faults.
Without an address for metrics, nothing is counted, and the package is not imported.
"""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from tamis_mail.locations import find_local_path, is_address
from tamis_mail.serving.listeners import Listener


class Metrics:
    """The interface of metrics; for a daemon that serves none, this class counts nothing."""

    def count_verdict(self, label: str, seconds: float) -> None:
        """Count a verdict by its label, which may also be `unsure`, and the seconds that it took."""

    def count_fault(self, kind: str) -> None:
        """Count a fault by its kind, which names what failed.

        It is the `store`, the `protocol` that a client breaks, the `next-hop` to which LMTP passes mail on, a
        `mailbox` that is watched, or one `message` in it.
        """

    def close(self) -> None:
        """Stop serving the metrics."""


class PrometheusMetrics(Metrics):
    """Counts verdicts and faults, and serves the metrics by HTTP at an address.

    The option for the address is parsed as those of other sockets are; only the form HOST:PORT is accepted.
    """

    def __init__(self, address: Listener, store: Path) -> None:
        try:
            prometheus: Any = import_module("prometheus_client")
        except ModuleNotFoundError:
            raise ValueError(
                'metrics need prometheus-client, which is not installed: pip install "tamis[daemons]"'
            ) from None
        if not address.host:  # a Unix socket or a socket of systemd, at which the package cannot serve
            raise ValueError(f"metrics cannot be served at {address}: expected HOST:PORT")
        registry = prometheus.CollectorRegistry()
        self._verdicts = prometheus.Counter(
            "tamis_verdicts", "Messages judged, by label.", ["label"], registry=registry
        )
        self._seconds = prometheus.Histogram("tamis_verdict_seconds", "Time of a verdict.", registry=registry)
        self._faults = prometheus.Counter("tamis_faults", "Faults, by kind.", ["kind"], registry=registry)
        size = prometheus.Gauge("tamis_store_bytes", "Size of the store.", registry=registry)
        size.set_function(lambda: float(sum(status.st_size for status in _stat_files(store))))
        write_time = prometheus.Gauge(
            "tamis_store_changed_timestamp_seconds",
            "When the store was last written.",
            registry=registry,
        )
        write_time.set_function(lambda: max((status.st_mtime for status in _stat_files(store)), default=0.0))
        self._server, self._thread = prometheus.start_http_server(
            address.port, addr=address.host, registry=registry
        )

    def count_verdict(self, label: str, seconds: float) -> None:
        self._verdicts.labels(label).inc()
        self._seconds.observe(seconds)

    def count_fault(self, kind: str) -> None:
        self._faults.labels(kind).inc()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _stat_files(store: Path) -> list[os.stat_result]:
    """Return the status of the store's file, or of its replica, and of SQLite's write-ahead log.

    Files that do not exist are left out.
    """
    is_on_server = is_address(store)  # it then has a replica on this host
    path = Path(find_local_path(store)) if is_on_server else store
    files = (path, path.with_name(f"{path.name}-wal"))
    return [file.stat() for file in files if file.exists()]
