"""Indexes of a log: derived, rebuilt from the log when they are lost, and never part of the state.

Where rows are kept is a port (`host.ports.index_store`). An index holds trimming back until it has read the log.

- `log_index`           reads a log as it grows, writes rows in batches, retries, applies retention
- `decision_collector`  decisions with the names of what they are about
- `decision_index`      decisions by workload, slot, node and time
- `audit_index`         commands of people and denied requests, by time, actor, command and outcome
"""
