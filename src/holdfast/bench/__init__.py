"""Benchmarks: one module each, one form of result.

- `report`  what a benchmark reports, and how it is shown
- `region`  a region of any size, filled through its own ledger
- `core`    the pure core: deciding, forking, memory
- `store`   the embedded store: commits, alone and beside a snapshot
"""
