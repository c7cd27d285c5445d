"""What the outside must provide: protocols, their value types and their errors.

The only behaviour here is `SystemClock`, and no module imports another part of the host.

- `clock`            boot clock, wall clock, sleep, timers
- `store`            the log: head, append, touch, read, wait, trim, usage, announcements; snapshots; outcomes
- `transport`        one request with one reply, or one ordered stream
- `index_store`      what every index of a log stores, and the queries of audit entries and of decisions
- `endpoint_prober`  the probe of a replica's address, and its options
"""
