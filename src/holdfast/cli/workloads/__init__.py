"""Commands on workloads and their placement.

- `scale`      change the number of replicas
- `restart`    replace all replicas by a rollout
- `endpoints`  addresses of a workload, and which replicas serve
- `queue`      scheduling requests that wait, and why
- `decisions`  what schedulers decided
- `explain`    why a workload waits, or why a replica runs where it does; the text is in `output.explanation`
"""
