"""What one watcher sees of a kind, and which deletions it receives.

A deleted row no longer shows its tenant. So a watcher of a part of a kind stores the names of the objects it was shown,
and receives only their deletions. That is at most the number of objects that it may see. A watcher that resumes was
shown more than is stored here. For an object deleted before it resumed, the event must name the tenant; if it does not,
the watcher must list again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.api.kinds import ResourceKind
from holdfast.api.resources.lookup import find_row
from holdfast.api.resources.tables import KeyedRow, account_tenant, has_name, name_of, replica_name, tenant_of
from holdfast.api.server.objects.label_selectors import matches_selector
from holdfast.api.server.objects.reads import list_scope
from holdfast.api.server.objects.watch_events import row_at
from holdfast.api.server.redaction import HIDES, Redaction
from holdfast.api.server.request import ApiRequest
from holdfast.api.server.visibility import sees, sees_everything, sees_principal
from holdfast.core.ledger.revision import seq_of
from holdfast.core.model.values.structs import Revision
from holdfast.core.platform import events as e
from holdfast.host.errors import Gone
from holdfast.host.watch.changes import ChangeEvent

#: Kinds whose objects belong to no tenant: all their readers receive deletions.
_OF_NOBODY = ("PriorityClass", "Region", "NodePool", "RecoveryBudget", "SchedulerPolicy", "Node")
#: Kinds named by a number, which does not reveal the tenant.
_BY_NUMBER = ("Override", "Reservation", "Session")


class WatchScope:
    """The part of a kind that one watcher sees."""

    def __init__(self, call: ApiRequest, kind: ResourceKind) -> None:
        self.kind = kind
        self._call = call
        self._path = "/".join(call.rest)
        #: Watchers with an equal request see the same events, if they were shown the same before.
        self.asked = (call.caller.actor, call.caller.principal.meta.revision, call.request.path, call.request.query)
        self._name = "/".join(call.rest[1:] if kind.tenanted else call.rest)
        self._tenant, self._terms = list_scope(call, kind)
        of_principals = kind.plural in ("principals", "tokens")
        may_all = sees_principal(call.caller, "") if of_principals else sees_everything(call.caller)
        #: Whether this watcher receives every deletion, so that nothing is stored of what it was shown. No event names
        #: a deleted scheduling request, or states that an endpoint was listed: for these kinds, names are always
        #: stored.
        is_part = bool(self._name or self._terms or self._tenant)
        self._is_open = may_all and not is_part and kind.name not in ("SchedulingRequest", "Endpoint")
        self._shown: dict[Any, str] = {}
        #: Workloads of the replicas shown, by uid: tenant and name, which outlive the last replica here.
        self._workloads: dict[Revision, tuple[str, str]] = {}
        #: Up to this batch the watcher may have been shown objects that are not stored here.
        self._caught_up_at = 0

    def begin(self, state: Any, *, resumes: bool) -> None:
        """Set the position at which the watch begins."""
        self._caught_up_at = state.info.seq if resumes else 0

    def redaction(self, state: Any) -> Redaction:
        return Redaction(self._call.caller, state)

    def needs_rows(self, *, initial: bool) -> bool:
        """Whether the watch must scan all rows at its begin, not only a named one."""
        return (initial or not self._is_open) and not self._path

    def named(self, state: Any) -> list[KeyedRow]:
        """Return the row that is requested by name, if it exists and the watcher may see it."""
        found = find_row(self.kind, state, self._path) if self._path else None
        return [found] if found is not None and self.shows(state, *found) else []

    def shows(self, state: Any, key: Any, found: Any) -> bool:
        """Whether this watcher sees this row."""
        redaction = self.redaction(state)
        shown = self._may_show(redaction, state, key, found)
        shown = shown and (not self._terms or matches_selector(self._terms, redaction.labels(found)))
        if shown and not self._is_open:
            self._shown[key] = name_of(self.kind, state, key, found)
        elif shown and self.kind.name == "Replica":
            self._workload(state, key[0])
        return shown

    def _workload(self, state: Any, uid: Revision) -> tuple[str, str] | None:
        """Return the tenant and the name of a workload that has, or had, replicas here."""
        if uid not in self._workloads:
            for assignment in (state.assignments_of.get(uid) or ())[:1]:
                one = state.assignments[assignment]
                self._workloads[uid] = (one.tenant, one.workload_name)
        return self._workloads.get(uid)

    def _may_show(self, redaction: Redaction, state: Any, key: Any, found: Any) -> bool:
        kind = self.kind
        return (
            redaction.shows(kind, key, found)
            and (not self._tenant or tenant_of(kind, state, key, found) == self._tenant)
            and (not self._name or has_name(kind, state, key, found, self._name))
        )

    def has(self, keys: tuple[Any, ...]) -> bool:
        """Whether sending events of these objects again would change nothing that is stored here."""
        return all(key in self._shown for key in keys) if not self._is_open else self.kind.name != "Replica"

    def gone(self, state: Any) -> list[Any]:
        """Return the keys that were shown and no longer exist."""
        return [key for key in self._shown if row_at(self.kind, state, key) is None]

    def loses(self, state: Any, key: Any, found: Any, changes: Sequence[ChangeEvent]) -> str | None:
        """Return the name, if known, of a row that the watcher no longer sees; None: it never saw it.

        The `changes` are those of one batch that affect the row.
        """
        if key in self._shown:
            return self._shown.pop(key)
        if self._is_open:
            return self._name_of_gone(state, key) if found is None else None
        if seq_of(changes[-1].revision) > self._caught_up_at:
            return None
        if found is not None:
            redaction = self.redaction(state)
            return name_of(self.kind, state, key, found) if self._may_show(redaction, state, key, found) else None
        return self._lost_before(state, key, changes)

    def _lost_before(self, state: Any, key: Any, changes: Sequence[ChangeEvent]) -> str | None:
        """Return the name of an object deleted before this watcher resumed."""
        name = self._name_of_gone(state, key)
        if self._name and name not in ("", self._name):
            return None
        if self.kind.name == "Principal":
            return name if sees_principal(self._call.caller, name) else None
        if self.kind.name in _BY_NUMBER:
            return name
        owners = [self._owner_of_gone(state, key, change.event) for change in changes]
        owner = next((one for one in owners if one is not None), None)
        # Whether a tenant saw the object depended on its row, which is deleted.
        if owner is None or (not owner and self.redaction(state).tenant and self.kind.name in HIDES):
            raise Gone("the tenant of an object deleted meanwhile is unknown: list again")
        is_ours = sees(self._call.caller, owner) and (not self._tenant or owner == self._tenant)
        return name if is_ours else None

    def _owner_of_gone(self, state: Any, key: Any, event: Any) -> str | None:
        """Return the tenant of a deleted object from the event that ended it; empty: none; None: unknown."""
        kind = self.kind.name
        if kind in _OF_NOBODY:
            return ""
        if kind in ("Tenant", "Quota"):
            return str(key)
        if kind == "Grant":
            return account_tenant(state, str(key).rpartition("|")[2])
        if kind in ("Replica", "Endpoint"):
            known = self._workload(state, key[0])
            return None if known is None else known[0]
        if isinstance(event, e.WorkloadsRemoved) and kind == "Workload":
            return next((one.tenant for one in event.workloads if one.workload == key), None)
        if isinstance(event, e.AssignmentsEnded | e.AssignmentsRemoved) and kind == "Assignment":
            return next((one.tenant for one in event.assignments if one.assignment == key), None)
        return _named_in(event)

    def _name_of_gone(self, state: Any, key: Any) -> str:
        """Return the name of a deleted object, if its key contains it."""
        kind = self.kind.name
        if kind == "Grant":
            return str(key).replace("|", "/", 1) if "|" in str(key) else f"{state.region.name}/{key}"
        if kind == "Breach":
            return "/".join(key)
        if kind in ("Replica", "Endpoint"):
            known = self._workload(state, key[0])
            return "" if known is None else replica_name(state, known[1], key[1])
        return key if isinstance(key, str) else ""


def _named_in(event: Any) -> str | None:
    """Return the tenant of the one object in an event."""
    for field in ("workload", "assignment", "override", "hold"):
        found = getattr(event, field, None)
        tenant = getattr(getattr(found, "meta", found), "tenant", None)
        if isinstance(tenant, str):
            return tenant
    tenant = getattr(event, "tenant", None)
    return tenant if isinstance(tenant, str) else None
