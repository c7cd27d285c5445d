"""Waiting requests, proposals in flight, and the changes that unblock a request. No node arithmetic.

- `peers`             the slots and nodes that each of several schedulers takes first
- `request_groups`    equal requests, oldest first, and the level of each
- `proposed_parts`    the placements of one pass, and what they take
- `in_flight`         proposals without an outcome, deducted from the view
- `fair_share`        the order in which groups are tried: priority, deadline, share of the tenant, age
- `tenant_shares`     the weighted dominant share of each tenant, and its quantum
- `backoff`           back-off of groups that left the queue
- `blocked_groups`    blocked groups, found by cause and by account
- `scheduling_queue`  `SchedulingQueue`: active and blocked groups
- `quota_gates`       checks of a whole group before any node: payer, protected capacity, pause
- `rechecks`          blocked groups whose reason may be out of date
- `domain_cures`      domain counts, scopes and rows that may cure a group
- `unblocker`         which change unblocks which group
- `queue_view`        the queue, and the shares of tenants, as they and operators see them
"""
