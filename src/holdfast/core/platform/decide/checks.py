"""Who may speak for what, beyond the kind of sender that the judge has checked.

A region speaks only for itself, and only in a session that has joined with the region's log. The second half is what
keeps a retired region's old machines out: they may still hold credentials and open sessions, but their log cannot
join again, so nothing they say of grants, rights or releases is heard (RULES 8).

What a name may look like.

The one idea: no name may hold a character that joins names elsewhere. Keys such as `tenant/name` and `region|account`
then read back in one way only, and nobody can name an object so that it passes for another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from holdfast.core.ledger.answers import Code, Refused, malformed, not_found, stale
from holdfast.core.ledger.commit.authorization import MACHINES, PEOPLE
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.ledger.state.table import Table
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.objects.workloads import WorkloadSpec
from holdfast.core.model.values.limits import REASON_MAX, TEXT_MAX
from holdfast.core.model.values.metadata import Labels, Meta
from holdfast.core.model.values.resources import Resources, amount_problem
from holdfast.core.model.values.structs import Revision
from holdfast.core.platform.state.tables import PlatformState

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,126}[a-z0-9])?")

#: Workloads may be grouped with slashes: their tenant's name has none, so the key still reads back.
_PATH = re.compile(r"[a-z0-9]([-a-z0-9./]{0,126}[a-z0-9])?")

#: A policy's begins with a letter: so none looks like a revision, by which policies are found too.
_POLICY = re.compile(r"[a-z]([-a-z0-9.]{0,126}[a-z0-9])?")

#: A region's has no slash in it: `region/NAME/SERVER` is a server of that region, and nobody creates those.
_PRINCIPAL = re.compile(
    r"((" + "|".join(one for one in (*MACHINES, *PEOPLE) if one != "region") + r")/"
    r"(\*|[a-z0-9]([-a-z0-9._@/]{0,126}[a-z0-9])?)|region/(\*|[a-z0-9]([-a-z0-9._@]{0,126}[a-z0-9])?))"
)


def region_of(ctx: CommandContext) -> str:
    """The region that the sender is, by its name."""
    return ctx.actor.partition("/")[2]


def refuse_other_sender(region: str, ctx: CommandContext) -> Refused | None:
    """The sender is not that region."""
    if region_of(ctx) == region:
        return None
    return Refused(Code.NOT_OWNER, f"only region/{region} may say that", {"owner": f"region/{region}"})


def refuse_other_region(state: PlatformState, region: str, ctx: CommandContext) -> Refused | None:
    """The sender is not that region, or there is no such region."""
    refused = refuse_other_sender(region, ctx)
    if refused is not None:
        return refused
    return None if region in state.regions else not_found("Region", region)


def refuse_unjoined_session(state: PlatformState, region: str, ctx: CommandContext) -> Refused | None:
    """The sender is not that region, or its session has not joined with the region's log."""
    refused = refuse_other_region(state, region, ctx)
    if refused is not None:
        return refused
    status = state.regions[region].status
    if status.session == ctx.envelope.session:
        return None
    facts = {"region": region, "session": ctx.envelope.session, "joined": status.session}
    if status.health is RegionHealth.RETIRED:
        return Refused(Code.TOMBSTONED, f"region {region} is retired: stop everything, join as a new log", facts)
    return Refused(Code.NO_SESSION, f"this session has not joined with the log of region {region}", facts)


def refuse_outside_region(ctx: CommandContext, region: str) -> Refused | None:
    """The sender's scope is another region."""
    scope = ctx.principal.spec.scope.region if ctx.principal else ""
    if not scope or scope == region:
        return None
    return Refused(Code.WRONG_SCOPE, f"{ctx.actor} may act in region {scope} only", {"scope": scope})


def refuse_outside_whole_region(ctx: CommandContext, region: str) -> Refused | None:
    """The sender's scope is another region, or only a part of this one: a tenant or a node."""
    scope = ctx.principal.spec.scope if ctx.principal else None
    if scope is None or scope.tenant or scope.node:
        return refuse_outside_everywhere(ctx)
    return refuse_outside_region(ctx, region)


def refuse_outside_everywhere(ctx: CommandContext) -> Refused | None:
    """The sender's scope is narrower than the whole platform."""
    scope = ctx.principal.spec.scope if ctx.principal else None
    if scope is None or not (scope.tenant or scope.region or scope.node):
        return None
    facts = {"tenant": scope.tenant, "region": scope.region, "node": scope.node}
    return Refused(Code.WRONG_SCOPE, f"{ctx.actor} has a scope, and this concerns everybody", facts)


def refuse_outside_placement(ctx: CommandContext, spec: WorkloadSpec) -> Refused | None:
    """The sender's scope is a region, and the workload may be elsewhere."""
    scope = ctx.principal.spec.scope.region if ctx.principal else ""
    return None if not scope or spec.placement.regions == (scope,) else refuse_outside_region(ctx, "")


def refuse_outside_tenant(ctx: CommandContext, tenant: str) -> Refused | None:
    """The sender's scope is another tenant."""
    if not ctx.outside_tenant(tenant):
        return None
    return Refused(Code.WRONG_SCOPE, f"{ctx.actor} may not act for tenant {tenant}", {"tenant": tenant})


def refuse_name(kind: str, name: str) -> Refused | None:
    """A name that is not one, with the form that its kind asks for."""
    pattern = {"Principal": _PRINCIPAL, "Workload": _PATH, "SchedulerPolicy": _POLICY}.get(kind, _NAME)
    if pattern.fullmatch(name):
        return None
    facts = {"kind": kind, "name": name, "form": pattern.pattern}
    return Refused(Code.MALFORMED, f"{name!r} is no name for a {kind}", facts)


def refuse_marks(meta: Meta) -> Refused | None:
    """Labels and annotations name each key once; an annotation may be longer than a label, its key may not."""
    return _refuse_pairs("label", meta.labels) or _refuse_pairs("annotation", meta.annotations)


def _refuse_pairs(what: str, marks: Labels) -> Refused | None:
    keys = [key for key, _ in marks]
    if len(set(keys)) != len(keys) or not all(keys):
        return Refused(Code.MALFORMED, f"each {what} has a key, and each key comes once", {"keys": sorted(keys)})
    longest = max(map(len, keys), default=0)
    if longest > TEXT_MAX:
        facts = {"size": longest, "most": TEXT_MAX}
        return Refused(
            Code.MALFORMED, f"{longest} characters in the key of a {what}; at most {TEXT_MAX} are taken", facts
        )
    return None


def refuse_reason(reason: str, most: int = REASON_MAX) -> Refused | None:
    """What people do with consequences says why."""
    if reason.strip() and len(reason) <= most:
        return None
    return Refused(Code.MALFORMED, f"say why, in 1 to {most} characters", {"characters": len(reason)})


def refuse_amount(what: str, amount: Resources) -> Refused | None:
    """No amount that anybody may declare."""
    why = amount_problem(amount)
    return malformed(f"{what}: {why}", field=what) if why else None


def refuse_unknown(kind: str, names: Iterable[str], table: Table[str, Any]) -> Refused | None:
    """The first of these names that nothing has."""
    return next((not_found(kind, name) for name in names if name not in table), None)


def refuse_other_uid(key: str, meta: Meta, uid: Revision) -> Refused | None:
    """The sender means another object of the same name."""
    if uid in (0, meta.uid):
        return None
    return stale(key, uid, meta.revision, "it was deleted and made again")
