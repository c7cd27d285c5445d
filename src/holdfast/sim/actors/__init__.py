"""The programs on simulated machines, and the users.

    users ──▶ platform servers ◀──link── region servers ◀──sessions── agents ── node processes
    (API client)                         (own scheduler) ◀──proposals── standalone schedulers

Lives here: production servers, schedulers and agents, built by `wiring` over the ports of a world, and the stand-ins
that docs/evidence/correctness.md lists. Must not: judge a run, except by what only the process oracle can observe.

- `ack_recorder`        records which commands and renewals a machine saw acknowledged
- `watch_faults`        delays, repeats or drops the watch events of controllers
- `process_behavior`    how a simulated process starts, stops and fails
- `node_processes`      what really runs on a node, the oracle for exclusive work, and endpoint probes
- `scheduler`           the production agent and standalone scheduler, restarted; a plugin that reserves before it binds
- `server_files`        what a machine stores for its server across incarnations
- `failover_stub`       the failover controller in its simplest form
- `servers`             the production servers of platform and regions
- `initial_objects`     the objects that operators and tenants create first
- `users`               operators and tenants, and what they do during a run
- `background_clients`  API clients: with recorded acknowledgements, clients that only read, and that send storms
"""
