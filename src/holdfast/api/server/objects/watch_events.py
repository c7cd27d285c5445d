"""Which objects of a kind an event affects, and the lines of a watch: one line of JSON for each object that changed.

After a batch, the line of an object is equal for all watchers with the same view, so it is encoded once for them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from holdfast.api.kinds import ResourceKind
from holdfast.api.resources.tables import PLATFORM_PREFIX, table_of
from holdfast.api.server.redaction import Redaction
from holdfast.api.server.request import encode
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.revision import RevisionToken, parse_revision
from holdfast.core.ledger.revision import format_revision as show_revision
from holdfast.core.model.objects.policies import BUILT_IN_POLICY
from holdfast.core.model.records.node_usage import slot_keys
from holdfast.core.model.values.ranges import numbers
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.region import events as e
from holdfast.core.region.queries.endpoints import is_listed
from holdfast.core.region.state.tables import RegionState
from holdfast.host.errors import show_token
from holdfast.host.watch.changes import ChangeEvent

#: Objects whose lines are cached for watchers that receive the same batch a little later.
KEPT_MAX = 4_096
#: Kinds whose rows do not have the ids of their watch keys.
_NOT_BY_ID = ("Replica", "Endpoint", "SchedulingRequest", "Breach", "SchedulerPolicy")
#: Kinds whose watch keys are uids: a watcher of a name must also get events of its next object.
_BY_UID = ("Workload", "Assignment", "Node", "Session")


class WatchEventCache:
    """The lines of the newest batch, encoded on first use."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, Any, Revision, str], bytes] = {}
        #: By the watchers' request: the objects of the batch that concern them, and their lines.
        self._told: dict[Hashable, tuple[tuple[Any, ...], list[bytes]]] = {}
        self._of: RevisionToken | None = None

    def told(self, asked: Hashable, state: Any, token: RevisionToken) -> tuple[tuple[Any, ...], list[bytes]] | None:
        """Return what an equal request was sent for this batch, if it is the newest."""
        return self._told.get(asked) if token == self._of and state.info.seq == token.seq else None

    def tell(
        self, asked: Hashable, state: Any, token: RevisionToken, keys: tuple[Any, ...], lines: list[bytes]
    ) -> None:
        """Cache the lines for other watchers with an equal request."""
        if token == self._of and state.info.seq == token.seq:
            self._told[asked] = (keys, lines)

    def of(
        self, redaction: Redaction, kind: ResourceKind, key: Any, row: Any, token: RevisionToken, at: Revision
    ) -> bytes:
        """Return the line of the current object, for a change at a revision in the batch of the token."""
        if redaction.seq != token.seq:
            # The newest content may be sent: it is newer than the batch, and its own batch sends it again.
            return self._line(redaction, kind, key, row, token, at)
        if token != self._of or len(self._made) >= KEPT_MAX:
            self._made.clear()  # no later line can show the state of an older batch
            self._told.clear()
            self._of = token
        known = (kind.plural, key, at, redaction.tenant)
        line = self._made.get(known)
        if line is None:
            line = self._made[known] = self._line(redaction, kind, key, row, token, at)
        return line

    def _line(
        self, redaction: Redaction, kind: ResourceKind, key: Any, row: Any, token: RevisionToken, at: Revision
    ) -> bytes:
        tree = redaction.tree(kind, key, row)
        added = tree["metadata"].get("uid") == show_revision(at)
        return _event_line("ADDED" if added else "MODIFIED", tree, token)


def added_event(tree: dict[str, Any], token: RevisionToken) -> bytes:
    """Return the line of an object that existed when the watch began."""
    return _event_line("ADDED", tree, token)


def deleted_event(kind: ResourceKind, key: Any, name: str, token: RevisionToken) -> bytes:
    """Return the line of a deleted object: its uid, and its name if known."""
    metadata: dict[str, Any] = {"uid": show_revision(key)} if isinstance(key, int) else {}
    if name:
        metadata["name"] = name
    tree = {"apiVersion": "holdfast/v1", "kind": kind.name, "metadata": metadata}
    return _event_line("DELETED", tree, token)


def bookmark_event(token: RevisionToken) -> bytes:
    """Return the line of a bookmark: no event was missed up to here."""
    return _event_line("BOOKMARK", None, token)


def _event_line(word: str, tree: Any, token: RevisionToken) -> bytes:
    line = {"type": word, "token": show_token(token)}
    return encode(line if tree is None else line | {"object": tree})


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
