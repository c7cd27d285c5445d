"""A region's ledger: nodes, slots, reservations, requests. It acts alone inside what the platform has granted.

- `state`       its tables, and how the derived ones are rebuilt
- `commands`    what it can be asked
- `events`      what can become true
- `feasible`    the one function that says whether a template fits a node
- `rooms`       what stands on a node and what it takes
- `charging`    accounts, what they can still afford, what is kept for protected tenants
- `assigned`    whether this region may run a template now
- `placing`     Propose: the hard gates
- `trial`       what a proposal has taken so far
- `spreading`   spread and apart
- `succeeding`  placements after victims, or out of a reservation
- `running`     plain proposals in a row
- `unmet`       what of a many-part command was refused
- `binding`     Bind, Unreserve, Expire: a reservation's next step
- `moving`      Move: every other edge, by its owner
- `stopping`    Stop: the one way to end a slot, and the disruption budget
- `slots`       OpenSlots, WithdrawSlots and what else the replica controller and the scheduler tell of requests
- `holds`       reservations standing alone
- `nodes`       what agents, operators and node health say of nodes
- `breaches`    promises that the world has broken: open, with an owner and a deadline
- `repairs`     what waits to be ended or put right, since when
- `shipping`    what the platform ships, applied with its cursor in one step
- `summary`     the region in short, for the platform; `seen` what it says of one workload
- `retired`     StandDown: everything ends when the platform has retired this region
- `listing`     the parts of a full list, and what is gone with the last
- `shipped`     what those events do
- `releasing`   the end of a binding epoch
- `sessions`    what the end of an agent's session means for its node
- `evolve`      what each event does: the only code that changes a region's state
- `standing`    its hot part: slots come to stand on nodes
- `index`       the derived tables, kept in step by evolve
- `members`     who stands where, for spread and apart
- `rebuild`     the derived tables built anew
- `keys`        what each event touches, for watches
- `invariants`  what must hold in every state: over `invariants_places`, which are everywhere or near what was written
                (`invariants_counts` for the derived tables)
- `book`        all of it put together
"""
