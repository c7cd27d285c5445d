"""The definition of the platform ledger: command rules, event functions, invariants and readers."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.builtin import log, overrides, registry
from holdfast.core.ledger.codec import BatchReader, EnvelopeReader
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.rules import CommandLane, CommandRule
from holdfast.core.model.objects.principals import Permission
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
from holdfast.core.platform.watch import WATCH_KEYS, WATCH_KINDS

ASSIGNMENT = "controller/assignment"
ROLLOUT = "controller/rollout"
FAILOVER = "controller/failover"
GRANT = "controller/grant"
STATUS = "controller/status"
REGION_HEALTH = "controller/region-health"
REPAIR = "controller/repair"
RETIREMENT = "controller/retirement"

_PLANNERS = (ASSIGNMENT, ROLLOUT, FAILOVER)

_OWN: tuple[CommandRule[Any], ...] = (
    CommandRule(c.Put, put, ("person",), CommandLane.OPERATORS,
         "later commands are decided with the new object; regions get their copy",
         "Put with the old spec, or Delete", subject=subjects.of_put),
    CommandRule(c.Delete, delete, ("person",), CommandLane.OPERATORS,
         "the object is deleted, and its name is free",
         "Put again, under a new uid", subject=subjects.of_delete),
    CommandRule(c.PutWorkload, put_workload, ("person", "tenant"), CommandLane.OPERATORS,
         "controllers assign, roll out and scale to match it",
         "PutWorkload with the old spec, or DeleteWorkload", Permission.WRITE, subject=subjects.of_put_workload),
    CommandRule(c.DeleteWorkload, delete_workload, ("person", "tenant"), CommandLane.OPERATORS,
         "every region ends and releases its replicas",
         "PutWorkload again, under a new uid", Permission.WRITE, subject=subjects.of_delete_workload),
    CommandRule(c.ReportStatus, report_status, (STATUS,), CommandLane.RECONCILERS,
         "readers of the workload see its progress",
         "the next report"),
    CommandRule(c.Assign, assign, _PLANNERS, CommandLane.RECONCILERS,
         "a region opens or withdraws slots",
         "Assign with the old counts, or EndAssignment", subject=subjects.of_assign),
    CommandRule(c.Activate, activate, (FAILOVER,), CommandLane.RECONCILERS,
         "a surviving region binds slots in its reserved room and takes back what was borrowed of it",
         "EndAssignment, after fail-back"),
    CommandRule(c.EndAssignment, end_assignment, _PLANNERS, CommandLane.RECONCILERS,
         "the region ends and releases every slot of the assignment",
         "Assign again, once the region has removed it", subject=subjects.of_end),
    CommandRule(c.RemoveAssignment, remove_assignment, ("region",), CommandLane.REPORTS,
         "its identities are free; the last assignment of a deleted workload removes the workload",
         "nothing to undo: the region has released the assignment"),
    CommandRule(c.ReleaseFinalizer, release_finalizer, (REPAIR,), CommandLane.RECONCILERS,
         "a deletion continues without a lost region; the last finalizer removes the workload",
         "nothing to undo: a region that returns no longer has the workload assigned and ends it"),
    CommandRule(c.OfferBack, offer_back, ("region",), CommandLane.REPORTS,
         "replicas that the region cannot place may be assigned elsewhere",
         "the end of the offer: after it the region may get the replicas again"),
    CommandRule(c.Adopt, adopt, (FAILOVER,), CommandLane.RECONCILERS,
         "the quota is charged for it, and the recovery budget is free again",
         "EndAssignment; a new standby assignment covers recovery"),
    CommandRule(c.OfferGrant, offer_grant, (GRANT,), CommandLane.RECONCILERS,
         "the region may use the grant until its end",
         "OfferGrant of less, once the region acknowledges; RetireRegion"),
    CommandRule(c.AcknowledgeGrant, acknowledge_grant, ("region",), CommandLane.REPORTS,
         "what the region released can be granted again; what it holds beyond its grant is charged",
         "OfferGrant of more"),
    CommandRule(c.GrantRight, grant_right, (ASSIGNMENT, FAILOVER), CommandLane.RECONCILERS,
         "the region may start that identity",
         "ReleaseRights, AttestRight, RetireRegion; for a leased right the end of its lease"),
    CommandRule(c.ReleaseRights, release_rights, ("region",), CommandLane.REPORTS,
         "other regions may be given the identities",
         "GrantRight"),
    CommandRule(c.AttestRight, attest_right, ("person",), CommandLane.OPERATORS,
         "another region may be given the identity, on the operator's attestation",
         "nothing: an attestation is a statement of fact; GrantRight gives the right again", Permission.BREAK_GLASS, subject=subjects.of_right),
    CommandRule(c.JoinRegion, join_region, ("region",), CommandLane.PROOFS,
         "the platform accepts reports of the region from this log, in this session",
         "RetireRegion"),
    CommandRule(c.Acknowledge, acknowledge, ("region",), CommandLane.REPORTS,
         "the region's position is acknowledged, and its time of last contact is updated",
         "BelieveRegion: the region's next acknowledgement sets its position"),
    CommandRule(c.BelieveRegion, believe_region, ("person",), CommandLane.OPERATORS,
         "the acknowledged position of the region's log is dropped; its next acknowledgement counts",
         "Acknowledge: the region reports its position", Permission.BREAK_GLASS, subject=subjects.of_region),
    CommandRule(c.Report, report, ("region",), CommandLane.REPORTS,
         "controllers and readers see the state of the region and its workloads",
         "the next report"),
    CommandRule(c.JudgeRegion, judge_region, (REGION_HEALTH,), CommandLane.RECONCILERS,
         "suspect: nothing new is assigned there; lost: failover may begin",
         "JudgeRegion healthy, once the region is in contact again"),
    CommandRule(c.DeclareLost, declare_lost, ("person",), CommandLane.OPERATORS,
         "failover may begin; the region's grants and rights stay charged",
         "JudgeRegion healthy, once the region is in contact again", Permission.OVERRIDE, subject=subjects.of_region),
    CommandRule(c.RetireRegion, retire_region, ("person",), CommandLane.OPERATORS,
         "all that the region held is released, and its log is tombstoned",
         "JoinRegion as a new log, with nothing", Permission.BREAK_GLASS, subject=subjects.of_region),
    CommandRule(c.ReleaseRetired, release_retired, (RETIREMENT,), CommandLane.RECONCILERS,
         "one more part of what a retired region held is released",
         "nothing to undo: an operator has attested that nothing runs there"),
    CommandRule(c.PublishPolicy, publish_policy, ("person",), CommandLane.OPERATORS,
         "a draft exists",
         "RollBackPolicy; a draft is valid nowhere", Permission.PROMOTE_POLICY, subject=subjects.of_publication),
    CommandRule(c.ActivatePolicy, activate_policy, ("person",), CommandLane.OPERATORS,
         "schedulers of the region use its weights from now on",
         "ActivatePolicy of the old one, or RollBackPolicy", Permission.PROMOTE_POLICY, subject=subjects.of_validity),
    CommandRule(c.RollBackPolicy, roll_back_policy, ("person",), CommandLane.OPERATORS,
         "its successor is valid wherever the revision was",
         "PublishPolicy with the same document, as a new revision", Permission.PROMOTE_POLICY, subject=subjects.of_rollback),
)  # fmt: skip

_HOUSE = tuple(
    replace(rule, handler=configure) if rule.command is log.Configure else rule for rule in registry.rules("region")
)
RULES: dict[type, CommandRule[Any]] = {rule.command: rule for rule in (*_HOUSE, *overrides.RULES, *_OWN)}

PLATFORM: LedgerDefinition[PlatformState] = LedgerDefinition(
    name="platform",
    empty=PlatformState,
    rules=RULES,
    apply=APPLY,
    keys=WATCH_KEYS,
    kinds=WATCH_KINDS,
    invariants=INVARIANTS,
    batches=BatchReader(PlatformEvent),
    envelopes=EnvelopeReader(c.PlatformCommand),
)
