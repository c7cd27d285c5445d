"""What a driver can promise on its machine, in the words of the ledger: what the kernel keeps, and nothing less."""

from __future__ import annotations

from holdfast.agent.drivers.driver import Capabilities, LimitMethod
from holdfast.core.model.objects.isolation import Capability

#: How a limit may be kept that only holds most of the time: what is looked at now and then is over it in between.
_LOOSE = (LimitMethod.SAMPLED, LimitMethod.NOT_LIMITED)


def enforced_capabilities(can: Capabilities) -> tuple[Capability, ...]:
    """What is enforced between tenants, sorted."""
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
