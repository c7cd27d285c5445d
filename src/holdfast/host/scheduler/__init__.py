"""The scheduler host: it views a region, proposes placements and reports why requests are pending.

Placement logic is in `core.scheduling`.

- `region_client`     the scheduler's access to its region (a port)
- `loop`              view, cycle, proposal, outcome
- `binder`            reserve plugins, bind, post-bind plugins
- `pending_reporter`  reports of pending reasons
- `embedded`          in the leader's process, fenced by the term
- `standalone`        in a process of its own, with a mirror and a session
"""
