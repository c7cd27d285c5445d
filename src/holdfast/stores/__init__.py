"""Engines of the store ports. Every engine follows `host.ports.store`; one conformance suite checks it.

Engines never import one another; each may import `head_waiters`, `worker_thread` and `files`.

- `registry`       URL to engine; the only module that names every engine
- `memory`         a store in memory, for tests and simulation
- `head_waiters`   calls that wait for the head to move; announcements of servers in one process
- `worker_thread`  one thread that does jobs in order
- `files`          files that any engine may use in its folder
- `sqlite`         the embedded engine
- `indexes`        databases of indexes: decisions and audit, for any engine of the log
"""
