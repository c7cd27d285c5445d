"""Where logs are kept. All of them behave as `holdfast.host.store` says; one conformance suite holds them to it.

- `memory`    for tests and simulations
- `sqlite`    embedded: one folder, one process, nothing to install
  - `writer`    what its one thread makes of appends, trims and errors
  - `recovery`  a database that is opened again after any error
  - `database`  the head cell and the batches, in SQL
  - `chunks`    snapshots as files
  - `folder`    the lock, the reserve for a full disk, and where a folder may lie
  - `worker`    a thread that does one thing after another for an event loop
- `decisions` decisions, kept beside a store: `decisions_sql` writes them, `decisions_find` looks for them
- `shape`     what all stores share
"""
