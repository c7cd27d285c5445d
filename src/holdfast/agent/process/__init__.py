"""The driver of real processes. Each of them has a guard (`holdfast.agent.guard`), and a folder on the node's disk:

    DATA/slots/WORKLOAD-ORDINAL-EPOCH/   who, record.json, result.json, guard.sock, logs/; for the agent's user alone
    DATA/work/UID/WORKLOAD-ORDINAL-EPOCH/  where the process works if nothing else was asked for; its user's
    DATA/logs/WORKLOAD-ORDINAL-EPOCH.N/  the logs of what was forgotten, the newest few

- `driver`       the port, as `holdfast.agent.driver` describes it
- `settings`     what a node's operator decides
- `held`         one process as the driver has it: found, listened to, and cleared away
- `launching`    a guard's order, and its answer
- `line`         the socket between an agent and a guard
- `records`      what guards write, and what it means
- `folders`      where all of this lies
- `environment`  variables and secrets
- `users`        who a process may run as, and `tenants` which user is whose
- `cgroups`      its limits, and `disk` how much its folder takes
- `removal`      what becomes of that folder
- `leftovers`    what a guard that was killed has left
"""
