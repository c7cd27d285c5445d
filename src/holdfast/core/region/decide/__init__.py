"""Command handlers of a region: state in, `Accepted(events)` or `Refused` out.

A handler never writes state. Only `definition` and the API's offline checks import this folder.

- `builtin`              OpenSession, EndSession, Configure: additions to the built-in handlers
- `nodes`                RegisterNode, ReportNode, AdministerNode, JudgeNode, RemoveNode
- `slots`                OpenSlots, WithdrawSlots, ForgetAssignment, AdoptSlots, ReportPending
- `proposals`            Propose: the hard gates, slot by slot; it calls `queries.gates`, then `queries.feasibility`
- `proposal_terms`       account and limits of a placement group
- `proposal_scratch`     amounts that a proposal has taken so far
- `preemption`           placements after victims, or out of a hold
- `coalesced_proposals`  consecutive plain proposals, decided together
- `reservations`         Bind, Unreserve, Expire; the end of a binding epoch
- `transitions`          Move: every other edge of a slot, by its owner; an unknown one is given up only after its fence
                         (`queries.fence`)
- `stops`                Stop: whether a slot may be stopped, by cause, owner, phase and disruption budget; causes and
                         stoppable phases are in `core.model.records.lifecycle`, victims of a proposal in `preemption`
- `holds`                Hold, ExtendHold, DropHold
- `breaches`             breaches that a fact opens; CloseBreach
- `shipments`            Ship: applies a step and moves the cursor; a step at or before it is refused. StandDown
- `full_list`            a full list in parts, and its removals
"""
