"""Rows that the ledgers store and the regions report. Operators and tenants write none of them directly.

No state and no commands.

- `assignments`     `Assignment`, its purpose and stage, template shares, `HeldRight`
- `grants`          `Grant`, offers, the accepted grant of a region, demand, account usage, account keys
- `nodes`           `Node`, devices, health, load reports, the tenants that a node is reserved for
- `domains`         topology keys, domains, and the scopes under which a slot is counted
- `lifecycle`       the edge table of a slot, and stop causes
- `slots`           `Slot`, scheduling requests, pending reasons, finished ordinals, standalone reservations
- `node_usage`      used amounts of a node, per resource and device; region totals
- `breaches`        `Breach`, breach ids of both ledgers, `Repair` and its order
- `region_reports`  what a region reports: workload counts, node summary, issues, overflow
- `fairness`        the shares of tenants as reports show them
- `usage_windows`   what a tenant used of all regions within the last hour
- `servers`         server names, and the token hash by which a server proves its name
- `decisions`       scheduling evidence, audit events, denials, and decisions as they are stored
"""
