"""What a node has, as its machine says: processors, memory, disk; where nobody declares something else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from holdfast.core.model.resources import Resources

#: What the machine needs for itself, of each resource, in percent.
KEPT_PERCENT = 10
_MIB = 1 << 20


def detected(folder: Path, meminfo: Path = Path("/proc/meminfo")) -> Resources:
    """The capacity of this machine, less what it needs for itself. The disk is that of the agent's folder."""
    cpu = len(os.sched_getaffinity(0)) * 1_000
    memory = _memory_mib(meminfo)
    disk = shutil.disk_usage(folder).free // _MIB
    return Resources(_offered(cpu), _offered(memory), _offered(disk), 0)


def _offered(amount: int) -> int:
    return amount * (100 - KEPT_PERCENT) // 100


def _memory_mib(meminfo: Path) -> int:
    for line in meminfo.read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemTotal":
            return int(rest.split()[0]) // 1_024
    raise ValueError(f"{meminfo} does not say how much memory there is")
