"""Indexes of a log: derived, rebuilt from the log when lost, and never part of the state.

Rows are stored behind a port (`host.ports.index_store`). An index has a trim hold up to the batch that it has read.

- `log_index`           reads a log as it grows, writes rows in batches, retries, applies retention
- `decision_index`      decisions by workload, slot, node and time, with the names of their objects
- `audit_index`         operators' and tenants' commands and denials, by time, actor, command and outcome
"""
