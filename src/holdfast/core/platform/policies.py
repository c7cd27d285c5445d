"""PublishPolicy, ActivatePolicy, RollBackPolicy: exactly one policy is valid for each region and scope (RULES 19).

A revision is immutable; what changes is where it is valid. A scope is a tenant, or everywhere. Where nothing is said
the revision 0, which is built in, is valid: so there is never a moment without a policy, not even while one is taken
back.
"""

from __future__ import annotations

from holdfast.core.ledger.answers import Accepted, Code, Refused, not_found
from holdfast.core.ledger.registry import Case
from holdfast.core.model.control import BUILT_IN_POLICY, EVERYWHERE, PolicyDocument, PolicyStage, SchedulerPolicy
from holdfast.core.model.shapes import Revision
from holdfast.core.platform.checks import contradictory, malformed, refuse_unknown
from holdfast.core.platform.commands import ActivatePolicy, PublishPolicy, RollBackPolicy
from holdfast.core.platform.events import PolicyPublished, PolicyStaged, ValidityStored
from holdfast.core.platform.objects import already
from holdfast.core.platform.senders import outside_everywhere, outside_region, outside_tenant
from holdfast.core.platform.state import PlatformState, validity_key

#: Weights are small whole numbers: scores multiplied by them and added up stay within 63 bits.
WEIGHT_MAX = 1_000

#: A stage only rises, until the revision is rolled back.
_RANK = {PolicyStage.DRAFT: 0, PolicyStage.CANARY: 1, PolicyStage.ACTIVE: 2}


def policy_of(state: PlatformState, revision: Revision) -> SchedulerPolicy | None:
    """A revision by its number; 0 is built in."""
    return BUILT_IN_POLICY if revision == BUILT_IN_POLICY.revision else state.policies.get(revision)


def valid_policy(state: PlatformState, region: str, tenant: str) -> SchedulerPolicy:
    """The one policy that is valid for a tenant in a region: its own, the region's, or the built-in one."""
    for scope in (tenant, EVERYWHERE):
        validity = state.validities.get(validity_key(region, scope))
        if validity is not None:
            policy = policy_of(state, validity.revision)
            assert policy is not None, validity
            return policy
    return BUILT_IN_POLICY


def publish_policy(state: PlatformState, command: PublishPolicy, case: Case) -> Accepted | Refused:
    """A draft: valid nowhere until it is activated somewhere."""
    wrong = ill_weighted(command.document)
    if wrong:
        return malformed(wrong)
    return Accepted((PolicyPublished(command.document),))


def ill_weighted(document: PolicyDocument) -> str:
    """Why this is no policy that a scheduler could weigh by; empty when it is one."""
    if abs(document.packing) > WEIGHT_MAX:
        return f"packing is between -{WEIGHT_MAX} and {WEIGHT_MAX}"
    if any(not 0 <= weight <= WEIGHT_MAX for _, weight in document.scores):
        return f"weights are between 0 and {WEIGHT_MAX}"
    if any(age <= 0 for _, age in document.freshness):
        return "the greatest age of a view is above zero milliseconds"
    for pairs in (document.scores, document.freshness):
        names = [name for name, _ in pairs]
        if names != sorted(set(names)) or not all(names):
            return "scores and classes are named once each, in order"
    return ""


def activate_policy(state: PlatformState, command: ActivatePolicy, case: Case) -> Accepted | Refused:
    """The one that was valid there before is not any more, in the same commit."""
    refused = _refuse_activation(state, command, case)
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


def _refuse_activation(state: PlatformState, command: ActivatePolicy, case: Case) -> Refused | None:
    if command.stage not in (PolicyStage.CANARY, PolicyStage.ACTIVE):
        return malformed("a policy is activated as canary or as active", stage=command.stage.value)
    tenants = (command.scope,) if command.scope != EVERYWHERE else ()
    return (
        outside_region(case, command.region)
        or outside_tenant(case, command.scope)
        or refuse_unknown("Region", (command.region,), state.regions)
        or refuse_unknown("Tenant", tenants, state.tenants)
    )


def _staged(policy: SchedulerPolicy, stage: PolicyStage) -> tuple[PolicyStaged, ...]:
    if policy.revision == BUILT_IN_POLICY.revision or _RANK[stage] <= _RANK[policy.stage]:
        return ()
    return (PolicyStaged(policy.revision, stage),)


def roll_back_policy(state: PlatformState, command: RollBackPolicy, case: Case) -> Accepted | Refused:
    """Wherever it was valid its successor is, in the same commit: no region is ever without a valid policy."""
    refused = outside_everywhere(case)
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
    message = f"policy {revision} was rolled back, which is for good; publish it again"
    return Refused(Code.WRONG_PHASE, message, {"revision": revision})
