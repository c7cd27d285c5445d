"""Reads by key that handlers, queries and reconcilers share."""

from __future__ import annotations

from holdfast.core.model.objects.policies import BUILT_IN_POLICY, EVERYWHERE, SchedulerPolicy, validity_key
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.objects.workloads import Workload
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.region_reports import ObservedWorkload, Overflow
from holdfast.core.model.values.ranges import Ranges
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.platform.state.tables import PlatformState

#: The level from which on a region's words are kept with their session.
SESSIONS_SINCE = 2


def is_left_to_its_region(state: PlatformState, workload: Workload, region: str) -> bool:
    """Whether only the region itself, or a person, can say that nothing of it is left there."""
    return workload.spec.exclusive or state.regions[region].status.health is not RegionHealth.LOST


def last_report(state: PlatformState, workload: Revision, region: str) -> ObservedWorkload | None:
    """What a region said last of a workload."""
    return next((one for one in state.workload_reports.get(workload) or () if one.region == region), None)


def policy_of(state: PlatformState, revision: Revision) -> SchedulerPolicy | None:
    """A revision by its number; 0 is built in."""
    return BUILT_IN_POLICY if revision == BUILT_IN_POLICY.revision else state.policies.get(revision)


def valid_policy(state: PlatformState, region: str, tenant: str) -> SchedulerPolicy:
    """The one policy that is valid for a tenant in a region: its own, the region's, or the built-in one."""
    for scope in (tenant, EVERYWHERE):
        validity = state.validities.get(validity_key(region, scope))
        if validity is not None:
            policy = policy_of(state, validity.revision)
            assert policy is not None, validity
            return policy
    return BUILT_IN_POLICY


def newest_policy(state: PlatformState, name: str) -> SchedulerPolicy | None:
    """The latest revision of the policy of this name."""
    if name == BUILT_IN_POLICY.name:
        return BUILT_IN_POLICY
    return max((one for one in state.policies.values() if one.name == name), key=lambda one: one.revision, default=None)


def reporting_session(state: PlatformState, region: str) -> Revision:
    """The session in which a region speaks, as its words are kept: positions are compared within one (ADR 0010).

    In a session that has joined they are the region's own, in the order of its log. Those of an earlier one are not
    held against it: they may be somebody else's, who had its token. Below level 2 nothing is kept of sessions.
    """
    return state.regions[region].status.session if state.info.level >= SESSIONS_SINCE else 0


def held_in(state: PlatformState, workload: Revision, region: str) -> Ranges:
    """The ordinals of a workload whose right a region holds."""
    return next((ordinals for name, ordinals in state.rights_of.get(workload) or () if name == region), ())


def latest_lease_end(state: PlatformState, workload: Revision, region: str) -> Instant:
    """The latest end of a leased right to this workload that the region was told since level 2; 0: none."""
    return next((until for name, until in state.leases.get(workload) or () if name == region), 0)


def emergencies_of(assignment: Assignment) -> tuple[str, ...]:
    """Of the accounts that pay for an assignment those of emergencies, each once."""
    return tuple(dict.fromkeys(account for account in assignment.accounts if account.startswith("emergency/")))


def overflow_of(state: PlatformState, workload: Revision, region: str) -> Overflow | None:
    """What a region has offered back of a workload, now or earlier."""
    return next((one for one in state.overflows.get(workload) or () if one.region == region), None)


def assignments_of(state: PlatformState, workload: Revision) -> list[Assignment]:
    """A workload's assignments, oldest first."""
    return [state.assignments[uid] for uid in state.assignments_of.get(workload) or ()]
