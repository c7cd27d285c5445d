"""All of the platform's ledger put together: its rules, what its events do, its invariants, its readers."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.builtin import log, overrides, registry
from holdfast.core.ledger.codec import BatchReader, EnvelopeReader
from holdfast.core.ledger.commit.definition import Book
from holdfast.core.ledger.commit.rules import Lane, Rule
from holdfast.core.model.objects.principals import Right
from holdfast.core.platform import commands as c
from holdfast.core.platform import subjects
from holdfast.core.platform.decide.assignment_stages import activate, adopt, end_assignment, remove_assignment
from holdfast.core.platform.decide.assignments import assign
from holdfast.core.platform.decide.grant_settlement import acknowledge_grant
from holdfast.core.platform.decide.grants import offer_grant
from holdfast.core.platform.decide.objects import delete, put
from holdfast.core.platform.decide.policies import activate_policy, publish_policy, roll_back_policy
from holdfast.core.platform.decide.region_retirement import release_retired, retire_region
from holdfast.core.platform.decide.regions import (
    acknowledge,
    believe_region,
    configure,
    declare_lost,
    join_region,
    judge_region,
)
from holdfast.core.platform.decide.reports import offer_back, report, report_status
from holdfast.core.platform.decide.rights import attest_right, grant_right, release_rights
from holdfast.core.platform.decide.workload_deletion import delete_workload, release_finalizer
from holdfast.core.platform.decide.workloads import put_workload
from holdfast.core.platform.events import PlatformEvent
from holdfast.core.platform.invariants.catalog import INVARIANTS
from holdfast.core.platform.state.evolve import APPLY
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.platform.watch import KEYS, KINDS

ASSIGNMENT = "controller/assignment"
ROLLOUT = "controller/rollout"
FAILOVER = "controller/failover"
GRANT = "controller/grant"
STATUS = "controller/status"
REGION_HEALTH = "controller/region-health"
REPAIR = "controller/repair"
RETIREMENT = "controller/retirement"

_PLANNERS = (ASSIGNMENT, ROLLOUT, FAILOVER)

_OWN: tuple[Rule[Any], ...] = (
    Rule(c.Put, put, ("person",), Lane.OPERATORS,
         "later commands are judged by the new object; regions get their copy",
         "Put with the old spec, or Delete", subject=subjects.of_put),
    Rule(c.Delete, delete, ("person",), Lane.OPERATORS,
         "the object is gone, and its name is free",
         "Put again, under a new uid", subject=subjects.of_delete),
    Rule(c.PutWorkload, put_workload, ("person", "tenant"), Lane.OPERATORS,
         "controllers assign, roll out and scale towards it",
         "PutWorkload with the old spec, or DeleteWorkload", Right.WRITE, subject=subjects.of_put_workload),
    Rule(c.DeleteWorkload, delete_workload, ("person", "tenant"), Lane.OPERATORS,
         "every region ends and releases it",
         "PutWorkload again, under a new uid", Right.WRITE, subject=subjects.of_delete_workload),
    Rule(c.ReportStatus, report_status, (STATUS,), Lane.RECONCILERS,
         "people see progress",
         "the next report"),
    Rule(c.Assign, assign, _PLANNERS, Lane.RECONCILERS,
         "a region opens or withdraws slots",
         "Assign with the old counts, or EndAssignment", subject=subjects.of_assign),
    Rule(c.Activate, activate, (FAILOVER,), Lane.RECONCILERS,
         "a survivor swaps placeholders for bindings and reclaims what was borrowed",
         "EndAssignment, after fail-back"),
    Rule(c.EndAssignment, end_assignment, _PLANNERS, Lane.RECONCILERS,
         "a region ends and releases every slot of it",
         "Assign again, once the region has removed it", subject=subjects.of_end),
    Rule(c.RemoveAssignment, remove_assignment, ("region",), Lane.REPORTS,
         "the identities in it are free; the last one of a deleted workload removes it",
         "nothing to undo: the region has released it"),
    Rule(c.ReleaseFinalizer, release_finalizer, (REPAIR,), Lane.RECONCILERS,
         "a deletion goes on without a lost region; the last one removes the workload",
         "nothing to undo: should the region come back, it is not to have the workload and ends it"),
    Rule(c.OfferBack, offer_back, ("region",), Lane.REPORTS,
         "replicas that the region cannot place may be assigned elsewhere",
         "its end: after that the region is asked again"),
    Rule(c.Adopt, adopt, (FAILOVER,), Lane.RECONCILERS,
         "the quota pays for it and the recovery budget is free again",
         "EndAssignment; recovery stands by under a new assignment"),
    Rule(c.OfferGrant, offer_grant, (GRANT,), Lane.RECONCILERS,
         "a region may spend it, until its end",
         "OfferGrant of less, once the region acknowledges; RetireRegion"),
    Rule(c.AcknowledgeGrant, acknowledge_grant, ("region",), Lane.REPORTS,
         "what the region gave back can be lent again; what it holds beyond its grant is charged",
         "OfferGrant of more"),
    Rule(c.GrantRight, grant_right, (ASSIGNMENT, FAILOVER), Lane.RECONCILERS,
         "the region may start that identity",
         "ReleaseRights, AttestRight, RetireRegion; the lease where it is leased"),
    Rule(c.ReleaseRights, release_rights, ("region",), Lane.REPORTS,
         "other regions may be given the identities",
         "GrantRight"),
    Rule(c.AttestRight, attest_right, ("person",), Lane.OPERATORS,
         "another region may be given the identity, on a person's word",
         "nothing: an attestation is a statement of fact; GrantRight gives the right again", Right.BREAK_GLASS, subject=subjects.of_right),
    Rule(c.JoinRegion, join_region, ("region",), Lane.PROOFS,
         "this log, in this session, speaks for the region",
         "RetireRegion"),
    Rule(c.Acknowledge, acknowledge, ("region",), Lane.REPORTS,
         "what the region has applied counts as acknowledged; it is heard",
         "BelieveRegion: a person lets the region begin again at what it shows"),
    Rule(c.BelieveRegion, believe_region, ("person",), Lane.OPERATORS,
         "what was acknowledged of the region's log counts no more; what it acknowledges next does",
         "Acknowledge: the region says how far it is", Right.BREAK_GLASS, subject=subjects.of_region),
    Rule(c.Report, report, ("region",), Lane.REPORTS,
         "controllers and people see how the region and its workloads fare",
         "the next report"),
    Rule(c.JudgeRegion, judge_region, (REGION_HEALTH,), Lane.RECONCILERS,
         "suspect: nothing new goes there; lost: failover may begin",
         "JudgeRegion healthy, once it is heard"),
    Rule(c.DeclareLost, declare_lost, ("person",), Lane.OPERATORS,
         "failover may begin, and no escrow returns",
         "JudgeRegion healthy, once it is heard", Right.OVERRIDE, subject=subjects.of_region),
    Rule(c.RetireRegion, retire_region, ("person",), Lane.OPERATORS,
         "all it held is released, and its log is tombstoned",
         "JoinRegion as a new log, with nothing", Right.BREAK_GLASS, subject=subjects.of_region),
    Rule(c.ReleaseRetired, release_retired, (RETIREMENT,), Lane.RECONCILERS,
         "one more part of what a retired region held is free",
         "nothing to undo: a person has attested that nothing runs there"),
    Rule(c.PublishPolicy, publish_policy, ("person",), Lane.OPERATORS,
         "a draft exists",
         "RollBackPolicy; a draft is valid nowhere", Right.PROMOTE_POLICY, subject=subjects.of_publication),
    Rule(c.ActivatePolicy, activate_policy, ("person",), Lane.OPERATORS,
         "schedulers there weigh by it from now on",
         "ActivatePolicy of the one before, or RollBackPolicy", Right.PROMOTE_POLICY, subject=subjects.of_validity),
    Rule(c.RollBackPolicy, roll_back_policy, ("person",), Lane.OPERATORS,
         "its successor is valid wherever it was",
         "PublishPolicy with the same document, as a new revision", Right.PROMOTE_POLICY, subject=subjects.of_rollback),
)  # fmt: skip

_HOUSE = tuple(
    replace(rule, handler=configure) if rule.command is log.Configure else rule for rule in registry.rules("region")
)
RULES: dict[type, Rule[Any]] = {rule.command: rule for rule in (*_HOUSE, *overrides.RULES, *_OWN)}

PLATFORM: Book[PlatformState] = Book(
    name="platform",
    empty=PlatformState,
    rules=RULES,
    apply=APPLY,
    keys=KEYS,
    kinds=KINDS,
    invariants=INVARIANTS,
    batches=BatchReader(PlatformEvent),
    envelopes=EnvelopeReader(c.PlatformCommand),
)
