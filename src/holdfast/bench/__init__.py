"""Benchmarks: one module or package per `holdfast bench` command.

Contents: measurements and their targets. Only the command line imports them; `cli.tools.bench` lists them.

- `report`          results, targets, baselines, the report and its JSON
- `core`            the pure core: decide, fork, memory
- `ledger`          a ledger on SQLite as a server runs it, and its restart in a new process
- `store`           the embedded store: commits alone and during a snapshot
- `api`             a server over HTTP
- `road`            from the platform to its regions
- `road_million`    a million replicas from the platform
- `schedule`        the scheduler (a package)
- `openb`           packing on a published cluster (a package)
- `sharing`         several schedulers of one region (a package)
- `agent`           from a write to a serving replica; the cost of 2,000 idle agents for a server
- `limits`          the largest accepted objects, and their removal (a package)
- `sim`             the simulator
- `fixtures`        what benchmarks run on
- `load`            the load processes that benchmarks start
"""
