"""Reservations without a slot: placeholders for recovery, dated holds, capacity of a gang, offers. Each has an end.

Hold ──▶ held ──▶ used by a placement · dropped by its owner · expired · displaced: released by repair
"""

from __future__ import annotations

from itertools import islice

from msgspec.structs import replace

from holdfast.core.ledger.answers import Accepted, Code, Refused, not_found
from holdfast.core.ledger.builtin.overrides import active_overrides
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.records.node_usage import EMPTY_USAGE, DeviceUsage
from holdfast.core.model.records.nodes import Node, ports_of
from holdfast.core.model.records.slots import Reservation, ReservationPurpose
from holdfast.core.model.values.resources import ZERO, amount_problem
from holdfast.core.region.commands import DropHold, ExtendHold, Hold
from holdfast.core.region.events import HoldEnded, HoldStored
from holdfast.core.region.limits import HOLDS_MAX
from holdfast.core.region.queries.accounts import GRANT_ENDED, affordable_count, unprotected_count
from holdfast.core.region.queries.assignments import why_not_allowed
from holdfast.core.region.queries.breaches import why_displaced
from holdfast.core.region.queries.feasibility import Infeasible, feasible
from holdfast.core.region.queries.gates import REPAIR, refuse_paused, refuse_repair, refuse_zone
from holdfast.core.region.state.node_tenants import tenants_on
from holdfast.core.region.state.tables import RegionState


def hold(state: RegionState, command: Hold, ctx: CommandContext) -> Accepted | Refused:
    """Hold capacity on a node, by the gates of a binding. A hold is charged like a slot."""
    latest = ctx.at + state.info.settings.grant_life
    if not ctx.at < command.ends <= latest:
        return Refused(Code.EXPIRED, "a hold must end after now and within its longest duration", {"latest": latest})
    node = state.nodes.get(command.node)
    if node is None:
        return not_found("node", command.node)
    if ctx.outside_node(node.name):
        return Refused(Code.WRONG_SCOPE, f"{ctx.actor} may not hold capacity on {node.name}", {"node": node.name})
    shaped = _shape(state, command, ctx)
    if isinstance(shaped, Refused):
        return shaped
    template, tenant = shaped
    misfit = _refuse_place(state, command, tenant, ctx) or _misfit(state, node, template, tenant, command.devices)
    if misfit is not None:
        return Refused(misfit.code, f"{node.name}: {misfit.detail}", {"node": node.name})
    affords = affordable_count(state, command.account, ctx.at, template.need)
    if affords < 1:
        code = Code.GRANT_ENDED if affords == GRANT_ENDED else Code.OVER_GRANT
        return Refused(code, f"{command.account} cannot be charged for it", {"account": command.account})
    if unprotected_count(state, f"quota/{tenant}", ZERO, template.need) < 1:
        return Refused(Code.PROTECTED, "the remaining capacity is protected for other tenants", {})
    stored = Reservation(
        ctx.revision, command.purpose, ctx.actor, tenant, command.assignment, command.template, node.uid,
        template.need, command.devices, template.gpu_milli, command.account, command.ends, ctx.revision,
    )  # fmt: skip
    return Accepted((HoldStored(stored),))


def _shape(state: RegionState, command: Hold, ctx: CommandContext) -> tuple[Template, str] | Refused:
    """Return the need of a hold as a template, and its tenant."""
    if command.purpose is not ReservationPurpose.PLACEHOLDER:
        wrong = amount_problem(command.need) or ("" if 0 < command.device_milli <= 1000 else "deviceMilli is 1 to 1000")
        if not wrong and command.need.gpu != len(command.devices) * command.device_milli:
            wrong = "the needed gpu must be the sum over the devices"
        if wrong or command.assignment or command.template or not command.tenant:
            return Refused(Code.MALFORMED, wrong or "a hold names a tenant; only placeholders name a standby", {})
        if ctx.outside_tenant(command.tenant) or command.account != f"quota/{command.tenant}":
            message = f"{ctx.actor} may not hold capacity for {command.tenant} charged to {command.account}"
            return Refused(Code.WRONG_SCOPE, message, {"tenant": command.tenant, "account": command.account})
        gpus, milli = len(command.devices), command.device_milli
        return Template(need=command.need, gpus=gpus, gpu_milli=milli), command.tenant
    assignment = state.assignments.get(command.assignment)
    template = state.templates.get(command.template)
    if assignment is None or template is None:
        return not_found("assignment with template", f"{command.assignment}/{command.template}")
    if assignment.stage is AssignmentStage.ENDED or command.template not in {
        share.template for share in assignment.shares
    }:
        return Refused(Code.NOT_ASSIGNED, f"assignment {assignment.uid} has no share of it", {})
    if ctx.outside_tenant(assignment.tenant):
        return Refused(Code.WRONG_SCOPE, f"{ctx.actor} may not hold capacity for {assignment.tenant}", {})
    if command.account not in assignment.accounts or len(command.devices) != template.gpus:
        return Refused(Code.MALFORMED, "a placeholder names its assignment's account and as many devices as needed", {})
    return template, assignment.tenant


def _refuse_place(state: RegionState, command: Hold, tenant: str, ctx: CommandContext) -> Infeasible | None:
    """Check overrides and residency, before the node."""
    overrides = active_overrides(state, ctx.at)
    misfit = refuse_paused(overrides, tenant) or refuse_zone(overrides, state.nodes[command.node])
    assignment = state.assignments.get(command.assignment)
    return misfit or (why_not_allowed(state, assignment) if assignment is not None else None)


def _misfit(
    state: RegionState, node: Node, template: Template, tenant: str, devices: tuple[int, ...]
) -> Infeasible | None:
    """Check the node for a hold. Only firm slots and holds count: reclaimable work may use held capacity. Ports are not
    held, but enough of them must be free."""
    usage = state.node_usage.get(node.uid) or EMPTY_USAGE
    if len(usage.holds) >= HOLDS_MAX:
        return Infeasible(Code.CAPACITY, f"the node has {HOLDS_MAX} holds, its largest number")
    kept = replace(usage, all=usage.firm, devices=tuple(DeviceUsage(d.firm, d.firm, d.held) for d in usage.devices))
    free = (port for port in ports_of(node) if port not in usage.ports)
    ports = tuple(islice(free, template.ports))
    return feasible(node, kept, template, tenant, devices, ports, there=tenants_on(state, node))


def _mine(state: RegionState, uid: int, ctx: CommandContext) -> Reservation | Refused:
    known = state.holds.get(uid)
    if known is None:
        return not_found("hold", uid)
    if ctx.kind == "person":
        node = state.nodes[known.node].name
        outside = ctx.outside_tenant(known.tenant) or ctx.outside_node(node)
        return Refused(Code.WRONG_SCOPE, f"hold {uid} belongs to {known.tenant}, on {node}", {}) if outside else known
    if ctx.actor == REPAIR and why_displaced(state, known, ctx.at):
        misfit = refuse_repair(active_overrides(state, ctx.at))
        return Refused(misfit.code, misfit.detail, {"hold": uid}) if misfit is not None else known
    if known.owner != ctx.actor:
        return Refused(Code.NOT_OWNER, f"hold {uid} belongs to {known.owner}", {"owner": known.owner})
    return known


def extend_hold(state: RegionState, command: ExtendHold, ctx: CommandContext) -> Accepted | Refused:
    """Extend a hold, for its owner or an operator, while its account's grant has not ended."""
    known = _mine(state, command.hold, ctx)
    if isinstance(known, Refused):
        return known
    if known.ends <= ctx.at or not known.ends < command.ends <= ctx.at + state.info.settings.grant_life:
        return Refused(Code.EXPIRED, "it has ended, or the new end is too early or too late", {"ends": known.ends})
    if affordable_count(state, known.account, ctx.at, ZERO) == GRANT_ENDED:
        return Refused(Code.GRANT_ENDED, f"{known.account} has ended", {"account": known.account})
    return Accepted((HoldStored(replace(known, ends=command.ends, revision=ctx.revision)),))


def drop_hold(state: RegionState, command: DropHold, ctx: CommandContext) -> Accepted | Refused:
    """Release a hold, for its owner or an operator; for repair, if the hold is displaced."""
    known = _mine(state, command.hold, ctx)
    if isinstance(known, Refused):
        return known
    return Accepted(
        (hold_ended_event(known, why_displaced(state, known, ctx.at) if ctx.kind == "controller" else "dropped"),)
    )


def hold_ended_event(held: Reservation, cause: str) -> HoldEnded:
    """Return the event that ends a hold."""
    return HoldEnded(held.uid, held.node, held.assignment, cause)
