"""Controllers as pure functions: `reconcile(state, key, now) -> commands, requeue_at`. No I/O.

One file per controller; helper modules carry its name. Controllers import `commands`, `queries` and `state` of a
ledger, never `decide`.

- `platform`  controllers of the platform ledger
- `region`    controllers of a region ledger
- `override`  ends overrides at their end time, in both ledgers
- `registry`  the controllers of each ledger, for servers and the simulator; a new one is listed here
"""
