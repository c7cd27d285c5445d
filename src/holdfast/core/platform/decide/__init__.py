"""Command handlers of the platform: state in, `Accepted(events)` or `Refused` out.

A handler never writes state. Only `definition` imports this folder, and the offline checks of the API.

- `checks`             names, scopes, senders: checks that all handlers share
- `objects`            Put, Delete
- `object_kinds`       per kind: what a Put must satisfy, and what still refers to the object
- `workloads`          PutWorkload: admission of a workload
- `workload_deletion`  DeleteWorkload, ReleaseFinalizer, templates that no workload names
- `assignments`        Assign
- `assignment_stages`  Activate, EndAssignment, RemoveAssignment, Adopt
- `rights`             GrantRight, ReleaseRights, AttestRight
- `grants`             OfferGrant
- `grant_settlement`   AcknowledgeGrant
- `regions`            JoinRegion, Acknowledge, BelieveRegion, JudgeRegion, DeclareLost
- `region_retirement`  RetireRegion, ReleaseRetired
- `reports`            Report, OfferBack, ReportStatus
- `policies`           PublishPolicy, ActivatePolicy, RollBackPolicy
- `breaches`           breach events that follow from a change
"""
