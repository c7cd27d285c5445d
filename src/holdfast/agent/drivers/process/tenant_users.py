"""The user of each tenant on this machine: a number of its own, assigned for good.

    FILE       {"200000": "shop", "200001": "risk"}; for root alone, replaced in one step
    FILE.lock  held while the file is read or extended

All agents of a machine share the file, so a number belongs to one tenant on all of them. It is on disk before anything
runs under it, and is never released: files and processes that its tenant left anywhere on the machine stay out of reach
of others. An agent restores the numbers in its records at its start, in case the file was lost; and the ones it has
read since, at each later access.

Numbers that the machine uses are never assigned: those in its databases of users and groups, and those that
`/etc/subuid` and `/etc/subgid` delegate to containers.
"""

from __future__ import annotations

import fcntl
import grp
import os
import pwd
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast.agent.drivers.driver import CannotStart, StartFault
from holdfast.host.runtime.files import write_atomically

TENANT_UIDS = (Path("/etc/subuid"), Path("/etc/subgid"))
UID_MAP = Path("/proc/self/uid_map")

_users = msgspec.json.Decoder(dict[int, str])


class TenantUser(Struct, frozen=True):
    """A user by number, with the one group of its processes, and its tenant if the user is a tenant's own."""

    uid: int
    gid: int
    tenant: str = ""


class TenantUsers:
    """The users of tenants in one file. Every call may block on the disk and on the user database."""

    def __init__(self, file: Path, numbers: tuple[int, int], lent: Iterable[Path] = TENANT_UIDS) -> None:
        self._file = file
        self._numbers = range(numbers[0], numbers[1] + 1)
        self._lent_in = tuple(lent)
        #: All numbers that were ever read or assigned: the file may be lost while the agent runs.
        self._known: dict[int, str] = {}

    def of(self, tenant: str) -> TenantUser:
        """Return the tenant's user, a new one if it has none. `CannotStart` if none can be assigned."""
        if not tenant:
            raise CannotStart(StartFault.NO_USER, "the binding names no tenant\nhint: upgrade the servers")
        with self._told() as given:
            uid = min((number for number, name in given.items() if name == tenant), default=None)
            if uid is None:
                uid = self._free(given)
                self._write({**given, uid: tenant})
                self._known[uid] = tenant
        if self._meaning(uid):
            raise CannotStart(
                StartFault.NO_USER,
                f"user {uid}, assigned to tenant {tenant} here, is now {self._meaning(uid)}\n"
                f"hint: change that number; or stop all agents here and their replicas, and remove {self._file}",
            )
        return TenantUser(uid, uid, tenant)

    def remember(self, found: Iterable[tuple[int, str]]) -> list[int]:
        """Record these numbers again; return those that belong to another tenant by now."""
        wanted = dict(found)
        with self._told() as given:
            if missing := {number: tenant for number, tenant in wanted.items() if number not in given}:
                self._write(given | missing)
                self._known |= missing
            return [number for number, tenant in wanted.items() if given.get(number, tenant) != tenant]

    def covers(self, uid: int) -> bool:
        """Whether the number is in the range of tenants, or was assigned under another range."""
        with self._told() as given:
            return uid in self._numbers or uid in given

    def _free(self, given: dict[int, str]) -> int:
        lent = list(self._lent())
        for uid in self._numbers:
            if uid not in given and not any(uid in some for some in lent) and not self._meaning(uid):
                return uid
        raise CannotStart(
            StartFault.NO_USER,
            f"no user is left for its tenant: the numbers {self._numbers[0]} to {self._numbers[-1]} are assigned, or "
            "used by the machine\nhint: start all agents of this machine with a larger range of --tenant-users",
        )

    def _lent(self) -> Iterator[range]:
        for file in self._lent_in:
            with suppress(OSError):
                for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
                    words = line.split(":")
                    if len(words) == 3 and words[1].isdecimal() and words[2].isdecimal():
                        yield range(int(words[1]), int(words[1]) + int(words[2]))

    @staticmethod
    def _meaning(uid: int) -> str:
        """Return what the machine uses this number for; empty: nothing."""
        with suppress(KeyError):
            return f"{pwd.getpwuid(uid).pw_name} in the machine's user database"
        with suppress(KeyError):
            return f"{grp.getgrgid(uid).gr_name} in the machine's group database"
        return ""

    @contextmanager
    def _told(self) -> Iterator[dict[int, str]]:
        """Yield the assigned numbers, while the lock is held."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(f"{self._file}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._cannot(error) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            given = self._read()
            self._known |= given
            if len(self._known) > len(given):
                self._write(self._known)
            yield dict(self._known)
        finally:
            os.close(lock)

    def _read(self) -> dict[int, str]:
        try:
            return _users.decode(self._file.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._cannot(error) from error

    def _write(self, given: dict[int, str]) -> None:
        try:
            write_atomically(self._file, msgspec.json.encode(dict(sorted(given.items()))).decode() + "\n", mode=0o600)
        except OSError as error:
            raise self._cannot(error) from error

    def _cannot(self, error: Exception) -> CannotStart:
        return CannotStart(
            StartFault.NO_USER,
            f"the users of tenants cannot be read or written: {self._file}: {error}\n"
            "hint: repair that file, or name another with --tenant-map, the same for all agents of this machine",
        )


def missing_here(numbers: tuple[int, int], uid_map: Path = UID_MAP) -> bool:
    """Whether some of these numbers do not exist here, as in a container with fewer delegated numbers."""
    try:
        lines = [tuple(map(int, line.split())) for line in uid_map.read_text(encoding="ascii").splitlines()]
    except OSError:
        return False
    return not any(first <= numbers[0] and numbers[1] < first + count for first, _, count in lines)
