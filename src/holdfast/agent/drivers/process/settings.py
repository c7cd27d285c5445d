"""What a node's operator configures for the processes on it."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.drivers.driver import RunSpec
from holdfast.core.model.values.resources import ZERO, Resources

#: The default range of tenants' user numbers, and the file in which a machine records them.
TENANT_USERS = (200_000, 265_535)
TENANT_MAP = "/var/lib/holdfast-tenants/users.json"


class ProcessSettings(Struct, frozen=True, kw_only=True):
    """The settings of the process driver. Times are milliseconds.

    Every process gets the `environment`; its template may override it.

    The driver's data is in `folder`, which tenants' users must be able to pass through. If the agent is root, each
    tenant has a user number of the range `tenant_users`, recorded in `tenant_map` for all agents of the machine.
    `users` are pairs of a tenant and a user that its templates may name; never root. A tenant's secrets come from files
    in `secret_folder`/TENANT and from the agent's variables in `secret_variables`, pairs of a tenant and a name; from
    nowhere else.

    Runs without requests have the limits `whole` and `pids`, if the kernel enforces them; 0: no limit.

    With `namespaces`, a replica does not see `folder`, `secret_folder` and `hidden` paths, except its working folder.
    It can read `shown` folders, wherever they are. Its `/tmp` is bounded by its memory request, or by `tmp_bytes`.
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
    """Return the run with the driver's limits where it requests none, as far as the kernel enforces them."""
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
