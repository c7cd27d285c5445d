"""What the outside must provide: protocols, their value types and their errors.

No behaviour lives here but `SystemClock`, and no module imports another part of the host.

- `clock`            boot clock, wall clock, sleep, timers
- `store`            the log: head, append, touch, read, wait, trim, usage, announcements; write outcomes, errors
- `snapshot_store`   snapshots: chunks first, the manifest last
- `transport`        one request with one reply, or one ordered stream
- `index_store`      what every index of a log keeps: its position, and when it was tidied
- `decision_store`   where decisions are indexed, and how they are queried
- `audit_store`      where audit entries are indexed, and how they are queried
- `endpoint_prober`  the way to a replica's address, and how often it is probed
"""
