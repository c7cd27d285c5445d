"""Controllers of the platform ledger. None reads the state of a region.

- `assignment`             splits every workload over regions
- `assignment_candidates`  the candidate regions, and the known facts of each
- `assignment_split`       how many replicas where: ideal, target, next step
- `assignment_identities`  which region runs which exclusive ordinal
- `assignment_disruption`  shares of the disruption budget
- `grant`                  grants every account to regions by demand
- `grant_targets`          the amount that each region should hold of an account, and the protected part of it
- `grant_slices`           the arithmetic of slicing one account
- `region_health`          suspect, lost, healthy again
- `retirement`             releases what a retired region held, part by part
- `finalizer`              releases the finalizer of a lost region after its deadline
- `status`                 reports the status of a workload
- `status_progress`        counts over regions
- `status_conditions`      conditions from those counts
- `status_reasons`         reasons and their order of gravity
"""
