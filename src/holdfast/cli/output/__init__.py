"""Values in, text out. Nothing here sends a request to a server. Columns of `get` are in `api.kinds`; the module of any
other command has its own columns.

- `printer`          tables, colours, times, JSON, YAML; stdout without terminal control characters
- `report`           a list of items: a table with notes, or JSON and YAML
- `field_path`       `spec.replicas`, `status.conditions[Ready].status`
- `conditions`       conditions in one line each, with hints; why something is pending, and the remedy
- `regional_status`  workloads and regions with what regions reported
- `explanation`      the text of `explain`, and of one decision
- `simulation`       results of simulation runs and swarms
"""
