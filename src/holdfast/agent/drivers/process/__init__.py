"""The driver of real processes. Each run has a guard (`agent.guard`) and a folder on the node's disk:

    DATA/slots/WORKLOAD-ORDINAL-EPOCH/      who, record.json, result.json, guard.sock, logs/; owned by the agent's user
    DATA/work/UID/WORKLOAD-ORDINAL-EPOCH/   the working folder, owned by the run's user
    DATA/logs/WORKLOAD-ORDINAL-EPOCH.N/     the newest logs of forgotten runs

This `__init__` imports nothing.

- `driver`            the port
- `settings`          what the node's operator configures
- `run_folders`       slots/, work/, logs/; removes a folder that a run filled
- `tenant_users`      which user each tenant has on this machine
- `preflight`         limits and isolation that this machine enforces; users and ports, checked before a start
- `environment`       variables and secrets
- `cgroups`           limits
- `disk_usage`        disk usage of a run's folder; ends a run that exceeds its limit
- `launch`            the guard's order and its answer; guard.sock
- `guard_files`       record.json, result.json, who
- `guarded_run`       one run in the driver: adopted, connected, ended
- `leftovers`         processes that a dead guard left behind
"""
