"""Waiting requests, proposals in flight, and the changes that unblock a request. No node arithmetic.

- `request_groups`    equal requests, oldest first
- `in_flight`         proposals without an answer, deducted from the view
- `fair_share`        priority, deadline, dominant share; the tenant whose turn it is
- `backoff`           back-off of groups that left the queue and may return
- `blocked_groups`    blocked groups, found by cause and by account
- `scheduling_queue`  `SchedulingQueue`: active and blocked groups
- `quota_gates`       checks of a whole group before any node: payer, protected capacity, pause
- `rechecks`          blocked groups whose reason may be out of date: tried again soon
- `domain_cures`      what of the slots in domains may cure a group: numbers, scopes, nodes of its own
- `unblocker`         which change unblocks which group
- `queue_view`        the queue as people see it
"""
