"""Run the reconcilers of `core.reconcilers` as leader tasks for one term. No rule about workloads is here.

A new controller is a reconciler in `core.reconcilers.platform` or `.region`, listed in `core.reconcilers.registry`.

    durable batch -> changed keys -> work queue -> reconciler -> commands -> outcome -> retry or done

- `ledger_client`         a controller's view of its ledger, and how it sends commands
- `workqueue`             keys, each queued once and never worked on twice at a time; rate, back-off, resync
- `worker_pool`           one task for each key that is being worked on
- `controller`            one reconciler with its queue and its failing keys
- `leader_controllers`    all controllers of a ledger: a manager for each term, on the server that leads
- `reservation_expiry`    reservations and holds whose end has passed
- `recheck_schedule`      keys that are checked again every few seconds, with one timer for all
- `endpoint_checks`       probes endpoints; publishes, withdraws, brakes; no reconciler: `wiring.server` starts it
"""
