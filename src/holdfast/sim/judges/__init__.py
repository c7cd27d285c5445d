"""Judges of a run, each written apart from whom it judges: from stored rows and events, by plain loops.

None of them imports a gate, a controller or a scheduler: what these have in common with those they judge is the model.

- `counted`    what stands on nodes, what it takes and who pays, counted anew from the stored rows of a region
- `placement`  what could be placed, and which codes really keep what waits: an oracle for liveness
- `moving`     what is assigned beyond what is asked for, since it moves and can neither go nor come
- `patience`   for how long something is not as it should be: what somebody is woken for is seen to soon
- `followed`   what a region's log says, kept event by event
- `placed`     every placement where it stands: spread, policies, pauses
- `meant`      every placement against what its template asks of a node
- `causes`     every stop against what its cause says
- `evicted`    what a taint evicts, and stays
- `silence`    what follows from silent nodes and regions: that it is noticed, and given up in time
- `damped`     how many silent nodes are given up at a time
- `listed`     most addresses, taken from the list at once
- `careful`    the platform moves work: what is ready before something is lowered, how many identities at once
- `elsewhere`  what waits for room that another region has
- `budgets`    how many of those that serve are stopped at a time
- `queue_order`  who is passed over, and could have been placed
- `turns`      in one proposal, who of equals comes first
- `excused`    who may be passed over for a while, by what was said and answered
- `reported`   what the platform says of workloads, and what is left of those that were to fail
- `unwell`     what does not answer, and is not noticed
- `even_time`  how fast ledger time passes
- `leases`     sessions that are ended before their time, or many at once for one silence
- `churn`      how often controllers end a replica, against how often anybody had a reason to
- `shipped`    the link: every step once, in its turn, nothing missed at the cursor, and nothing left over
- `regional`   those who judge a region's log batch by batch, put together
- `same_state`  servers that have read the whole log hold what it says
"""
