"""Drivers: they start and end runs. A driver must not know sessions or ledgers.

- `driver`      the port: `RunSpec`, `RunStatus`, `CannotStart`, `Driver`; its isolation
- `simulated`   no processes, any clock
- `process`     real processes
"""
