"""Tables of the platform, and the only code that writes them. Events are facts: evolving refuses nothing.

- `tables`              `PlatformState` and its table specs
- `lookups`             reads by key: assignments of a workload, valid policy, last report
- `indexes`             derived tables, updated row by row
- `rebuild`             derived tables, built from the stored ones
- `evolve_assignments`  assignments, grants, rights and leases
- `evolve_regions`      regions, their reports, overflow
- `evolve`              objects, workloads, policies, breaches, and the table event -> function
"""
