"""Names in the tables that no component sends or reads yet. This list only becomes shorter.

The tables list commands, stop causes, settings and more. Every name has a component that uses it, or is listed here
with the component that will. A test checks the tables; docs/reference/reserved-names.md shows the list.
"""

from __future__ import annotations

from typing import NamedTuple


class ReservedName(NamedTuple):
    """A name in a table, and the component that will send or read it."""

    table: str
    name: str
    keeper: str


RESERVED_NAMES: tuple[ReservedName, ...] = (
    ReservedName("command", "platform Activate", "failover: a standby assignment runs when a region is lost"),
    ReservedName("command", "platform Adopt", "failover: recovered work stays and is charged to the quota"),
    ReservedName("command", "region AdoptSlots", "the replica controller, once recovered work is adopted"),
    ReservedName("controller", "controller/drain", "drains a node"),
    ReservedName("controller", "controller/evacuation", "evacuates a region"),
    ReservedName("controller", "controller/failback", "returns work to its region once that is back"),
    ReservedName("controller", "controller/failover", "runs recovery while a region is lost"),
    ReservedName("controller", "controller/provisional", "ends slots that the platform never confirmed"),
    ReservedName("controller", "controller/rebalance", "moves replicas to better nodes that were reserved for them"),
    ReservedName("controller", "controller/sessions", "ends the session of a machine on an operator's request"),
    ReservedName("cause", "drain", "controller/drain"),
    ReservedName("cause", "evacuated", "controller/evacuation"),
    ReservedName("cause", "failed-back", "controller/failback"),
    ReservedName("cause", "provisional-ended", "controller/provisional"),
    ReservedName("cause", "rebalanced", "controller/rebalance"),
    ReservedName("cause", "repaired", "controller/repair, for slots that fail repeatedly on one node"),
    ReservedName("cause", "suspended", "controller/replica, once a workload can be suspended"),
    ReservedName("reason", "no-longer-allowed", "a workload's status, from breaches"),
    ReservedName("reason", "not-covered", "a recovery budget's status"),
    ReservedName("reason", "overcommitted", "conditions of nodes, from breaches"),
    ReservedName("reason", "retired", "conditions of regions"),
    ReservedName("reason", "suspect", "conditions of regions"),
    ReservedName("override", "pause-autoscaler", "an autoscaler, which changes nothing meanwhile"),
    ReservedName("setting", "suspect_after", "region health, once it counts from a region's last report"),
)  # fmt: skip
