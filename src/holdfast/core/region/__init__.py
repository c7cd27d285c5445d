"""The ledger of one region: its vocabulary and its definition.

A region acts alone inside what the platform has granted: nodes, slots, reservations, scheduling requests.

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
- `definition`  command rules, and `REGION: LedgerDefinition`

`limits`, `commands`, `events` and `watch` hold no logic. The folder `platform` has the same shape.
"""
