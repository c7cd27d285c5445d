"""Command handlers of the platform: state in, `Accepted(events)` or `Refused` out.

A handler never writes state. Only `definition` and the offline checks of the API import this folder.

- `checks`             names, scopes, senders: checks that all handlers share
- `objects`            Put, Delete
- `object_kinds`       per kind: the checks of a Put, and the references that prevent a Delete
- `workloads`          PutWorkload: admission of a workload
- `workload_deletion`  DeleteWorkload, ReleaseFinalizer, templates that no workload names
- `assignments`        Assign
- `assignment_stages`  Activate, EndAssignment, RemoveAssignment, Adopt
- `rights`             GrantRight, ReleaseRights, AttestRight: the right to an exclusive ordinal leaves one region
                       before another gets it; moves are planned by `core.reconcilers.platform.assignment_identities`
- `grants`             OfferGrant: escrow. A grant counts as the largest value that its region may still act on, so a
                       lower offer frees nothing yet
- `grant_settlement`   AcknowledgeGrant: frees what the region no longer holds
- `regions`            JoinRegion, Acknowledge, BelieveRegion, JudgeRegion, DeclareLost
- `region_retirement`  RetireRegion, ReleaseRetired
- `reports`            Report, OfferBack, ReportStatus
- `policies`           PublishPolicy, ActivatePolicy, RollBackPolicy
- `breaches`           breach events that follow from a change
"""
