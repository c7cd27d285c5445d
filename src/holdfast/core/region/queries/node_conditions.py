"""Conditions of a node, computed from its row. They are not stored, so they cannot be stale.

Usable          new work may be placed there           otherwise: the cause that prevents it
SameMachine     its agent is back on the same machine, in the same boot
TenantsApart    runs of one tenant cannot reach those of another: own users, or one tenant at a time
TimesKept       exclusive work ends there before its fence has passed
TokenPrivate    runs cannot read the agent's token: they have another user
"""

from __future__ import annotations

from holdfast.core.model.objects.isolation import Capability, shares_a_user
from holdfast.core.model.records.nodes import READY, Machine, Node, NodeHealth
from holdfast.core.model.values.conditions import Condition, ConditionReason, ConditionStatus
from holdfast.core.model.values.settings import Settings
from holdfast.core.model.values.structs import Instant
from holdfast.core.region.queries.fence import why_unfenced


def node_conditions(node: Node, settings: Settings) -> tuple[Condition, ...]:
    """Return all conditions, by type."""
    return (_same_machine(node), _tenants_apart(node), _times_kept(node, settings), _token_private(node), _usable(node))


def exposures(node: Node) -> tuple[ConditionReason, ...]:
    """Return what is exposed on a node: `status` warns of it."""
    if Capability.USERS in node.capabilities:
        return ()
    return (ConditionReason.TOKEN_READABLE, *((ConditionReason.USER_SHARED,) if shares_a_user(node) else ()))


def _usable(node: Node) -> Condition:
    if node.draining or node.cordoned:
        return _condition("Usable", ConditionReason.DRAINING if node.draining else ConditionReason.CORDONED, node.note)
    if node.health is NodeHealth.LOST:
        return _condition(
            "Usable", ConditionReason.LOST, "its agent has no session, and its fence has passed", node.session_ended
        )
    if not node.session or node.health is not READY:
        return _condition("Usable", ConditionReason.SESSION_ENDED, "its agent has no session", node.session_ended)
    return _condition("Usable")


def _same_machine(node: Node) -> Condition:
    """Exclusive work there waits for the fence, whatever the present machine reports of it (RULES 23)."""
    before, now = node.machine_before, node.machine
    if not node.machine_changed:
        return _condition("SameMachine")
    if (before.id, before.host) == (now.id, now.host):
        return _condition("SameMachine", ConditionReason.REBOOTED, "the machine was rebooted", node.machine_changed)
    message = f"its agent runs on {_named(now)}, and ran on {_named(before)}"
    return _condition("SameMachine", ConditionReason.MACHINE_REPLACED, message, node.machine_changed)


def _times_kept(node: Node, settings: Settings) -> Condition:
    misfit = why_unfenced(node, settings)
    return (
        _condition("TimesKept")
        if misfit is None
        else _condition("TimesKept", ConditionReason.TIMES_NOT_KEPT, misfit.detail)
    )


def _tenants_apart(node: Node) -> Condition:
    if ConditionReason.USER_SHARED not in exposures(node):
        return _condition("TenantsApart")
    message = "tenants share a user there: runs of one can read and signal runs of another"
    return _condition("TenantsApart", ConditionReason.USER_SHARED, message)


def _token_private(node: Node) -> Condition:
    if ConditionReason.TOKEN_READABLE not in exposures(node):
        return _condition("TokenPrivate")
    return _condition(
        "TokenPrivate", ConditionReason.TOKEN_READABLE, "runs there have their agent's user, and can read its token"
    )


def _named(machine: Machine) -> str:
    return f"machine {machine.id or 'without a name'} of host {machine.host or 'unknown'}"


def _condition(
    name: str, why: ConditionReason = ConditionReason.AS_DESIRED, message: str = "", since: Instant = 0
) -> Condition:
    status = ConditionStatus.TRUE if why is ConditionReason.AS_DESIRED else ConditionStatus.FALSE
    return Condition(type=name, status=status, reason=why, message=message, since=since)
