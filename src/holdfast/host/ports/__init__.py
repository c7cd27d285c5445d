"""What the outside must provide: protocols, their value types and their errors.

The only behaviour here is `SystemClock`, and no module imports another part of the host.

- `clock`            boot clock, wall clock, sleep, timers
- `store`            the log: head, append, touch, read, wait, trim, usage, announcements; write outcomes, errors
- `snapshot_store`   snapshots: chunks first, the manifest last
- `transport`        one request with one reply, or one ordered stream
- `index_store`      what every index of a log stores: its position, and the time from which it is complete
- `decision_store`   the index of decisions, and its queries
- `audit_store`      the index of audit entries, and its queries
- `endpoint_prober`  the probe of a replica's address, and its options
"""
