"""The structs that everything else is about. No state, no commands, no ledger logic.

    values --> objects --> records

- `values`   types without identity: struct bases, amounts, ranges, metadata, conditions, settings
- `objects`  API objects that people write; their class names are public
- `records`  rows that the ledgers keep and the regions report

A module imports only from its own folder and from those before it in this list.
"""
