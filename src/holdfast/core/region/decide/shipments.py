"""Ship: apply a step of the platform's log, with its cursor in the same record (RULES 14).

A step at or before the cursor is refused as applied already. A gap stops the stream. Another log requires a full list,
which deletes unlisted objects (see `full_list`). The region settles each grant from its own charges:
`limit = max(target, charged)` (RULES 7).

StandDown: the platform has retired this region, so everything here ends (RULES 8).

The link sends it once the platform answers that the region's log is tombstoned. Assignments get the stage `ended`, so
controllers stop and release their slots as usual. Grants admit no new charge.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.answers import Accepted, Code, Refused, not_found, too_large
from holdfast.core.ledger.codec import encode, template_digest
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.ledger.partial import PARTS_MAX
from holdfast.core.model.records.assignments import Assignment, AssignmentStage
from holdfast.core.model.records.grants import AcceptedGrant
from holdfast.core.model.records.servers import ledger_of
from holdfast.core.model.values.resources import ZERO, elementwise_max
from holdfast.core.region import commands as c
from holdfast.core.region import events as e
from holdfast.core.region.commands import StandDown
from holdfast.core.region.decide.breaches import breach_events
from holdfast.core.region.decide.full_list import apply_part, ended_assignment, is_resumed_sweep, refuse_part
from holdfast.core.region.limits import ENDED_BYTES, STEPS_MAX
from holdfast.core.region.queries.accounts import charged
from holdfast.core.region.queries.breaches import assignment_overshoots
from holdfast.core.region.state.shipped_objects import TABLE_OF_SHIPPED, is_own, shipped_name
from holdfast.core.region.state.slot_kinds import has_slots
from holdfast.core.region.state.tables import RegionInfo, RegionState


def ship(state: RegionState, command: c.Ship, ctx: CommandContext) -> Accepted | Refused:
    """Apply a step completely or not at all."""
    refused = _refuse_cursor(state, command) or _refuse_puts(state, command)
    if refused is not None:
        return refused
    events: list[Any] = []
    anew = command.log_id != state.region.platform_log
    for put in () if is_resumed_sweep(state.region, command) else command.puts:
        events.extend(_put(state, put, anew=anew))
    gone, ending = list(command.gone), [e.CursorMoved(command.log_id, command.term, command.to, command.proof)]
    if command.full:
        gone, ending = apply_part(state, command, tuple(map(shipped_name, command.puts)))
    for one in sorted(gone, key=lambda one: one.kind == "template"):  # templates after their users
        events.extend(_gone(state, one, ctx))
    events.extend(_breached(state, events, ctx))
    return Accepted((*events, *ending))


def _refuse_cursor(state: RegionState, command: c.Ship) -> Refused | None:
    place = state.region
    facts = {"log_id": place.platform_log, "term": place.platform_term, "cursor": place.cursor}
    objects = len(command.puts) + len(command.gone)
    if objects > STEPS_MAX:
        return too_large("objects in a step", objects, STEPS_MAX)
    if command.part < 0 or (command.gone if command.full else command.part or not command.last):
        return Refused(Code.MALFORMED, "only a full list has parts, and a full list removes nothing by name", facts)
    same_log = command.log_id == place.platform_log
    seen = _term_seen(place, command.log_id)
    if command.term < seen:
        return Refused(Code.STALE, f"term {command.term} has ended: term {seen} was seen", facts)
    if command.full:
        return refuse_part(place, command, facts)
    if not same_log and place.platform_log:
        return Refused(Code.DIVERGED, f"this region follows log {place.platform_log}: send a full list", facts)
    if command.to <= place.cursor:
        return Refused(Code.ALREADY, "the cursor is past this step", facts)
    if place.listing is not None:
        return Refused(Code.GAP, f"a full list is in progress: send part {place.listing.parts}", facts)
    if command.after != place.cursor:
        return Refused(Code.GAP, f"the next step begins after {place.cursor}, this one after {command.after}", facts)
    return None


def _term_seen(place: RegionInfo, log_id: str) -> int:
    """Return the newest term of a log from which this region has applied anything."""
    seen = place.platform_term if log_id == place.platform_log else 0
    begun = place.listing.term if place.listing is not None and log_id == place.listing.log_id else 0
    return max(seen, begun)


def _refuse_puts(state: RegionState, command: c.Ship) -> Refused | None:
    named = [*map(shipped_name, command.puts), *((one.kind, one.key) for one in command.gone)]
    if len({*named}) != len(named):
        return Refused(Code.MALFORMED, "a step must name each object once", {})
    arriving = {put.digest for put in command.puts if isinstance(put, c.ShippedTemplate)}
    name = state.info.ledger.removeprefix("region/")
    for put in command.puts:
        if isinstance(put, c.ShippedTemplate) and template_digest(put.template) != put.digest:
            return Refused(Code.MALFORMED, f"template {put.digest} does not match its digest", {"digest": put.digest})
        if isinstance(put, c.ShippedRegion) and put.name != name:
            return Refused(Code.WRONG_SCOPE, f"this is region {name}, not {put.name}", {"region": name})
        if isinstance(put, c.ShippedServer) and ledger_of(put.server.principal) != "platform":
            facts = {"principal": put.server.principal}
            return Refused(Code.WRONG_SCOPE, f"{put.server.principal} is not a server of the platform", facts)
        if isinstance(put, c.ShippedAssignment):
            refused = _refuse_assignment(state, put.assignment, name, arriving)
            if refused is not None:
                return refused
    for one in command.gone:
        numeric = one.kind in TABLE_OF_SHIPPED and TABLE_OF_SHIPPED[one.kind][1]
        if one.kind not in (*TABLE_OF_SHIPPED, "template") or (numeric and not one.key.isdecimal()):
            return Refused(Code.MALFORMED, f"nothing of kind {one.kind} has key {one.key}", {"kind": one.kind})
    return None


def _refuse_assignment(state: RegionState, new: Assignment, name: str, arriving: set[str]) -> Refused | None:
    if new.region != name:
        return Refused(Code.WRONG_SCOPE, f"this is region {name}, not {new.region}", {"region": name})
    for share in new.shares:
        if share.template not in arriving and share.template not in state.templates:
            return not_found("template", share.template)
    known = state.assignments.get(new.uid)
    if known is not None and (known.workload, known.tenant, known.exclusive) != (
        new.workload,
        new.tenant,
        new.exclusive,
    ):
        return Refused(Code.MALFORMED, f"assignment {new.uid} belongs to another workload", {"assignment": new.uid})
    return None


def _put(state: RegionState, put: c.ShippedItem, *, anew: bool) -> list[Any]:
    """Return the events of one object. Versions of another log, as after a restore, do not count for this one."""
    match put:
        case c.ShippedRegion():
            return [e.RegionReceived(put)]
        case c.ShippedTemplate():
            stays = put.digest in state.templates and put.digest not in state.leaving_templates
            return [] if stays else [e.TemplateReceived(put.digest, put.template)]
        case c.ShippedAssignment():
            told_in = state.info.term if put.assignment.right_until else 0
            return [e.AssignmentReceived(replace(put.assignment, right_term=told_in))]
        case c.ShippedGrant():
            known = state.accepted_grants.get(put.account)
            if known is not None and not anew and not _is_news(known, put):
                return []
            limit = elementwise_max(put.target, charged(state, put.account))
            terms = put.target, limit, put.ends, put.protected, put.weight
            return [e.GrantReceived(AcceptedGrant(put.account, put.version, *terms))]
        case c.ShippedPriorityClass():
            # Every assignment that names a class is shipped with it, and this event unblocks every request.
            stays = state.priority_classes.get(put.priority_class.meta.name) == put.priority_class
            return [] if stays else [e.PriorityClassReceived(put.priority_class)]
        case c.ShippedPrincipal():
            return [e.PrincipalReceived(put.principal)]
        case c.ShippedToken():
            return [e.TokenReceived(put.token)]
        case c.ShippedPool():
            return [e.PoolReceived(put.name, put.cost)]
        case c.ShippedPolicy():
            stays = state.policies.get(put.policy.revision) == put.policy
            return [] if stays else [e.PolicyReceived(put.policy)]
        case c.ShippedValidity():
            return [e.ValidityReceived(put.validity)]
        case c.ShippedOverride():
            return [e.OverrideReceived(put.override)]
        case c.ShippedServer():
            # Below level 2 the region cannot store it: the platform ships it again when the server's token is renewed.
            return [e.PlatformServerReceived(put.server)] if state.info.level >= 2 else []


def _is_news(known: AcceptedGrant, put: c.ShippedGrant) -> bool:
    """Return whether an offer is new: a later version, or different content under the same version. A restored platform
    that had removed the grant counts versions from 1 again."""
    if put.version != known.version:
        return put.version > known.version
    terms = put.target, put.ends, put.protected, put.weight
    return terms != (known.target, known.ends, known.protected, known.weight)


def _gone(state: RegionState, one: c.RemovedObject, ctx: CommandContext) -> list[Any]:
    """Return the events that remove an object. If slots, holds or charges here depend on it, it ends first."""
    if one.kind == "template":
        stays = one.key in state.templates and one.key not in state.leaving_templates
        return [e.TemplateLeaving(one.key)] if stays else []
    table, numeric = TABLE_OF_SHIPPED[one.kind]
    key: Any = int(one.key) if numeric else one.key
    stored = state.table(table).get(key)
    if stored is None or is_own(one.kind, stored):
        return []
    if one.kind == "grant" and charged(state, key) != ZERO:
        known = state.accepted_grants[key]
        left, ends = charged(state, key), min(known.ends, ctx.at)
        return [e.GrantReceived(replace(known, target=ZERO, limit=left, ends=ends, protected=ZERO))]
    if one.kind == "assignment":
        assignment = state.assignments[key]
        if state.holds_of.get(key) or has_slots(state, key):
            return [e.AssignmentReceived(ended_assignment(assignment))]
        return [e.AssignmentForgotten(assignment.uid, assignment.workload)]
    return [e.ShippedObjectRemoved(one)]


def _breached(state: RegionState, events: list[Any], ctx: CommandContext) -> list[Any]:
    """Return breaches of residency and rights that these changes open for placed slots."""
    jurisdiction = state.region.jurisdiction
    changed = {event.assignment.uid: event.assignment for event in events if isinstance(event, e.AssignmentReceived)}
    for event in events:
        if isinstance(event, e.RegionReceived) and event.place.jurisdiction != jurisdiction:
            jurisdiction = event.place.jurisdiction
            changed = {**dict(state.assignments.items()), **changed}
    found: list[Any] = []
    for uid in sorted(changed):
        found.extend(breach_events(state, assignment_overshoots(state, changed[uid], jurisdiction), ctx.at))
    return found


def stand_down(state: RegionState, command: StandDown, ctx: CommandContext) -> Accepted | Refused:
    """End assignments and grants, as many as fit in one record. The link sends the command again until none is left."""
    events: list[object] = []
    left = ENDED_BYTES
    for event in _endings(state, ctx):
        left -= len(encode(event))
        if events and (left < 0 or len(events) == PARTS_MAX):
            break
        events.append(event)
    if not events:
        return Refused(Code.ALREADY, "this region has no active assignment and no grant", {})
    return Accepted(tuple(events))


def _endings(state: RegionState, ctx: CommandContext) -> Iterator[object]:
    for uid in state.unended:
        yield e.AssignmentReceived(
            replace(state.assignments[uid], stage=AssignmentStage.ENDED, shares=(), disruption=0)
        )
    for account, allowance in state.accepted_grants.items():
        if allowance.ends > ctx.at or allowance.target != ZERO:
            left = charged(state, account)
            paid = replace(allowance, target=ZERO, limit=left, ends=min(allowance.ends, ctx.at), protected=ZERO)
            yield e.GrantReceived(paid)
