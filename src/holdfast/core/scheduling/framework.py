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
from holdfast.core.model.objects.policies import PolicyDocument, Strategy
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.scheduling.ask import Ask
from holdfast.core.scheduling.nodes.table import BEST as BEST
from holdfast.core.scheduling.nodes.table import Numbers, Truths
from holdfast.core.scheduling.nodes.window import Window


class Filter(Protocol):
    """Keeps a slot from nodes that would not take it."""

    name: str
    version: str
    #: The ledger's code for the same refusal.
    code: Code

    def passes(self, window: Window) -> Iterator[tuple[str, Truths]]:
        """What it asks of a node, in words, and which rows have it. Nothing, where all rows pass."""


class Score(Protocol):
    """Ranks the nodes that would take a slot."""

    name: str
    version: str

    def score(self, window: Window) -> Numbers | None:
        """How good each row would be, from 0 to `BEST`, in whole numbers; None where it makes no difference."""


class Reserve(Protocol):
    """Is asked about a slot that was reserved and is to be bound."""

    name: str
    version: str

    def refuses(self, ask: Ask, slot: SlotKey, node: Revision) -> str:
        """Why it is not to be bound there; empty: it may be."""


class Bind(Protocol):
    """Says of which kinds of slots room is reserved first, and bound later, once those who are asked agree."""

    name: str
    version: str

    def waits(self, ask: Ask) -> bool:
        """Whether slots of this kind are reserved first."""


class PostBind(Protocol):
    """Is told of slots that were bound."""

    name: str
    version: str

    def bound(self, ask: Ask, slots: tuple[tuple[SlotKey, Revision], ...]) -> None:
        """These were bound, each with its node."""


class PluginError(Exception):
    """A plugin raised: which, and what."""

    def __init__(self, plugin: str, error: Exception) -> None:
        super().__init__(f"{plugin}: {type(error).__name__}: {error}")
        self.plugin = plugin


class Plugins(Struct, frozen=True):
    """All that are installed, in the order in which they are asked."""

    filters: tuple[Filter, ...]
    scores: tuple[Score, ...]
    reserves: tuple[Reserve, ...] = ()
    binds: tuple[Bind, ...] = ()
    post_binds: tuple[PostBind, ...] = ()


class Weighed(Struct, frozen=True):
    """A score and what it counts."""

    score: Score
    weight: int


class Rulebook(Struct, frozen=True):
    """A policy as it is applied: every filter, the scores that it weighs, and whether nodes are filled one by one."""

    filters: tuple[Filter, ...]
    weighed: tuple[Weighed, ...]
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
WEIGHTS: dict[Strategy, dict[str, int]] = {
    Strategy.PACK: {"packing": 3, "balance": 1, "near": 4, "cost": 1, "evenness": 1, "warm": 2, "load": 1},
    Strategy.SPREAD: {"emptiness": 3, "balance": 1, "near": 4, "cost": 1, "evenness": 2, "warm": 2, "load": 1},
}


def rulebook(plugins: Plugins, document: PolicyDocument) -> Rulebook:
    """A policy over the plugins that there are. A score that it names and nobody has counts for nothing."""
    weights = {**WEIGHTS[document.strategy], **dict(document.scores)}
    weighed = tuple(Weighed(score, weights[score.name]) for score in plugins.scores if weights.get(score.name))
    return Rulebook(plugins.filters, weighed, document.strategy is Strategy.PACK)
