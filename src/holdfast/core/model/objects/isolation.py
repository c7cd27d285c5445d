"""What an agent can enforce between the tenants of its node, and what a template asks for of that.

An agent reports its capabilities when it registers its node, sorted, each once: found by trying, never configured. A
template that asks for strict isolation runs only where all that it takes is enforced.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Protocol


class Capability(StrEnum):
    """One thing that an agent enforces on its node, by the kernel."""

    #: Each tenant runs as a user of its own, which is not the agent's.
    USERS = "users"
    PID_NAMESPACE = "pid-namespace"
    MOUNT_NAMESPACE = "mount-namespace"
    PRIVATE_TMP = "private-tmp"
    MEMORY_LIMIT = "memory-limit"
    CPU_LIMIT = "cpu-limit"
    PIDS_LIMIT = "pids-limit"
    DISK_LIMIT = "disk-limit"


Capabilities = tuple[Capability, ...]


class Isolation(StrEnum):
    """How far from the work of other tenants a template runs: as far as its node can, or as its people require."""

    STANDARD = "standard"
    STRICT = "strict"


#: What strict isolation takes: own users, own processes and mounts in sight, and limits that the kernel keeps.
STRICT: Capabilities = (
    Capability.CPU_LIMIT, Capability.MEMORY_LIMIT, Capability.MOUNT_NAMESPACE, Capability.PID_NAMESPACE,
    Capability.PIDS_LIMIT, Capability.USERS,
)  # fmt: skip


def missing_capabilities(isolation: Isolation, capabilities: Collection[Capability]) -> Capabilities:
    """What an isolation takes that is not among the capabilities, sorted; nothing: all of it is."""
    if isolation is Isolation.STANDARD:
        return ()
    return tuple(one for one in STRICT if one not in capabilities)


class TenantHost(Protocol):
    """A node as it keeps tenants apart: as the ledger has it, or as its agent registers it."""

    @property
    def capabilities(self) -> Capabilities:
        """What is enforced there."""

    @property
    def tenant(self) -> str:
        """Whose work alone its agent takes; empty: anybody's."""

    @property
    def shares_user(self) -> bool:
        """Whether tenants may share a user where they have none of their own."""


def takes_one_tenant(node: TenantHost) -> bool:
    """Whether all that is there at a time is of one tenant: it all runs as one user, and nobody said to share."""
    return not node.shares_user and Capability.USERS not in node.capabilities


def shares_a_user(node: TenantHost) -> bool:
    """Whether several tenants run as one user there, or may."""
    return node.shares_user and not node.tenant and Capability.USERS not in node.capabilities
