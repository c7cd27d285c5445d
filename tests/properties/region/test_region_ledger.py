"""The region's ledger against a deliberately simple model of it: random programs, compared after every command.

`make test` runs the same programs each time for what must have occurred, and those that Hypothesis draws besides.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.ledger.answers import Code
from holdfast.core.model.records.lifecycle import EDGE_BY_KEY
from holdfast.core.region.commands import RegionCommand
from tests.properties.region.program import Tally
from tests.properties.region.random_walk import SEEDS, run, seeded
from tests.properties.servers_model import lives_of

#: Codes that only the platform gives, and why a region has no use for them.
ONLY_THE_PLATFORM = {
    Code.OVER_QUOTA: "quota is the platform's: a region charges its grant and answers over-grant",
    Code.TOO_MANY_PENDING: "a tenant asks for replicas on the platform",
    Code.REGION_UNAVAILABLE: "a region is not told what the others are",
    Code.LATENCY: "how far a region is from clients is judged where it is chosen",
    Code.RIGHT_HELD: "the platform says who holds a right; a region has it or answers not-assigned",
    Code.TOMBSTONED: "the platform buries logs of retired regions",
    Code.LEVEL: "the log of a bench begins at the newest level",
}
#: Commands that nothing can make a region accept here, and why.
NEVER_ACCEPTED = {
    "StartLog": "the log of a bench is started before the program",
    "RaiseLevel": "the log of a bench begins at the newest level",
}
PROGRAMS, STEPS = 120, 110
EDGES_TAKEN_LEAST = 130


@pytest.fixture(autouse=True, scope="module")
def short_lives() -> Iterator[None]:
    """Programs are short: servers' tokens end all the same."""
    with lives_of(5_000):
        yield


@pytest.mark.timeout(600)  # what fails is made small before it is told
@given(setting=st.integers(0, SEEDS - 1), steps=st.lists(st.integers(0, SEEDS - 1), min_size=60, max_size=60))
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
def test_ledger_and_model_agree_on_every_answer_and_every_state(setting: int, steps: list[int]) -> None:
    run(Tally(), setting, steps)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("block", range(10))
def test_ledger_and_model_agree_in_long_programs(block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        run(Tally(), *seeded(1_000_000 + seed, 400))


@pytest.fixture(scope="module")
def tally() -> Tally:
    """What the programs of fixed seeds have seen."""
    found = Tally()
    for seed in range(PROGRAMS):
        run(found, *seeded(seed, STEPS))
    return found


def test_at_least_half_of_all_commands_are_accepted(tally: Tally, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(tables(tally))
    assert sum(tally.accepted.values()) >= sum(tally.refused.values())


def test_every_command_of_a_region_is_accepted_and_refused(tally: Tally) -> None:
    commands = {command.__name__ for command in get_args(RegionCommand)}
    assert {name for name in commands if not tally.accepted[name]} == set(NEVER_ACCEPTED)
    assert {name for name in commands if not tally.refused[name]} == set()
    assert {*tally.accepted, *tally.refused} <= commands


def test_every_refusal_code_of_a_region_occurs(tally: Tally) -> None:
    seen = {*tally.codes, *tally.part_codes}
    assert set(Code) - seen == set(ONLY_THE_PLATFORM)


def test_repeats_of_machines_and_of_people_occur(tally: Tally) -> None:
    assert tally.repeated["Move"]
    assert tally.repeated["AdministerNode"]


def test_lists_in_parts_go_on_end_and_are_given_up_across_crashes(tally: Tally) -> None:
    assert set(tally.lists) == {"begun", "went on", "swept", "ended", "replaced", "crashed"}
    assert min(tally.lists.values()) >= 20


def test_batch_work_is_done_and_fails_for_good(tally: Tally) -> None:
    assert tally.over["done"] >= 10
    assert tally.over["failed"] >= 2


def test_most_edges_of_the_table_are_taken_and_no_others(tally: Tally) -> None:
    assert set(tally.edges) <= set(EDGE_BY_KEY)
    assert len(tally.edges) >= EDGES_TAKEN_LEAST


def tables(tally: Tally) -> str:
    """Accepted, refused and repeated per command; refusals per code, of commands and of parts."""
    lines = ["", f"{tally.programs} programs", "", f"{'command':<20}{'accepted':>9}{'refused':>9}{'repeated':>9}"]
    lines += [
        f"{name:<20}{tally.accepted[name]:>9}{tally.refused[name]:>9}{tally.repeated[name]:>9}"
        for name in sorted({*tally.accepted, *tally.refused})
    ]
    sums = [sum(counter.values()) for counter in (tally.accepted, tally.refused, tally.repeated)]
    lines += [f"{'all':<20}{sums[0]:>9}{sums[1]:>9}{sums[2]:>9}", "", f"{'code':<22}{'commands':>9}{'parts':>9}"]
    codes = sorted({*tally.codes, *tally.part_codes})
    lines += [f"{code:<22}{tally.codes[code]:>9}{tally.part_codes[code]:>9}" for code in codes]
    lines += [
        "",
        f"{len(tally.edges)} of {len(EDGE_BY_KEY)} edges were taken",
        f"lists: {dict(tally.lists)}",
        f"batch: {dict(tally.over)}",
    ]
    return "\n".join(lines)
