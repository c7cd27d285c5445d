"""Watch keys of a region's events.

An agent watches its node, a controller its kind, an operator a workload. Each event contains all it needs for its keys.
A slot has the key of its workload and, if placed, of its node. A change of `successor` has only the node's key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.core.ledger.builtin import registry
from holdfast.core.ledger.commit import watch
from holdfast.core.ledger.commit.watch import PRINCIPAL, KeysOf, WatchKey, breach
from holdfast.core.model.values.structs import Revision
from holdfast.core.region import events as e

NODE, WORKLOAD, ASSIGNMENT, HOLD, TEMPLATE, GRANT = "node", "workload", "assignment", "hold", "template", "grant"
NODE_REPORT = "node-report"
PRIORITY_CLASS, TOKEN, NODE_POOL, POLICY, VALIDITY = "priority-class", "token", "node-pool", "policy", "validity"
PLATFORM_OVERRIDE, PLATFORM_SERVER, REGION, CURSOR = "platform-override", "platform-server", "region", "cursor"

WATCH_KINDS: dict[str, str] = {
    **watch.WATCH_KINDS,
    NODE: "A node by uid: its row, its usage, every slot and hold on it, its breaches.",
    NODE_REPORT: "The load of a node and its cached artifacts, by node uid. It unblocks no request.",
    WORKLOAD: "A workload by uid: its assignments, slots and requests here.",
    ASSIGNMENT: "An assignment by uid: its content, the holds for it, its breaches. Its slots are under the workload.",
    HOLD: "A hold by uid.",
    TEMPLATE: "A template by digest: stored, leaving. It is deleted with its last use, which is under the workload.",
    GRANT: "The grant of an account here, by account.",
    PRIORITY_CLASS: "A priority class by name.",
    TOKEN: "A token by name.",
    NODE_POOL: "The cost of a pool's nodes, by pool name.",
    POLICY: "A scheduler policy by revision.",
    VALIDITY: "The valid policy, by scope: a tenant, or empty for everywhere.",
    PLATFORM_OVERRIDE: "An override of the platform, by its uid there.",
    PLATFORM_SERVER: "The token of a server of the platform, by name.",
    REGION: "This region by name: its jurisdiction and the platform's grace.",
    CURSOR: "Progress in the platform's log, or in a full list of it, by the id of that log.",
}

#: By the platform's kind of a removed object: its watch kind here, and whether its ids are numbers.
_GONE = {
    "grant": (GRANT, False),
    "priority-class": (PRIORITY_CLASS, False),
    "principal": (PRINCIPAL, False),
    "token": (TOKEN, False),
    "node-pool": (NODE_POOL, False),
    "policy": (POLICY, True),
    "validity": (VALIDITY, False),
    "override": (PLATFORM_OVERRIDE, True),
    "server": (PLATFORM_SERVER, False),
}

_Slots = Iterable[e.SlotOnNode | e.SlotMove | e.SlotStop | e.SlotRelease]


def _slots(slots: _Slots) -> tuple[WatchKey, ...]:
    found: dict[WatchKey, None] = {}
    for one in slots:
        found[WORKLOAD, one.slot[0]] = None
        if one.node:
            found[NODE, one.node] = None
    return tuple(found)


def _placed(event: e.SlotsPlaced, _: Revision) -> tuple[WatchKey, ...]:
    nodes = dict.fromkeys([placement.node for placement in event.placements])
    return ((WORKLOAD, event.workload), *[(NODE, node) for node in nodes])


def _assigned(assignment: Revision, workload: Revision) -> tuple[WatchKey, ...]:
    return (ASSIGNMENT, assignment), (WORKLOAD, workload)


def _held(hold: Revision, node: Revision, assignment: Revision) -> tuple[WatchKey, ...]:
    mine = ((HOLD, hold), (NODE, node))
    return (*mine, (ASSIGNMENT, assignment)) if assignment else mine


def _breached(invariant: str, key: str) -> tuple[WatchKey, ...]:
    """Watch keys of a breach: its key begins with the broken object, `node/UID/...` or `assignment/UID`."""
    kind, uid = key.split("/")[:2]
    assert kind in (NODE, ASSIGNMENT), key
    return breach(invariant, key), (kind, int(uid))


def _gone(event: e.ShippedObjectRemoved, _: Revision) -> tuple[WatchKey, ...]:
    kind, numeric = _GONE[event.gone.kind]
    return ((kind, int(event.gone.key) if numeric else event.gone.key),)


WATCH_KEYS: Mapping[type, KeysOf] = {
    **registry.WATCH_KEYS,
    e.NodeStored: lambda event, _: ((NODE, event.node.uid),),
    e.NodeReported: lambda event, _: ((NODE_REPORT, event.node),),
    e.NodeRemoved: lambda event, _: ((NODE, event.node), (NODE_REPORT, event.node)),
    e.SlotsOpened: lambda event, _: ((WORKLOAD, event.workload),),
    e.SlotsRetargeted: lambda event, _: _slots(event.slots),
    e.SlotsPlaced: _placed,
    e.SlotsBound: lambda event, _: _slots(event.slots),
    e.SlotsMoved: lambda event, _: _slots(event.moves),
    e.SlotsStopping: lambda event, _: _slots(event.stops),
    e.SlotsReleased: lambda event, _: _slots(event.releases),
    e.OrdinalsFinished: lambda event, _: ((WORKLOAD, event.workload),),
    e.SlotsAdopted: lambda event, _: _slots(event.slots),
    e.AssignmentForgotten: lambda event, _: _assigned(event.assignment, event.workload),
    e.PendingReported: lambda event, _: ((WORKLOAD, event.workload),),
    e.HoldStored: lambda event, _: _held(event.hold.uid, event.hold.node, event.hold.assignment),
    e.HoldEnded: lambda event, _: _held(event.hold, event.node, event.assignment),
    e.BreachOpened: lambda event, _: _breached(event.breach.invariant, event.breach.key),
    e.RegionBreachClosed: lambda event, _: _breached(event.invariant, event.key),
    e.CursorMoved: lambda event, _: ((CURSOR, event.log_id),),
    e.ListTaken: lambda event, _: ((CURSOR, event.log_id),),
    e.ListSwept: lambda event, _: ((CURSOR, event.log_id),),
    e.RegionReceived: lambda event, _: ((REGION, event.place.name),),
    e.TemplateReceived: lambda event, _: ((TEMPLATE, event.digest),),
    e.TemplateLeaving: lambda event, _: ((TEMPLATE, event.digest),),
    e.AssignmentReceived: lambda event, _: _assigned(event.assignment.uid, event.assignment.workload),
    e.GrantReceived: lambda event, _: ((GRANT, event.allowance.account),),
    e.PriorityClassReceived: lambda event, _: ((PRIORITY_CLASS, event.priority_class.meta.name),),
    e.PrincipalReceived: lambda event, _: ((PRINCIPAL, event.principal.meta.name),),
    e.TokenReceived: lambda event, _: ((TOKEN, event.token.meta.name),),
    e.PoolReceived: lambda event, _: ((NODE_POOL, event.name),),
    e.PolicyReceived: lambda event, _: ((POLICY, event.policy.revision),),
    e.ValidityReceived: lambda event, _: ((VALIDITY, event.validity.scope),),
    e.OverrideReceived: lambda event, _: ((PLATFORM_OVERRIDE, event.override.uid),),
    e.PlatformServerReceived: lambda event, _: ((PLATFORM_SERVER, event.server.name),),
    e.ShippedObjectRemoved: _gone,
}
