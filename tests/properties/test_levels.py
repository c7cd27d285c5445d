"""Random programs in logs of the first level: raised in the middle of a batch, replayed and restored, nothing differs.

What the programs of both ledgers send is sent again to a log that begins at the first level. After every command the
state that is kept, the one that follows the log and now and then a restored one are the same, row by row, in type too.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.builtin.log import RaiseLevel
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.draft import BatchDraft, Committed, fold
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.levels import FIRST, LEVEL
from holdfast.core.ledger.state.chunks import state_digest
from holdfast.core.ledger.state.invariants import check
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.objects.isolation import Isolation
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region.definition import REGION
from tests.core.rules.test_rule_25_restored_types import mistyped, shape
from tests.properties.platform import program as platform_program
from tests.properties.platform.bad_requests import step
from tests.properties.platform.intents import found_world
from tests.properties.platform.regional_intents import INTENTS
from tests.properties.region import program as region_program
from tests.properties.region.random_walk import seeded, set_up, walk
from tests.properties.region.world import DIGESTS, KINDS, TEMPLATES, Chance
from tests.support.ledgers.platform import PlatformBench
from tests.support.ledgers.region import RegionBench
from tests.support.ledgers.snapshots import restored

STEPS = 120
#: After so many commands what a snapshot restores to is compared, and followed on from.
RESTORED_EVERY = 7

Sent = list[tuple[Envelope[Any], int]]
Log = list[tuple[bytes, bytes]]


def keep_what_is_sent(bench: RegionBench | PlatformBench) -> Sent:
    """Everything that the bench is given from now on, and when; levels are raised by the test alone."""
    sent: Sent = []
    give = bench.give

    def given(envelope: Envelope[Any]) -> Any:
        if type(envelope.command) is not RaiseLevel:
            sent.append((envelope, bench.at))
        return give(envelope)

    bench.give = given  # type: ignore[method-assign]
    return sent


@contextmanager
def nothing_new() -> Iterator[None]:
    """A world in which no work is strict or runs in gangs: the first level takes none, and a link that sends some waits
    until the level is raised."""
    strict = [name for name, one in TEMPLATES.items() if one.isolation is Isolation.STRICT]
    plain = {name: replace(TEMPLATES[name], isolation=Isolation.STANDARD) for name in strict}
    digests = {name: template_digest(one) for name, one in plain.items()}
    alone = {uid: dataclasses.replace(kind, gang=None) for uid, kind in KINDS.items()}
    with mock.patch.dict(TEMPLATES, plain), mock.patch.dict(DIGESTS, digests), mock.patch.dict(KINDS, alone):
        yield


def a_region(seed: int) -> tuple[Sent, Log]:
    """What a program sends to a region, and how a log of the first level begins there."""
    setting, steps = seeded(seed, STEPS)
    program = region_program.Program(Chance(random.Random(setting)), region_program.Tally())
    sent = keep_what_is_sent(program.bench)
    with nothing_new():
        set_up(program)
        walk(program, steps)
    return sent, RegionBench(checked=False, level=FIRST).log


def a_platform(seed: int) -> tuple[Sent, Log]:
    program = platform_program.Program(seed, platform_program.Tally())
    program.bench.checked = False
    sent = keep_what_is_sent(program.bench)
    found_world(program)
    for _ in range(STEPS):
        step(program, INTENTS)
    return sent, PlatformBench(FIRST).log


class Followed:
    """A ledger, and another that follows its log."""

    def __init__(self, definition: LedgerDefinition[Any], small: type[LedgerState], log: Log) -> None:
        self.book = definition
        self.small = small
        self.state, self.follower = small(), small()
        for raw, digest in log:
            for state in (self.state, self.follower):
                fold(definition, state, definition.batches.read(raw, state.info.digest, digest))
        self.accepted = 0

    def give(self, at: int, *envelopes: Envelope[Any]) -> None:
        """One batch of those that are accepted."""
        draft = BatchDraft(self.book, self.state)
        for envelope in envelopes:
            self.accepted += isinstance(draft.add(envelope, at), Committed)
        if not len(draft):
            return
        raw, digest = draft.seal()
        told, read = draft.batch(), self.book.batches.read(raw, self.follower.info.digest, digest)
        assert told == read
        assert shape(told.records) == shape(read.records)
        draft.commit()
        fold(self.book, self.follower, read)
        must_be_alike(self.state, self.follower)
        if self.accepted % RESTORED_EVERY == 0:
            self.follower = restored(self.follower, self.small())
            must_be_alike(self.state, self.follower)


def must_be_alike(state: LedgerState, other: LedgerState) -> None:
    for spec in state.TABLES:
        rows, others = state.table(spec.name).items(), other.table(spec.name).items()
        assert rows == others, spec.name
        assert shape(tuple(rows)) == shape(tuple(others)), spec.name
    for name in (*state.SCALARS, *state.DERIVED_SCALARS, *state.ORDERS):
        assert getattr(state, name) == getattr(other, name), name
    assert mistyped(state) == []
    assert state_digest(state) == state_digest(other)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("ledger", ["region", "platform"])
@pytest.mark.parametrize("seed", range(3))
def test_a_log_whose_level_is_raised_in_a_batch_is_followed_and_restored_row_by_row(ledger: str, seed: int) -> None:
    definition: LedgerDefinition[Any] = REGION if ledger == "region" else PLATFORM
    small = region_program.SmallState if ledger == "region" else platform_program.SmallState
    sent, log = a_region(seed) if ledger == "region" else a_platform(seed)
    ours = Followed(definition, small, log)
    raised = random.Random(seed).randrange(len(sent) // 4, len(sent) // 2)
    for envelope, at in sent[:raised]:
        ours.give(at, envelope)
    assert ours.state.info.level == FIRST
    (before, _), (after, at) = sent[raised : raised + 2]
    ours.give(at, before, Envelope("ledger", RaiseLevel(LEVEL), at), after)
    assert ours.state.info.level == LEVEL
    for envelope, at in sent[raised + 2 :]:
        ours.give(at, envelope)
    assert ours.accepted > len(sent) // 4
    assert check(ours.state, definition.invariants) == []
