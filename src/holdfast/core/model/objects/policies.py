"""How people steer: scheduler policies and overrides."""

from __future__ import annotations

from enum import StrEnum

from holdfast.core.model.values.metadata import Labels
from holdfast.core.model.values.structs import Document, Duration, Instant, Revision, Row


class PolicyStage(StrEnum):
    """A policy revision is a draft, tried in a few places, in force, or taken back for good."""

    DRAFT = "draft"
    CANARY = "canary"
    ACTIVE = "active"
    ROLLED_BACK = "rolled-back"


class PlacementStrategy(StrEnum):
    """Whether nodes are filled one by one, or work is spread over all of them."""

    PACK = "pack"
    SPREAD = "spread"


#: The scores that come with Holdfast, in the order of their names. Those of plugins have a slash in theirs.
SCORES = ("balance", "cost", "emptiness", "evenness", "load", "near", "packing", "warm")


class PolicyDocument(Document, frozen=True):
    """What a scheduler weighs. Filters cannot be switched off: they are hard gates.

    `scores` are weights by the name of the score; what is not named counts as the strategy has it. `freshness` is by
    priority class (empty: every other) the greatest age of a view that may propose.
    """

    strategy: PlacementStrategy = PlacementStrategy.PACK
    scores: tuple[tuple[str, int], ...] = ()
    freshness: tuple[tuple[str, Duration], ...] = ()


class SchedulerPolicy(Document, frozen=True):
    """One immutable revision of a policy; `revision` 0 is built in and is what is valid where nothing else is.

    Its `name` says of which policy it is a revision.
    """

    revision: Revision
    name: str
    document: PolicyDocument
    stage: PolicyStage
    author: str
    at: Instant


BUILT_IN_POLICY = SchedulerPolicy(
    revision=0, name="built-in", document=PolicyDocument(), stage=PolicyStage.ACTIVE, author="ledger", at=0
)
#: The scope of a policy that holds wherever a tenant has none of its own.
EVERYWHERE = ""


class Validity(Row, frozen=True):
    """The one policy revision that is valid in a region for a scope (a tenant, or everywhere)."""

    region: str
    scope: str
    revision: Revision


class OverrideAction(StrEnum):
    """What an override does. Restrictive ones end late in doubt, permissive ones early (RULES 19)."""

    PAUSE_SCHEDULING = "pause-scheduling"
    PAUSE_AUTOSCALER = "pause-autoscaler"
    PAUSE_REPAIR = "pause-repair"
    AVOID_ZONE = "avoid-zone"
    EMERGENCY_QUOTA = "emergency-quota"
    DECLARE_LOST = "declare-lost"


#: Actions whose target is a tenant; the others aim at zones, regions or everything.
OF_TENANTS = (OverrideAction.PAUSE_SCHEDULING, OverrideAction.EMERGENCY_QUOTA)


#: Actions that the platform alone can keep: a region has no quota to give, and does not say of itself that it is lost.
OF_THE_PLATFORM = (OverrideAction.EMERGENCY_QUOTA, OverrideAction.DECLARE_LOST)


class Override(Document, frozen=True):
    """A human decision with scope, reason, owner and an absolute end. Its end only returns authority."""

    uid: Revision
    action: OverrideAction
    region: str
    target: str
    reason: str
    owner: str
    opened: Instant
    ends: Instant
    facts: Labels = ()


def validity_key(region: str, scope: str) -> str:
    """The key of the one policy validity of a scope in a region."""
    return f"{region}|{scope}"
