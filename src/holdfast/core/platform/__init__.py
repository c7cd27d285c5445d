"""The platform's ledger: what is wanted, what it may cost, and what each region is given to act on alone.

People and tenants write objects; controllers turn them into assignments, grants and rights; regions answer from their
own logs. The platform never assumes what a region has not said: escrow comes back, identities move and deletions
complete on evidence only.

- `state`              its tables, and how the derived ones are rebuilt
- `commands`           what it can be asked
- `events`             what can become true
- `names`              what a name may look like
- `senders`            who may speak for what
- `objects`            Put, Delete: what operators write
- `checks`, `uses`     what a Put must satisfy, and what refuses a Delete, kind by kind
- `admission`          PutWorkload: what a tenant may ask for
- `fitting`            whether a workload could ever fit, from what regions tell of their nodes
- `deadlines`          until when batch work is to be done, and whether it was, or can be
- `endings`            DeleteWorkload: how a workload ends
- `templates`          who names a template, and when one is forgotten
- `assignments`        Assign: how much of a workload a region has
- `identities`         exclusive identities inside assignments, and leases
- `stages`             Activate, EndAssignment, RemoveAssignment, Adopt
- `accounts`           who pays, and how much an account may be lent out
- `escrow`, `settling` OfferGrant; AcknowledgeGrant: lending to regions, and what they say that they hold
- `rights`             GrantRight, ReleaseRights, AttestRight: identities move by evidence
- `regions`            JoinRegion, Acknowledge, BelieveRegion, JudgeRegion, DeclareLost
- `retirement`         RetireRegion, ReleaseRetired: a tombstone, and everything released after it
- `policies`           PublishPolicy, ActivatePolicy, RollBackPolicy
- `reports`            ReportStatus
- `observing`          Report, OfferBack: what regions say of themselves; `observed` what that changes
- `finalizers`         what a deletion waits for in vain is let go of at its deadline
- `breaches`           promises that somebody's right has broken: open, with an owner and a deadline
- `repairs`            what waits to be ended or put right: by whom, since when, and what to do
- `evolve`             what each event does: the only code that changes the platform's state
- `holders`            what the events of rights and leases do
- `keys`               what each event touches, for watches
- `invariants`         what must hold in every state: `invariants_escrow` of grants, `invariants_regions` of what
                       regions hold and say, `invariants_counts` of the derived tables; all over
                       `invariants_places`, which are everywhere or near what was written
- `book`               all of it put together
"""
