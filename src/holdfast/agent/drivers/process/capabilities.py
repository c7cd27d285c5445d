"""What the process driver can limit and keep apart on this machine, how, and what it cannot."""

from __future__ import annotations

import os

from holdfast.agent.drivers.driver import Capabilities, LimitMethod
from holdfast.agent.drivers.process.cgroups import Cgroups
from holdfast.agent.drivers.process.disk_usage import can_measure
from holdfast.agent.drivers.process.leftovers import can_look


def capabilities_of(cgroups: Cgroups, no_namespaces: str) -> Capabilities:
    """With these cgroups. `no_namespaces`: why replicas get none of their own; empty: they do."""
    kept, looks = cgroups.controllers, can_look()
    sampled = LimitMethod.SAMPLED if looks else LimitMethod.NOT_LIMITED
    memory = LimitMethod.CGROUP if "memory" in kept else sampled
    pids = LimitMethod.CGROUP if "pids" in kept else sampled
    cpu = LimitMethod.CGROUP if "cpu" in kept else LimitMethod.NOT_LIMITED
    disk = LimitMethod.SAMPLED if can_measure() else LimitMethod.NOT_LIMITED
    missing = [] if can_measure() else ["disk is not limited: there is no `du` to measure it with"]
    whole = cgroups.works or not no_namespaces
    if not {"memory", "pids"} <= set(kept):
        how = "looked at now and then" if looks else "not limited"
        missing.append(f"memory and processes are {how}: there are no cgroups for them that the agent can write to")
    if cpu is LimitMethod.NOT_LIMITED:
        missing.append("cpu is not limited: there is no cgroup for it that the agent can write to")
    if not whole:
        missing.append("a process that leaves its session survives a kill of its guard: no cgroups or namespaces")
    if os.geteuid() != 0:
        missing.append("the agent is not root: processes run as its own user, and are not kept apart")
    if no_namespaces:
        missing.append(f"replicas share the node's pids, mounts and /tmp: {no_namespaces}")
    return Capabilities(
        memory=memory, cpu=cpu, pids=pids, disk=disk, whole=whole,
        users=os.geteuid() == 0, namespaces=not no_namespaces, missing=tuple(missing),
    )  # fmt: skip
