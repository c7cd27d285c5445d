"""Decisions of a node agent: bindings and processes in, steps out. No I/O and no clock.

- `bindings`   the slots bound to a node, as its agent gets them; why the node cannot run one
- `processes`  processes and probe results, as the agent sees them; restart policy and back-off
- `plan`       bindings and processes -> start, stop, forget, report
"""
