"""Read-only questions about a region state, shared by handlers, scheduler, controllers, agent and API.

A query never writes and never emits an event.

- `feasibility`      the one function that says whether a template fits a node
- `accounts`         how many more replicas an account can pay, and how many leave protected capacity alone
- `assignments`      whether this region may run an assignment now, until when, and its disruption left
- `gates`            checks that proposals, bindings and holds share; the effect of overrides on each
- `fence`            the time after which nothing of an ended session can run
- `node_tenants`     the tenants with work on a node that takes one tenant at a time
- `domains`          domains that can take a template; spread, apart and near rules
- `breaches`         by how much an invariant is broken now; holds without a purpose
- `node_conditions`  conditions of a node, as people see them
- `endpoints`        the replicas that are listed, and the health check of each
- `replica_health`   problems of a replica
- `workload_report`  the region's report about one workload
- `region_summary`   the region's report about itself
- `repairs`          open repairs, each with owner and next step
- `decisions`        scheduling decisions, read from a batch of the log
"""
