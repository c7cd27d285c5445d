"""The pure core: every decision, and no I/O.

No clock, no randomness, no logging, no files, no network: the result depends on the arguments alone.

    commands --> ledger --> events --> state --> scheduling, reconcilers, agent --> commands

- `model`        the structs of the domain: values, API objects, records of the ledgers
- `ledger`       the contract of both ledgers: commands, answers, tables, codec, batches
- `platform`     the global ledger: tenants, quota, policies, workloads, assignments, grants, regions
- `region`       the ledger of one region: nodes, slots, reservations, scheduling requests
- `scheduling`   the scheduler of a region: from a request to a proposal
- `reconcilers`  the controllers of both ledgers: they decide what should change, the ledgers whether it may
- `agent`        the steps that a node agent takes next

Imports point one way: `scheduling`, `reconcilers` and `agent` import the ledgers, the ledgers import `ledger`, and
`ledger` imports `model`. The two ledgers never import each other.
"""
