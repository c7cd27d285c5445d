"""What a plugin is, and how a policy puts plugins together.

    filter   which rows of a window may take the slot: one mask for each thing that it asks, with a word for it
    score    how good each row would be, from 0 to 1000
    bind     whether slots of this kind are reserved first and bound later, or both in one commit
    reserve  of a slot that was reserved and is to be bound: may say no
    post-bind  of a slot that was bound: is told

All of them are hints: filters agree with the ledger's gates or cost a refusal, nothing more. A plugin that raises is
named, and what it was asked about waits with that reason; others go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from msgspec import Struct

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.policies import PlacementStrategy, PolicyDocument
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.nodes.table import BEST as BEST
from holdfast.core.scheduling.nodes.table import Numbers, Truths
from holdfast.core.scheduling.nodes.window import NodeWindow


class FilterPlugin(Protocol):
    """Keeps a slot from nodes that would not take it."""

    name: str
    version: str
    #: The ledger's code for the same refusal.
    code: Code

    def passes(self, window: NodeWindow) -> Iterator[tuple[str, Truths]]:
        """What it asks of a node, in words, and which rows have it. Nothing, where all rows pass."""


class ScorePlugin(Protocol):
    """Ranks the nodes that would take a slot."""

    name: str
    version: str

    def score(self, window: NodeWindow) -> Numbers | None:
        """How good each row would be, from 0 to `BEST`, in whole numbers; None where it makes no difference."""


class ReservePlugin(Protocol):
    """Is asked about a slot that was reserved and is to be bound."""

    name: str
    version: str

    def refuses(self, ask: SlotAsk, slot: SlotKey, node: Revision) -> str:
        """Why it is not to be bound there; empty: it may be."""


class BindPlugin(Protocol):
    """Says of which kinds of slots room is reserved first, and bound later, once those who are asked agree."""

    name: str
    version: str

    def waits(self, ask: SlotAsk) -> bool:
        """Whether slots of this kind are reserved first."""


class PostBindPlugin(Protocol):
    """Is told of slots that were bound."""

    name: str
    version: str

    def on_bound(self, ask: SlotAsk, slots: tuple[tuple[SlotKey, Revision], ...]) -> None:
        """These were bound, each with its node."""


class PluginError(Exception):
    """A plugin raised: which, and what."""

    def __init__(self, plugin: str, error: Exception) -> None:
        super().__init__(f"{plugin}: {type(error).__name__}: {error}")
        self.plugin = plugin


class Plugins(Struct, frozen=True):
    """All that are installed, in the order in which they are asked."""

    filters: tuple[FilterPlugin, ...]
    scores: tuple[ScorePlugin, ...]
    reserves: tuple[ReservePlugin, ...] = ()
    binds: tuple[BindPlugin, ...] = ()
    post_binds: tuple[PostBindPlugin, ...] = ()


class WeightedScore(Struct, frozen=True):
    """A score and what it counts."""

    score: ScorePlugin
    weight: int


class SchedulingProfile(Struct, frozen=True):
    """A policy as it is applied: every filter, the scores that it weighs, and whether nodes are filled one by one."""

    filters: tuple[FilterPlugin, ...]
    weighed: tuple[WeightedScore, ...]
    pack: bool

    @property
    def is_plain(self) -> bool:
        """Whether all of its plugins say, as those that come with Holdfast do, that of a slot they look at nothing but
        what `shortlist` compares: slots that are alike in that may be chosen for together."""
        scores = [one.score for one in self.weighed]
        return all(getattr(one, "is_plain", False) for one in (*self.filters, *scores))

    @property
    def plugins(self) -> tuple[tuple[str, str], ...]:
        """Names and versions of everything that has a say."""
        scores = [(one.score.name, one.score.version) for one in self.weighed]
        return (*[(one.name, one.version) for one in self.filters], *scores)


#: What scores count where a policy does not say.
WEIGHTS: dict[PlacementStrategy, dict[str, int]] = {
    PlacementStrategy.PACK: {"packing": 3, "balance": 1, "near": 4, "cost": 1, "evenness": 1, "warm": 2, "load": 1},
    PlacementStrategy.SPREAD: {"emptiness": 3, "balance": 1, "near": 4, "cost": 1, "evenness": 2, "warm": 2, "load": 1},
}


def profile_for(plugins: Plugins, document: PolicyDocument) -> SchedulingProfile:
    """A policy over the plugins that there are. A score that it names and nobody has counts for nothing."""
    weights = {**WEIGHTS[document.strategy], **dict(document.scores)}
    weighed = tuple(WeightedScore(score, weights[score.name]) for score in plugins.scores if weights.get(score.name))
    return SchedulingProfile(plugins.filters, weighed, document.strategy is PlacementStrategy.PACK)
