"""PublishPolicy, ActivatePolicy, RollBackPolicy: exactly one policy is valid for each region and scope (RULES 19).

A revision is immutable; where it is valid changes. Revisions of one policy share its name. A scope is a tenant, or
everywhere. Without a validity the built-in revision 0 is valid, so there is always a policy.
"""

from __future__ import annotations

from holdfast.core.ledger.answers import (
    Accepted,
    Code,
    Refused,
    already,
    contradictory,
    malformed,
    not_found,
    too_large,
)
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.model.objects.policies import (
    BUILT_IN_POLICY,
    EVERYWHERE,
    SCORES,
    PolicyDocument,
    PolicyStage,
    SchedulerPolicy,
    validity_key,
)
from holdfast.core.model.values.limits import POLICIES_MAX, POLICY_NAMES_MAX
from holdfast.core.model.values.structs import Revision
from holdfast.core.platform.commands import ActivatePolicy, PublishPolicy, RollBackPolicy
from holdfast.core.platform.decide import checks
from holdfast.core.platform.events import PoliciesDropped, PolicyPublished, PolicyStaged, ValidityStored
from holdfast.core.platform.limits import WEIGHT_MAX
from holdfast.core.platform.state.lookups import newest_policy, policy_of
from holdfast.core.platform.state.tables import PlatformState

#: A stage only rises, until the revision is rolled back.
_RANK = {PolicyStage.DRAFT: 0, PolicyStage.CANARY: 1, PolicyStage.ACTIVE: 2}


def publish_policy(state: PlatformState, command: PublishPolicy, ctx: CommandContext) -> Accepted | Refused:
    """Store a draft that is valid nowhere; nothing, if it equals the newest revision."""
    refused = refuse_policy_name(command.name)
    if refused is not None:
        return refused
    newest = newest_policy(state, command.name)
    if newest is not None and newest.document == command.document and newest.stage is not PolicyStage.ROLLED_BACK:
        return already(f"SchedulerPolicy/{command.name}", newest.revision)
    refused = refuse_weights(command.document) or refuse_classes(state, command.document)
    if refused is not None:
        return refused
    names = len({one.name for _, one in state.policies.unordered()}) if newest is None else 0
    going = _dropped(state, command.name) if names < POLICY_NAMES_MAX else _taken_back(state)
    if names >= POLICY_NAMES_MAX and not going:
        return too_large("policies, with this one, none of which is rolled back", names + 1, POLICY_NAMES_MAX)
    return Accepted((PolicyPublished(command.name, command.document), *going))


def _dropped(state: PlatformState, name: str) -> tuple[PoliciesDropped, ...]:
    """Drop old revisions of a policy that is published again, except the last ones and valid ones."""
    if state.info.level < PoliciesDropped.SINCE:
        return ()
    known = sorted(one.revision for one in state.policies.values() if one.name == name)
    valid = {validity.revision for validity in state.validities.values()}
    going = tuple(revision for revision in known[: 1 - POLICIES_MAX] if revision not in valid)
    return (PoliciesDropped(going),) if going else ()


def _taken_back(state: PlatformState) -> tuple[PoliciesDropped, ...]:
    """Drop the oldest policy of which all revisions are rolled back: none of them can become valid again."""
    if state.info.level < PoliciesDropped.SINCE:
        return ()
    by_name: dict[str, list[SchedulerPolicy]] = {}
    for one in state.policies.values():
        by_name.setdefault(one.name, []).append(one)
    over = [known for known in by_name.values() if all(one.stage is PolicyStage.ROLLED_BACK for one in known)]
    oldest = min(over, key=lambda known: known[-1].revision, default=[])
    return (PoliciesDropped(tuple(one.revision for one in oldest)),) if oldest else ()


def refuse_policy_name(name: str) -> Refused | None:
    """Refuse a name that is malformed or that of the built-in policy."""
    if name == BUILT_IN_POLICY.name:
        return malformed(f"the policy {name} cannot be changed: it is built in", name=name)
    return checks.refuse_name("SchedulerPolicy", name)


def refuse_weights(document: PolicyDocument) -> Refused | None:
    """Refuse scores or freshness that a scheduler cannot use, with the field that is wrong."""
    for field, pairs in (("scores", document.scores), ("freshness", document.freshness)):
        names = [name for name, _ in pairs]
        if names != sorted(set(names)):
            return _wrong(field, "names must be unique and sorted")
    for name, weight in document.scores:
        if name not in SCORES and not all(name.partition("/")):
            return _wrong(f"scores.{name}", f"unknown; known are {', '.join(SCORES)}, and VENDOR/NAME of a plugin")
        if not 0 <= weight <= WEIGHT_MAX:
            return _wrong(f"scores.{name}", f"a weight is between 0 and {WEIGHT_MAX}, not {weight}")
    for name, age in document.freshness:
        if age <= 0:
            return _wrong(f"freshness.{name}", "the maximum age of a view must be above zero")
    return None


def _wrong(field: str, why: str) -> Refused:
    return malformed(f"{field}: {why}", field=field)


def refuse_classes(state: PlatformState, document: PolicyDocument) -> Refused | None:
    """Refuse a freshness for a priority class that does not exist."""
    for name, _ in document.freshness:
        if name and name not in state.priority_classes:
            facts = {"kind": "PriorityClass", "name": name, "field": f"freshness.{name}"}
            return Refused(Code.NOT_FOUND, f"freshness.{name}: there is no PriorityClass {name}", facts)
    return None


def activate_policy(state: PlatformState, command: ActivatePolicy, ctx: CommandContext) -> Accepted | Refused:
    """Make a revision valid in place of the previous one, in the same commit."""
    refused = _refuse_activation(state, command, ctx)
    if refused is not None:
        return refused
    policy = policy_of(state, command.revision)
    if policy is None:
        return not_found("policy", command.revision)
    if policy.stage is PolicyStage.ROLLED_BACK:
        return _rolled_back(policy.revision)
    old = state.validities.get(validity_key(command.region, command.scope))
    staged = _staged(policy, command.stage)
    if old is not None and old.revision == policy.revision and not staged:
        return already(f"validity/{validity_key(command.region, command.scope)}", policy.revision)
    return Accepted((ValidityStored(command.region, command.scope, policy.revision), *staged))


def _refuse_activation(state: PlatformState, command: ActivatePolicy, ctx: CommandContext) -> Refused | None:
    if command.stage not in (PolicyStage.CANARY, PolicyStage.ACTIVE):
        return malformed("a policy is activated as canary or as active", stage=command.stage.value)
    tenants = (command.scope,) if command.scope != EVERYWHERE else ()
    return (
        checks.refuse_outside_region(ctx, command.region)
        or checks.refuse_outside_tenant(ctx, command.scope)
        or checks.refuse_unknown("Region", (command.region,), state.regions)
        or checks.refuse_unknown("Tenant", tenants, state.tenants)
    )


def _staged(policy: SchedulerPolicy, stage: PolicyStage) -> tuple[PolicyStaged, ...]:
    if policy.revision == BUILT_IN_POLICY.revision or _RANK[stage] <= _RANK[policy.stage]:
        return ()
    return (PolicyStaged(policy.revision, stage),)


def roll_back_policy(state: PlatformState, command: RollBackPolicy, ctx: CommandContext) -> Accepted | Refused:
    """Make the successor valid wherever the revision was, in one commit: no region is ever without a valid policy."""
    refused = checks.refuse_outside_everywhere(ctx) or checks.refuse_reason(command.reason)
    if refused is not None:
        return refused
    policy, successor = policy_of(state, command.revision), policy_of(state, command.successor)
    if policy is None:
        return not_found("policy", command.revision)
    if successor is None:
        return not_found("policy", command.successor)
    if policy.revision == BUILT_IN_POLICY.revision or policy.revision == successor.revision:
        return contradictory("a policy other than the built-in one is rolled back to another", revision=policy.revision)
    if policy.stage is PolicyStage.ROLLED_BACK:
        return already(f"policy/{policy.revision}", policy.revision)
    if successor.stage is PolicyStage.ROLLED_BACK:
        return _rolled_back(successor.revision)
    moved = [v for v in state.validities.values() if v.revision == policy.revision]
    return Accepted(
        (
            PolicyStaged(policy.revision, PolicyStage.ROLLED_BACK),
            *(ValidityStored(validity.region, validity.scope, successor.revision) for validity in moved),
            *(_staged(successor, policy.stage) if moved else ()),
        )
    )


def _rolled_back(revision: Revision) -> Refused:
    message = f"policy {revision} was rolled back for good; publish it again"
    return Refused(Code.WRONG_PHASE, message, {"revision": revision})
