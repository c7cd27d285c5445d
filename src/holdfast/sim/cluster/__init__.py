"""The simulated cluster of one scenario, its faults, and checks that need the running cluster.

Lives here: the machines of a scenario and everything that observes them. Must not: decide about the outcome of a run.

- `cluster`          machines, actors, audits and checks of one scenario
- `fault_injection`  starts and ends each planned fault at its virtual time, network partitions included; one function
                     for each kind
- `silent_nodes`     silent nodes and lost regions are noticed in time; how long lost capacity is missing
- `process_state`    the processes on nodes are those in the ledger; servers that read the same log have equal states
- `liveness`         what has not converged after the faults ended
- `questions`        the six questions that every run must answer
"""
