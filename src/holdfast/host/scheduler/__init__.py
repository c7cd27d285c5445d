"""A scheduler at work: it views a region, proposes placements and reports why requests are pending.

How a placement is chosen is `core.scheduling`.

- `region_client`     what a scheduler sees of its region (a port)
- `loop`              view, attempt, proposal, outcome
- `binder`            reserve plugins, bind, post-bind plugins
- `pending_reporter`  why requests are pending
- `embedded`          in the leader's process, fenced by the term
- `standalone`        in a process of its own, with a mirror and a session
"""
