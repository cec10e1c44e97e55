"""The parts that all daemons share: listening, connections, verdicts in threads, log lines and metrics.

Each daemon is a package under `surfaces` that adds its protocol: the module `codec` parses and formats the
messages of the protocol, without I/O, and `service` connects it to this package and to `Sieve`. A fault of a
store never stops mail: it is returned as a value (`Fault`), and each daemon reports it to the client as its
protocol allows.
"""
