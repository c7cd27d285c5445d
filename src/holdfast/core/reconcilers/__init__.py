"""Controllers as pure functions of state, key and time: what to send. The hosts run them beside a leader.

- `overrides`       an override ends at its end, in either ledger
- `region_health`   a region that is silent is suspect, then lost; heard again, it is healthy
"""
