"""The node agent: brings what is bound to its node and what runs there together, and reports.

- `agent`             session after session; registers the node; heartbeats extend leases
- `bindings_watch`    what the region binds to this node
- `admission`         bindings that this node refuses, and when it reports that
- `run_specs`         binding and template to `RunSpec`; `RunStatus` to what the region is reported
- `sync_loop`         plan, start, stop, report
- `probe_manager`     startup, readiness and liveness of every run
- `prober`            one probe: HTTP, TCP, exec
- `node_load`         capacity, load and present images of this machine
- `machine_identity`  which machine this is, and which boot of it
- `term_fence`        the newest term seen, on disk: a deposed leader is not followed
- `lease_times`       the durations that the region sent last, on disk
- `drivers`           what starts and ends runs
- `guard`             the parent of one run, and its fence: a program of its own
"""
