"""Benchmarks of several schedulers that share one region: `holdfast bench sharing`.

Contents: conflicts, throughput and waits. Regions come from `bench.fixtures`.

- `suite`       all figures
- `embedded`    four embedded schedulers, against one
- `standalone`  four schedulers in processes of their own
- `preempting`  urgent slots in a full region, each of which needs the place of another
- `gangs`       gangs against a stream of single slots
- `commits`     kinds of optimistic commits: by placement or all or nothing, by resources or by version of a node
"""
