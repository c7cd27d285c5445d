"""An agent at its region, on virtual time: what is bound runs and is told, whatever is cut, killed or refused."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.agent import sync_loop
from holdfast.agent.drivers.driver import RunSpec, StartFault
from holdfast.agent.drivers.simulated import SimulatedBehavior, SimulatedDriver
from holdfast.agent.node_load import NodeLoad
from holdfast.agent.prober import ProbeNotRun
from holdfast.core.agent.bindings import BoundSlot, bindings_of_node
from holdfast.core.agent.plan import AgentSteps, AgentView, plan
from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.sessions import EndSession, OpenSession
from holdfast.core.ledger.codec import encode
from holdfast.core.model.objects.probes import HttpProbe, Probe
from holdfast.core.model.objects.workloads import DriverKind, RestartPolicy, Template
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.nodes import NO_REPORT
from holdfast.core.region import commands as c
from holdfast.host.leader.term import SessionRenewal
from holdfast.host.ports.transport import NoAnswer, Reply, Request
from holdfast.host.protocol.bindings import NodeBindings, TemplateMessage
from holdfast.host.protocol.commands import RENEWALS
from holdfast.host.protocol.session_client import Superseded
from holdfast.host.streams import bindings_server
from tests.support.api.api_cluster import Part, World, in_world
from tests.support.hosts import agent_world
from tests.support.hosts.agent_world import REPLICA, UID, Node, a_region, bind, phases, place
from tests.support.ledgers.region import a_template

Story = Callable[[World, Part, Node], Coroutine[Any, Any, None]]

PROBED = replace(a_template(cpu=100), ports=1)
HEALTH = "controller/node-health"
NO_TEXT = encode(TemplateMessage("digest", PROBED)).replace(b"digest", b"\xff" * 6)
#: It names a template that was not told.
NAMELESS = NodeBindings("log-eu", 1, 2**62, 0, (BoundSlot((1, 0), 1, Phase.READY, "", "t", "w", "acme", 1, 2**62),))


def told(story: Story, template: Template | None = None, **assigned: Any) -> None:
    """A story of a region with one workload, and of a node with its agent."""

    async def main(world: World) -> None:
        region = await a_region(world, template, **assigned)
        node = Node(world, region).start()
        try:
            await node.is_known()
            await story(world, region, node)
        finally:
            if node.task is not None:
                await node.kill()

    in_world(main)


async def unknown(region: Part, *ordinals: int) -> None:
    """What node health does when a session has ended."""
    moves = [
        c.MoveSlot((1, ordinal), region.state.slots[1, ordinal].epoch, Phase.UNKNOWN, "session-ended")
        for ordinal in ordinals
    ]
    await region.submit(HEALTH, c.Move(tuple(moves)))


def restarts(region: Part, ordinal: int) -> int:
    found: int = region.state.slots[1, ordinal].restarts
    return found


def test_what_is_bound_is_started_and_told_until_it_is_ready() -> None:
    async def story(world: World, region: Part, node: Node) -> None:
        await bind(region, node, 0, 1, 2)
        await world.until(lambda: phases(region) == dict.fromkeys(range(3), "ready"))
        assert node.running() == [0, 1, 2]

    told(story)


def test_what_is_stopped_ends_and_is_released() -> None:
    async def story(world: World, region: Part, node: Node) -> None:
        node.habits[0] = SimulatedBehavior(stop_ms=3_000)
        await bind(region, node, 0)
        await world.until(lambda: phases(region) == {0: "ready"})
        await region.submit(REPLICA, c.WithdrawSlots(UID, (0,)))
        await region.submit(REPLICA, c.Stop(((1, 0),), "scaled-down"))
        await world.clock.sleep(2_000)
        assert phases(region) == {0: "terminating"}, "it has not ended yet"
        await world.until(lambda: phases(region) == {})
        assert node.running() == []
        await world.until(lambda: not node.machine.processes)

    told(story)


def test_what_ends_by_itself_is_started_again_and_given_up_in_the_end() -> None:
    async def story(world: World, region: Part, node: Node) -> None:
        node.habits[0] = SimulatedBehavior(runs_ms=100, code=3)
        await bind(region, node, 0)
        for number in range(4):
            await world.until(lambda: restarts(region, 0) == number)  # noqa: B023 (it is waited for here)
        await world.until(lambda: phases(region) == {0: "pending"})
        assert node.metrics.counted("agent_starts", result="started") == 4

    told(story)


def test_what_cannot_be_started_is_told_with_its_reason_and_does_not_loop_tightly() -> None:
    async def story(world: World, region: Part, node: Node) -> None:
        node.habits[0] = SimulatedBehavior(fault=StartFault.UNKNOWN_USER)
        began = world.clock.boot()
        await bind(region, node, 0)
        await world.until(lambda: phases(region) == {0: "failed"})
        slot = region.state.slots[1, 0]
        assert (slot.cause, slot.detail) == ("cannot-start", "unknown-user: so it was arranged")
        assert world.clock.boot() - began < 1_000
        await world.until(lambda: phases(region) == {0: "pending"})
        assert world.clock.boot() - began > 1_000 + 2_000 + 4_000

    told(story)


def test_a_driver_that_fails_otherwise_is_told_as_what_it_is_and_not_asked_in_a_tight_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    async def start(_: SimulatedDriver, work: RunSpec) -> None:
        asked.append(work.epoch)
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(SimulatedDriver, "start", start)

    async def story(world: World, region: Part, node: Node) -> None:
        await bind(region, node, 0)
        await world.until(lambda: phases(region) == {0: "failed"})
        slot = region.state.slots[1, 0]
        assert (slot.cause, slot.detail) == ("cannot-start", "driver: OSError: [Errno 24] Too many open files")
        await world.until(lambda: phases(region) == {0: "pending"})
        assert len(asked) == 4, "once, and as often again as its template allows"

    told(story)


def test_batch_work_that_is_done_is_collected_and_not_started_again() -> None:
    async def story(world: World, region: Part, node: Node) -> None:
        node.habits[0] = SimulatedBehavior(runs_ms=500)
        await bind(region, node, 0)
        await world.until(lambda: phases(region) == {})
        await world.clock.sleep(5_000)
        assert node.metrics.counted("agent_starts", result="started") == 1

    told(story, batch=True)


def test_batch_work_that_was_ended_at_its_deadline_is_not_done_however_politely_it_ended() -> None:
    async def story(world: World, region: Part, node: Node) -> None:
        await bind(region, node, 0)
        await world.until(lambda: phases(region) == {0: "ready"})
        node.line.is_cut = True
        await world.until(lambda: node.running() == [])
        node.line.is_cut = False
        await world.until(lambda: phases(region) != {0: "ready"})
        assert (phases(region), region.state.slots[1, 0].cause) == ({0: "failed"}, "exit")

    told(story, batch=True, stops_cut=True)


@pytest.mark.parametrize("batch", [False, True])
def test_what_was_ended_for_its_probe_has_failed_however_politely_it_ended(batch: bool) -> None:
    probe = Probe(http=HttpProbe("/"), period=500, failures=2)
    template = replace(PROBED, ports=0, liveness=probe, restart=RestartPolicy.ON_FAILURE)

    async def story(world: World, region: Part, node: Node) -> None:
        await bind(region, node, 0)
        await world.until(lambda: phases(region) == {0: "ready"})
        node.answers.why = {"liveness": "refused"}
        await world.until(lambda: phases(region) == {0: "failed"})
        assert region.state.slots[1, 0].cause == "probe-failed"
        node.answers.why = {}
        await world.until(lambda: phases(region) == {0: "ready"})
        assert restarts(region, 0) == 1

    told(story, template, batch=batch)


def test_an_agent_that_comes_back_goes_on_with_what_runs() -> None:
    async def story(world: World, region: Part, node: Node) -> None:
        await bind(region, node, 0, 1)
        await world.until(lambda: phases(region) == {0: "ready", 1: "ready"})
        await node.kill()
        node.start()
        await node.is_known()
        await world.clock.sleep(1_000)
        assert phases(region) == {0: "ready", 1: "ready"}, "nobody said that it is unknown"
        await unknown(region, 0, 1)
        await world.until(lambda: phases(region) == {0: "ready", 1: "ready"})
        assert node.metrics.counted("agent_starts", result="started") == 2, "nothing was started again"

    told(story)


def test_what_ended_while_there_was_no_agent_is_told_as_gone() -> None:
    async def story(world: World, region: Part, node: Node) -> None:
        node.habits[0] = SimulatedBehavior(runs_ms=2_000, code=1)
        await bind(region, node, 0)
        await world.until(lambda: phases(region) == {0: "ready"})
        await node.kill()
        await world.clock.sleep(5_000)
        node.habits[0] = SimulatedBehavior()
        node.start()
        await node.is_known()
        await unknown(region, 0)
        await world.until(lambda: phases(region) == {0: "ready"})
        assert restarts(region, 0) == 1

    told(story)


def test_a_process_that_nobody_binds_is_stopped() -> None:
    async def story(world: World, region: Part, node: Node) -> None:
        await bind(region, node, 0)
        await world.until(lambda: phases(region) == {0: "ready"})
        await node.kill()
        (binding,) = node.machine.processes
        process = node.machine.processes.pop(binding)
        process.work = replace(process.work, slot=(9, 9), epoch=7)
        node.machine.processes[(9, 9), 7] = process
        node.start()
        await world.until(lambda: not node.machine.processes)

    told(story)


def test_leased_work_ends_when_the_agent_is_cut_off_and_other_work_goes_on() -> None:
    async def story(world: World, region: Part, node: Node) -> None:
        await bind(region, node, 0)
        await world.until(lambda: phases(region) == {0: "ready"})
        node.line.is_cut = True
        lease = region.state.info.settings.session_lease
        await world.clock.sleep(lease + 500)
        assert node.running() == ([] if region.state.assignments[UID].stops_cut else [0])

    told(story)
    told(story, stops_cut=True)


def test_a_lease_counts_from_when_the_heartbeat_was_sent_however_long_its_answer_took() -> None:
    async def story(world: World, region: Part, node: Node) -> None:
        ask, sent = node.line.call, 0

        async def slow(peer: str, request: Request, timeout_ms: int) -> Reply:
            nonlocal sent
            began = world.clock.boot()
            reply = await ask(peer, request, timeout_ms)
            if request.path == RENEWALS:
                await world.clock.sleep(2_500)
                sent = began
            return reply

        node.line.call = slow  # type: ignore[method-assign]
        await bind(region, node, 0)
        await world.until(lambda: phases(region) == {0: "ready"})
        await world.clock.sleep(20_000)
        (process,) = node.machine.processes.values()
        assert sent < process.deadline <= sent + region.state.info.settings.session_lease

    told(story, stops_cut=True)


def test_exclusive_work_that_was_done_while_its_fence_fell_is_told_as_gone() -> None:
    async def story(world: World, region: Part, node: Node) -> None:
        node.habits[0] = SimulatedBehavior(runs_ms=2_000)
        await bind(region, node, 0)
        await world.until(lambda: phases(region) == {0: "ready"})
        node.line.is_cut = True
        await world.until(lambda: not region.state.nodes[node.uid].session)
        fence = region.state.nodes[node.uid].session_ended + region.state.info.settings.fence_time
        await world.until(lambda: now_at(region) > fence - 4_000)
        node.line.is_cut = False
        await world.until(lambda: bool(region.state.nodes[node.uid].session))
        await world.until(lambda: now_at(region) > fence)
        await unknown(region, 0)
        await world.until(lambda: phases(region) != {0: "unknown"})
        assert region.state.slots[1, 0].failure.cause == "gone"

    told(story, batch=True, exclusive=True, ordinals=(0,))


def test_nothing_is_begun_while_the_agent_is_cut_off() -> None:
    async def story(world: World, region: Part, node: Node) -> None:
        await bind(region, node, 0)
        await world.until(lambda: phases(region) == {0: "ready"})
        node.line.loses_answers = True
        await world.clock.sleep(region.state.info.settings.session_lease + 1_000)
        await bind(region, node, 1)
        await world.clock.sleep(3_000)
        assert node.running() == [0]

    told(story)


def test_what_waits_for_its_turn_and_is_not_bound_any_more_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync_loop, "STARTS_MAX", 1)

    async def story(world: World, region: Part, node: Node) -> None:
        node.habits[0] = SimulatedBehavior(start_ms=5_000)
        await bind(region, node, 0)
        await bind(region, node, 1)
        await world.clock.sleep(500)
        await region.submit(REPLICA, c.WithdrawSlots(UID, (0, 1)))
        await region.submit(REPLICA, c.Stop(((1, 0), (1, 1)), "scaled-down"))
        await world.until(lambda: phases(region) == {})
        assert node.metrics.counted("agent_starts", result="started") == 1
        assert node.metrics.counted("agent_starts", result=StartFault.DRIVER) == 0

    told(story)


class Launching(SimulatedDriver):
    """A driver whose starts go on when nobody waits for them any more, as those of real processes do."""

    async def start(self, work: RunSpec) -> None:
        await asyncio.shield(asyncio.ensure_future(super().start(work)))


def test_what_is_being_started_when_a_session_ends_is_not_told_as_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_world, "SimulatedDriver", Launching)

    async def story(world: World, region: Part, node: Node) -> None:
        node.habits[0] = SimulatedBehavior(start_ms=8_000)
        await bind(region, node, 0)
        await world.clock.sleep(500)
        old = region.state.nodes[node.uid].session
        await region.submit("ledger", EndSession(old, "it was said so"))
        await world.until(lambda: region.state.nodes[node.uid].session > old)
        await unknown(region, 0)
        await world.clock.sleep(1_000)
        assert phases(region) == {0: "unknown"}, "nobody knows yet whether it will run"
        await world.until(lambda: phases(region) == {0: "ready"})
        assert (node.running(), restarts(region, 0)) == ([0], 0)

    told(story)


def test_what_is_being_started_when_a_session_ends_is_ended_before_it_is_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agent_world, "SimulatedDriver", Launching)

    async def story(world: World, region: Part, node: Node) -> None:
        node.habits[0] = SimulatedBehavior(start_ms=8_000)
        began = world.clock.boot()
        await bind(region, node, 0)
        await world.clock.sleep(500)
        old = region.state.nodes[node.uid].session
        await region.submit("ledger", EndSession(old, "it was said so"))
        await region.submit(REPLICA, c.WithdrawSlots(UID, (0,)))
        await region.submit(REPLICA, c.Stop(((1, 0),), "scaled-down"))
        await world.until(lambda: phases(region) == {})
        assert world.clock.boot() >= began + 8_000, "it was released before it had begun"
        assert node.running() == []
        assert node.metrics.counted("agent_stops") == 1

    told(story)


def test_of_two_agents_of_one_node_the_older_one_stops() -> None:
    async def story(world: World, region: Part, node: Node) -> None:
        await region.submit("agent/n1", OpenSession())
        assert node.task is not None
        with pytest.raises(Superseded):
            await node.task
        node.task = None

    told(story)


def test_openings_of_its_own_that_land_late_do_not_end_an_agent_and_one_more_is_another_agent_s() -> None:
    async def story(world: World, region: Part, node: Node) -> None:
        await node.kill()
        node.line.asked.clear()
        node.line.loses_answers = True
        node.start()
        await world.until(lambda: len(node.line.asked) == 2)
        node.line.loses_answers = False
        await node.is_known()
        for _ in range(2):
            await world.clock.sleep(1_000)
            late = await region.submit("agent/n1", OpenSession())
            await world.until(lambda: region.state.nodes[node.uid].session > late.revision)  # noqa: B023 (waited for)
        await region.submit("agent/n1", OpenSession())
        assert node.task is not None
        with pytest.raises(Superseded):
            await node.task
        node.task = None

    told(story)


def test_a_stream_that_says_that_the_session_is_over_is_believed_though_no_heartbeat_is_answered() -> None:
    """Heartbeats and the stream share one idea of who leads. In step, each sent the other to the server that follows:
    the stream was told that the session is over, went elsewhere, and the heartbeats never heard of it."""

    async def story(world: World, region: Part, node: Node) -> None:
        ask, session = node.line.call, region.state.nodes[node.uid].session

        async def unheard(peer: str, request: Request, timeout_ms: int) -> Reply:
            if request.path == RENEWALS:
                raise NoAnswer("it went to a server that does not lead")
            return await ask(peer, request, timeout_ms)

        node.line.call = unheard  # type: ignore[method-assign]
        await region.submit(HEALTH, EndSession(session, "silent"))
        await world.until(lambda: region.state.nodes[node.uid].session > session)

    told(story)


def test_an_agent_that_learns_of_another_one_by_what_it_tells_stops_as_well() -> None:
    async def story(world: World, region: Part, node: Node) -> None:
        node.habits[0] = SimulatedBehavior(runs_ms=600, code=1)
        await bind(region, node, 0)
        await world.until(lambda: phases(region) == {0: "ready"})
        await region.submit("agent/n1", OpenSession())
        other = region.state.session_of["agent/n1"]
        assert node.task is not None
        with pytest.raises(Superseded):
            await node.task
        node.task = None
        assert region.state.session_of["agent/n1"] == other, "it has not taken the node back"

    told(story)


def test_an_agent_of_which_a_restored_region_knows_an_older_life_begins_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its present session was opened after the copy was made that the region was restored from."""

    async def story(world: World, region: Part, node: Node) -> None:
        leader, old = region.ledger.leader, region.state.nodes[node.uid].session
        assert leader is not None
        renew = leader.renew

        def restored(actor: str, session: int) -> SessionRenewal | Refused:
            return renew(actor, session) if session != old else Refused(Code.NO_SESSION, "", {"current": old - 1})

        monkeypatch.setattr(leader, "renew", restored)
        await world.until(lambda: region.state.nodes[node.uid].session > old)

    told(story)


def test_an_agent_whose_node_is_not_taken_leaves_time_for_its_fence_to_fall() -> None:
    """In another pool while work stands there: nobody else may replace that work as long as agents keep coming back."""

    async def story(world: World, region: Part, node: Node) -> None:
        await bind(region, node, 0)
        await world.until(lambda: phases(region) == {0: "ready"})
        await node.kill()
        node.pool = "memory"
        node.start()
        uid, fence = node.uid, region.state.info.settings.fence_time

        def is_fenced() -> bool:
            alone = "agent/n1" not in region.state.session_of
            return alone and now_at(region) > region.state.nodes[uid].session_ended + fence

        await world.until(is_fenced)
        await unknown(region, 0)
        for target in (Phase.FAILED, Phase.RELEASED):
            epoch = region.state.slots[1, 0].epoch
            await region.submit("controller/repair", c.Move((c.MoveSlot((1, 0), epoch, target, "fenced"),)))
        await world.until(lambda: bool(region.state.nodes[uid].session), within_ms=120_000)
        assert region.state.nodes[uid].pool == "memory"

    told(story)


def test_an_agent_that_nobody_hears_says_why_and_not_all_the_time(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World, region: Part, node: Node) -> None:
        await node.kill()
        node.token = "nobodys"
        node.start()
        await world.clock.sleep(60_000)
        node.token = "agents"
        await node.is_known()

    with caplog.at_level(logging.WARNING):
        told(story)
    said = [line for line in caplog.text.splitlines() if "not-heard" in line]
    assert len(said) == 1
    assert "unauthenticated" in said[0]


def test_a_leader_of_an_older_term_is_not_followed() -> None:
    async def story(world: World, region: Part, node: Node) -> None:
        await node.kill()
        node.newest = region.state.info.log_id, region.state.info.term + 1
        node.start()
        await node.is_known()
        await bind(region, node, 0)
        await world.clock.sleep(5_000)
        assert node.running() == []

    told(story)


@pytest.mark.parametrize("frame", [b"", b"\xc1", NO_TEXT, encode(NAMELESS)])
def test_a_message_that_cannot_be_understood_breaks_the_stream_and_not_the_agent(frame: bytes) -> None:
    async def story(world: World, region: Part, node: Node) -> None:
        await bind(region, node, 0)
        await world.until(lambda: phases(region) == {0: "ready"})
        node.line.fate = lambda _: [frame]
        await bind(region, node, 1)
        await world.clock.sleep(5_000)
        assert 1 < node.metrics.counted("agent_streams_broken") < 30
        node.line.fate = lambda message: [message]
        await world.until(lambda: phases(region) == {0: "ready", 1: "ready"})

    told(story)


def test_a_term_that_cannot_be_written_down_is_not_followed_and_stops_no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World, region: Part, node: Node) -> None:
        await node.kill()
        full = [True]

        def keep(log_id: str, term: int) -> None:
            if full:
                raise OSError(errno.ENOSPC, "No space left on device")
            node.newest = log_id, term

        monkeypatch.setattr(node, "_keep", keep)
        node.newest = ("", 0)
        node.start()
        await node.is_known()
        await bind(region, node, 0)
        await world.clock.sleep(5_000)
        assert node.running() == []
        full.clear()
        await world.until(lambda: phases(region) == {0: "ready"})

    told(story)


def test_probes_say_when_it_runs_is_ready_and_is_to_be_ended() -> None:
    probe = Probe(http=HttpProbe("/"), period=500, failures=2)
    template = replace(
        PROBED, ports=0, startup=probe, readiness=replace(probe, delay=1), liveness=replace(probe, delay=2)
    )

    async def story(world: World, region: Part, node: Node) -> None:
        node.answers.why = {"readiness": "503"}
        await bind(region, node, 0)
        await world.until(lambda: phases(region) == {0: "running"})
        await world.clock.sleep(3_000)
        assert phases(region) == {0: "running"}
        node.answers.why = {}
        await world.until(lambda: phases(region) == {0: "ready"})
        node.answers.why = {"readiness": "503"}
        await world.until(lambda: phases(region) == {0: "running"})
        assert region.state.slots[1, 0].cause == "probe-lost"
        node.answers.why = {"liveness": "refused"}
        await world.until(lambda: phases(region) == {0: "failed"})
        assert (region.state.slots[1, 0].cause, region.state.slots[1, 0].detail) == (
            "probe-failed",
            "liveness: refused",
        )
        node.answers.why = {}
        await world.until(lambda: phases(region) == {0: "ready"})
        assert restarts(region, 0) == 1

    told(story, template)


def test_an_agent_that_cannot_ask_ends_nobody_and_asks_again() -> None:
    probe = Probe(http=HttpProbe("/"), period=500, failures=2)
    template = replace(PROBED, ports=0, readiness=replace(probe, delay=1), liveness=probe)

    async def story(world: World, region: Part, node: Node) -> None:
        await bind(region, node, 0)
        await world.until(lambda: phases(region) == {0: "ready"})
        node.answers.error, before = ProbeNotRun("Too many open files"), node.answers.asked
        await world.clock.sleep(10_000)
        assert phases(region) == {0: "ready"}
        assert before + 10 < node.answers.asked < before + 50, "it goes on asking, and not in a tight loop"
        node.answers.error, node.answers.why = None, {"liveness": "refused"}
        await world.until(lambda: phases(region) == {0: "failed"})

    told(story, template)


def test_a_question_that_raises_has_failed_and_the_next_one_is_asked() -> None:
    template = replace(PROBED, ports=0, startup=Probe(http=HttpProbe("/"), period=500, failures=10))

    async def story(world: World, region: Part, node: Node) -> None:
        node.answers.error = RuntimeError("a loop of links")
        await bind(region, node, 0)
        await world.clock.sleep(2_000)
        assert phases(region) == {0: "starting"}
        node.answers.error = None
        await world.until(lambda: phases(region) == {0: "ready"})

    told(story, template)


def test_what_was_ended_for_its_liveness_is_told_so_whatever_other_probes_said_since() -> None:
    probe = Probe(http=HttpProbe("/"), period=100, failures=2)
    template = replace(PROBED, ports=0, readiness=replace(probe, delay=1), liveness=probe)

    async def story(world: World, region: Part, node: Node) -> None:
        await bind(region, node, 0)
        await world.until(lambda: phases(region) == {0: "ready"})
        node.line.is_cut = True
        node.answers.why = {"readiness": "503"}
        await world.clock.sleep(1_000)
        node.answers.why = {"readiness": "503", "liveness": "refused"}
        await world.clock.sleep(2_000)
        node.line.is_cut = False
        await world.until(lambda: region.state.slots[1, 0].failure is not None)
        assert region.state.slots[1, 0].failure.detail == "liveness: refused"

    told(story, template)


def test_a_startup_that_never_passes_is_given_up() -> None:
    probe = Probe(http=HttpProbe("/"), period=100, failures=2)
    template = replace(PROBED, ports=0, startup=probe, restart=RestartPolicy.NEVER)

    async def story(world: World, region: Part, node: Node) -> None:
        node.answers.why = {"startup": "refused"}
        await bind(region, node, 0)
        await world.until(lambda: phases(region) == {0: "pending"})
        assert node.running() == []

    told(story, template)


def test_a_binding_that_the_node_cannot_run_returns_to_the_queue_at_once_and_not_in_a_tight_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SimulatedDriver, "kinds", (DriverKind.SIMULATED,))

    async def story(world: World, region: Part, node: Node) -> None:
        began = world.clock.boot()
        await bind(region, node, 0)
        await world.until(lambda: phases(region) == {0: "pending"})
        assert world.clock.boot() - began < 200
        slot = region.state.slots[1, 0]
        assert (slot.cause, slot.detail) == ("declined", "this node has no driver process")
        for pause_ms in (1_000, 2_000, 4_000):
            began = world.clock.boot()
            await place(region, node, 0)
            await world.until(lambda: phases(region) == {0: "pending"})
            assert pause_ms <= world.clock.boot() - began < pause_ms + 500
        assert node.running() == []

    told(story)


def test_how_a_node_fares_is_told_when_it_changes_and_its_load_once_a_minute() -> None:
    async def story(world: World, region: Part, node: Node) -> None:
        await node.kill()
        node.fares = NodeLoad(10, 20, ("model-7",))
        node.start()
        await node.is_known()
        await world.until(lambda: reported(region, node) == (10, 20, ("model-7",)))
        await world.until(region.is_known)
        seq = region.state.info.seq
        await world.clock.sleep(300_000)
        assert region.state.info.seq == seq, "while nothing changes nothing is told"
        node.fares = NodeLoad(90, 20, ("model-7",))
        await world.clock.sleep(6_000)
        assert reported(region, node) == (90, 20, ("model-7",))
        node.fares = NodeLoad(10, 20, ("model-7",))
        await world.clock.sleep(40_000)
        assert reported(region, node) == (90, 20, ("model-7",)), "load alone is not told so soon"
        node.fares = NodeLoad(10, 20, ("model-7", "model-8"))
        await world.clock.sleep(6_000)
        assert reported(region, node) == (10, 20, ("model-7", "model-8"))

    told(story)


def now_at(region: Part) -> int:
    """The ledger's time."""
    assert region.ledger.leader is not None
    return region.ledger.leader.term.now()


def test_a_node_that_cannot_be_looked_at_now_is_looked_at_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World, region: Part, node: Node) -> None:
        await node.kill()
        node.fares = NodeLoad(10, 20)
        look, fails = node.look, [True]

        async def blind() -> NodeLoad:
            if fails:
                raise OSError(errno.EMFILE, "Too many open files")
            return await look()

        monkeypatch.setattr(node, "look", blind)
        node.start()
        await node.is_known()
        await world.clock.sleep(20_000)
        assert reported(region, node) == (0, 0, ())
        fails.clear()
        await world.until(lambda: reported(region, node) == (10, 20, ()))

    told(story)


def reported(region: Part, node: Node) -> tuple[int, int, tuple[str, ...]]:
    found = region.state.node_reports.get(node.uid) or NO_REPORT
    return found.cpu, found.memory, found.present


def test_an_agent_with_nothing_to_tell_writes_nothing_and_its_stream_stays() -> None:
    async def story(world: World, region: Part, node: Node) -> None:
        await world.until(lambda: region.ledger.metrics.counted("bindings_told") == 1)
        await world.until(region.is_known)
        seq = region.state.info.seq
        await world.clock.sleep(60_000)
        assert region.state.info.seq == seq
        assert node.metrics.counted("agent_streams_broken") == 0
        assert region.ledger.metrics.counted("bindings_told") == 1

    told(story)


def test_an_agent_with_nothing_to_do_plans_nothing_until_it_looks_at_everything_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plans: list[int] = []

    async def story(world: World, region: Part, node: Node) -> None:
        await bind(region, node, *range(5))
        await world.until(lambda: set(phases(region).values()) == {"ready"})
        await world.clock.sleep(1_000)

        def counted(view: AgentView) -> AgentSteps:
            plans.append(world.clock.boot())
            return plan(view)

        monkeypatch.setattr(sync_loop, "plan", counted)
        await world.clock.sleep(10 * sync_loop.RESYNC_MS)
        assert 9 <= len(plans) <= 11
        assert node.metrics.counted("agent_caught") == 0

    told(story)


def test_what_a_driver_did_not_say_is_found_when_everything_is_looked_at_again_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def never(_driver: SimulatedDriver) -> None:
        await asyncio.Event().wait()

    async def story(world: World, region: Part, node: Node) -> None:
        node.habits[0] = SimulatedBehavior(runs_ms=10_000, code=3)
        await bind(region, node, 0)
        await world.until(lambda: phases(region) == {0: "ready"})
        await world.until(lambda: restarts(region, 0) == 1, 2 * sync_loop.RESYNC_MS)
        assert node.metrics.counted("agent_caught") >= 1

    monkeypatch.setattr(SimulatedDriver, "changed", never)
    told(story)
    assert "resync-caught" in caplog.text


def test_a_driver_whose_news_break_ends_the_work_of_the_session_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def breaks(_driver: SimulatedDriver) -> None:
        raise OSError("so it was arranged")

    async def story(world: World, region: Part, node: Node) -> None:
        assert node.task is not None
        began = world.clock.boot()
        with pytest.raises(OSError, match="so it was arranged"):
            await node.task
        assert world.clock.boot() - began < 1_000
        node.task = None

    monkeypatch.setattr(SimulatedDriver, "changed", breaks)
    told(story)


def test_a_crowded_node_is_looked_at_once_for_all_that_changed_and_the_more_slots_it_has_the_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[tuple[int, int]] = []

    async def story(world: World, region: Part, node: Node) -> None:
        def looking(*asked: Any) -> list[BoundSlot]:
            found = bindings_of_node(*asked)
            looks.append((world.clock.boot(), len(found)))
            return found

        await bind(region, node, *range(20))
        await world.until(lambda: set(phases(region).values()) == {"ready"})
        monkeypatch.setattr(bindings_server, "bindings_of_node", looking)
        seq = region.state.info.seq
        for ordinal in range(20):
            await region.submit(REPLICA, c.Stop(((1, ordinal),), "scaled-down"))
        await world.until(lambda: not {"ready", "terminating"} & set(phases(region).values()))
        assert region.state.info.seq >= seq + 20
        await world.until(lambda: looks[-1][1] == 0)
        for (before, slots), (after, _) in pairwise(looks):
            assert after >= before + slots
        assert len(looks) < 20

    monkeypatch.setattr(bindings_server, "SLOTS_IN_A_MS", 1)
    told(story)
