"""Engines of the store ports. Every engine behaves as `host.ports.store` says; one conformance suite checks it.

Engines never import one another; each may import `head_waiters`, `announcements`, `worker_thread` and `files`.

- `registry`       URL to engine; the only module that names every engine
- `memory`         a store in memory, for tests and simulation
- `head_waiters`   calls that wait for the head to move
- `announcements`  announcements of servers, for engines that one process uses
- `worker_thread`  one thread that does one job after another
- `files`          what any engine keeps in folders
- `sqlite`         the embedded engine
- `indexes`        databases of indexes: decisions and audit, whatever engine keeps the log
"""
