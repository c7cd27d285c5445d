"""Checks of senders, scopes and names that all handlers share.

A region reports only about itself, in a session that has joined with the region's log. A retired region's old machines
may still have credentials and sessions, but their log cannot join, so their messages about grants, rights and releases
are refused (RULES 8).

A name contains no character that joins names elsewhere. Keys such as `tenant/name` and `region|account` are therefore
unambiguous, and no object's name can pass for another's.
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

#: Names of workloads may contain slashes. A tenant's name has none, so the key can still be split.
_PATH = re.compile(r"[a-z0-9]([-a-z0-9./]{0,126}[a-z0-9])?")

#: A policy's name begins with a letter, so that none looks like a revision, by which policies are found, too.
_POLICY = re.compile(r"[a-z]([-a-z0-9.]{0,126}[a-z0-9])?")

#: A region's name has no slash: `region/NAME/SERVER` is a server of that region, and operators cannot create those.
_PRINCIPAL = re.compile(
    r"((" + "|".join(one for one in (*MACHINES, *PEOPLE) if one != "region") + r")/"
    r"(\*|[a-z0-9]([-a-z0-9._@/]{0,126}[a-z0-9])?)|region/(\*|[a-z0-9]([-a-z0-9._@]{0,126}[a-z0-9])?))"
)


def region_of(ctx: CommandContext) -> str:
    """Return the name of the region that sends the command."""
    return ctx.actor.partition("/")[2]


def refuse_other_sender(region: str, ctx: CommandContext) -> Refused | None:
    """Refuse a sender that is not that region."""
    if region_of(ctx) == region:
        return None
    return Refused(Code.NOT_OWNER, f"only region/{region} may send this", {"owner": f"region/{region}"})


def refuse_other_region(state: PlatformState, region: str, ctx: CommandContext) -> Refused | None:
    """Refuse a sender that is not that region, and a region that does not exist."""
    refused = refuse_other_sender(region, ctx)
    if refused is not None:
        return refused
    return None if region in state.regions else not_found("Region", region)


def refuse_unjoined_session(state: PlatformState, region: str, ctx: CommandContext) -> Refused | None:
    """Refuse a sender that is not that region, or whose session has not joined with the region's log."""
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
    """Refuse a sender whose scope is another region."""
    scope = ctx.principal.spec.scope.region if ctx.principal else ""
    if not scope or scope == region:
        return None
    return Refused(Code.WRONG_SCOPE, f"{ctx.actor} may act in region {scope} only", {"scope": scope})


def refuse_outside_whole_region(ctx: CommandContext, region: str) -> Refused | None:
    """Refuse a sender whose scope is another region, or only a tenant or a node of this one."""
    scope = ctx.principal.spec.scope if ctx.principal else None
    if scope is None or scope.tenant or scope.node:
        return refuse_outside_everywhere(ctx)
    return refuse_outside_region(ctx, region)


def refuse_outside_everywhere(ctx: CommandContext) -> Refused | None:
    """Refuse a sender whose scope is narrower than the whole platform."""
    scope = ctx.principal.spec.scope if ctx.principal else None
    if scope is None or not (scope.tenant or scope.region or scope.node):
        return None
    facts = {"tenant": scope.tenant, "region": scope.region, "node": scope.node}
    return Refused(Code.WRONG_SCOPE, f"{ctx.actor} has a scope, and this concerns the whole platform", facts)


def refuse_outside_placement(ctx: CommandContext, spec: WorkloadSpec) -> Refused | None:
    """Refuse a sender whose scope is a region, if the workload may run elsewhere."""
    scope = ctx.principal.spec.scope.region if ctx.principal else ""
    return None if not scope or spec.placement.regions == (scope,) else refuse_outside_region(ctx, "")


def refuse_outside_tenant(ctx: CommandContext, tenant: str) -> Refused | None:
    """Refuse a sender whose scope is another tenant."""
    if not ctx.outside_tenant(tenant):
        return None
    return Refused(Code.WRONG_SCOPE, f"{ctx.actor} may not act for tenant {tenant}", {"tenant": tenant})


def refuse_name(kind: str, name: str) -> Refused | None:
    """Refuse a name that does not have the form of its kind; the facts contain that form."""
    pattern = {"Principal": _PRINCIPAL, "Workload": _PATH, "SchedulerPolicy": _POLICY}.get(kind, _NAME)
    if pattern.fullmatch(name):
        return None
    facts = {"kind": kind, "name": name, "form": pattern.pattern}
    return Refused(Code.MALFORMED, f"{name!r} is no name for a {kind}", facts)


def refuse_marks(meta: Meta) -> Refused | None:
    """Refuse labels or annotations with a repeated, empty or too long key. An annotation may be longer than a label."""
    return _refuse_pairs("label", meta.labels) or _refuse_pairs("annotation", meta.annotations)


def _refuse_pairs(what: str, marks: Labels) -> Refused | None:
    keys = [key for key, _ in marks]
    if len(set(keys)) != len(keys) or not all(keys):
        return Refused(Code.MALFORMED, f"each {what} has a key, and no key appears twice", {"keys": sorted(keys)})
    longest = max(map(len, keys), default=0)
    if longest > TEXT_MAX:
        facts = {"size": longest, "most": TEXT_MAX}
        return Refused(
            Code.MALFORMED, f"{longest} characters in the key of a {what}; at most {TEXT_MAX} are taken", facts
        )
    return None


def refuse_reason(reason: str) -> Refused | None:
    """Refuse an empty or too long reason."""
    if reason.strip() and len(reason) <= REASON_MAX:
        return None
    return Refused(Code.MALFORMED, f"give a reason of 1 to {REASON_MAX} characters", {"characters": len(reason)})


def refuse_amount(what: str, amount: Resources) -> Refused | None:
    """Refuse an amount that is not valid."""
    why = amount_problem(amount)
    return malformed(f"{what}: {why}", field=what) if why else None


def refuse_unknown(kind: str, names: Iterable[str], table: Table[str, Any]) -> Refused | None:
    """Refuse the first of these names that is not in the table."""
    return next((not_found(kind, name) for name in names if name not in table), None)


def refuse_other_uid(key: str, meta: Meta, uid: Revision) -> Refused | None:
    """Refuse a command for another object of the same name."""
    if uid in (0, meta.uid):
        return None
    return stale(key, uid, meta.revision, "it was deleted and created again")
