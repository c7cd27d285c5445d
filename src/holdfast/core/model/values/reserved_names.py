"""What has its place in a table and nobody who sends it yet. This list only becomes shorter.

A name in a table is a promise: a command that can be sent, a cause that a replica is stopped for, a number that
something is judged by. Each has somebody who keeps it, or stands here with who will. A test walks the tables; people
find the list in docs/reference.md.
"""

from __future__ import annotations

from typing import NamedTuple


class Unsent(NamedTuple):
    """A name in a table, and who will send it, or read it."""

    table: str
    name: str
    keeper: str


NOT_SENT_YET: tuple[Unsent, ...] = (
    Unsent("command", "platform Activate", "failover: what stood by runs when a region is lost"),
    Unsent("command", "platform Adopt", "failover: what was recovered stays, and the quota pays for it"),
    Unsent("command", "region AdoptSlots", "the replica controller, once recovered work is adopted"),
    Unsent("controller", "controller/drain", "empties a node that is drained"),
    Unsent("controller", "controller/evacuation", "empties a region"),
    Unsent("controller", "controller/failback", "brings work home once its region is back"),
    Unsent("controller", "controller/failover", "runs recovery while a region is lost"),
    Unsent("controller", "controller/provisional", "ends what a region began by itself and nobody confirmed"),
    Unsent("controller", "controller/rebalance", "moves work to a better place that was reserved for it"),
    Unsent("controller", "controller/sessions", "ends the session of a machine on a person's word"),
    Unsent("cause", "drain", "controller/drain"),
    Unsent("cause", "evacuated", "controller/evacuation"),
    Unsent("cause", "failed-back", "controller/failback"),
    Unsent("cause", "provisional-ended", "controller/provisional"),
    Unsent("cause", "rebalanced", "controller/rebalance"),
    Unsent("cause", "repaired", "controller/repair, of what fails again and again on one node"),
    Unsent("cause", "suspended", "controller/replica, once a workload can be suspended"),
    Unsent("reason", "no-longer-allowed", "a workload's status, from breaches"),
    Unsent("reason", "not-covered", "a recovery budget's status"),
    Unsent("reason", "overcommitted", "conditions of nodes, from breaches"),
    Unsent("reason", "retired", "conditions of regions"),
    Unsent("reason", "suspect", "conditions of regions"),
    Unsent("override", "pause-autoscaler", "an autoscaler, which keeps still meanwhile"),
    Unsent("setting", "suspect_after", "region health, once it counts from a region's last word"),
)  # fmt: skip
