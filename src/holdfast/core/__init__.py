"""The pure core: everything that decides, and nothing that touches the outside.

No clock, no randomness, no I/O, no logging. What comes in comes as an argument, what goes out is a value.

- `model`     what exists: objects, resources, lifecycle, settings
- `ledger`    the contract both ledgers share: envelopes, answers, tables, codec, digests, repeats
- `platform`  the global ledger: tenants, quota, policy, workloads, assignments, grants, regions
- `region`    a region's ledger: nodes, slots, reservations, requests
"""
