"""The platform ledger: its vocabulary and its definition.

People write objects. Controllers turn them into assignments, grants and rights. Regions report from their own logs.
Quota, identities and deletions come back only on evidence from the region.

    commands --> decide --> events --> state --> queries, invariants, watch

- `limits`      every cap of this ledger, each with its reason
- `commands`    requests that this ledger accepts
- `events`      facts that can become true
- `watch`       event -> watch keys
- `state`       tables, and the only code that writes them
- `queries`     read-only questions about the state
- `decide`      command handlers
- `invariants`  rules that hold in every state
- `subjects`    the object that a command changes, and its revision
- `definition`  command rules, and `PLATFORM: LedgerDefinition`

`limits`, `commands`, `events` and `watch` hold no logic. The folder `region` has the same shape.
"""
