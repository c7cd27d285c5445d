"""Controllers of a region ledger. None reads the state of the platform.

- `keyed`               `PerAssignment`, `PerNode`: keys and watched changes
- `slot_groups`         slots of an assignment with equal phase and template, handled together
- `replica`             slots match what the assignment requests
- `replica_plan`        which ordinals, under which template
- `rollout`             replaces old templates, within the disruption share, where that frees capacity for the new one
- `expiry`              replicas end with the leased right, or with the emergency quota, that they need
- `node_health`         silent, lost (with a brake per minute), removed; the node's slots become unknown
- `repair`              fenced slots are released
- `repair_breaches`     breaches are repaired and closed; evicts replicas from nodes with an `evict` taint

No controller drains a node yet: a cordon or drain only stops new placements. It would be `drain` here, listed in
`core.reconcilers.registry`. Its cause and sender exist in `core.model.records.lifecycle`;
`core.model.values.reserved_names` lists them until a controller uses them.
"""
