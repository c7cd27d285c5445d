"""The structs of the domain. No state, no commands, no ledger logic.

    values --> objects --> records

- `values`   types without identity: struct bases, amounts, ranges, metadata, conditions, settings of a ledger
- `objects`  API objects that operators and tenants write; their class names are public
- `records`  rows that the ledgers store and the regions report

A module imports only from its own folder and from those before it in this list.
"""
