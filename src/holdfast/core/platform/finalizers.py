"""ReleaseFinalizer: what a deleted workload waits for in vain is let go of at its deadline.

A region releases its own finalizer, however long that takes, while it is heard: what it still has of a workload runs.
One that is lost may never answer, and nothing stands on its answer where several replicas may run: should it come back,
the list of what it is to have does not name the workload, and it ends what is left. Identities are different: their
rights move by evidence alone (RULES 6), so a person forgets the region, or attests for them. An override can pause it.
"""

from __future__ import annotations

from holdfast.core.ledger.answers import Accepted, Code, Refused, not_found
from holdfast.core.ledger.overrides import in_force, paused
from holdfast.core.ledger.registry import Case
from holdfast.core.model.meta import Finalizer
from holdfast.core.model.topology import RegionHealth
from holdfast.core.model.workload import Workload
from holdfast.core.platform.commands import ReleaseFinalizer
from holdfast.core.platform.endings import removal, removed
from holdfast.core.platform.events import FinalizersReleased, WorkloadOf
from holdfast.core.platform.state import PlatformState, assignments_of


def release_finalizer(state: PlatformState, command: ReleaseFinalizer, case: Case) -> Accepted | Refused:
    """A lost region's share of a deletion is over, past its deadline; with the last one the workload is gone."""
    workload, owner = state.workloads.get(command.workload), f"region/{command.region}"
    held = [one for one in workload.meta.finalizers if one.owner == owner] if workload is not None else []
    if workload is None or not held:
        return not_found("finalizer", f"{owner} of workload {command.workload}")
    refused = (
        _refuse_early(held[0], case)
        or _refuse_owned(state, workload, command.region)
        or paused(in_force(state, case.at, command.region).repair, "repair is paused")
    )
    if refused is not None:
        return refused
    uid, tenant = workload.meta.uid, workload.meta.tenant
    theirs = [one for one in assignments_of(state, uid) if one.region == command.region]
    if len(workload.meta.finalizers) == 1:
        return Accepted((removed(theirs, {}), *removal(state, [uid], case)))
    return Accepted((removed(theirs, {}), FinalizersReleased(owner, (WorkloadOf(uid, tenant),))))


def is_left_to_its_region(state: PlatformState, workload: Workload, region: str) -> bool:
    """Whether only the region itself, or a person, can say that nothing of it is left there."""
    return workload.spec.exclusive or state.regions[region].status.health is not RegionHealth.LOST


def _refuse_early(finalizer: Finalizer, case: Case) -> Refused | None:
    if case.at >= finalizer.deadline:
        return None
    facts = {"deadline": finalizer.deadline, "at": case.at}
    return Refused(Code.TOO_EARLY, f"{finalizer.owner} has until {finalizer.deadline} to release it", facts)


def _refuse_owned(state: PlatformState, workload: Workload, region: str) -> Refused | None:
    if not is_left_to_its_region(state, workload, region):
        return None
    facts = {"region": region, "health": state.regions[region].status.health.value}
    if workload.spec.exclusive:
        return Refused(Code.RIGHT_HELD, f"region {region} may hold identities of it: they move by evidence", facts)
    return Refused(Code.NOT_OWNER, f"region {region} is not lost: it releases it itself", facts)
