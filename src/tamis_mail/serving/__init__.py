"""The parts that all daemons share: listening, connections, verdicts in threads, log lines and metrics.

A daemon adds its protocol: `codec` (bytes in, bytes out, no I/O) and `service`, which connects it to this
package and to `Sieve`. A fault of a store never stops mail: it is returned as a value (`Fault`), and each
daemon reports it to the client as its protocol allows.
"""
