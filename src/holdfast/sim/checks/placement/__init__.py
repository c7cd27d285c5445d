"""Checks of placements and of the scheduling queue in a region's log.

Lives here: usage counted from stored rows, an oracle that decides what can be placed, checks of order. Must not: import
the scheduler or the gates of the ledger.

- `usage`        what runs on each node and which account is charged, counted from stored rows
- `log_view`     the state that placements are checked against, updated event by event
- `oracle`       which waiting slots can be placed, and which codes keep the others out
- `node_rules`   a placement against what its template requires of a node
- `fair_share`   the turns of tenants within one proposal
- `aging`        a request is not passed over without an end
- `excuses`      requests that may be passed over for a while, and why
- `queue_order`  a request of higher priority that can be placed comes first
- `placements`   every placement in the log, through the checks above
"""
