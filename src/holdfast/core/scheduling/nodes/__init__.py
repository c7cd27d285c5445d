"""The scheduler's view of nodes, as arrays. No request and no queue.

- `table`         `NodeTable`: one column per resource, rows in a mixed order
- `devices`       free GPUs and ports per node, and which of them a slot gets (`pick`); the ledger checks them in
                  `core.region.queries.feasibility`
- `claims`        what a placement takes of its node, with victims and a hold or without
- `victims`       what may be freed on each node, by tier of victims
- `row_images`    rows as they were before a draft
- `attributes`    zone, pool, taints, tenancy, capabilities and labels as codes
- `hints`         load and cached artifacts: they rank nodes and never exclude one
- `tenants`       tenants on nodes that take one tenant at a time
- `tie_break`     seeded one-to-one ranks
- `domain_rules`  spread, anti-affinity (`apart`) and affinity (`near`) within a pass
- `typical_shapes`  what slots of the region need of devices, by frequency
- `useful_capacity`  device capacity that typical requests can use, and what one slot takes away
- `window`        the rows that one pass examines
- `quarantine`    nodes skipped for a while after repeated refusals
"""
