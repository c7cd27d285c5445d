"""Checks of safety and convergence, from logs and states alone.

Lives here: code that folds a log independently of the servers and reports findings. Must not: import a ledger gate, a
controller, a scheduler or an actor; a check shares only the model with the code that it checks.
A new check of one region's log is listed in `region.registry`; other checks are started by `sim.cluster.cluster`.
Bugs that a check must find are planted by `tests/sim/runs/test_planted_*_bugs.py`.

- `history`         all records of all logs in the order in which they became durable
- `ledger_audit`    `Finding`, and the audit of one ledger: acknowledgements, reads, invariants
- `deadlines`       conditions that must clear within a time, and how long each has lasted
- `session_leases`  sessions must not expire before their lease; ledger time passes as fast as the world's
- `link_steps`      a region applies each step of the link once and in order, and misses none; what both sides have
                    in the end is compared by `sim.cluster.liveness`
- `cross_ledger`    properties that need the logs of all ledgers
- `decision_index`  every bound slot has a decision in the index
- `region`          checks of one region's log, batch by batch
- `placement`       checks of placements and of the queue, with an independent oracle
- `assignment`      checks of what the platform assigns to regions and of its reported status
"""
