"""Invariants of the platform, each written once over a scan. They use no function of `decide`.

- `scan`     the rows to check: all of them, or those near a batch
- `counts`   derived tables against their rows
- `objects`  references, names, finalizers, revisions, policies, disruption, residency
- `grants`   escrow: charges and limits
- `regions`  rights, retirement, reports
- `catalog`  the list `INVARIANTS`
"""
