"""Rules that hold in every region state, each written once over a scan. They use no function of `decide`.

- `scan`      the rows to check: all of them, or those near a batch
- `counts`    counts and indexes against their rows
- `slots`     unique binding, devices, ports, epochs, references
- `accounts`  charges, grants, node usage, capacity, residency, rights
- `catalog`   the list `INVARIANTS`
"""
