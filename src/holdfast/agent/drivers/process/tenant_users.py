"""Which user each tenant has on this machine: a number of its own, for good.

    FILE       {"200000": "shop", "200001": "risk"}; for root alone, replaced in one step
    FILE.lock  held by whoever reads or adds

All agents of a machine share the file: what is one tenant's on one of them is nobody else's on another. A number is
on disk before anything runs under it, and is never given back: what its tenant has left anywhere on the machine, in a
folder that an agent does not know of or in a process that has outlived it, stays out of reach of others. What an agent
has on record is remembered again at its start, in case the file was lost; and what it has read there since, whenever it
asks again.

Numbers that the machine has given a meaning to are nobody's: those of its table of users or groups, and those that
`/etc/subuid` and `/etc/subgid` lend to containers.
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
    """A user by number, with the one group that a process of theirs has; and whose alone it is, if it is a tenant's."""

    uid: int
    gid: int
    tenant: str = ""


class TenantUsers:
    """The users of tenants in one file. Every call may take as long as the disk, and the table of users."""

    def __init__(self, file: Path, numbers: tuple[int, int], lent: Iterable[Path] = TENANT_UIDS) -> None:
        self._file = file
        self._numbers = range(numbers[0], numbers[1] + 1)
        self._lent_in = tuple(lent)
        #: All that was ever read there, or given: the file may be lost while the agent lives.
        self._known: dict[int, str] = {}

    def of(self, tenant: str) -> TenantUser:
        """The tenant's user: the one it has, or else a new one. `CannotStart` where it can have none."""
        if not tenant:
            raise CannotStart(StartFault.NO_USER, "its region does not say whose it is\nhint: upgrade the servers")
        with self._told() as given:
            uid = min((number for number, name in given.items() if name == tenant), default=None)
            if uid is None:
                uid = self._free(given)
                self._write({**given, uid: tenant})
                self._known[uid] = tenant
        if self._meaning(uid):
            raise CannotStart(
                StartFault.NO_USER,
                f"user {uid}, which tenant {tenant} has had here, is {self._meaning(uid)} by now\n"
                f"hint: give that another number; or stop all agents here and what they run, and remove {self._file}",
            )
        return TenantUser(uid, uid, tenant)

    def remember(self, found: Iterable[tuple[int, str]]) -> list[int]:
        """Take these in, which were given once; returns those of them that are another tenant's by now."""
        wanted = dict(found)
        with self._told() as given:
            if missing := {number: tenant for number, tenant in wanted.items() if number not in given}:
                self._write(given | missing)
                self._known |= missing
            return [number for number, tenant in wanted.items() if given.get(number, tenant) != tenant]

    def covers(self, uid: int) -> bool:
        """Whether it is one of the numbers of tenants, or was when they had others."""
        with self._told() as given:
            return uid in self._numbers or uid in given

    def _free(self, given: dict[int, str]) -> int:
        lent = list(self._lent())
        for uid in self._numbers:
            if uid not in given and not any(uid in some for some in lent) and not self._meaning(uid):
                return uid
        raise CannotStart(
            StartFault.NO_USER,
            f"no user is left for its tenant: those from {self._numbers[0]} to {self._numbers[-1]} are given away, or "
            "the machine's own\nhint: give all agents of this machine --tenant-users with more numbers",
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
        """What the machine calls this number; empty: nothing."""
        with suppress(KeyError):
            return f"{pwd.getpwuid(uid).pw_name} in its table of users"
        with suppress(KeyError):
            return f"{grp.getgrgid(uid).gr_name} in its table of groups"
        return ""

    @contextmanager
    def _told(self) -> Iterator[dict[int, str]]:
        """What was given so far, while nobody else gives anything."""
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
            f"which user its tenant has cannot be read or written: {self._file}: {error}\n"
            "hint: mend that file, or name another by --tenant-map, the same for all agents of this machine",
        )


def missing_here(numbers: tuple[int, int], uid_map: Path = UID_MAP) -> bool:
    """Whether some of these numbers are no users at all here, as in a container that was lent fewer."""
    try:
        lines = [tuple(map(int, line.split())) for line in uid_map.read_text(encoding="ascii").splitlines()]
    except OSError:
        return False
    return not any(first <= numbers[0] and numbers[1] < first + count for first, _, count in lines)
