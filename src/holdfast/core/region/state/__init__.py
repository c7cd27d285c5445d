"""Tables of a region, and the only code that writes them. Events are facts: no refusal, no policy.

- `tables`             `RegionState` and its table specs
- `lookups`            reads by key; the count of preemptions in the present window
- `node_kinds`         nodes with equal attributes and sizes, counted
- `slot_kinds`         ordinals of an assignment by phase, template and charged account
- `gangs`              members that are there, broken and failed gangs: sets of ordinals and of gangs
- `node_usage`         arithmetic of a node: with and without a slot, a hold, a preemption
- `account_usage`      charges, and protected amounts still owed
- `node_tenants`       tenants on a node that takes one at a time, computed from slots and holds
- `indexes`            requests, phase counts, ordinals, templates, domain members
- `rebuild`            derived tables, from the stored ones
- `shipped_objects`    names and tables of shipped objects
- `evolve_slots`       a slot is opened, moved, stopped, released
- `evolve_placements`  slots and holds are placed on nodes: the hot path
- `evolve_shipments`   copies of the platform's objects, cursor, full lists
- `evolve`             nodes, holds, breaches, and the table event -> function
"""
