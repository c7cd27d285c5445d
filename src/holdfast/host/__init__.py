"""The asyncio shells around the pure core. `core/X` decides, `host/X` acts.

A host reaches outside resources through `ports` only; engines of the ports are in `stores`, `transports` and `agent`.
It counts metrics by name and never imports `observe`. Lower packages do not import higher ones:

- `errors`       why a server does not answer, and what stops it
- `ports`        protocols of everything outside: clock, store, transport, indexes, endpoint prober
- `runtime`      deadlines, back-off, supervised tasks, metrics and log lines; independent of ledgers
- `protocol`     every message between machines and a ledger, and the client side of a session
- `storage`      one ledger's durable copy on this server: load, apply, verify, snapshot, trim
- `watch`        durable changes to subscribers
- `leader`       everything that lasts for one term: queue, decide, append, answer, prove
- `ledger`       one server's part in one ledger: load, follow, be a candidate, lead, step down
- `streams`      ordered streams that a leader serves to agents and mirrors
- `indexes`      decisions and audit entries, indexed from the log
- `controllers`  reconcilers from the core, run as leader tasks; endpoints are probed and published here
- `scheduler`    a running scheduler, embedded in the leader's process or standalone
- `link`         log shipping from the platform to a region, and the region's reports
"""
