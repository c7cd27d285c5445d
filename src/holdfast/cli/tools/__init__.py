"""Commands that run without a cluster.

- `sim`    scenarios on the simulator: run, swarm, shrink, record, replay
- `bench`  benchmarks on this machine
"""
