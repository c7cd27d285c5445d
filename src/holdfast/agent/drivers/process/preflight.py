"""Which limits and isolation this machine enforces, how, and what is missing; and checks before a start: which user a
process runs as, and whether its ports are free.
"""

from __future__ import annotations

import errno
import os
import pwd
import socket
from collections.abc import Iterable

from holdfast.agent.drivers.driver import CannotStart, Capabilities, LimitMethod, RunSpec, StartFault
from holdfast.agent.drivers.process.cgroups import Cgroups
from holdfast.agent.drivers.process.disk_usage import can_measure
from holdfast.agent.drivers.process.leftovers import can_look
from holdfast.agent.drivers.process.settings import ProcessSettings
from holdfast.agent.drivers.process.tenant_users import TenantUser, TenantUsers


def run_user(work: RunSpec, settings: ProcessSettings, tenants: TenantUsers) -> TenantUser | None:
    """Return the user that the node allows for a run; None for the agent's own user, which needs no change."""
    if os.geteuid() != 0:
        _see_that_it_is_own(work.user)
        return None
    if not work.user:
        return tenants.of(work.tenant)
    user = _known(work.user)
    if user.uid == 0 or user.gid == 0:
        raise _not_allowed(f"{work.user}: is root, or in its group, and no run may be root\nhint: name another user")
    whose = {tenant for tenant, name in settings.users if _is(name, user)}
    if work.tenant not in whose:
        listed = ", ".join(name for tenant, name in settings.users if tenant == work.tenant)
        raise _not_allowed(
            f"{work.user}: not among the users that this node lists for tenant {work.tenant} ({listed or 'none'})\n"
            "hint: name no user, to run as the tenant's own; or ask the node's operator to list it"
        )
    if len(whose) > 1 or tenants.covers(user.uid) or tenants.covers(user.gid):
        raise _not_allowed(
            f"{work.user}: other tenants have this user, too, so it would isolate nothing\n"
            "hint: ask the node's operator to list it for one tenant only, outside the range of --tenant-users"
        )
    return user


def _see_that_it_is_own(asked: str) -> None:
    own = os.geteuid()
    if asked and _known(asked).uid != own:
        raise _not_allowed(
            f"{asked}: the agent runs as user {own}, and only root can start processes as another user\n"
            "hint: name no user, or run the agent as root"
        )


def _is(name: str, user: TenantUser) -> bool:
    """Whether this name, which the machine need not know, is that user's."""
    try:
        return _known(name).uid == user.uid
    except CannotStart:
        return False


def _known(name: str) -> TenantUser:
    """Return a user by name or number. A number that the user database lacks has a group of the same number."""
    try:
        entry = pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
    except (KeyError, OverflowError):
        if name.isdecimal() and 0 <= int(name) < 2**32 - 1:
            return TenantUser(int(name), int(name))
        raise CannotStart(
            StartFault.UNKNOWN_USER, f"{name}: there is no such user on this node\nhint: name one of /etc/passwd"
        ) from None
    return TenantUser(entry.pw_uid, entry.pw_gid)


def _not_allowed(why: str) -> CannotStart:
    return CannotStart(StartFault.USER_NOT_ALLOWED, why)


def check_ports_free(ports: Iterable[int]) -> None:
    """Raise `CannotStart` if a port is in use. It may still be taken before the process listens itself."""
    for port in ports:
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(("", port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    continue  # such as a low port, which the process may be allowed to use and the agent not
                raise CannotStart(
                    StartFault.PORT,
                    f"port {port} is in use by another process of this node\n"
                    "hint: configure the agent with --ports that no other process uses",
                ) from None


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
