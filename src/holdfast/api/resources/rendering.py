"""A row of a ledger's state as a document. The state is used to look up names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from holdfast.api.kinds import ResourceKind
from holdfast.api.resources import platform_types as s
from holdfast.api.resources import region_types, reported_types
from holdfast.api.resources.tables import PLATFORM_PREFIX, assignment_name, is_region, name_of, view_from
from holdfast.core.ledger.revision import format_revision as show_revision
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.objects.isolation import shares_a_user
from holdfast.core.model.objects.policies import Validity
from holdfast.core.model.records import nodes
from holdfast.core.model.records.lifecycle import PENDING, PHASES, RESERVED
from holdfast.core.model.records.node_usage import EMPTY_USAGE, slot_keys
from holdfast.core.model.records.slots import changed_at
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.ranges import count_numbers, format_ranges
from holdfast.core.model.values.resources import ZERO, add, elementwise_max, subtract
from holdfast.core.region.queries.node_conditions import node_conditions


def view_of_row(kind: ResourceKind, state: LedgerState, key: Any, row: Any) -> Any:
    """Return the object as a complete document of its kind."""
    build = _BUILDERS.get(kind.name)
    return row if build is None else build(state, name_of(kind, state, key, row), key, row)


def _assignment(state: Any, name: str, key: Any, row: Any) -> s.AssignmentView:
    tally = state.phase_counts.get(row.uid) if is_region(state) else None
    phases = sorted((phase.value, count) for phase, count in zip(PHASES, tally or (), strict=False) if count)
    ordinals = tuple(format_ranges(row.ordinals))
    spec = view_from(s.AssignmentSpec, row, workload=row.workload_name, workload_uid=row.workload, ordinals=ordinals)
    replicas = sum(share.count for share in row.shares)
    rights = count_numbers(row.ordinals) + count_numbers(row.returning)
    status = s.AssignmentStatus(replicas=replicas, phases=tuple(phases), rights=rights)
    meta = Meta(name=name, uid=row.uid, tenant=row.tenant, revision=row.revision)
    return s.AssignmentView(meta=meta, spec=spec, status=status)


def _grant(state: Any, name: str, key: Any, row: Any) -> s.GrantView:
    here = is_region(state)
    region = state.region.name if here else row.region
    spec = view_from(s.GrantSpec, row, region=region)
    if not here:
        status = s.GrantStatus(charged=row.offered, settled=row.settled, acknowledged=row.acknowledged)
        return s.GrantView(meta=Meta(name=name, uid=row.uid, revision=row.revision), spec=spec, status=status)
    use = state.account_usage.get(row.account)
    status = s.GrantStatus(charged=use.charged if use else ZERO, settled=row.limit, acknowledged=row.version)
    return s.GrantView(meta=Meta(name=name), spec=spec, status=status)


def _policy(state: Any, name: str, key: Any, row: Any) -> s.SchedulerPolicyView:
    if is_region(state):
        valid = [
            s.PolicyScopeView(region=state.region.name, tenant=scope)
            for scope, revision in state.validities.items()
            if revision == row.revision
        ]
    else:
        held: list[Validity] = state.validities.values()
        valid = [s.PolicyScopeView(region=one.region, tenant=one.scope) for one in held if one.revision == row.revision]
    status = view_from(s.PolicyStatus, row, valid=tuple(valid))
    meta = Meta(name=name, uid=row.revision, revision=row.revision, created=row.at)
    return s.SchedulerPolicyView(meta=meta, spec=row.document, status=status)


def _override(state: Any, name: str, key: Any, row: Any) -> s.OverrideView:
    source = "platform" if name.startswith(PLATFORM_PREFIX) or not is_region(state) else "region"
    spec, status = view_from(s.OverrideSpec, row), view_from(s.OverrideStatus, row, source=source)
    return s.OverrideView(meta=Meta(name=name, uid=row.uid, revision=row.uid), spec=spec, status=status)


def _breach(state: Any, name: str, key: Any, row: Any) -> s.BreachView:
    status = view_from(s.BreachStatus, row, subject=_subject(state, row.key))
    return s.BreachView(meta=Meta(name=name), spec=view_from(s.BreachSpec, row), status=status)


def _subject(state: Any, key: str) -> str:
    """Return the subject of a breach, with names in place of uids."""
    kind, _, rest = key.partition("/")
    if is_region(state):
        uid, _, tail = rest.partition("/")
        table = state.nodes if kind == "node" else state.assignments
        found = table.get(int(uid)) if uid.isdigit() else None
        if found is None:
            return key
        named = found.name if kind == "node" else f"{found.tenant}/{assignment_name(found)}"
        return f"{kind}/{named}/{tail}" if tail else f"{kind}/{named}"
    workload = state.workloads.get(int(key)) if key.isdigit() else None
    return key if workload is None else f"workload/{workload.meta.tenant}/{workload.meta.name}"


def _session(state: Any, name: str, key: Any, row: Any) -> s.SessionView:
    meta = Meta(name=name, uid=row.uid, revision=row.uid)
    return s.SessionView(meta=meta, spec=view_from(s.SessionSpec, row), status=view_from(s.SessionStatus, row))


def _node(state: Any, name: str, key: Any, row: Any) -> region_types.NodeView:
    room = state.node_usage.get(row.uid) or EMPTY_USAGE
    report = state.node_reports.get(row.uid) or nodes.NO_REPORT
    status = view_from(
        region_types.NodeStatus,
        row,
        usable=nodes.usable(row),
        firm=room.firm,
        taken=room.all,
        held=room.held,
        free=subtract(row.capacity, elementwise_max(room.all, add(room.firm, room.held))),
        replicas=len(slot_keys(room)),
        reservations=len(room.holds),
        waiting=room.waiting,
        load=region_types.NodeLoadView(cpu=report.cpu, memory=report.memory, since=report.at),
        present=report.present,
        machine=view_from(region_types.MachineView, row.machine),
        shares_user=shares_a_user(row),
        conditions=node_conditions(row, state.info.settings),
    )
    labels = tuple(sorted({**dict(row.reported_labels), **dict(row.labels)}.items()))
    meta = Meta(name=row.name, uid=row.uid, revision=row.revision, labels=labels)
    return region_types.NodeView(meta=meta, spec=view_from(region_types.NodeSpec, row), status=status)


def _replica(state: Any, name: str, key: Any, row: Any) -> region_types.ReplicaView:
    assignment = state.assignments[row.assignment]
    node = state.nodes.get(row.node) if row.node else None
    spec = view_from(
        region_types.ReplicaSpec, row, workload=assignment.workload_name, workload_uid=row.workload,
        region=state.region.name, assignment=assignment_name(assignment),
    )  # fmt: skip
    stage = "request" if row.phase is PENDING else "reservation" if row.phase is RESERVED else "binding"
    status = view_from(
        region_types.ReplicaStatus, row, stage=stage, node=node.name if node is not None else "",
        waits_for=len(row.waits_for), preempted=_preemption(state, row),
        preempts=tuple([one for one in _preemptions(state, row) if one is not None]),
    )  # fmt: skip
    return region_types.ReplicaView(
        meta=Meta(name=name, tenant=assignment.tenant, revision=row.revision), spec=spec, status=status
    )


def _preemption(state: Any, victim: Any) -> region_types.PreemptionView | None:
    """Return the last preemption of a slot. The names of the successor are those of that time."""
    told = victim.preempted
    if told is None:
        return None
    assignment, region = state.assignments[victim.assignment], state.region.name
    return region_types.PreemptionView(
        told.at, told.rule, f"{told.tenant}/{told.workload_name}/{region}/{told.successor[1]}",
        f"{assignment.tenant}/{assignment.workload_name}/{region}/{victim.ordinal}", told.priority, told.own,
    )  # fmt: skip


def _preemptions(state: Any, successor: Any) -> Iterator[region_types.PreemptionView | None]:
    """Yield the preemptions for a slot, as its victims were told of them."""
    for key in successor.victims:
        victim = state.slots.get(key)
        told = victim.preempted if victim is not None else None
        if told is not None and told.successor == (successor.workload, successor.ordinal):
            yield _preemption(state, victim)


def _endpoint(state: Any, name: str, key: Any, row: Any) -> region_types.EndpointView:
    assignment, node = state.assignments[row.assignment], state.nodes[row.node]
    spec = region_types.EndpointSpec(
        workload=assignment.workload_name, workload_uid=row.workload, region=state.region.name, ordinal=row.ordinal
    )
    host = f"[{node.address}]" if ":" in node.address else node.address
    addresses = tuple(f"{host}:{port}" for port in row.ports)
    status = view_from(region_types.EndpointStatus, row, addresses=addresses, node=node.name, zone=node.zone)
    return region_types.EndpointView(
        meta=Meta(name=name, tenant=assignment.tenant, revision=row.revision), spec=spec, status=status
    )


def _request(state: Any, name: str, key: Any, row: Any) -> region_types.SchedulingRequestView:
    assignment = state.assignments[row.assignment]
    spec = view_from(region_types.RequestSpec, assignment, workload=assignment.workload_name, template=row.template)
    meta, status = Meta(name=name, uid=row.uid, tenant=assignment.tenant), view_from(region_types.RequestStatus, row)
    return region_types.SchedulingRequestView(meta=meta, spec=spec, status=status)


def _reservation(state: Any, name: str, key: Any, row: Any) -> region_types.ReservationView:
    assignment = state.assignments.get(row.assignment) if row.assignment else None
    node = state.nodes.get(row.node)
    spec = view_from(
        region_types.ReservationSpec,
        row,
        node=node.name if node is not None else show_revision(row.node),
        assignment=assignment_name(assignment) if assignment is not None else "",
    )
    return region_types.ReservationView(meta=Meta(name=name, uid=row.uid, revision=changed_at(row)), spec=spec)


_BUILDERS: dict[str, Callable[[Any, str, Any, Any], Any]] = {
    "Region": reported_types.region_view,
    "Workload": reported_types.workload_view,
    "Assignment": _assignment,
    "Grant": _grant,
    "SchedulerPolicy": _policy,
    "Override": _override,
    "Breach": _breach,
    "Session": _session,
    "Node": _node,
    "Replica": _replica,
    "Endpoint": _endpoint,
    "SchedulingRequest": _request,
    "Reservation": _reservation,
}
