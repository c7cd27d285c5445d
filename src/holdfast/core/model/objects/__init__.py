"""API objects that operators and tenants write. Class names are public: OpenAPI, golden files and checks use them.

No rows of the log and no ledger logic.

- `tenants`              `Tenant`, `Quota`, `PriorityClass`, `RecoveryBudget`
- `principals`           `Principal`, permissions, scope, `Token`, the token text and its hash
- `topology`             `Region` and its health, `NodePool`, taints and tolerations
- `isolation`            what an agent can enforce between tenants, and what a template requires of it
- `probes`               HTTP, TCP and exec probes
- `gangs`                groups of replicas that run together
- `workloads`            `Template`, `Workload`, placement, failover, restart policy, driver kind
- `workload_validation`  contradictions inside a workload spec, one sentence per field
- `policies`             `SchedulerPolicy`, where one is valid, `Override`
- `override_effects`     one type per override action, with its parameters
"""
