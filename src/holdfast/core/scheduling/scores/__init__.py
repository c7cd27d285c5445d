"""Score plugins, one per file; the file has the name of the plugin. int64 only, no state between calls.

A score gets a window of rows and returns a number from 0 to `BEST` per row.

- `fragmentation`  nodes on which least capacity becomes useless first
- `packing`    fuller nodes first
- `emptiness`  emptier nodes first
- `balance`    nodes with equal use of processor and memory first
- `near`       nodes close to the groups that the template names first
- `cost`       nodes of cheaper pools first
- `evenness`   domains with fewer replicas of the workload first
- `warm`       nodes that have the artifacts of the template first
- `load`       nodes with less measured load first
- `own_part`   of several schedulers, the own part of the nodes first; in no policy
"""
