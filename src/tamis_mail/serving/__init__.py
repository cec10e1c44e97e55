"""What the daemons share: listening, connections, verdicts off the event loop, log lines and metrics.

A surface brings its protocol: `codec` (bytes in, bytes out, no I/O) and `service`, which joins it to this
package and to `Sieve`. Whatever happens to a store, mail flows: a fault is a value, and each surface answers
it in the way of its protocol.
"""
