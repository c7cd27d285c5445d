"""Controllers as pure functions: `reconcile(state, key, now) -> commands, requeue_at`. No I/O.

One file per controller; helper modules carry its name. Controllers import `commands`, `queries` and `state` of a
ledger, never `decide`.

- `platform`  controllers beside the leader of the platform
- `region`    controllers beside the leader of a region
- `override`  overrides end at their end time (runs beside both ledgers)
- `registry`  which controllers run on which ledger; servers and simulator read it
"""
