"""Who may speak for what, beyond the kind of sender that the judge has checked.

A region speaks only for itself, and only in a session that has joined with the region's log. The second half is what
keeps a retired region's old machines out: they may still hold credentials and open sessions, but their log cannot
join again, so nothing they say of grants, rights or releases is heard (RULES 8).
"""

from __future__ import annotations

from holdfast.core.ledger.answers import Code, Refused, not_found
from holdfast.core.ledger.registry import Case
from holdfast.core.model.shapes import Revision
from holdfast.core.model.topology import RegionHealth
from holdfast.core.model.workload import WorkloadSpec
from holdfast.core.platform.state import PlatformState

#: The level from which on a region's words are kept with their session.
SESSIONS_SINCE = 2


def region_of(case: Case) -> str:
    """The region that the sender is, by its name."""
    return case.actor.partition("/")[2]


def refuse_impostor(region: str, case: Case) -> Refused | None:
    """The sender is not that region."""
    if region_of(case) == region:
        return None
    return Refused(Code.NOT_OWNER, f"only region/{region} may say that", {"owner": f"region/{region}"})


def refuse_other_region(state: PlatformState, region: str, case: Case) -> Refused | None:
    """The sender is not that region, or there is no such region."""
    refused = refuse_impostor(region, case)
    if refused is not None:
        return refused
    return None if region in state.regions else not_found("Region", region)


def refuse_unjoined(state: PlatformState, region: str, case: Case) -> Refused | None:
    """The sender is not that region, or its session has not joined with the region's log."""
    refused = refuse_other_region(state, region, case)
    if refused is not None:
        return refused
    status = state.regions[region].status
    if status.session == case.envelope.session:
        return None
    facts = {"region": region, "session": case.envelope.session, "joined": status.session}
    if status.health is RegionHealth.RETIRED:
        return Refused(Code.TOMBSTONED, f"region {region} is retired: stop everything, join as a new log", facts)
    return Refused(Code.NO_SESSION, f"this session has not joined with the log of region {region}", facts)


def speaking_in(state: PlatformState, region: str) -> Revision:
    """The session in which a region speaks, as its words are kept: positions are compared within one (ADR 0010).

    In a session that has joined they are the region's own, in the order of its log. Those of an earlier one are not
    held against it: they may be somebody else's, who had its token. Below level 2 nothing is kept of sessions.
    """
    return state.regions[region].status.session if state.facts.level >= SESSIONS_SINCE else 0


def outside_region(case: Case, region: str) -> Refused | None:
    """The sender's scope is another region."""
    scope = case.principal.spec.scope.region if case.principal else ""
    if not scope or scope == region:
        return None
    return Refused(Code.WRONG_SCOPE, f"{case.actor} may act in region {scope} only", {"scope": scope})


def outside_whole_region(case: Case, region: str) -> Refused | None:
    """The sender's scope is another region, or only a part of this one: a tenant or a node."""
    scope = case.principal.spec.scope if case.principal else None
    if scope is None or scope.tenant or scope.node:
        return outside_everywhere(case)
    return outside_region(case, region)


def outside_everywhere(case: Case) -> Refused | None:
    """The sender's scope is narrower than the whole platform."""
    scope = case.principal.spec.scope if case.principal else None
    if scope is None or not (scope.tenant or scope.region or scope.node):
        return None
    facts = {"tenant": scope.tenant, "region": scope.region, "node": scope.node}
    return Refused(Code.WRONG_SCOPE, f"{case.actor} has a scope, and this concerns everybody", facts)


def outside_placement(case: Case, spec: WorkloadSpec) -> Refused | None:
    """The sender's scope is a region, and the workload may be elsewhere."""
    scope = case.principal.spec.scope.region if case.principal else ""
    return None if not scope or spec.placement.regions == (scope,) else outside_region(case, "")


def outside_tenant(case: Case, tenant: str) -> Refused | None:
    """The sender's scope is another tenant."""
    if not case.outside_tenant(tenant):
        return None
    return Refused(Code.WRONG_SCOPE, f"{case.actor} may not act for tenant {tenant}", {"tenant": tenant})
