"""Score: of several schedulers, each prefers its own part of the nodes, so that they do not fill the same ones.

It weighs as much as how full a node is: another scheduler's node is chosen if it is better by other scores, such as a
replica that must be near, or if no own node accepts the slot. A scheduler that is alone has no such score.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from holdfast.core.scheduling.framework import BEST, SchedulingProfile, WeightedScore
from holdfast.core.scheduling.nodes.table import Numbers
from holdfast.core.scheduling.nodes.window import NodeWindow
from holdfast.core.scheduling.queue.peers import SchedulerPeers

#: Scores of how full nodes are.
_OF_FILLING = ("fragmentation", "packing", "emptiness")


class OwnPartScore:
    """Ranks a scheduler's own nodes before those of others."""

    name = "own-part"
    is_plain = True

    def __init__(self, peers: SchedulerPeers) -> None:
        self._peers = peers
        #: A decision names the part that it was made for.
        self.version = f"1, {peers.index + 1} of {peers.count}"
        #: The scores of all rows, within one cycle, in which no row comes or goes.
        self._known: Numbers | None = None

    def score(self, window: NodeWindow) -> Numbers:
        """`BEST` for its own nodes."""
        if self._known is None:
            self._known = np.where(self._peers.own_nodes(window.table.uids), BEST, 0).astype(np.int64)
        found: Numbers = window.pick(self._known)
        return found


def shared_profile(profile: SchedulingProfile, peers: SchedulerPeers) -> SchedulingProfile:
    """Return the profile of one of several schedulers: each fills its own nodes first."""
    if peers.count == 1:
        return profile
    weight = max(1, sum(one.weight for one in profile.weighed if one.score.name in _OF_FILLING))
    return replace(profile, weighed=(*profile.weighed, WeightedScore(OwnPartScore(peers), weight)))
