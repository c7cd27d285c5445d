"""Benchmarks of limits: `holdfast bench limits`.

Contents: one case per limit of admission, and the measurement of its end. Only --small measures below a limit.

- `case`                what a case is, and the ledger that it runs on
- `platform_cases`      the limits of the platform's ledger
- `region_cases`        the limits of a region's ledger
- `server_cases`        the limit of server tokens
- `table`               all cases, and how one is measured
- `silent_region`       a region in which all agents become silent at once
- `exclusive_workload`  the largest exclusive workload, and another tenant's reads meanwhile
- `suite`               all figures
"""
