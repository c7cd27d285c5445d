"""A command tried out: judged as it would be, and nothing of it happens."""

from __future__ import annotations

import pytest

from holdfast.core.ledger.answers import Code, Refused, Repeated
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.host.errors import Failed, NotLeading
from holdfast.host.ledger.ledger import Role
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.ledger_world import Server, World, an_override, batches_in, in_world, until
from tests.support.ledgers.region import ROOT


def an_envelope(server: Server, key: str, actor: str = ROOT) -> Envelope[object]:
    now = server.clock.wall()
    return Envelope(actor, an_override(now, key), sent=now, key=key)


def test_what_is_tried_out_shows_the_object_as_it_would_be_and_leaves_no_trace() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        server = await world.server(store).start().leads()
        before, batches = server.state.info, len(await batches_in(store))
        envelope = an_envelope(server, "a")
        tried = server.ledger.dry_run(envelope)
        assert isinstance(tried.answers[0], Committed)
        assert tried.state.overrides[tried.answers[0].revision].reason == "a"
        assert tried.state.info.seq == before.seq + 1
        assert server.state.info == before
        assert server.state.overrides.is_empty()
        await server.clock.sleep(1_000)
        assert len(await batches_in(store)) == batches
        landed = await server.ledger.submit(envelope)
        assert landed == tried.answers[0]

    in_world(story)


def test_a_trial_is_refused_or_a_repeat_as_the_command_itself_would_be() -> None:
    async def story(world: World) -> None:
        server = await world.server(MemoryStore()).start().leads()
        refused = server.ledger.dry_run(an_envelope(server, "a", "person/clerk")).answers[0]
        assert isinstance(refused, Refused)
        assert refused.code is Code.NO_RIGHT
        assert [denial.actor for denial in server.ledger.denials.waiting()] == ["person/clerk"]
        envelope = an_envelope(server, "b")
        await server.ledger.submit(envelope)
        assert isinstance(server.ledger.dry_run(envelope).answers[0], Repeated)

    in_world(story)


def test_only_who_leads_tries_out() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        await world.server(store).start().leads()
        follower = world.server(store, "s2").start()
        await until(lambda: follower.ledger.role is Role.FOLLOWING, follower.clock)
        with pytest.raises(NotLeading):
            follower.ledger.dry_run(an_envelope(follower, "a"))

    in_world(story)


def test_a_trial_beside_a_batch_that_is_being_written_rests_on_what_is_durable() -> None:
    async def story(world: World) -> None:
        server = await world.server(MemoryStore()).start().leads()
        waiting = [server.ledger.submit(an_envelope(server, f"k{number}")) for number in range(20)]
        tried = server.ledger.dry_run(an_envelope(server, "a"))
        answers = [await one for one in waiting]
        assert isinstance(tried.answers[0], Committed)
        assert all(isinstance(answer, Committed) for answer in answers)
        assert len(server.state.overrides) == 20

    in_world(story)


def test_a_fault_of_ours_is_told_and_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World) -> None:
        server = await world.server(MemoryStore()).start().leads()

        def overlay(self: LedgerState) -> LedgerState:
            raise AssertionError("planted")

        envelope = an_envelope(server, "a")
        with monkeypatch.context() as patched:
            patched.setattr("holdfast.host.leader.dry_run.BatchDraft.add", overlay)
            with pytest.raises(Failed, match="an internal error in OpenOverride"):
                server.ledger.dry_run(envelope)
        assert server.ledger.metrics.counted("trials_failed", command="OpenOverride") == 1
        assert isinstance(await server.ledger.submit(envelope), Committed)

    in_world(story)
