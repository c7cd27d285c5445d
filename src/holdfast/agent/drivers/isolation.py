"""The driver's capabilities as the ledger's enum: only what the kernel enforces counts."""

from __future__ import annotations

from holdfast.agent.drivers.driver import Capabilities, LimitMethod
from holdfast.core.model.objects.isolation import Capability

#: Methods that do not enforce a limit at every moment.
_LOOSE = (LimitMethod.SAMPLED, LimitMethod.NOT_LIMITED)


def enforced_capabilities(can: Capabilities) -> tuple[Capability, ...]:
    """Return what is enforced between tenants, sorted."""
    found = {
        Capability.USERS: can.users,
        Capability.PID_NAMESPACE: can.namespaces,
        Capability.MOUNT_NAMESPACE: can.namespaces,
        Capability.PRIVATE_TMP: can.namespaces,
        Capability.MEMORY_LIMIT: can.memory not in _LOOSE,
        Capability.CPU_LIMIT: can.cpu not in _LOOSE,
        Capability.PIDS_LIMIT: can.pids not in _LOOSE,
        Capability.DISK_LIMIT: can.disk not in _LOOSE,
    }
    return tuple(sorted(word for word, holds in found.items() if holds))
