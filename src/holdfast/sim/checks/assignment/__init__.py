"""Checks of what the platform assigns to regions, and of the status that it reports.

Lives here: checks over the platform's state and the states of its regions. Must not: read node or store state.

- `surplus`            whether a workload may be assigned more than its spec while it moves
- `make_before_break`  a region gives up replicas only after others serve
- `relocation`         work that waits for capacity, or was in a lost region, is assigned to other regions
- `reported_status`    the reported status of a workload equals what its regions have
"""
