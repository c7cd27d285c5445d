"""Which objects of a kind an event affects, and the current row of each.

Events name what they affect by watch keys; for most kinds, a key contains the id of the row. Replicas and scheduling
requests have the watch key of their workload, so for them the event itself is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.api.kinds import ResourceKind
from holdfast.api.resources.tables import PLATFORM_PREFIX, table_of
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.revision import format_revision as show_revision
from holdfast.core.ledger.revision import parse_revision
from holdfast.core.model.objects.policies import BUILT_IN_POLICY
from holdfast.core.model.records.node_usage import slot_keys
from holdfast.core.model.values.ranges import numbers
from holdfast.core.model.values.structs import SlotKey
from holdfast.core.region import events as e
from holdfast.core.region.queries.endpoints import is_listed
from holdfast.core.region.state.tables import RegionState
from holdfast.host.watch.changes import ChangeEvent

#: Kinds whose rows do not have the ids of their watch keys.
_NOT_BY_ID = ("Replica", "Endpoint", "SchedulingRequest", "Breach", "SchedulerPolicy")
#: Kinds whose watch keys are uids: a watcher of a name must also get events of its next object.
_BY_UID = ("Workload", "Assignment", "Node", "Session")


def is_by_id(kind: ResourceKind, state: Any) -> bool:
    """Whether one object of this kind can be watched by its key alone."""
    return kind.name not in (*_NOT_BY_ID, *_BY_UID) and not (kind.name == "Override" and isinstance(state, RegionState))


def affected_keys(
    kind: ResourceKind, definition: LedgerDefinition[Any], state: Any, change: ChangeEvent
) -> Iterable[Any]:
    """Return the keys of the rows of this kind that a change affects."""
    event = change.event
    if kind.name in ("Replica", "Endpoint"):
        return _slots(event) or (_on_node(state, event) if kind.name == "Endpoint" else [])
    keys = definition.keys[type(event)](event, change.revision)
    if kind.name == "SchedulingRequest":
        return _requests(state, [uid for word, uid in keys if word == "workload"])
    if kind.name == "Breach":
        return [tuple(str(name).split("/", 1)) for word, name in keys if word == kind.key]
    if kind.name == "SchedulerPolicy":
        return _policies(state, keys)
    if kind.name == "Node":
        return list(dict.fromkeys(name for word, name in keys if word in (kind.key, *kind.also)))
    found = [name for word, name in keys if word == kind.key]
    if kind.also and kind.name == "Override":
        found += [f"{PLATFORM_PREFIX}{show_revision(int(name))}" for word, name in keys if word in kind.also]
    return found


def _slots(event: Any) -> list[SlotKey]:
    match event:
        case e.SlotsOpened():
            return [(event.workload, ordinal) for ordinal in numbers(event.ordinals)]
        case e.SlotsPlaced():
            return [(event.workload, placement.ordinal) for placement in event.placements]
        case e.SlotsRetargeted() | e.SlotsBound() | e.SlotsAdopted():
            return [one.slot for one in event.slots]
        case e.SlotsMoved():
            return [one.slot for one in event.moves]
        case e.SlotsStopping():
            return [one.slot for one in event.stops]
        case e.SlotsReleased():
            return [one.slot for one in event.releases]
    return []


def _on_node(state: Any, event: Any) -> list[SlotKey]:
    """Return the slots on a node that was stored: their addresses may have changed."""
    room = state.node_usage.get(event.node.uid) if isinstance(event, e.NodeStored) else None
    return slot_keys(room) if room is not None else []


def _requests(state: Any, workloads: list[Any]) -> list[Any]:
    """Return the existing scheduling requests of workloads; events do not name deleted ones."""
    if not workloads:
        return []
    return [
        (uid, request.template)
        for workload in dict.fromkeys(workloads)
        for uid in state.assignments_of.get(workload) or ()
        for request in state.requests.get(uid) or ()
    ]


def _policies(state: Any, keys: Iterable[tuple[str, Any]]) -> list[Any]:
    """Return the affected policies: one by its revision, or all if the validity of any changes."""
    keys = tuple(keys)
    if any(word == "validity" for word, _ in keys):
        return [BUILT_IN_POLICY.revision, *[uid for uid, _ in state.policies.items()]]
    return [name for word, name in keys if word == "policy"]


def row_at(kind: ResourceKind, state: Any, key: Any) -> Any:
    """Return the current row of this key; None: it is deleted."""
    if kind.name == "SchedulerPolicy" and key == BUILT_IN_POLICY.revision:
        return BUILT_IN_POLICY
    if kind.name == "SchedulingRequest":
        uid, template = key
        return next((one for one in state.requests.get(uid) or () if one.template == template), None)
    if isinstance(key, str) and key.startswith(PLATFORM_PREFIX) and kind.name == "Override":
        return state.platform_overrides.get(parse_revision(key.removeprefix(PLATFORM_PREFIX)))
    found = table_of(kind, state).get(key)
    if kind.name == "Endpoint" and found is not None and not is_listed(state, found):
        return None
    return found
