"""Controllers of the platform ledger. None reads the state of a region.

- `assignment`             sends the commands that split a workload over regions; the counts are those of
                           `assignment_split`
- `assignment_candidates`  the candidate regions, the known facts of each, and the counts that follow from them
- `assignment_split`       how many replicas where: ideal, target, next step
- `assignment_identities`  which region runs which exclusive ordinal, and which rights are requested back to move them
- `assignment_disruption`  shares of the disruption budget
- `grant`                  when a grant is offered, renewed or called back; the amounts are those of `grant_targets`
- `grant_targets`          how much of each account a region is granted, and the protected part
- `grant_slices`           how much of one quota each region is granted, also after it was lowered
- `region_health`          a region whose session has ended is suspect, then lost; healthy once it reports. Silence
                           itself is noticed by `host.leader.session_monitor`. A retired region releases all it held
- `finalizer`              releases the finalizer of a lost region after its deadline
- `status`                 reports the status of a workload
- `status_progress`        counts over regions
- `status_conditions`      conditions from those counts
- `status_reasons`         reasons and their order of gravity
"""
