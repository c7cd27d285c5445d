"""The programs on simulated machines, and the users.

    users ──▶ platform servers ◀──link── region servers ◀──sessions── agents ── node processes
    (API client)                         (own scheduler) ◀──proposals── standalone schedulers

Lives here: production servers, schedulers and agents, built by `wiring` over the ports of a world, and the stand-ins
that docs/evidence/correctness.md lists. Must not: judge a run, except by what only the process oracle can observe.

- `ack_recorder`        records which commands and renewals a machine saw acknowledged
- `watch_faults`        delays, repeats or drops the watch events of controllers
- `process_behavior`    how a simulated process starts, stops and fails
- `node_processes`      what really runs on a node, the oracle for exclusive work, and endpoint probes
- `agent`               the production agent, restarted when it ends
- `reserve_then_bind`   a plugin that reserves some slots before it binds them
- `scheduler`           the production standalone scheduler, restarted when it ends
- `server_files`        what a machine stores for its server across incarnations
- `failover_stub`       the failover controller in its simplest form
- `servers`             the production servers of platform and regions
- `user_client`         an API client whose acknowledgements are recorded
- `initial_objects`     the objects that operators and tenants create first
- `users`               operators and tenants, and what they do during a run
- `background_clients`  clients that only read, and clients that send storms
"""
