"""Runs of scenarios: one, many, and the reduction of a failing one.

Lives here: the order of a run, its report and its digest. Must not: start real processes except workers of a swarm.

- `gate_coverage`  the gates that must have acted in a swarm
- `coverage`       event counts of a run, and the events that a swarm must have produced
- `settle_phase`   the time after the faults, until everything has converged
- `run`            one run: plan, faults, checks, report, digest, recording
- `swarm`          many seeds of many scenarios on all cores
- `shrink`         the smallest plan that fails in the same way
"""
