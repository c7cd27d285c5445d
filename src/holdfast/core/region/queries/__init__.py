"""Read-only functions over a region state, shared by handlers, scheduler, controllers, agent and API.

A query never writes and never emits an event.

- `feasibility`       whether a node admits a template (health, cordon, taints, tenancy, labels, one tenant at a time)
                      and has the free capacity, the named devices and ports, for handlers and agent; the scheduler's
                      `filters` check the same over arrays
- `accounts`          how many more replicas an account can pay, or leave protected capacity free
- `assignments`       whether and until when this region may run an assignment; its disruption left
- `preemptions`       which slots may be preempted, by whom and when; receipts of victims
- `gates`             checks of proposals, bindings and holds: pauses, policy, avoided zones; `feasibility` checks
                      the node
- `fence`             the time after which nothing of an ended session can run, and whether it is past
- `domains`           domains that can take a template; spread, apart and near rules
- `breaches`          present overshoots of invariants; holds without a purpose
- `node_conditions`   conditions of a node
- `endpoints`         listed replicas and their probes
- `workload_report`   the region's report about one workload; problems of a replica
- `region_summary`    the region's report about itself
- `repairs`           open repairs, each with owner and next step
- `decisions`         scheduling decisions in a batch of the log
"""
