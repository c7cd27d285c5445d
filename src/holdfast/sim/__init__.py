"""The simulator: the production control plane on virtual time, with injected faults, the same for each seed.

Lives here: simulated machines, network and stores, the programs on them, checks, runs. Must not: be imported by
production code, use real time, read real randomness. Recordings and refolding are in `holdfast.replay`.

Packages and modules, in import order:

- `world`     virtual time, machines, network, stores
- `scenario`  the scenario file: topology, traffic, faults, minimums
- `plan`      when each fault of a run (the scenario's own and random ones) and each action of a user happens
- `variety`   unusual nodes, workloads and tenants that a seed draws
- `checks`    findings from logs and states alone; needs no cluster
- `actors`    the programs that run on simulated machines, and the users
- `cluster`   the simulated cluster of one scenario, its fault injection, its convergence checks
- `runs`      one run and its report, swarms, coverage, shrinking, recording
"""
