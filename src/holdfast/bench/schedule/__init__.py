"""Benchmarks of the scheduler: `holdfast bench schedule`.

Lives here: figures of placements. Must not: build regions itself; `bench.fixtures` has them.

- `suite`    all figures; placement rates on a live region
- `growth`   the cost of one placement as a region grows
- `million`  a million slots, placed and looked up
- `latency`  from a write to a bound replica, idle and busy
"""
