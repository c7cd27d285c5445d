"""Controllers as pure functions of state, key and time: what to send. The hosts run them beside a leader.

In either ledger:

- `overrides`       an override ends at its end

Of the platform:

- `assignment`      a workload is split over regions, by `sites`, `splitting`, `exclusive` and `disruption`
- `grants`          every account is lent to regions as they need it; `lending`, `slices`, `shields` say how much
- `region_health`   a region that is silent is suspect, then lost; heard again, it is healthy
- `finalizers`      a deletion that waits for a lost region goes on without it, at its deadline
- `retirement`      what a retired region held is released, part after part
- `status`          what regions together say of a workload: `status_sums` how many, `status_conditions` why not all

Of a region, each looking at one assignment at a time (`assigned` is what they have in common):

- `wanted`          which ordinals an assignment wants, under which template: no controller, but what two of them ask
- `kinds`           what slots have in common: those that are alike are looked at together
- `replicas`        its slots are what it asks for: opened, retargeted, withdrawn, stopped
- `rollout`         what runs an old template makes way for the new one, within the disruption share
- `making_room`     whose end lets one of a new template be placed: no controller, but what a rollout asks
- `rights`          what runs by a leased right ends with it
- `emergencies`     what an emergency quota paid for ends with it

Of a region, each looking at one node at a time (`noded` is what they have in common):

- `node_health`     a node whose session has ended is silent, then lost, and what it held is unknown
- `repair`          what it held is fenced and placed anew, not of all nodes at once; breaches are mended (`breaches`)

`registry` says which of them run on which ledger.
"""
