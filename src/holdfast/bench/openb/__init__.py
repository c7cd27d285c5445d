"""Packing of one region: the published experiment on a real GPU cluster, through scheduler and ledger.

- `suite`      the rows, their targets, and `holdfast bench openb`
- `arrivals`   the order in which pods arrive, by seed
- `pool`       a region in which each pod is placed at once or dropped
- `baselines`  published scores to compare with
"""
