"""The table of processes, looked at all the time: when each process of a replica was there, by what it was told."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

EVERY_SECONDS = 0.02


class Sighted(NamedTuple):
    """A process of a replica: which one, under which fencing token, and when it was seen first and last."""

    slot: str
    token: int
    pid: int
    first: float
    last: float


class ProcessTable:
    """Samples `/proc` in a thread for as long as it is open. Knows replicas by `HOLDFAST_SLOT` in their environment,
    and which are meant by where they work, below this folder: other agents may have slots of that name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[tuple[int, str], Sighted] = {}
        #: Processes that are no replicas, by pid and start time.
        self._others: set[tuple[int, str]] = set()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._latest = 0.0
        self.samples = 0

    def __enter__(self) -> ProcessTable:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def of(self, slot: str) -> list[Sighted]:
        """The processes that were seen of a replica, in the order of their beginnings."""
        return sorted((one for one in list(self._seen.values()) if one.slot == slot), key=lambda one: one.first)

    def now(self, slot: str) -> list[Sighted]:
        """Those that were there in the last whole sample, however long ago that was: a stalled thread ends nobody."""
        return [one for one in self.of(slot) if one.last >= self._latest]

    def _run(self) -> None:
        while not self._is_over.wait(EVERY_SECONDS):
            now = time.monotonic()
            self._sample(now)
            self._latest = now
            self.samples += 1

    def _sample(self, now: float) -> None:
        for name in os.listdir("/proc"):
            if not name.isdecimal():
                continue
            with suppress(OSError):
                key = int(name), _started(name)
                known = self._seen.get(key)
                if known is not None:
                    self._seen[key] = known._replace(last=now)
                elif key not in self._others:
                    self._look(key, now)

    def _look(self, key: tuple[int, str], now: float) -> None:
        with open(f"/proc/{key[0]}/environ", "rb") as file:
            told = dict(pair.split(b"=", 1) for pair in file.read().split(b"\0") if b"=" in pair)
        if b"HOLDFAST_SLOT" in told and Path(told.get(b"HOME", b"").decode()).is_relative_to(self._folder):
            slot, token = told[b"HOLDFAST_SLOT"].decode(), int(told[b"HOLDFAST_FENCING_TOKEN"])
            self._seen[key] = Sighted(slot, token, key[0], now, now)
        elif told:  # what has just been forked is looked at again, until it is what it is to become
            self._others.add(key)


def pid_from_here(slot: str, port: int, own: int) -> int:
    """The pid by which this machine knows a process of a replica that knows itself by another, in its namespace. A port
    is one replica's on the whole machine; slots and tokens of that name others who run tests here may have, too."""
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError), open(f"/proc/{name}/status") as status, open(f"/proc/{name}/environ", "rb") as told:
                names = [line.split()[-1] for line in status if line.startswith("NSpid:")]
                variables = told.read().decode(errors="replace").split("\0")
                if names == [str(own)] and {f"HOLDFAST_SLOT={slot}", f"PORT={port}"} <= {*variables}:
                    return int(name)
    raise ProcessLookupError(f"nobody of {slot} at {port} has the pid {own}")


def _started(pid: str) -> str:
    """When a process began, for the kernel. `OSError` when there is none that lives."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        rest = file.read().rpartition(")")[2].split()
    if rest[0] in "ZX":
        raise ProcessLookupError(pid)
    return rest[19]
