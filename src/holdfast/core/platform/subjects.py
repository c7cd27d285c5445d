"""Which object a command changes or follows from on the platform, and at which revision that object is.

What a sender expects is judged against it (see `ledger.commit.preconditions`). The revision is the one that reading the
object shows.
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
    """The object of this kind and name."""
    return _object(state, type(command.object).__name__, command.object.meta.name)


def of_delete(state: PlatformState, command: c.Delete) -> Subject:
    """The object of this kind and name, if there are objects of that kind."""
    return _object(state, command.kind, command.name)


def of_put_workload(state: PlatformState, command: c.PutWorkload) -> Subject:
    """The live workload of this name: one that is being deleted has given its name away."""
    meta = command.workload.meta
    return _live_workload(state, meta.tenant, meta.name)


def of_delete_workload(state: PlatformState, command: c.DeleteWorkload) -> Subject:
    """The live workload of this name."""
    return _live_workload(state, command.tenant, command.name)


def of_right(state: PlatformState, command: c.AttestRight) -> Subject:
    """The workload whose identity it is."""
    return _at(f"Workload/{command.workload}", state.workloads.get(command.workload))


def of_assign(state: PlatformState, command: c.Assign) -> Subject:
    """The workload that is split over regions: what is told to each follows from what is wanted of it."""
    return _at(f"Workload/{command.workload}", state.workloads.get(command.workload))


def of_end(state: PlatformState, command: c.EndAssignment) -> Subject:
    """The workload whose assignment it is."""
    found = state.assignments.get(command.assignment)
    uid = found.workload if found is not None else 0
    return _at(f"Workload/{uid}", state.workloads.get(uid))


def of_region(state: PlatformState, command: c.BelieveRegion | c.DeclareLost | c.RetireRegion) -> Subject:
    """The region that a person speaks of."""
    return _object(state, "Region", command.region)


def of_publication(state: PlatformState, command: c.PublishPolicy) -> Subject:
    """The policy of this name, which is at its newest revision."""
    newest = newest_policy(state, command.name)
    return Subject(f"SchedulerPolicy/{command.name}", newest.revision if newest is not None else 0)


def of_validity(state: PlatformState, command: c.ActivatePolicy) -> Subject:
    """What is valid there: its revision is that of the policy. Where nothing was said there is none."""
    key = validity_key(command.region, command.scope)
    validity = state.validities.get(key)
    return Subject(f"validity/{key}", validity.revision if validity is not None else 0)


def of_rollback(state: PlatformState, command: c.RollBackPolicy) -> Subject:
    """The policy of which a revision is taken back, which is at its newest revision."""
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
