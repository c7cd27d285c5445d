"""Human decisions with scope, reason, owner and an absolute end, in both ledgers.

An override only ever takes authority for a time; its end gives it back and does nothing else (RULES 19).
"""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.answers import Accepted, Code, Refused, not_found
from holdfast.core.ledger.envelope import Stamp
from holdfast.core.ledger.registry import Case, Lane, Rule
from holdfast.core.ledger.state import LedgerState
from holdfast.core.model.control import OF_TENANTS, Action, Override
from holdfast.core.model.meta import Labels
from holdfast.core.model.shapes import Instant, Revision, Row
from holdfast.core.model.tenancy import Right

REASON_MAX = 1_000


class OpenOverride(Row, frozen=True, tag="open-override"):
    """Take authority over something, for a reason, until an end."""

    action: Action
    region: str
    target: str
    reason: str
    ends: Instant
    facts: Labels = ()


class EndOverride(Row, frozen=True, tag="end-override"):
    """Give the authority back: a person before the end, the override controller once it has passed."""

    uid: Revision
    reason: str


class OverrideOpened(Row, frozen=True, tag="override-opened"):
    override: Override


class OverrideEnded(Row, frozen=True, tag="override-ended"):
    uid: Revision
    reason: str


def open_override(state: LedgerState, command: OpenOverride, case: Case) -> Accepted | Refused:
    """It needs a reason and an end in the future that is not too far away."""
    if not command.reason.strip() or len(command.reason) > REASON_MAX:
        return Refused(Code.MALFORMED, f"an override says why, in 1 to {REASON_MAX} characters", {})
    latest = case.at + state.facts.settings.override_life
    if not case.at < command.ends <= latest:
        facts = {"at": case.at, "ends": command.ends, "latest": latest}
        return Refused(Code.EXPIRED, "an override ends after now and within its longest life", facts)
    refused = _refuse_scope(state, case, command)
    if refused is not None:
        return refused
    override = Override(
        uid=case.revision,
        action=command.action,
        region=command.region,
        target=command.target,
        reason=command.reason,
        owner=case.actor,
        opened=case.at,
        ends=command.ends,
        facts=command.facts,
    )
    return Accepted((OverrideOpened(override),))


def end_override(state: LedgerState, command: EndOverride, case: Case) -> Accepted | Refused:
    """The controller may not end it early: only people may."""
    override = state.overrides.get(command.uid)
    if override is None:
        return not_found("override", command.uid)
    if case.kind == "controller" and case.at < override.ends:
        return Refused(Code.TOO_EARLY, "it has not ended yet", {"at": case.at, "ends": override.ends})
    refused = _refuse_scope(state, case, override)
    if refused is not None:
        return refused
    return Accepted((OverrideEnded(command.uid, command.reason),))


def _refuse_scope(state: LedgerState, case: Case, override: OpenOverride | Override) -> Refused | None:
    """A right holds in its scope: a region's operator acts there, a tenant's on that tenant alone, a node's on none.

    A region's own ledger takes overrides of that region only.
    """
    region, target = override.region, override.target
    here = state.facts.ledger.removeprefix("region/") if state.facts.ledger != "platform" else region
    scope = case.principal.spec.scope if case.principal else None
    tenants = {target, *(value for key, value in override.facts if key == "tenant")}
    own = scope is not None and override.action in OF_TENANTS and tenants == {scope.tenant}
    narrow = scope is not None and (
        (scope.region and scope.region != region) or (scope.tenant and not own) or scope.node
    )
    if narrow or region != here:
        return Refused(Code.WRONG_SCOPE, f"{case.actor} may not do that there", {"region": region, "target": target})
    return None


def override_opened(state: LedgerState, event: OverrideOpened, _stamp: Stamp) -> None:
    state.overrides.put(event.override.uid, event.override)


def override_ended(state: LedgerState, event: OverrideEnded, _stamp: Stamp) -> None:
    state.overrides.drop(event.uid)


def in_force(state: LedgerState, action: Action, region: str, target: str, at: Instant) -> Override | None:
    """The override of this action that holds there for the target now, if there is one.

    Ends are judged against `at` alone. An empty region or target means all of them.
    """
    for override in state.overrides.values():
        if override.action is not action or override.ends <= at:
            continue
        if override.region in ("", region) and override.target in ("", target):
            return override
    return None


APPLY: dict[type, Any] = {OverrideOpened: override_opened, OverrideEnded: override_ended}

RULES: tuple[Rule[Any], ...] = (
    Rule(OpenOverride, open_override, ("person",), Lane.OPERATORS, "a person holds authority over the target", "EndOverride; the override controller at its end", Right.OVERRIDE),
    Rule(EndOverride, end_override, ("person", "controller/override"), Lane.OPERATORS, "authority returns to its controller", "OpenOverride again", Right.OVERRIDE),
)  # fmt: skip
