"""The driver of real processes. Each run has a guard (`agent.guard`) and a folder on the node's disk:

    DATA/slots/WORKLOAD-ORDINAL-EPOCH/     who, record.json, result.json, guard.sock, logs/; of the agent's user
    DATA/work/UID/WORKLOAD-ORDINAL-EPOCH/  the working folder, owned by the run's user
    DATA/logs/WORKLOAD-ORDINAL-EPOCH.N/    the newest logs of forgotten runs

This `__init__` imports nothing.

- `driver`            the port
- `settings`          what the node's operator decides
- `run_folders`       slots/, work/, logs/
- `tenant_users`      which user each tenant has on this machine
- `preflight`         users and ports, checked before a start
- `environment`       variables and secrets
- `cgroups`           limits
- `capabilities`      what is limited and kept apart on this machine, how, and what is not
- `disk_usage`        how much disk a run's folder takes, and the end of one that takes more than its limit
- `launch`            the guard's order and its answer
- `guard_files`       record.json, result.json, who
- `guard_connection`  guard.sock
- `guarded_run`       one run as the driver holds it: adopted, connected, ended
- `leftovers`         what a dead guard left behind
- `folder_removal`    removes a folder that a run filled
"""
