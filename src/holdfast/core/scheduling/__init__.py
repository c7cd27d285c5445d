"""The scheduler of a region, pure: from a request to a proposal.

    state --> nodes (arrays) --+
    state --> queue (groups) --+--> pass: filter, score, fill --> proposal with evidence --> ledger

The scheduler proposes and the ledger decides. The arrays are a view that may be old. Filters agree with the gates
of the ledger, and the ledger checks every proposal again. Nothing here imports a handler, except `what_if`.

- `ask`               requirements of one slot; equal for a whole group
- `nodes`             the nodes of a region as arrays
- `framework`         plugin protocols, and `SchedulingProfile`: a policy applied to the plugins
- `filters`, `scores` one plugin per file
- `builtin`           the plugins that ship with Holdfast, in order
- `fill`              ranked nodes -> a node for each slot: pack, spread, or by domain
- `selection`         one pass: filter, score, rank, fill
- `shortlist`         one list of ranked nodes for several groups that differ in little
- `pending_reasons`   the reason why a request waits; nearest fit, never fits
- `queue`             waiting requests, proposals in flight, and the changes that unblock a request
- `evidence`          the part of a pass that is kept
- `proposal_builder`  selected nodes -> placements, deducted as they are added
- `cycle`             one scheduling cycle over the queue -> at most one proposal
- `resync`            comparison of the scheduler's view with the state, a few rows at a time
- `scheduler`         `Scheduler`: observe changes, run a cycle, take the answer
- `what_if`           the same scheduler and reconcilers on a fork of the state
"""
