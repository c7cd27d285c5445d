"""Command handlers of a region: state in, `Accepted(events)` or `Refused` out.

A handler never writes state. Only `definition` imports this folder, and the offline checks of the API.

- `builtin`              OpenSession, EndSession, Configure: what a region adds to the built-in handlers
- `nodes`                RegisterNode, ReportNode, AdministerNode, JudgeNode, RemoveNode
- `slots`                OpenSlots, WithdrawSlots, ForgetAssignment, AdoptSlots, ReportPending
- `proposals`            Propose: the hard gates, slot by slot
- `proposal_terms`       what holds for all placements of a group: payer, remaining, protected
- `proposal_scratch`     amounts that the proposal has taken so far
- `preemption`           placements after victims, or out of a hold
- `coalesced_proposals`  consecutive plain proposals, decided together
- `reservations`         Bind, Unreserve, Expire; the end of a binding epoch
- `transitions`          Move: every other edge of a slot, by its owner
- `stops`                Stop, and the disruption budget
- `holds`                Hold, ExtendHold, DropHold
- `breaches`             breaches that a fact opens; CloseBreach
- `shipments`            Ship (one step of the platform's log), StandDown
- `full_list`            a full list in parts, and the objects removed with its last part
"""
