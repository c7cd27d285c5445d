"""RULES 12: repeats. What a leader refused it refuses again, within its term; what it accepted it does once.

Otherwise the network delivers a refused proposal a second time, when it would be accepted, and two plans hold.
"""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.core.ledger.answers import Code, Refused, Repeated
from holdfast.core.ledger.builtin.overrides import EndOverride
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.commit.dedup import WINDOW
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import pack_revision
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.region import commands as c
from holdfast.host.leader.refusal_cache import SESSIONS_MAX, RefusalCache
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.faulty_store import FaultyStore
from tests.support.hosts.ledger_world import Server, World, an_override, batches_in, in_world
from tests.support.ledgers.region import LINK, REPLICA, ROOT, SCHEDULER, a_template, an_assignment

TEMPLATE = a_template()
DIGEST = template_digest(TEMPLATE)
FOREVER = 10**14


class Scene:
    """A region with one cordoned node and one workload: a proposal is refused until somebody uncordons it."""

    def __init__(self, server: Server, store: FaultyStore) -> None:
        self.server = server
        self.store = store
        self.work = an_assignment(template=TEMPLATE, count=10)
        self.session = 0
        self.node = 0
        self.at = 0

    async def prepare(self) -> Scene:
        server = self.server
        await server.prepare()
        agent = await server.open_session("agent/n1")
        capacity = Resources(8_000, 16_384, 100_000, 0, ())
        node = c.RegisterNode("n1", "general", "a", capacity, (), (30_000, 30_009))
        await server.accept("agent/n1", node, session=agent, sequence=1)
        target = Resources(1_000_000, 10**9, 10**9, 10**9, ())
        shipped: tuple[Any, ...] = (
            c.ShippedGrant("quota/acme", 1, target, FOREVER),
            c.ShippedTemplate(DIGEST, TEMPLATE),
            c.ShippedAssignment(self.work),
        )
        for number, put in enumerate(shipped, start=1):
            await server.accept(LINK, c.Ship("log-platform", 1, number, number + 1, (put,)))
        await server.accept(REPLICA, c.OpenSlots(self.work.uid, DIGEST, tuple(range(10))))
        self.session = await server.open_session(SCHEDULER)
        found = server.state.node_names.get("n1")
        assert found is not None
        self.node = found
        await self.cordon(True, "cordon")
        self.at = server.state.info.at
        return self

    async def cordon(self, cordoned: bool, key: str, server: Server | None = None) -> None:
        await (server or self.server).accept(ROOT, c.AdministerNode(self.node, cordoned=cordoned, note=key), key=key)

    def proposal(self, ordinal: int = 0) -> c.Propose:
        group = c.PlacementGroup(self.work.uid, DIGEST, (c.SlotPlacement(ordinal, self.node),))
        return c.Propose((group,), self.at + DEFAULTS.proposal_life)

    def envelope(self, sequence: int, ordinal: int = 0, **fields: Any) -> Envelope[Any]:
        """The same packet whenever it is made again."""
        fields = {"actor": SCHEDULER, "session": self.session, **fields}
        return Envelope(command=self.proposal(ordinal), sent=self.at, sequence=sequence, **fields)

    async def send(self, envelope: Envelope[Any], server: Server | None = None) -> Committed | Refused | Repeated:
        return await (server or self.server).ledger.submit(envelope)

    def placed(self) -> list[int]:
        return [slot.ordinal for slot in self.server.state.slots.values() if slot.node]


async def a_scene(world: World) -> Scene:
    store = FaultyStore(MemoryStore())
    return await Scene(await world.server(store).start().leads(), store).prepare()


def test_a_duplicate_of_a_refused_proposal_gets_the_same_refusal_though_it_would_now_be_accepted() -> None:
    async def story(world: World) -> None:
        scene = await a_scene(world)
        packet = scene.envelope(1)
        refused = await scene.send(packet)
        assert isinstance(refused, Refused)
        await scene.cordon(False, "uncordon")
        assert await scene.send(packet) == refused
        assert scene.placed() == []
        assert isinstance(await scene.send(scene.envelope(2, ordinal=1)), Committed)
        assert await scene.send(packet) == refused
        assert scene.placed() == [1]

    in_world(story)


def test_a_duplicate_in_the_same_batch_gets_the_same_refusal_too() -> None:
    """Between the two lie enough other commands that the operators' second helping comes in between."""

    async def story(world: World) -> None:
        scene = await a_scene(world)
        scene.store.append_ms = 200
        first = asyncio.create_task(scene.server.override("holds the store"))
        await scene.server.clock.sleep(100)
        packet = scene.envelope(1)
        lone = asyncio.create_task(scene.send(packet))
        others = [asyncio.create_task(scene.send(scene.envelope(1_000 + number))) for number in range(1_000)]
        again = asyncio.create_task(scene.send(packet))
        reasons = [f"{number:03}" * 300 for number in range(40)]
        now = scene.server.clock.wall()
        operators = [
            asyncio.create_task(scene.server.send(ROOT, an_override(now, reason), key=reason[:3])) for reason in reasons
        ]
        uncordon = asyncio.create_task(scene.cordon(False, "uncordon"))
        await asyncio.gather(first, lone, *others, again, *operators, uncordon, return_exceptions=True)
        assert isinstance(lone.result(), Refused)
        assert again.result() == lone.result()
        assert scene.placed() == []

    in_world(story)


def test_a_duplicate_of_an_accepted_proposal_is_answered_as_the_first_was_and_done_once() -> None:
    async def story(world: World) -> None:
        scene = await a_scene(world)
        await scene.cordon(False, "uncordon")
        packet = scene.envelope(1)
        answers = await asyncio.gather(*(scene.send(packet) for _ in range(5)))
        landed = answers[0]
        assert isinstance(landed, Committed)
        assert all(answer == Repeated(landed.revision, landed.answer) for answer in answers[1:])
        assert scene.placed() == [0]

    in_world(story)


def test_after_a_change_of_leader_a_refused_command_is_judged_anew() -> None:
    async def story(world: World) -> None:
        scene = await a_scene(world)
        packet = scene.envelope(1)
        assert isinstance(await scene.send(packet), Refused)
        await scene.cordon(False, "uncordon")
        await scene.server.stop()
        second = await world.server(scene.store.inner, "s2").start().leads()
        assert isinstance(await scene.send(packet, second), Committed)

    in_world(story)


def test_nobody_can_use_up_the_numbers_of_another_session() -> None:
    async def story(world: World) -> None:
        scene = await a_scene(world)
        stranger = await scene.server.open_session("scheduler/stranger")
        for actor, session in (("scheduler/stranger", scene.session), ("scheduler/nobody", scene.session)):
            for number in range(1, 11):
                answer = await scene.send(scene.envelope(number, actor=actor, session=session))
                assert isinstance(answer, Refused)
                assert answer.code is Code.NO_SESSION
        assert isinstance(await scene.send(scene.envelope(1, actor="scheduler/stranger", session=stranger)), Refused)
        await scene.cordon(False, "uncordon")
        assert isinstance(await scene.send(scene.envelope(1)), Committed)

    in_world(story)


def test_nobody_is_told_what_another_session_was_refused() -> None:
    async def story(world: World) -> None:
        scene = await a_scene(world)
        refused = await scene.send(scene.envelope(1))
        spoofed = await scene.send(scene.envelope(1, actor="scheduler/stranger"))
        assert isinstance(refused, Refused)
        assert isinstance(spoofed, Refused)
        assert refused.code is not Code.NO_SESSION
        assert spoofed.code is Code.NO_SESSION

    in_world(story)


def test_a_number_that_came_too_early_is_not_used_up() -> None:
    async def story(world: World) -> None:
        scene = await a_scene(world)
        early = await scene.send(scene.envelope(WINDOW + 1))
        assert isinstance(early, Refused)
        assert early.code is Code.TOO_MANY_IN_FLIGHT
        await scene.cordon(False, "uncordon")
        assert isinstance(await scene.send(scene.envelope(1)), Committed)
        assert isinstance(await scene.send(scene.envelope(WINDOW + 1, ordinal=1)), Committed)

    in_world(story)


def test_a_scheduler_that_was_refused_more_often_than_its_window_is_wide_can_still_place() -> None:
    """Nothing of it is in the log, so its mark there has not moved. It begins again after the mark that it is told."""

    async def story(world: World) -> None:
        scene = await a_scene(world)
        for number in range(1, WINDOW + 1):
            assert isinstance(await scene.send(scene.envelope(number)), Refused)
        beyond = await scene.send(scene.envelope(WINDOW + 1))
        assert isinstance(beyond, Refused)
        assert beyond.code is Code.TOO_MANY_IN_FLIGHT
        await scene.cordon(False, "uncordon")
        again = beyond.facts["high"] + 1
        assert isinstance(await scene.send(scene.envelope(again)), Refused)
        assert isinstance(await scene.send(scene.envelope(again, ordinal=3)), Committed)
        assert isinstance(await scene.send(scene.envelope(again)), Refused)
        assert scene.placed() == [3]

    in_world(story)


def test_a_person_who_sends_a_refused_command_again_is_refused_again() -> None:
    async def story(world: World) -> None:
        server = await world.server(MemoryStore()).start().leads()
        coming = pack_revision(server.state.info.seq + 1)
        end = EndOverride(coming, "done")
        sent = server.clock.wall()
        refused = await server.send(ROOT, end, key="end", sent=sent)
        assert isinstance(refused, Refused)
        landed = await server.override("opens")
        assert isinstance(landed, Committed)
        assert landed.revision == coming
        assert await server.send(ROOT, end, key="end", sent=sent) == refused
        assert len(server.state.overrides) == 1
        # Another body under the same key is another command; so is the same body under another key.
        assert isinstance(await server.send(ROOT, end, key="end-2", sent=sent), Committed)

    in_world(story)


def test_two_bodies_that_were_refused_under_one_key_are_both_remembered() -> None:
    async def story(world: World) -> None:
        server = await world.server(MemoryStore()).start().leads()
        coming = pack_revision(server.state.info.seq + 1)
        sent = server.clock.wall()
        first, second = EndOverride(coming, "done"), EndOverride(coming, "over")
        refused = [await server.send(ROOT, end, key="end", sent=sent) for end in (first, second)]
        await server.override("opens")
        again = [await server.send(ROOT, end, key="end", sent=sent) for end in (first, second)]
        assert again == refused
        assert len(server.state.overrides) == 1

    in_world(story)


def test_the_memory_of_refusals_is_bounded() -> None:
    refusals = RefusalCache()
    refused = Refused(Code.STALE, "no")
    for session in range(1, 40_000):
        refusals.remember(Envelope(f"scheduler/{session}", None, 0, session=session, sequence=1), refused)
    assert len(refusals._of_session) == SESSIONS_MAX


def test_what_was_first_sent_before_the_window_is_never_executed() -> None:
    async def story(world: World) -> None:
        server = await world.server(MemoryStore()).start().leads()
        window = server.state.info.settings.retry_window
        await server.clock.sleep(1_000)
        old = server.clock.wall() - window - 10_000
        answer = await server.send(ROOT, an_override(server.clock.wall(), "a"), key="a", sent=old)
        assert isinstance(answer, Refused)
        assert answer.code is Code.TOO_OLD_TO_RETRY
        assert len(await batches_in(server.ledger.store)) == 1

    in_world(story)


def test_a_command_in_a_session_that_there_is_not_is_refused_and_takes_nobody_s_number() -> None:
    async def story(world: World) -> None:
        scene = await a_scene(world)
        refused = await scene.send(scene.envelope(1, session=scene.session + 1_000))
        assert isinstance(refused, Refused)
        assert refused.code is Code.NO_SESSION
        await scene.cordon(False, "uncordon")
        assert isinstance(await scene.send(scene.envelope(1)), Committed)

    in_world(story)
