"""The scheduler of a region, pure: from a request to a proposal.

    state --> nodes (arrays) --+
    state --> queue (groups) --+--> pass: filter, score, fill --> proposal with evidence --> ledger

The scheduler proposes and the ledger decides. The arrays are a view that may be stale. Filters agree with the ledger's
gates, and the ledger checks every proposal again. Nothing here imports a handler, except `what_if`.

- `ask`               requirements of one slot; equal for a whole group
- `nodes`             the nodes of a region as arrays
- `framework`         plugin protocols, and `SchedulingProfile`: a policy applied to the plugins
- `filters`, `scores` one plugin per file
- `builtin`           the plugins that ship with Holdfast, in order; `wiring.scheduler` adds those found by entry point
- `fill`              ranked nodes -> a node for each slot: pack, spread, or by domain
- `selection`         one pass: filter, score, rank, fill
- `shortlist`         one list of ranked nodes for several similar groups
- `victims`           preemption: nodes and victims for a slot that no node accepts
- `pending_reasons`   computes why a request waits, as a tree of codes and counts; nearest fit, never fits
- `queue`             waiting requests, proposals in flight, unblock rules
- `evidence`          the stored part of a pass
- `proposal_builder`  selected nodes -> placements with devices (`nodes.devices`), deducted as they are added;
                      kept or taken back
- `gang_trial`        gangs of a group, tried one by one behind savepoints of the draft
- `view`              the input of a cycle, and what it says of requests that wait
- `cycle`             one scheduling cycle over the queue -> at most one proposal
- `resync`            comparison of view and state, a few rows at a time
- `scheduler`         `Scheduler`: observe changes, run a cycle, take the answer
- `what_if`           the same scheduler and reconcilers on a fork of the state
"""
