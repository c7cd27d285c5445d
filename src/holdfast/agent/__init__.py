"""The node agent: starts and stops what the region binds to its node, and reports the result.

- `agent`             session after session; registers the node; heartbeats extend leases. When a session is lost, runs
                      go on, the guard ends leased ones at their deadline, and the agent opens another session. It
                      stops if another process has taken its name
- `bindings_watch`    what the region binds to this node
- `admission`         bindings that this node refuses; `RunSpec` of a binding, report of a `RunStatus`
- `sync_loop`         plan, start, stop, report
- `probe_manager`     startup, readiness and liveness of every run
- `prober`            one probe of a run on this node: HTTP, TCP, exec. Servers probe endpoints by
                      `core.region.queries.endpoints` and `wiring.server_ports`
- `node_load`         identity, capacity, load and present images of this machine
- `term_fence`        the newest term seen, on disk: a deposed leader is not followed
- `lease_times`       the durations that the region sent last, on disk
- `drivers`           start and end runs
- `guard`             the parent of one run, and its fence: a program of its own
"""
