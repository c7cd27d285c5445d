"""Regions built from seeds, a scheduler at work in each, and a digest of everything that it proposed and why.

    python -m tests.properties.scheduler.replayed_regions

One region is so large that only a part of its nodes is looked at; the others have something of everything.
"""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from random import Random

import numpy._core._multiarray_umath as umath  # type: ignore[import-not-found]

from holdfast.bench.fixtures.region import AT, SCHEDULER, BenchRegion
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.commit.draft import BatchDraft, Committed
from holdfast.core.ledger.commit.watch import WatchKey
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.region.definition import REGION
from holdfast.core.region.watch import NODE, WORKLOAD
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.nodes.window import ALL
from holdfast.core.scheduling.scheduler import Proposal, Scheduler
from holdfast.core.scheduling.view import SchedulerView
from tests.properties.scheduler.world import World
from tests.support.ledgers.scheduler_world import Follower

#: Those that this machine has and that numpy looks for when it starts, the least first.
FEATURES: list[str] = [name for name in umath.__cpu_dispatch__ if umath.__cpu_features__[name]]


def small(seed: int) -> list[Proposal]:
    """Everything that a scheduler proposed in a random region."""
    world = World(Random(seed), checked=False)
    follower = Follower(world.bench)
    attempts = []
    for _ in range(10):
        world.happen()
        while (attempt := follower.step()) is not None:
            attempts.append(attempt)
    return attempts


def large() -> list[Proposal]:
    """A few workloads in a region of which one pass does not look at every node."""
    region = BenchRegion(2 * ALL)
    for _ in range(3):
        region.open_workload()
    scheduler = Scheduler(BUILT_IN)
    scheduler.load(region.state)
    attempts: list[Proposal] = []
    while (attempt := scheduler.run_cycle(SchedulerView(region.state, AT))[0]) is not None:
        attempts.append(attempt)
        scheduler.on_accepted(attempt, _commit(region, attempt, len(attempts)), [])
        scheduler.observe(region.state, _touched(attempt), pack_revision(region.state.info.seq, INDEX_MAX), AT)
    return attempts


def _commit(region: BenchRegion, attempt: Proposal, number: int) -> int:
    draft = BatchDraft(REGION, region.state)
    envelope = Envelope(
        SCHEDULER, attempt.command, AT, region.session, number, view=attempt.view, policy=attempt.policy
    )
    answer = draft.add(envelope, AT)
    assert isinstance(answer, Committed), answer
    assert not answer.answer, "something was refused"
    draft.seal()
    draft.commit()
    return answer.revision


def _touched(attempt: Proposal) -> dict[WatchKey, None]:
    nodes = [(NODE, placement.node) for group in attempt.command.groups for placement in group.placements]
    return dict.fromkeys([*nodes, *((WORKLOAD, workload) for workload in attempt.workloads)])


@cache
def digest() -> str:
    """Of all proposals with their evidence."""
    found = blake2b(digest_size=16)
    for attempt in (*large(), *(attempt for seed in range(25) for attempt in small(seed))):
        found.update(encode(attempt.command))
        found.update(encode(attempt.decision))
    return found.hexdigest()


if __name__ == "__main__":
    print(",".join(FEATURES), digest())
