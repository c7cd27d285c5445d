"""Effects of overrides: one type per action, with the action's parameters.

In the log an override is an action with a target and facts, all text. Only this module interprets that text: gates and
controllers match on an effect and never read `target` or `facts` themselves.
"""

from __future__ import annotations

from typing import assert_never

from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.values.metadata import Labels
from holdfast.core.model.values.resources import AMOUNT_MAX, BUILT_IN, ZERO, Resources
from holdfast.core.model.values.structs import Row

_DIGITS_MAX = 13


class PauseScheduling(Row, frozen=True):
    """No slot of this tenant is placed or bound, and no hold is made; empty: of any tenant."""

    tenant: str


class PauseAutoscaler(Row, frozen=True):
    """No controller changes the number of replicas."""


class PauseRepair(Row, frozen=True):
    """Repair releases nothing and stops nothing."""


class AvoidZone(Row, frozen=True):
    """No node of this zone accepts new replicas."""

    zone: str


class EmergencyQuota(Row, frozen=True):
    """The tenant may be charged this amount beyond its quota."""

    tenant: str
    amount: Resources


class DeclaredLost(Row, frozen=True):
    """The region does not count as healthy, whatever it reports; empty: no region does."""

    region: str


OverrideEffect = PauseScheduling | PauseAutoscaler | PauseRepair | AvoidZone | EmergencyQuota | DeclaredLost


def effect_of(action: OverrideAction, target: str, facts: Labels) -> OverrideEffect:
    """Return the effect of an action. Parameters that cannot be read have the least possible effect."""
    match action:
        case OverrideAction.PAUSE_SCHEDULING:
            return PauseScheduling(target)
        case OverrideAction.PAUSE_AUTOSCALER:
            return PauseAutoscaler()
        case OverrideAction.PAUSE_REPAIR:
            return PauseRepair()
        case OverrideAction.AVOID_ZONE:
            return AvoidZone(target)
        case OverrideAction.EMERGENCY_QUOTA:
            said = dict(facts)
            cpu, memory, disk, gpu = (_whole(said.get(name, "")) for name in BUILT_IN)
            return EmergencyQuota(said.get("tenant", ""), Resources(cpu, memory, disk, gpu))
        case OverrideAction.DECLARE_LOST:
            return DeclaredLost(target)
        case never:
            assert_never(never)


def is_permissive(action: OverrideAction) -> bool:
    """Whether the action allows what is otherwise refused. All others restrict (RULES 19)."""
    return action is OverrideAction.EMERGENCY_QUOTA


def effect_problem(action: OverrideAction, region: str, target: str, facts: Labels) -> str:
    """Return the first unknown, missing or invalid parameter of an action, as a sentence; empty if there is none."""
    effect = effect_of(action, target, facts)
    known = ("tenant", *BUILT_IN) if isinstance(effect, EmergencyQuota) else ()
    unknown = sorted({name for name, _ in facts if name not in known})
    if unknown:
        return f"{action} has no fact {unknown[0]!r}"
    if len({name for name, _ in facts}) < len(facts):
        return "each fact is named at most once"
    match effect:
        case PauseAutoscaler() | PauseRepair() if target:
            return f"{action} has no target: it concerns all of its region"
        case AvoidZone(zone="") | DeclaredLost(region=""):
            return f"{action} needs a target"
        case DeclaredLost() if region not in ("", target):
            return f"{action} concerns one region, not {region} and {target}"
        case EmergencyQuota():
            return _misread_emergency(effect, target, facts)
    return ""


def _misread_emergency(effect: EmergencyQuota, target: str, facts: Labels) -> str:
    if not effect.tenant or target not in ("", effect.tenant):
        return "an emergency quota names its tenant in the fact tenant, and no other target"
    unread = [name for name, text in facts if name in BUILT_IN and str(_whole(text)) != text]
    if unread:
        return f"the fact {unread[0]} is a whole number of at most {AMOUNT_MAX}"
    return "" if effect.amount != ZERO else f"an emergency quota needs an amount of {', '.join(BUILT_IN)}"


def _whole(text: str) -> int:
    """Return the number, or 0 for an unreadable fact: an unreadable emergency adds no quota."""
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        return 0
    return min(int(text), AMOUNT_MAX)
