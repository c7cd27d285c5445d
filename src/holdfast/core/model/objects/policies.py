"""Scheduler policies and overrides."""

from __future__ import annotations

from enum import StrEnum

from holdfast.core.model.values.metadata import Labels
from holdfast.core.model.values.structs import Document, Duration, Instant, Revision, Row


class PolicyStage(StrEnum):
    """A policy revision is a draft, tried in a few places, in force, or rolled back for good."""

    DRAFT = "draft"
    CANARY = "canary"
    ACTIVE = "active"
    ROLLED_BACK = "rolled-back"


class PlacementStrategy(StrEnum):
    """Fill nodes one by one, or spread replicas over all nodes."""

    PACK = "pack"
    SPREAD = "spread"


#: The built-in scores, sorted by name. Names of plugin scores have a slash.
SCORES = ("balance", "cost", "emptiness", "evenness", "fragmentation", "load", "near", "packing", "warm")


class PolicyDocument(Document, frozen=True):
    """Weights of the scores. Filters cannot be switched off: they are hard gates.

    The `scores` are weights by name; a score that is not listed has the weight of the strategy. `freshness` is the
    greatest age of a view that may propose, by priority class (empty: every other class).
    """

    strategy: PlacementStrategy = PlacementStrategy.PACK
    scores: tuple[tuple[str, int], ...] = ()
    freshness: tuple[tuple[str, Duration], ...] = ()


class SchedulerPolicy(Document, frozen=True):
    """One immutable revision of a policy. Revision 0 is built in and applies where no other is valid.

    All revisions of a policy have its `name`.
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
#: The scope of a policy that applies to every tenant without one of its own.
EVERYWHERE = ""


class Validity(Row, frozen=True):
    """The one policy revision that is valid in a region for a scope (a tenant, or everywhere)."""

    region: str
    scope: str
    revision: Revision


class OverrideAction(StrEnum):
    """The effect of an override. In doubt, restrictive ones end late and permissive ones early (RULES 19)."""

    PAUSE_SCHEDULING = "pause-scheduling"
    PAUSE_AUTOSCALER = "pause-autoscaler"
    PAUSE_REPAIR = "pause-repair"
    AVOID_ZONE = "avoid-zone"
    EMERGENCY_QUOTA = "emergency-quota"
    DECLARE_LOST = "declare-lost"


#: Actions whose target is a tenant; the others concern zones, regions or everything.
OF_TENANTS = (OverrideAction.PAUSE_SCHEDULING, OverrideAction.EMERGENCY_QUOTA)

#: Actions that only the platform can enforce: a region has no quota to give and does not declare itself lost.
OF_THE_PLATFORM = (OverrideAction.EMERGENCY_QUOTA, OverrideAction.DECLARE_LOST)


class Override(Document, frozen=True):
    """An operator's decision with scope, reason, owner and an absolute end. Its end only returns authority."""

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
    """Return the key of the one policy validity of a scope in a region."""
    return f"{region}|{scope}"
