"""Plugin protocols, and the profile that a policy makes of the plugins.

    filter   the rows of a window that accept the slot: one mask per requirement, with its text
    score    a rank per row, from 0 to 1000
    bind     whether slots are reserved first, or placed and bound in one commit
    victim   may spare a slot that work of higher priority would preempt
    reserve  may decline a reserved slot before it is bound
    post-bind  receives bound slots

All of them are hints: a filter that disagrees with the ledger costs a refusal, nothing more. If a plugin raises, the
request group is blocked with the plugin's name as reason, and others continue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from msgspec import Struct

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.policies import PlacementStrategy, PolicyDocument
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.nodes.table import BEST as BEST
from holdfast.core.scheduling.nodes.table import Numbers, Truths
from holdfast.core.scheduling.nodes.window import NodeWindow


class FilterPlugin(Protocol):
    """Excludes nodes that do not accept a slot."""

    name: str
    version: str
    #: The code with which the ledger refuses the same.
    code: Code

    def passes(self, window: NodeWindow) -> Iterator[tuple[str, Truths]]:
        """Yield each requirement as text, with the mask of rows that meet it. Yield nothing if all rows pass."""


class ScorePlugin(Protocol):
    """Ranks the nodes that accept a slot."""

    name: str
    version: str

    def score(self, window: NodeWindow) -> Numbers | None:
        """Return an int64 score per row, from 0 to `BEST`; None if it ranks all rows alike."""


class VictimPlugin(Protocol):
    """Spares slots that may be preempted by priority, budget and run time."""

    name: str
    version: str

    def spares(self, ask: SlotAsk, victim: Slot) -> bool:
        """Return whether the slot is left running, though `ask` could take its place."""


class ReservePlugin(Protocol):
    """Decides whether a reserved slot may be bound."""

    name: str
    version: str

    def refuses(self, ask: SlotAsk, slot: SlotKey, node: Revision) -> str:
        """Return why the slot must not be bound to this node; empty if it may."""


class BindPlugin(Protocol):
    """Selects the slots that are reserved first and bound once the reserve plugins agree."""

    name: str
    version: str

    def waits(self, ask: SlotAsk) -> bool:
        """Return whether such slots are reserved first."""


class PostBindPlugin(Protocol):
    """Receives slots that were bound."""

    name: str
    version: str

    def on_bound(self, ask: SlotAsk, slots: tuple[tuple[SlotKey, Revision], ...]) -> None:
        """Receive bound slots, each with its node."""


class PluginError(Exception):
    """A plugin raised. The message names it."""

    def __init__(self, plugin: str, error: Exception) -> None:
        super().__init__(f"{plugin}: {type(error).__name__}: {error}")
        self.plugin = plugin


class Plugins(Struct, frozen=True):
    """All installed plugins. Filters and scores are in order of use."""

    filters: tuple[FilterPlugin, ...]
    scores: tuple[ScorePlugin, ...]
    reserves: tuple[ReservePlugin, ...] = ()
    binds: tuple[BindPlugin, ...] = ()
    post_binds: tuple[PostBindPlugin, ...] = ()
    victims: tuple[VictimPlugin, ...] = ()


class WeightedScore(Struct, frozen=True):
    """A score with its weight."""

    score: ScorePlugin
    weight: int


class SchedulingProfile(Struct, frozen=True):
    """A policy applied to the plugins: all filters, weighted scores, and whether nodes are packed."""

    filters: tuple[FilterPlugin, ...]
    weighed: tuple[WeightedScore, ...]
    pack: bool

    @property
    def is_plain(self) -> bool:
        """Whether all plugins are `is_plain`: they read only what `shortlist` compares."""
        scores = [one.score for one in self.weighed]
        return all(getattr(one, "is_plain", False) for one in (*self.filters, *scores))

    @property
    def plugins(self) -> tuple[tuple[str, str], ...]:
        """Names and versions of all plugins in use."""
        scores = [(one.score.name, one.score.version) for one in self.weighed]
        return (*[(one.name, one.version) for one in self.filters], *scores)


#: Default weights of scores, which a policy can override.
WEIGHTS: dict[PlacementStrategy, dict[str, int]] = {
    PlacementStrategy.PACK: {"packing": 3, "balance": 1, "near": 4, "cost": 1, "evenness": 1, "warm": 2, "load": 1},
    PlacementStrategy.SPREAD: {"emptiness": 3, "balance": 1, "near": 4, "cost": 1, "evenness": 2, "warm": 2, "load": 1},
}


def waits_to_bind(plugins: Iterable[BindPlugin], ask: SlotAsk) -> bool:
    """Return whether such slots are reserved first."""
    for one in plugins:
        try:
            if one.waits(ask):
                return True
        except Exception as error:
            raise PluginError(one.name, error) from error
    return False


def spares(plugins: Iterable[VictimPlugin], ask: SlotAsk, victim: Slot) -> bool:
    """Return whether a plugin spares a victim."""
    for one in plugins:
        try:
            if one.spares(ask, victim):
                return True
        except Exception as error:
            raise PluginError(one.name, error) from error
    return False


#: Other defaults of a region whose nodes have devices: packing by fill would use up what devices need beside them.
WITH_DEVICES: dict[PlacementStrategy, dict[str, int]] = {
    PlacementStrategy.PACK: {"fragmentation": 16, "packing": 0, "balance": 0},
    PlacementStrategy.SPREAD: {},
}


def profile_for(plugins: Plugins, document: PolicyDocument, *, devices: bool = False) -> SchedulingProfile:
    """Apply a policy to the installed plugins. `devices`: whether nodes of the region have devices. Weights of scores
    that are not installed have no effect."""
    defaults = {**WEIGHTS[document.strategy], **(WITH_DEVICES[document.strategy] if devices else {})}
    weights = {**defaults, **dict(document.scores)}
    weighed = tuple(WeightedScore(score, weights[score.name]) for score in plugins.scores if weights.get(score.name))
    return SchedulingProfile(plugins.filters, weighed, document.strategy is PlacementStrategy.PACK)
