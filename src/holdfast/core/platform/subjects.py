"""The subject of each command: the object that it changes or follows from, with its revision.

A sender's precondition is checked against the revision (see `ledger.commit.authorization`). Reads of the object return
it.
"""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.commit.rules import Subject
from holdfast.core.model.objects.policies import validity_key
from holdfast.core.model.objects.workloads import name_key
from holdfast.core.model.values.structs import Revision
from holdfast.core.platform import commands as c
from holdfast.core.platform.state.lookups import newest_policy, policy_of
from holdfast.core.platform.state.tables import TABLE_OF, PlatformState


def of_put(state: PlatformState, command: c.Put) -> Subject:
    """Return the object of this kind and name."""
    return _object(state, type(command.object).__name__, command.object.meta.name)


def of_delete(state: PlatformState, command: c.Delete) -> Subject:
    """Return the object of this kind and name, if the kind has objects."""
    return _object(state, command.kind, command.name)


def of_put_workload(state: PlatformState, command: c.PutWorkload) -> Subject:
    """Return the live workload of this name. A workload that is being deleted has released its name."""
    meta = command.workload.meta
    return _live_workload(state, meta.tenant, meta.name)


def of_delete_workload(state: PlatformState, command: c.DeleteWorkload) -> Subject:
    """Return the live workload of this name."""
    return _live_workload(state, command.tenant, command.name)


def of_right(state: PlatformState, command: c.AttestRight) -> Subject:
    """Return the workload of the identity."""
    return _at(f"Workload/{command.workload}", state.workloads.get(command.workload))


def of_assign(state: PlatformState, command: c.Assign) -> Subject:
    """Return the workload: its assignments follow from its spec."""
    return _at(f"Workload/{command.workload}", state.workloads.get(command.workload))


def of_end(state: PlatformState, command: c.EndAssignment) -> Subject:
    """Return the workload of the assignment."""
    found = state.assignments.get(command.assignment)
    uid = found.workload if found is not None else 0
    return _at(f"Workload/{uid}", state.workloads.get(uid))


def of_region(state: PlatformState, command: c.BelieveRegion | c.DeclareLost | c.RetireRegion) -> Subject:
    """Return the region that the operator names."""
    return _object(state, "Region", command.region)


def of_publication(state: PlatformState, command: c.PublishPolicy) -> Subject:
    """Return the policy of this name, at its newest revision."""
    newest = newest_policy(state, command.name)
    return Subject(f"SchedulerPolicy/{command.name}", newest.revision if newest is not None else 0)


def of_validity(state: PlatformState, command: c.ActivatePolicy) -> Subject:
    """Return the validity of this region and scope, at the revision of its policy; 0 if there is none."""
    key = validity_key(command.region, command.scope)
    validity = state.validities.get(key)
    return Subject(f"validity/{key}", validity.revision if validity is not None else 0)


def of_rollback(state: PlatformState, command: c.RollBackPolicy) -> Subject:
    """Return the policy whose revision is rolled back, at its newest revision."""
    policy = policy_of(state, command.revision)
    newest = newest_policy(state, policy.name) if policy is not None else None
    found: Revision = newest.revision if newest is not None else 0
    return Subject(f"SchedulerPolicy/{policy.name if policy is not None else command.revision}", found)


def _object(state: PlatformState, kind: str, name: str) -> Subject:
    return _at(f"{kind}/{name}", state.table(TABLE_OF[kind]).get(name) if kind in TABLE_OF else None)


def _live_workload(state: PlatformState, tenant: str, name: str) -> Subject:
    key = name_key(tenant, name)
    return _at(f"Workload/{key}", state.workloads.get(state.workload_names.get(key) or 0))


def _at(key: str, stored: Any) -> Subject:
    return Subject(key, stored.meta.revision if stored is not None else 0)
