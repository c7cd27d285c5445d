"""Benchmarks of limits: `holdfast bench limits`.

Lives here: one case per limit of admission, and how its end is measured. Must not: measure below a
limit, except in the small form.

- `case`                what a case is, and the ledger that it runs on
- `platform_cases`      the limits of the platform's ledger
- `region_cases`        the limits of a region's ledger
- `server_cases`        the limit of server tokens
- `table`               all cases, and how one is measured
- `silent_region`       a whole region becomes silent at once
- `exclusive_workload`  the largest exclusive workload, and a neighbour's reads meanwhile
- `suite`               all figures
"""
