"""Recordings of logs: writing, refolding and comparing them.

Lives here: the `.hfr` file and everything that reads it; production may use it. Must not: import the simulator, or open
a store itself (callers pass one).

- `recording`   the file `.hfr`: logs and run plan of one run, or the log of one ledger
- `divergence`  the first difference between two folds, by its position in the log
- `effects`     the rows that each event changes, and a digest of them
- `refold`      a recording folded with today's code
- `compare`     two recordings of one seed
- `recorder`    a log from a store into a recording
"""
