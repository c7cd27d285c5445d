"""Overrides: decisions of operators with scope, reason, owner and an absolute end, in both ledgers.

An override only takes authority for a time; its end returns the authority and does nothing else (RULES 19). The
function `active_overrides` alone computes what overrides restrict and allow now. Every gate of both ledgers, every
controller and every scheduler calls it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, assert_never

from msgspec import Struct

from holdfast.core.ledger.answers import Accepted, Code, Refused, not_found, too_large
from holdfast.core.ledger.commit.rules import CommandContext, CommandLane, CommandRule, Subject
from holdfast.core.ledger.envelope import Stamp
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.objects import override_effects
from holdfast.core.model.objects.policies import OF_TENANTS, OF_THE_PLATFORM, Override, OverrideAction
from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.values.limits import OVERRIDES_MAX, REASON_MAX
from holdfast.core.model.values.metadata import Labels
from holdfast.core.model.values.structs import Instant, Revision, Row


class OpenOverride(Row, frozen=True, tag="open-override"):
    """Take authority over a target, with a reason and an end."""

    action: OverrideAction
    region: str
    target: str
    reason: str
    ends: Instant
    facts: Labels = ()


class EndOverride(Row, frozen=True, tag="end-override"):
    """Return the authority: an operator at any time, the override controller only after the end."""

    uid: Revision
    reason: str


class OverrideOpened(Row, frozen=True, tag="override-opened"):
    override: Override


class OverrideEnded(Row, frozen=True, tag="override-ended"):
    uid: Revision
    reason: str


def open_override(state: LedgerState, command: OpenOverride, ctx: CommandContext) -> Accepted | Refused:
    """Require a reason, valid parameters for the action, and an end in the future within the longest lifetime."""
    if not command.reason.strip() or len(command.reason) > REASON_MAX:
        return Refused(Code.MALFORMED, f"an override needs a reason of 1 to {REASON_MAX} characters", {})
    wrong = override_effects.effect_problem(command.action, command.region, command.target, command.facts)
    if wrong:
        return Refused(Code.MALFORMED, wrong, {"action": command.action.value, "target": command.target})
    if command.action in OF_THE_PLATFORM and state.info.ledger != "platform":
        message = f"{command.action} can be opened only on the platform, which enforces it"
        return Refused(Code.CONTRADICTORY, message, {"action": command.action.value, "ledger": state.info.ledger})
    latest = ctx.at + state.info.settings.override_life
    if not ctx.at < command.ends <= latest:
        facts = {"at": ctx.at, "ends": command.ends, "latest": latest}
        return Refused(Code.EXPIRED, "an override must end after now and within its longest lifetime", facts)
    refused = _refuse_scope(state, ctx, command)
    if refused is not None:
        return refused
    opened = len(state.overrides)
    if opened >= OVERRIDES_MAX:
        return too_large("overrides that have not ended, with this one", opened + 1, OVERRIDES_MAX)
    override = Override(
        uid=ctx.revision,
        action=command.action,
        region=command.region,
        target=command.target,
        reason=command.reason,
        owner=ctx.actor,
        opened=ctx.at,
        ends=command.ends,
        facts=command.facts,
    )
    return Accepted((OverrideOpened(override),))


def end_override(state: LedgerState, command: EndOverride, ctx: CommandContext) -> Accepted | Refused:
    """The controller may not end an override early; operators may."""
    override = state.overrides.get(command.uid)
    if override is None:
        return not_found("override", command.uid)
    if ctx.kind == "controller" and ctx.at < override.ends:
        return Refused(Code.TOO_EARLY, "the override has not ended yet", {"at": ctx.at, "ends": override.ends})
    refused = _refuse_scope(state, ctx, override)
    if refused is not None:
        return refused
    return Accepted((OverrideEnded(command.uid, command.reason),))


def _refuse_scope(state: LedgerState, ctx: CommandContext, override: OpenOverride | Override) -> Refused | None:
    """Check the scope: a region's operator acts in that region, a tenant's only on that tenant, a node's on none.

    A region ledger accepts overrides of that region only.
    """
    region, target = override.region, override.target
    here = state.info.ledger.removeprefix("region/") if state.info.ledger != "platform" else region
    scope = ctx.principal.spec.scope if ctx.principal else None
    tenants = {target, *(value for key, value in override.facts if key == "tenant")}
    own = scope is not None and override.action in OF_TENANTS and tenants == {scope.tenant}
    narrow = scope is not None and (
        (scope.region and scope.region != region) or (scope.tenant and not own) or scope.node
    )
    if narrow or region != here:
        return Refused(Code.WRONG_SCOPE, f"{ctx.actor} may not do that there", {"region": region, "target": target})
    return None


def override_opened(state: LedgerState, event: OverrideOpened, _stamp: Stamp) -> None:
    state.overrides.put(event.override.uid, event.override)


def override_ended(state: LedgerState, event: OverrideEnded, _stamp: Stamp) -> None:
    state.overrides.drop(event.uid)


class ActiveOverrides(Struct, frozen=True):
    """What overrides restrict and allow in one place at one time. Of several alike, the last to end counts."""

    #: Pauses of scheduling by tenant; the empty key: all tenants.
    pauses: Mapping[str, Override] = {}
    #: Zones to avoid.
    zones: Mapping[str, Override] = {}
    repair: Override | None = None
    autoscaler: Override | None = None
    #: Regions declared lost; the empty key: all regions.
    lost: Mapping[str, Override] = {}
    #: Emergency quotas by uid, oldest first.
    emergencies: Mapping[Revision, override_effects.EmergencyQuota] = {}

    def pause_of(self, tenant: str) -> Override | None:
        """Return the override that pauses scheduling for this tenant."""
        return _later(self.pauses.get(""), self.pauses.get(tenant))

    def loss_of(self, region: str) -> Override | None:
        """Return the override by which an operator declares this region lost."""
        return _later(self.lost.get(""), self.lost.get(region))


#: The usual result: no override is active.
NO_OVERRIDES = ActiveOverrides()


def active_overrides(state: LedgerState, at: Instant, region: str = "") -> ActiveOverrides:
    """Return what overrides restrict and allow now in a region; a region ledger has only its own region's overrides.

    Ends are compared with `at` alone: an expired override has no effect, even while it is still listed.
    """
    if state.has_no_overrides():
        return NO_OVERRIDES
    pauses: dict[str, Override] = {}
    zones: dict[str, Override] = {}
    lost: dict[str, Override] = {}
    emergencies: dict[Revision, override_effects.EmergencyQuota] = {}
    repair = autoscaler = None
    for override in _holding(state, at, region):
        match override_effects.effect_of(override.action, override.target, override.facts):
            case override_effects.PauseScheduling(tenant):
                pauses[tenant] = _last(pauses.get(tenant), override)
            case override_effects.AvoidZone(zone):
                zones[zone] = _last(zones.get(zone), override)
            case override_effects.PauseRepair():
                repair = _last(repair, override)
            case override_effects.PauseAutoscaler():
                autoscaler = _last(autoscaler, override)
            case override_effects.DeclaredLost(name):
                lost[name] = _last(lost.get(name), override)
            case override_effects.EmergencyQuota() as quota:
                emergencies[override.uid] = quota
            case never:
                assert_never(never)
    return ActiveOverrides(pauses, zones, repair, autoscaler, lost, emergencies)


def emergency(override: Override | None) -> override_effects.EmergencyQuota | None:
    """Return the emergency quota that an override adds, expired or not; None for other actions."""
    effect = (
        override_effects.effect_of(override.action, override.target, override.facts) if override is not None else None
    )
    return effect if isinstance(effect, override_effects.EmergencyQuota) else None


def refuse_while_paused(override: Override | None, what: str) -> Refused | None:
    """Refuse an action that an override prevents. The facts name the override, its owner and its end."""
    if override is None:
        return None
    facts = {"override": override.uid, "ends": override.ends, "owner": override.owner}
    return Refused(Code.PAUSED, f"{what} by an override until {override.ends}", facts)


def subject(state: LedgerState, command: EndOverride) -> Subject:
    """Return the override with this uid. It never changes, so the uid is its revision."""
    return Subject(f"Override/{command.uid}", command.uid if command.uid in state.overrides else 0)


def _holding(state: LedgerState, at: Instant, region: str) -> Iterator[Override]:
    elsewhere = {"", region} if region else None
    for override in state.every_override():
        if override.ends > at and (elsewhere is None or override.region in elsewhere):
            yield override


def _last(known: Override | None, override: Override) -> Override:
    return override if known is None or override.ends > known.ends else known


def _later(one: Override | None, other: Override | None) -> Override | None:
    return _last(one, other) if other is not None else one


APPLY: dict[type, Any] = {OverrideOpened: override_opened, OverrideEnded: override_ended}

RULES: tuple[CommandRule[Any], ...] = (
    CommandRule(OpenOverride, open_override, ("person",), CommandLane.OPERATORS, "an operator has authority over the target", "EndOverride; the override controller at its end", Permission.OVERRIDE),
    CommandRule(EndOverride, end_override, ("person", "controller/override"), CommandLane.OPERATORS, "authority returns to its controller", "OpenOverride again", Permission.OVERRIDE, subject=subject),
)  # fmt: skip
