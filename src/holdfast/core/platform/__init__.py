"""The platform ledger: its vocabulary and its definition.

Operators and tenants write objects. Controllers derive assignments, grants and rights from them. Regions report from
their own logs. Quota, identities and finalizers are released only on evidence from the region.

    commands --> decide --> events --> state --> queries, invariants, watch

- `limits`      every limit of this ledger, each with its reason
- `commands`    requests that this ledger accepts
- `events`      facts that this ledger records
- `watch`       event -> watch keys
- `state`       tables, and the only code that writes them
- `queries`     read-only functions over the state
- `decide`      command handlers
- `invariants`  rules that hold in every state
- `subjects`    the object that a command changes, and its revision
- `definition`  command rules, and `PLATFORM: LedgerDefinition`

The modules `limits`, `commands`, `events` and `watch` hold no logic. The folder `region` has the same shape.
"""
