"""Which limits and which isolation the process driver enforces on this machine, how, and what is missing."""

from __future__ import annotations

import os

from holdfast.agent.drivers.driver import Capabilities, LimitMethod
from holdfast.agent.drivers.process.cgroups import Cgroups
from holdfast.agent.drivers.process.disk_usage import can_measure
from holdfast.agent.drivers.process.leftovers import can_look


def capabilities_of(cgroups: Cgroups, no_namespaces: str) -> Capabilities:
    """Return what is enforced with these cgroups. `no_namespaces`: why replicas get none; empty: they get them."""
    kept, looks = cgroups.controllers, can_look()
    sampled = LimitMethod.SAMPLED if looks else LimitMethod.NOT_LIMITED
    memory = LimitMethod.CGROUP if "memory" in kept else sampled
    pids = LimitMethod.CGROUP if "pids" in kept else sampled
    cpu = LimitMethod.CGROUP if "cpu" in kept else LimitMethod.NOT_LIMITED
    disk = LimitMethod.SAMPLED if can_measure() else LimitMethod.NOT_LIMITED
    missing = [] if can_measure() else ["disk is not limited: the program `du`, which measures it, is missing"]
    whole = cgroups.works or not no_namespaces
    if not {"memory", "pids"} <= set(kept):
        how = "sampled, so they can exceed their limits for a moment," if looks else "not limited"
        missing.append(f"memory and processes are {how}: the agent cannot write to the cgroups that limit them")
    if cpu is LimitMethod.NOT_LIMITED:
        missing.append("cpu is not limited: the agent cannot write to a cgroup that limits it")
    if not whole:
        missing.append("a process that leaves its session survives a kill of its guard: no cgroups or namespaces")
    if os.geteuid() != 0:
        missing.append("the agent is not root: all processes run as its user, without isolation between tenants")
    if no_namespaces:
        missing.append(f"replicas share the node's pids, mounts and /tmp: {no_namespaces}")
    return Capabilities(
        memory=memory, cpu=cpu, pids=pids, disk=disk, whole=whole,
        users=os.geteuid() == 0, namespaces=not no_namespaces, missing=tuple(missing),
    )  # fmt: skip
