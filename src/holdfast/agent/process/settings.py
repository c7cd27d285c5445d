"""What a node's operator decides about the processes on it."""

from __future__ import annotations

from msgspec import Struct

#: An unprivileged user that need not exist: processes run as it where the agent is root and nobody else is asked for.
DEFAULT_USER = "59999"


class ProcessSettings(Struct, frozen=True, kw_only=True):
    """The settings of a driver of processes. Times are milliseconds.

    `environment` is what every process on this node is given, unless its template says otherwise.

    `folder` is where it keeps what it needs; tenants' users must be able to pass through it. `user` is who runs what
    asks for nobody, and `users` who else may be asked for, by name or number; root never. Secrets are handed on from
    files in `secret_folders` and from the agent's own variables in `secret_variables`, and from nowhere else.
    """

    folder: str
    environment: tuple[tuple[str, str], ...] = ()
    user: str = ""
    users: tuple[str, ...] = ()
    secret_folders: tuple[str, ...] = ()
    secret_variables: tuple[str, ...] = ()
    cgroups: bool = True
    cgroup_root: str = "/sys/fs/cgroup"
    log_bytes: int = 4 << 20
    log_files: int = 4
    logs_kept: int = 100
    sample_ms: int = 250
    start_ms: int = 10_000
    answer_ms: int = 5_000
