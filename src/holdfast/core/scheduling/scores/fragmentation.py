"""Score: nodes on which the least capacity becomes useless for typical requests rank first.

A node's devices are of use as far as its free cpu and memory reach. So a slot ranks by what its region's typical
requests lose (`nodes.useful_capacity`), whether it takes devices or only their companions. Work without devices keeps
off nodes with devices while others have room, and fills the others one after another.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from holdfast.core.model.objects.policies import PolicyDocument
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.framework import Plugins, SchedulingProfile, profile_for
from holdfast.core.scheduling.nodes.table import BEST, NodeTable, Numbers, Truths
from holdfast.core.scheduling.nodes.useful_capacity import RowRoom
from holdfast.core.scheduling.nodes.window import NodeWindow
from holdfast.core.scheduling.scores.packing import PackingScore

#: A point is 8 milli-GPU for work with devices, and 16 for other work. Weights add 10 bits.
_BITS, _BITS_PLAIN = 13, 14
#: For work without devices: nodes with devices score below this, others from here on.
_APART = 800


class FragmentationScore:
    """Ranks nodes by the capacity that typical requests lose."""

    name, version = "fragmentation", "1"
    is_plain = True

    def score(self, window: NodeWindow) -> Numbers | None:
        """`BEST` less the loss in steps of 8 milli-GPU; for work without devices, a part of it."""
        table, template = window.table, window.ask.template
        if not table.devices.any:
            return None
        equipped = window.pick(table.devices.equipped)
        losses = _losses(window, equipped)
        if template.gpus:
            ranked: Numbers = BEST - np.minimum(losses >> _BITS, BEST)
            return ranked
        shared: Numbers = _APART - 1 - np.minimum(losses >> _BITS_PLAIN, _APART - 1)
        if equipped.all():
            return shared
        found: Numbers = np.where(equipped, shared, _APART + PackingScore().score(window) * (BEST - _APART) // BEST)
        return found


def _losses(window: NodeWindow, equipped: Truths) -> Numbers:
    """Return the loss of each row that passes the filters, computed again if the row changed."""
    table, ask, useful = window.table, window.ask, window.table.useful
    template, need = ask.template, ask.template.need
    key = need.cpu, need.memory, template.gpus, template.gpu_milli, template.gpu_models, ask.firm
    where = (window.at.start, window.at.stop) if isinstance(window.at, slice) else window.at.tobytes()
    column = useful.column((key, where), len(window))
    stamps = window.pick(table.stamps)
    stale = (column.seen < stamps) & equipped
    if window.passes is not None:
        stale &= window.passes
    at = np.flatnonzero(stale)
    if len(at):
        rows, room = window.rows()[at], partial(_room, table)
        accepted = table.devices.accepted(template, rows, firm=ask.firm) if template.gpus else None
        use = useful.now(rows, table.stamps, room)
        column.losses[at] = useful.loss(use, room(rows), template, accepted)
        column.seen[at] = stamps[at]
    return column.losses


def _room(table: NodeTable, rows: Numbers) -> RowRoom:
    free, devices = table.free_any, table.devices
    return RowRoom(free[0, rows], free[1, rows], devices.parts(rows), devices.model_codes(rows))


def learned_profile(
    plugins: Plugins, document: PolicyDocument, table: NodeTable, state: RegionState
) -> SchedulingProfile:
    """Apply a policy to the plugins, and let the table know the typical shapes if the policy weighs what they lose."""
    devices = table.devices
    rules = profile_for(plugins, document, devices=devices.any)
    devices.by_use = any(one.score.name == FragmentationScore.name for one in rules.weighed)
    if devices.by_use:
        table.useful.learn(table.shape_counts.of(state), devices.models)
    return rules
