"""The ledger of one region: commands, events and definition.

A region acts alone within the platform's grants: nodes, slots, reservations, scheduling requests.

    commands --> decide --> events --> state --> queries, invariants, watch

- `limits`      limits of this ledger, each with its reason
- `commands`    requests that it accepts
- `events`      facts that its log can contain
- `watch`       event -> watch keys
- `state`       tables, and the only code that writes them
- `queries`     read-only functions over the state
- `decide`      command handlers
- `invariants`  rules that hold in every state
- `subjects`    the object that a command changes, and its revision
- `definition`  command rules, and `REGION: LedgerDefinition`

`limits`, `commands`, `events` and `watch` contain no logic. The folder `platform` has the same shape.
"""
