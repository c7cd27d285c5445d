"""Values in, text out. Nothing here sends a request to a server. Columns of `get` are in `api.kinds`, those of
`-o wide` in `objects.listing`. The module of any other command has its own columns, `objects.describe` included.

- `printer`          tables, colours, times, JSON, YAML; stdout without terminal control characters
- `report`           a list of items: a table with notes, or JSON and YAML
- `field_path`       `spec.replicas`, `status.conditions[Ready].status`
- `conditions`       conditions in one line each, with hints; why something is pending, and the remedy
                     (`core.scheduling.pending_reasons` computes that)
- `regional_status`  workloads and regions with what regions reported
- `gangs`            the members of gangs, from the replicas of all regions
- `explanation`      the text of `explain`, and of one decision; the tree of reasons in it is that of `conditions`
- `simulation`       results of simulation runs and swarms
"""
