"""What a node's operator decides about the processes on it."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.drivers.driver import RunSpec
from holdfast.core.model.values.resources import ZERO, Resources

#: The numbers of tenants' users, where nothing else is said; and where a machine remembers who has which.
TENANT_USERS = (200_000, 265_535)
TENANT_MAP = "/var/lib/holdfast-tenants/users.json"


class ProcessSettings(Struct, frozen=True, kw_only=True):
    """The settings of a driver of processes. Times are milliseconds.

    `environment` is what every process on this node is given, unless its template says otherwise.

    `folder` is where it keeps what it needs; tenants' users must be able to pass through it. Where the agent is root,
    each tenant has a user of its own, with a number of the range `tenant_users`, and `tenant_map` is the file in which
    all agents of the machine remember them. `users` are pairs of a tenant and a user, by name or number, that its
    templates may name; root never. A tenant's secrets are handed on from files in `secret_folder`/TENANT, and from the
    agent's own variables in `secret_variables`, pairs of a tenant and a name; from nowhere else.

    `whole` and `pids` are the limits of what asks for none, where the kernel keeps limits; 0: no limit.

    Where replicas have `namespaces`, `folder`, `secret_folder` and what else is `hidden` are out of their sight, but
    for the folder that each works in. Folders that are `shown` are there to be read, wherever they are. What a replica
    keeps in its own `/tmp` is bounded by its memory, or by `tmp_bytes` if it names none.
    """

    folder: str
    environment: tuple[tuple[str, str], ...] = ()
    tenant_users: tuple[int, int] = TENANT_USERS
    tenant_map: str = TENANT_MAP
    users: tuple[tuple[str, str], ...] = ()
    secret_folder: str = ""
    secret_variables: tuple[tuple[str, str], ...] = ()
    cgroups: bool = True
    cgroup_root: str = "/sys/fs/cgroup"
    whole: Resources = ZERO
    pids: int = 4_096
    namespaces: bool = True
    hidden: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    tmp_bytes: int = 256 << 20
    log_bytes: int = 4 << 20
    log_files: int = 4
    logs_kept: int = 100
    sample_ms: int = 250
    disk_ms: int = 5_000
    start_ms: int = 10_000
    answer_ms: int = 5_000


def limited(work: RunSpec, controllers: Collection[str], settings: ProcessSettings) -> RunSpec:
    """The same with the driver's own limits where none was asked for, as far as the kernel keeps them: nobody takes
    all of the machine by asking for nothing."""
    need, whole = work.need, settings.whole
    return replace(
        work,
        need=replace(
            need,
            cpu=need.cpu or (whole.cpu if "cpu" in controllers else 0),
            memory=need.memory or (whole.memory if "memory" in controllers else 0),
        ),
        pids=work.pids or (settings.pids if "pids" in controllers else 0),
    )
