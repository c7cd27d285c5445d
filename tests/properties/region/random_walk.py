"""A random walk through a region's life: what is set up, how time passes, and who sends what next."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.state.chunks import state_digest
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from tests.properties.region import intents
from tests.properties.region import shipments as links
from tests.properties.region import slot_intents as slots
from tests.properties.region.bad_requests import MISCHIEF
from tests.properties.region.expected_answers import judge
from tests.properties.region.program import Program, Tally
from tests.properties.region.world import (
    ACCOUNTS,
    DIGESTS,
    KINDS,
    NODES,
    PEOPLE,
    SCHEDULERS,
    TEMPLATES,
    Chance,
    an_assignment_of,
)

GOOD: tuple[tuple[int, intents.Intent], ...] = (
    (50, slots.propose), (70, slots.advance), (10, slots.any_edge), (10, slots.mourn), (20, slots.doom),
    (14, intents.open_slots), (12, slots.stop), (4, intents.withdraw_slots), (8, slots.bind),
    (3, slots.unreserve), (4, slots.expire),
    (10, intents.hold), (5, intents.change_hold), (3, intents.report_pending), (8, intents.adopt_slots),
    (6, intents.forget_assignment), (4, intents.close_breach), (4, intents.override), (3, intents.keep_house),
    (4, intents.about_servers),
    (10, intents.open_session), (3, intents.end_session), (12, intents.register_node), (5, intents.administer_node),
    (4, intents.report_node), (2, intents.judge_node), (2, intents.remove_node), (11, links.change),
    (4, links.renewal), (2, links.gone), (4, links.full_list), (4, links.other_accounts), (1, intents.stand_down),
)  # fmt: skip
#: How many intents are thought of, and how often each, before one is sent that the model refuses.
INTENTS, TRIES = 3, 3
#: How many commands are told when something is wrong, and how many different steps there are.
STORY, SEEDS = 25, 1 << 20
#: How long nothing happens: mostly milliseconds, now and then past a proposal, a fence, a reservation, a day.
WAITS = ((60, 1), (30, 40), (8, 700), (6, 6_000), (3, 26_000), (3, 31_000), (1, 90_000_000))


def set_up(p: Program) -> None:
    """A few nodes, a few workloads, and what they need."""
    chance = p.chance
    names = chance.some(list(NODES), 4) if chance.one_in(3) else list(NODES)[: 2 + chance.below(4)]
    kinds = sorted(chance.some(list(KINDS), 5))
    templates = [name for uid in kinds for name in KINDS[uid].templates]
    target = Resources(9000, 16_000, 300, 4000, (("fpga", 2),))
    p.give(links.step(p, *(c.ShippedPrincipal(person) for person in PEOPLE)))
    p.give(links.step(p, *(c.ShippedTemplate(DIGESTS[name], TEMPLATES[name]) for name in templates)))
    p.give(links.step(p, *(c.ShippedGrant(account, 1, target, p.at + links.DAY) for account in ACCOUNTS)))
    p.give(links.step(p, *(c.ShippedAssignment(an_assignment_of(uid)) for uid in kinds)))
    for name in names:
        p.send(f"agent/{name}", OpenSession())
        p.send(f"agent/{name}", NODES[name])
    p.send(SCHEDULERS[0], OpenSession())
    for uid in kinds:
        kind = KINDS[uid]
        p.send("controller/replica", c.OpenSlots(uid, DIGESTS[kind.templates[0]], tuple(range(kind.count))))


def next_envelope(p: Program) -> Envelope[Any] | None:
    """A few times in ten something wrong or old; otherwise the first of a few good intents that the model accepts."""
    chance = p.chance
    roll = chance.below(20)
    if roll == 19 and p.accepted:
        return chance.pick(p.accepted)
    if roll >= 15:
        return chance.weighed(MISCHIEF)(p)
    found, refused = links.machines_back(p) if chance.one_in(2) and p.model.listing is None else None, None
    if p.model.listing is not None and chance.one_in(2):
        found = links.full_list(p) if chance.one_in(8) else links.next_part(p) or links.full_list(p)
    for intent in [chance.weighed(GOOD) for _ in range(INTENTS)]:
        for _ in range(TRIES):
            found = found or intent(p)
            if found is None or welcome(p, found):
                break
            refused, found = found, None
        if found is not None:
            return found
    return refused


def welcome(p: Program, envelope: Envelope[Any]) -> bool:
    return judge(p.model, envelope, p.at)[0].accepted


def walk(p: Program, steps: Sequence[int]) -> None:
    """Each step takes its choices from a seed of its own, so that one can be left out (0) and the others stay."""
    try:
        for seed in steps:
            if seed:
                p.chance = Chance(random.Random(seed))
                p.bench.at += p.chance.weighed(WAITS)
                if p.model.listing is not None and p.chance.one_in(6):
                    p.crash()
                envelope = next_envelope(p)
                if envelope is not None:
                    p.give(envelope)
    except Exception as error:
        error.add_note("\n".join(p.story[-STORY:]))
        raise


def run(tally: Tally, setting: int, steps: Sequence[int]) -> None:
    """One program: set up, walk, fork midway, walk on both sides, and check what must hold at the end of each."""
    tally.programs += 1
    p = Program(Chance(random.Random(setting)), tally)
    set_up(p)
    before, after = steps[: len(steps) // 2], steps[len(steps) // 2 :]
    walk(p, before)
    fork = p.branch()
    at_fork = state_digest(fork.bench.state)
    walk(p, after)
    assert state_digest(fork.bench.state) == at_fork, "what followed on one side has changed the other"
    ahead = state_digest(p.bench.state)
    walk(fork, [seed and seed + 1 for seed in after[::2]])
    assert state_digest(p.bench.state) == ahead, "what followed on the fork has changed the other side"
    p.finish()
    fork.finish()


def seeded(seed: int, steps: int) -> tuple[int, list[int]]:
    """The setting and the steps of a program that has one seed for all."""
    source = random.Random(seed)
    return source.randrange(SEEDS), [source.randrange(1, SEEDS) for _ in range(steps)]
