"""Random programs of commands: the platform's ledger answers and holds what a deliberately simple model says.

A program is drawn by a seed: people, tenants, controllers and regions do what they would do, and some of it goes wrong
on the way. After every command the answers and everything that both hold are compared, and the bench checks every
invariant. The last test says what the programs together must have met, so that steering cannot decay unseen.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.state.chunks import state_digest
from holdfast.core.platform import limits
from holdfast.core.platform.commands import PlatformCommand
from holdfast.core.platform.decide import region_retirement
from tests.properties.platform.bad_requests import step
from tests.properties.platform.expected_answers import COMMANDS
from tests.properties.platform.intents import found_world
from tests.properties.platform.program import Program, Tally
from tests.properties.platform.regional_intents import INTENTS
from tests.properties.servers_model import lives_of

STEPS = 200
#: The programs that the last test looks at, whatever profile is in force: the same in every run.
SEEDS = range(50)

REGION_ONLY = {
    Code.NOT_ASSIGNED, Code.NODE_UNAVAILABLE, Code.LABELS, Code.TAINT, Code.TENANCY, Code.CAPACITY, Code.DEVICE,
    Code.PORT, Code.SPREAD, Code.APART, Code.NEAR, Code.GANG, Code.OVER_GRANT, Code.GRANT_ENDED, Code.PROTECTED,
    Code.POLICY, Code.FENCE, Code.GAP, Code.DEADLINE_MISSED, Code.ISOLATION, Code.ONE_TENANT,
}  # fmt: skip
PLATFORM_CODES = {
    Code.MALFORMED, Code.TOO_LARGE, Code.TOO_OLD_TO_RETRY, Code.TOO_MANY_IN_FLIGHT, Code.TOO_MANY_KEYS,
    Code.KEY_REUSED, Code.NO_SESSION, Code.NO_RIGHT, Code.WRONG_SCOPE, Code.EXPIRED, Code.NOT_FOUND, Code.EXISTS,
    Code.STALE, Code.IN_USE, Code.CONTRADICTORY, Code.WRONG_PHASE, Code.NOT_OWNER, Code.TOO_EARLY, Code.ALREADY,
    Code.RESIDENCY, Code.LATENCY, Code.PRIORITY, Code.DISRUPTION, Code.PAUSED, Code.OVER_QUOTA, Code.TOO_MANY_PENDING,
    Code.REGION_UNAVAILABLE, Code.RIGHT_HELD, Code.DIVERGED, Code.TOMBSTONED,
}  # fmt: skip
#: Codes that a command must have met though others give them too.
PAIRS = {
    ("Put", Code.EXISTS), ("Put", Code.STALE), ("Delete", Code.STALE), ("PutWorkload", Code.EXISTS),
    ("PutWorkload", Code.STALE), ("PutWorkload", Code.TOO_MANY_PENDING), ("DeleteWorkload", Code.STALE),
    ("JoinRegion", Code.MALFORMED), ("JoinRegion", Code.ALREADY), ("RecordDenials", Code.TOO_LARGE),
    ("RecordDenials", Code.MALFORMED), ("ReleaseRights", Code.STALE), ("Report", Code.ALREADY),
    ("Report", Code.MALFORMED), ("OfferBack", Code.TOO_EARLY), ("OfferBack", Code.ALREADY),
    ("OfferBack", Code.STALE), ("Assign", Code.CONTRADICTORY), ("PutWorkload", Code.IN_USE),
    ("PutWorkload", Code.LATENCY), ("Assign", Code.LATENCY), ("PublishPolicy", Code.MALFORMED),
    ("PublishPolicy", Code.EXISTS), ("PublishPolicy", Code.STALE), ("PublishPolicy", Code.ALREADY),
    ("PublishPolicy", Code.NOT_FOUND), ("RollBackPolicy", Code.MALFORMED), ("JoinRegion", Code.IN_USE),
    ("ReleaseRetired", Code.ALREADY), ("ReleaseRetired", Code.WRONG_PHASE), ("ReleaseRetired", Code.NOT_FOUND),
}  # fmt: skip
#: Logs begin at the newest level, so it cannot be raised.
NEVER_ACCEPTED = {"RaiseLevel"}


@pytest.fixture(autouse=True, scope="module")
def few_at_a_time() -> Iterator[None]:
    """Programs are small and short: a retirement takes several parts, and servers' tokens end, all the same."""
    with pytest.MonkeyPatch.context() as patch, lives_of(120_000):
        for module in (limits, region_retirement):
            patch.setattr(module, "OBJECTS_MAX", 2)
        yield


def run(seed: int, tally: Tally, steps: int = STEPS) -> None:
    """One program; what went wrong comes with its seed and the last of its story."""
    program = Program(seed, tally)
    try:
        found_world(program)
        middle = program.chance.randrange(steps)
        for _ in range(middle):
            step(program, INTENTS)
        fork, before = program.bench.fork(), state_digest(program.bench.state)
        for _ in range(middle, steps):
            step(program, INTENTS)
        assert state_digest(fork.state) == before, "a fork has changed with what it was taken from"
        fork.verify()
        program.finish()
    except AssertionError as error:
        error.add_note("\n".join([f"seed {seed}, after {len(program.story)} commands", *program.story[-8:]]))
        raise
    tally.programs += 1


@cache
def met() -> Tally:
    tally = Tally()
    for seed in SEEDS:
        run(seed, tally)
    return tally


@given(seed=st.integers(0, 2**32))
@settings(max_examples=10)
def test_the_ledger_answers_and_holds_what_the_model_says(seed: int) -> None:
    run(seed, Tally())


@pytest.mark.soak
@given(seed=st.integers(0, 2**32))
def test_the_ledger_answers_and_holds_what_the_model_says_for_longer(seed: int) -> None:
    run(seed, Tally(), 3 * STEPS)


def test_the_model_knows_every_command() -> None:
    assert set(COMMANDS) == set(get_args(PlatformCommand))


def test_every_code_is_given_by_the_platform_or_by_regions_only() -> None:
    assert set(Code) == PLATFORM_CODES | REGION_ONLY | {Code.LEVEL}  # they begin at the newest level
    assert not PLATFORM_CODES & REGION_ONLY


def test_programs_are_the_same_for_the_same_seed() -> None:
    one, other = Program(7, Tally()), Program(7, Tally())
    for program in (one, other):
        found_world(program)
        for _ in range(40):
            step(program, INTENTS)
    assert one.story == other.story


def test_programs_meet_every_command_and_every_code_and_half_of_what_is_sent_is_accepted() -> None:
    tally = met()
    print(tally.table())
    names = {command.__name__ for command in COMMANDS}
    assert names - set(tally.accepted) == NEVER_ACCEPTED
    assert names <= set(tally.refused), names - set(tally.refused)
    assert set(tally.codes) == PLATFORM_CODES
    assert set(tally.pairs) >= PAIRS, PAIRS - set(tally.pairs)
    accepted, refused = sum(tally.accepted.values()), sum(tally.refused.values())
    assert accepted >= refused, f"{accepted} accepted and {refused} refused"
    assert sum(tally.repeated.values()) >= 100
