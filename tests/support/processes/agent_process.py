"""An agent in a process of its own, for tests that kill or stop it: it starts leased work, and renews it all the time.

    python -m tests.support.processes.agent_process FOLDER CGROUPS NAMESPACES LEASE_MS GRACE_MS SCRIPT

It says `started` when the process runs. Each renewal gives the work one lease from then on.
"""

from __future__ import annotations

import asyncio
import sys

from holdfast.agent.drivers.driver import RunSpec
from holdfast.agent.drivers.process.driver import ProcessDriver
from holdfast.agent.drivers.process.settings import ProcessSettings
from holdfast.host.ports.clock import SystemClock

CLOCK = SystemClock()


async def main(folder: str, cgroups: bool, namespaces: bool, lease_ms: int, grace_ms: int, script: str) -> None:
    own = ProcessSettings(folder=folder, tenant_map=f"{folder}/users.json", cgroups=cgroups, namespaces=namespaces)
    driver = ProcessDriver(own, CLOCK)
    await driver.open()
    deadline = CLOCK.boot() + lease_ms
    await driver.start(
        RunSpec(
            (7, 0),
            11,
            "web/eu/0",
            ("sh", "-c", script),
            leased=True,
            deadline=deadline,
            grace_ms=grace_ms,
            tenant="shop",
        )
    )
    print("started", flush=True)
    while True:
        driver.extend(CLOCK.boot() + lease_ms)
        await asyncio.sleep(lease_ms / 10_000)


if __name__ == "__main__":
    folder, *kinds, lease_ms, grace_ms, script = sys.argv[1:]
    cgroups, namespaces = (kind == "True" for kind in kinds)
    asyncio.run(main(folder, cgroups, namespaces, int(lease_ms), int(grace_ms), script))
