"""Isolation: what an agent can enforce between tenants of its node, and what a template requires of it.

An agent reports its capabilities when it registers its node, sorted, each once. It finds them by trying; they are never
configured. A template with strict isolation runs only on nodes that enforce all of `STRICT`.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Protocol


class Capability(StrEnum):
    """A restriction that an agent enforces on its node, by means of the kernel."""

    #: Each tenant runs as a separate user, which is not the agent's.
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
    """How a template is isolated from other tenants: as far as its node can, or strictly."""

    STANDARD = "standard"
    STRICT = "strict"


#: Requirements of strict isolation: separate users, separate processes and mounts, and limits enforced by the kernel.
STRICT: Capabilities = (
    Capability.CPU_LIMIT, Capability.MEMORY_LIMIT, Capability.MOUNT_NAMESPACE, Capability.PID_NAMESPACE,
    Capability.PIDS_LIMIT, Capability.USERS,
)  # fmt: skip


def missing_capabilities(isolation: Isolation, capabilities: Collection[Capability]) -> Capabilities:
    """Return the capabilities that an isolation requires and that are missing, sorted."""
    if isolation is Isolation.STANDARD:
        return ()
    return tuple(one for one in STRICT if one not in capabilities)


class TenantHost(Protocol):
    """A node's isolation between tenants, as the ledger stores it or its agent registers it."""

    @property
    def capabilities(self) -> Capabilities:
        """What the node enforces."""

    @property
    def tenant(self) -> str:
        """The only tenant whose work the agent accepts; empty: any tenant's."""

    @property
    def shares_user(self) -> bool:
        """Whether tenants without a user of their own may share one."""


def takes_one_tenant(node: TenantHost) -> bool:
    """Whether the node accepts one tenant at a time: all replicas run as one user, and sharing is not allowed."""
    return not node.shares_user and Capability.USERS not in node.capabilities


def shares_a_user(node: TenantHost) -> bool:
    """Whether several tenants run as one user on the node, or may."""
    return node.shares_user and not node.tenant and Capability.USERS not in node.capabilities
