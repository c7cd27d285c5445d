"""Whatever programs do to a ledger, each event carries the keys of every row that it changes."""

from __future__ import annotations

import random

import pytest

from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region.definition import REGION
from tests.properties.platform import program as platform_program
from tests.properties.platform.bad_requests import step
from tests.properties.platform.intents import found_world
from tests.properties.platform.regional_intents import INTENTS
from tests.properties.region import program as region_program
from tests.properties.region.random_walk import seeded, set_up, walk
from tests.properties.region.world import Chance
from tests.support.ledgers.watch_keys import untold

Log = list[tuple[bytes, bytes]]
PROGRAMS = range(12)


def region_log(seed: int, steps: int = 110) -> Log:
    setting, choices = seeded(seed, steps)
    program = region_program.Program(Chance(random.Random(setting)), region_program.Tally())
    set_up(program)
    walk(program, choices)
    return program.bench.log


def platform_log(seed: int, steps: int = 150) -> Log:
    program = platform_program.Program(seed, platform_program.Tally())
    found_world(program)
    for _ in range(steps):
        step(program, INTENTS)
    return program.bench.log


@pytest.mark.parametrize("seed", PROGRAMS)
def test_every_row_that_an_event_of_a_region_changes_is_told_by_its_keys(seed: int) -> None:
    state, previous = region_program.SmallState(), b""
    for raw, digest in region_log(seed):
        assert list(untold(REGION, state, REGION.batches.read(raw, previous, digest))) == []
        previous = digest


@pytest.mark.parametrize("seed", PROGRAMS)
def test_every_row_that_an_event_of_the_platform_changes_is_told_by_its_keys(seed: int) -> None:
    state, previous = platform_program.SmallState(), b""
    for raw, digest in platform_log(seed):
        assert list(untold(PLATFORM, state, PLATFORM.batches.read(raw, previous, digest))) == []
        previous = digest
