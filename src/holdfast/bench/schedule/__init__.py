"""Benchmarks of the scheduler: `holdfast bench schedule`.

Contents: figures of placements. Regions come from `bench.fixtures`.

- `suite`    all figures; placement rates on a live region
- `growth`   the cost of one placement as a region grows
- `million`  a million slots, placed and looked up
- `latency`  from a write to a bound replica, idle and busy
"""
