"""What has its place in a table and nobody who sends it yet. This list only becomes shorter.

A name in a table is a promise: a command that can be sent, a cause that a replica is stopped for, a number that
something is judged by. Each has somebody who keeps it, or stands here with who will. A test walks the tables; people
find the list in docs/reference.
"""

from __future__ import annotations

from typing import NamedTuple


class ReservedName(NamedTuple):
    """A name in a table, and who will send it, or read it."""

    table: str
    name: str
    keeper: str


RESERVED_NAMES: tuple[ReservedName, ...] = (
    ReservedName("command", "platform Activate", "failover: what stood by runs when a region is lost"),
    ReservedName("command", "platform Adopt", "failover: what was recovered stays, and the quota pays for it"),
    ReservedName("command", "region AdoptSlots", "the replica controller, once recovered work is adopted"),
    ReservedName("controller", "controller/drain", "empties a node that is drained"),
    ReservedName("controller", "controller/evacuation", "empties a region"),
    ReservedName("controller", "controller/failback", "brings work home once its region is back"),
    ReservedName("controller", "controller/failover", "runs recovery while a region is lost"),
    ReservedName("controller", "controller/provisional", "ends what a region began by itself and nobody confirmed"),
    ReservedName("controller", "controller/rebalance", "moves work to a better place that was reserved for it"),
    ReservedName("controller", "controller/sessions", "ends the session of a machine on a person's word"),
    ReservedName("cause", "drain", "controller/drain"),
    ReservedName("cause", "evacuated", "controller/evacuation"),
    ReservedName("cause", "failed-back", "controller/failback"),
    ReservedName("cause", "provisional-ended", "controller/provisional"),
    ReservedName("cause", "rebalanced", "controller/rebalance"),
    ReservedName("cause", "repaired", "controller/repair, of what fails again and again on one node"),
    ReservedName("cause", "suspended", "controller/replica, once a workload can be suspended"),
    ReservedName("reason", "no-longer-allowed", "a workload's status, from breaches"),
    ReservedName("reason", "not-covered", "a recovery budget's status"),
    ReservedName("reason", "overcommitted", "conditions of nodes, from breaches"),
    ReservedName("reason", "retired", "conditions of regions"),
    ReservedName("reason", "suspect", "conditions of regions"),
    ReservedName("override", "pause-autoscaler", "an autoscaler, which keeps still meanwhile"),
    ReservedName("setting", "suspect_after", "region health, once it counts from a region's last word"),
)  # fmt: skip
