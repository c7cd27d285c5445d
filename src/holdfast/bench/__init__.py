"""Benchmarks: one form of result, and one module for each thing that is measured.

- `report`     what a benchmark reports, and how it is shown; `unheard` keeps out of it what servers log
- `region`     a region of any size, filled through its own ledger
- `raw`        a plain file, the baseline of everything durable
- `core`       the pure core: deciding, forking, memory
- `ledger`     a ledger on SQLite as a server runs it; `restart` starts it again in a new process
- `store`      the embedded store: commits, alone and beside a snapshot
- `api`        a server over HTTP; `api_load` is the process at the other end, which `other` starts, and `plain` a
               connection of such a process
- `processes`  `holdfast dev` for a benchmark; `asking` who asks it, and how they hear what came of it
- `road`       the road from the platform to its regions; `standing` is a million replicas, and `standing_load` the
               process that is their nodes
- `schedule`   the scheduler, on `yard`, a region that is running; `openb` reads nodes and shapes of a real cluster,
               `growth` is what more nodes cost, in regions that `filling` has filled, `million` a million slots,
               `latency` from a write to `bound`, and `latency_load` who asks for other things meanwhile
- `agent`      agents: `sessions` is what many of them cost while nothing changes, `sessions_load` the process that they
               are; `serving` from a write to a replica that serves
- `limits`     what is the largest that may come in, and how it leaves: `limits_silence` a whole region falls silent;
               `limits_exclusive` the largest exclusive workload; `stalls` is how long one callback holds a loop
- `sim`        the simulator
"""
