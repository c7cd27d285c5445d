"""The same inputs give the same choice: on processors with other instructions, and after a restart (RULES 17)."""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.scheduler import Proposal, Scheduler
from holdfast.core.scheduling.victims import stage
from holdfast.core.scheduling.view import SchedulerView
from tests.properties.scheduler.replayed_regions import FEATURES, digest
from tests.properties.scheduler.world import World
from tests.support.ledgers.scheduler_world import Follower


def without(*features: str) -> tuple[list[str], str]:
    """Which features numpy had left, and what came out."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    if features:
        environment["NPY_DISABLE_CPU_FEATURES"] = " ".join(features)
    command = [sys.executable, "-m", "tests.properties.scheduler.replayed_regions"]
    told = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.split(" ")
    return [name for name in told[0].split(",") if name], told[1].strip()


@pytest.mark.skipif(not FEATURES, reason="numpy has only one way here")
def test_a_decision_is_the_same_whatever_the_processor_can_do() -> None:
    here = digest()
    for number in range(len(FEATURES)):
        left, found = without(*FEATURES[number:])
        assert left == FEATURES[:number], "they were not switched off"
        assert found == here, f"another choice without {FEATURES[number:]}"


def test_a_decision_is_the_same_in_another_process() -> None:
    """Sets and hashes differ from process to process: nothing may come from their order."""
    assert without()[1] == digest()


def as_decided(attempt: Proposal | None) -> object:
    """All of a proposal but the numbers under which others are known."""
    if attempt is None:
        return None
    return attempt.command, attempt.view, attempt.policy, replace(attempt.decision, in_flight=())


@patch.object(stage, "RETRY_MS", 0)  # who may preempt looks for victims at times: here, always
@given(st.integers(0, 2**32))
@settings(max_examples=80)
def test_a_scheduler_that_starts_anew_decides_as_one_that_heard_every_change(seed: int) -> None:
    world = World(Random(seed), checked=False)
    live = Follower(world.bench)
    for _ in range(6):
        for _ in range(world.chance.randint(1, 4)):
            world.happen()
        if world.chance.random() < 0.5:
            live.catch_up()
        else:
            live.catch_up_at_once()
        twin = Scheduler(BUILT_IN)
        twin.load(live.state)
        assert _order(twin) == _order(live.scheduler)
        under_way: list[Proposal] = []
        while True:  # what is in flight is the same for both
            found, _ = twin.run_cycle(SchedulerView(live.state, world.bench.at))
            attempt = live.look()
            assert as_decided(attempt) == as_decided(found)
            if attempt is None:
                break
            under_way.append(attempt)
        for attempt in under_way:
            assert live.send(attempt) == []


def _order(scheduler: Scheduler) -> object:
    """Everything that waits, each group with its requests in their order."""
    groups = scheduler.queue.groups.values()
    return sorted((group.key, [(key, one.open) for key, one in group.entries.items()]) for group in groups)
