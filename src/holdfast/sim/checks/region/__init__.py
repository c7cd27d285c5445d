"""Checks of one region's log, batch by batch.

Lives here: one class per property, each with `take(batch)`. Must not: read other ledgers, check placements.

- `disruption_budget`     voluntary stops stay within the disruption budget
- `preemptions`           every preemption is allowed and needed
- `stop_causes`           the cause of every stop is true
- `gangs`                 no gang is placed, bound or assigned in part; broken ones end in time
- `replica_churn`         controllers do not end replicas more often than there were reasons
- `evictions`             replicas leave a tainted node in time
- `silent_node_rate`      only a limited number of silent nodes counts as lost per window; few endpoints are withdrawn
- `registry`              the checks of one region, as one list
"""
