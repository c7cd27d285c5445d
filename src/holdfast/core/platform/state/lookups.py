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

#: Since this level reports of regions are stored with their session.
SESSIONS_SINCE = 2


def is_left_to_its_region(state: PlatformState, workload: Workload, region: str) -> bool:
    """Check whether only the region or an operator can confirm that nothing of the workload is left there."""
    return workload.spec.exclusive or state.regions[region].status.health is not RegionHealth.LOST


def last_report(state: PlatformState, workload: Revision, region: str) -> ObservedWorkload | None:
    """Return a region's last report about a workload."""
    return next((one for one in state.workload_reports.get(workload) or () if one.region == region), None)


def policy_of(state: PlatformState, revision: Revision) -> SchedulerPolicy | None:
    """Return a policy revision by its number; 0 is built in."""
    return BUILT_IN_POLICY if revision == BUILT_IN_POLICY.revision else state.policies.get(revision)


def valid_policy(state: PlatformState, region: str, tenant: str) -> SchedulerPolicy:
    """Return the policy that is valid for a tenant in a region: the tenant's, the region's, or the built-in one."""
    for scope in (tenant, EVERYWHERE):
        validity = state.validities.get(validity_key(region, scope))
        if validity is not None:
            policy = policy_of(state, validity.revision)
            assert policy is not None, validity
            return policy
    return BUILT_IN_POLICY


def newest_policy(state: PlatformState, name: str) -> SchedulerPolicy | None:
    """Return the latest revision of the policy of this name."""
    if name == BUILT_IN_POLICY.name:
        return BUILT_IN_POLICY
    return max((one for one in state.policies.values() if one.name == name), key=lambda one: one.revision, default=None)


def reporting_session(state: PlatformState, region: str) -> Revision:
    """Return the session with which a region's reports are stored; 0 below level 2.

    Positions are compared within one session, in the order of the region's log. Reports of an earlier session do not
    count, since another holder of the bearer token may have sent them (ADR 0010).
    """
    return state.regions[region].status.session if state.info.level >= SESSIONS_SINCE else 0


def held_in(state: PlatformState, workload: Revision, region: str) -> Ranges:
    """Return the ordinals of a workload to which a region holds the right."""
    return next((ordinals for name, ordinals in state.rights_of.get(workload) or () if name == region), ())


def latest_lease_end(state: PlatformState, workload: Revision, region: str) -> Instant:
    """Return the latest end of leased rights to this workload that was sent to the region since level 2; 0: none."""
    return next((until for name, until in state.leases.get(workload) or () if name == region), 0)


def emergencies_of(assignment: Assignment) -> tuple[str, ...]:
    """Return the emergency accounts among those that pay for an assignment, each once."""
    return tuple(dict.fromkeys(account for account in assignment.accounts if account.startswith("emergency/")))


def overflow_of(state: PlatformState, workload: Revision, region: str) -> Overflow | None:
    """Return a region's last offer to give replicas of a workload back, open or ended."""
    return next((one for one in state.overflows.get(workload) or () if one.region == region), None)


def assignments_of(state: PlatformState, workload: Revision) -> list[Assignment]:
    """Return a workload's assignments, oldest first."""
    return [state.assignments[uid] for uid in state.assignments_of.get(workload) or ()]
