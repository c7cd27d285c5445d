"""The runner of controllers: what one of them does to itself, its other keys and the other controllers never notice."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.reconciler import ReconcileKey, WatchKey
from holdfast.core.model.values.structs import Instant
from holdfast.host.controllers.controller import ControllerOptions
from holdfast.host.controllers.workqueue import QueueOptions
from holdfast.host.errors import NotProven, OutcomeUnknown
from holdfast.sim.world.virtual_loop import run_virtual
from tests.support.hosts.thing_ledger import Answered, Maker, Things, World, refuse_stale

Judge = Callable[[Envelope[Any]], Awaitable[Answered | None]]


def judged(by: Callable[[str], Answered | None]) -> Judge:
    """A ledger that says this about a thing's name, or accepts it."""

    async def judge(envelope: Envelope[Any]) -> Answered | None:
        return by(envelope.command.name)

    return judge


def broken(*keys: str) -> Callable[[ReconcileKey], None]:
    def trouble(key: ReconcileKey) -> None:
        if key in keys:
            raise ValueError(f"cannot look at {key}")

    return trouble


def names_of(maker: Maker) -> list[ReconcileKey]:
    return [key for key, _ in maker.looks]


def test_what_was_there_before_and_what_comes_later_is_made() -> None:
    async def story() -> None:
        async with World(maker := Maker()) as world:
            world.ledger.things["old"] = False
            await world.pass_ms(100)
            world.ledger.write("new")
            await world.pass_ms(100)
            assert world.made() == ["new", "old"]
            assert world.ledger.sent == [("controller/maker", "old"), ("controller/maker", "new")]
            assert (world.looked("sent"), world.looked("quiet")) == (2, 2)
            assert names_of(maker) == ["old", "old", "new", "new"]

    run_virtual(story())


def test_an_envelope_says_who_sends_on_which_view_and_why() -> None:
    async def story() -> None:
        seen: list[Envelope[Any]] = []

        async def judge(envelope: Envelope[Any]) -> None:
            seen.append(envelope)

        async with World(Maker()) as world:
            world.ledger.judge = judge
            world.ledger.write("a")
            await world.pass_ms(100)
            assert (seen[0].actor, seen[0].view, seen[0].session, seen[0].key) == ("controller/maker", 1, 0, "")
            assert seen[0].sent <= world.clock.wall()

    run_virtual(story())


def test_a_reconciler_that_raises_is_named_and_stops_neither_its_other_keys_nor_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        bad, good = Maker("bad"), Maker("good", letter="c")
        bad.trouble = broken("b", "c")
        async with World(bad, good) as world:
            began = world.clock.wall()
            for name in ("a", "b", "c"):
                world.ledger.write(name)
            await world.pass_ms(3_000)
            assert world.made() == ["a", "c"]
            assert world.looked("raised", "bad") > 2
            assert world.metrics.counted("reconcile_errors", controller="bad", error="ValueError") > 2
            failing = [(one.controller, one.key, one.error, one.since) for one in world.runner.failing()]
            told = "ValueError: cannot look at "
            assert failing == [("bad", "b", told + "b", began), ("bad", "c", told + "c", began)]
            assert world.metrics.gauged("reconcile_failing", controller="bad") == 2
            assert world.gave_up == []

    run_virtual(story())
    assert "reconcile-raised controller=bad key=b" in caplog.text


def test_a_reconciler_that_is_well_again_takes_up_what_it_left() -> None:
    async def story() -> None:
        async with World(maker := Maker()) as world:
            maker.trouble = broken("a")
            world.ledger.write("a")
            await world.pass_ms(3_000)
            assert world.made() == []
            maker.trouble = broken()
            await world.pass_ms(5_000)
            assert world.made() == ["a"]
            assert world.runner.failing() == []

    run_virtual(story())


def test_a_key_that_keeps_failing_is_looked_at_less_and_less_and_never_dropped() -> None:
    async def story() -> None:
        care = ControllerOptions(queue=QueueOptions(backoff_first_ms=100, backoff_max_ms=20_000), resync_ms=5_000)
        async with World(maker := Maker(), options=care) as world:
            maker.trouble = broken("a")
            world.ledger.write("a")
            await world.pass_ms(600_000)
            times = [at for _, at in maker.looks]
            pauses = [later - earlier for earlier, later in pairwise(times[1:])]
            assert pauses[0] <= 200
            # Not even the resync, which comes more often, looks at it sooner.
            assert all(10_000 <= pause <= 20_000 for pause in pauses[10:])
            assert len(pauses) > 30

    run_virtual(story())


@pytest.mark.parametrize("error", [NotProven("?"), OutcomeUnknown("?"), ConnectionError("?")])
def test_an_answer_that_did_not_come_is_counted_by_its_reason_and_asked_for_again(error: Exception) -> None:
    async def story() -> None:
        async with World(Maker()) as world:
            left = [2]

            def judge(name: str) -> None:
                if left[0]:
                    left[0] -= 1
                    raise error

            world.ledger.judge = judged(judge)
            world.ledger.write("a")
            await world.pass_ms(2_000)
            assert world.made() == ["a"]
            assert world.looked("failed") == 2
            assert world.metrics.counted("reconcile_errors", controller="maker", error=type(error).__name__) == 2
            assert world.runner.failing() == []

    run_virtual(story())


def test_a_submit_that_hangs_holds_up_its_key_until_the_deadline_and_nobody_else() -> None:
    async def story() -> None:
        slow, other = Maker("slow", letter="s"), Maker("other", letter="o")
        async with World(slow, other, options=ControllerOptions(submit_ms=2_000)) as world:
            hangs = [1]

            async def judge(envelope: Envelope[Any]) -> None:
                if envelope.command.name == "s" and hangs[0]:
                    hangs[0] -= 1
                    await asyncio.get_running_loop().create_future()

            world.ledger.judge = judge
            world.ledger.write("s")
            world.ledger.write("s2")
            await world.pass_ms(1_000)
            world.ledger.write("o")
            await world.pass_ms(500)
            assert world.made() == ["o"]
            # While it hangs, one can see who is behind, and by how much.
            assert world.metrics.gauged("reconcile_lag_ms", controller="slow") >= 1_000
            assert world.metrics.gauged("reconcile_depth", controller="slow") == 1
            assert world.metrics.gauged("reconcile_lag_ms", controller="other") == 0
            await world.pass_ms(2_000)
            assert world.made() == ["o", "s", "s2"]
            assert world.looked("late", "slow") == 1
            assert world.metrics.gauged("reconcile_depth", controller="slow") == 0

    run_virtual(story())


def test_a_ledger_that_cancels_an_answer_does_not_end_the_worker() -> None:
    async def story() -> None:
        async with World(Maker()) as world:
            cancels = [1]

            async def judge(envelope: Envelope[Any]) -> None:
                if cancels[0]:
                    cancels[0] -= 1
                    raise asyncio.CancelledError

            world.ledger.judge = judge
            world.ledger.write("a")
            await world.pass_ms(1_000)
            assert world.made() == ["a"]
            assert world.metrics.counted("reconcile_errors", controller="maker", error="Abandoned") == 1
            assert world.metrics.counted("task_restarts", task="reconcile/maker") == 0

    run_virtual(story())


def test_a_reconcile_that_takes_long_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with World(maker := Maker(), options=ControllerOptions(slow_ms=100)) as world:

            def dawdle(key: ReconcileKey) -> None:
                world.loop.now += 0.5 if key == "slow" else 0.05

            maker.trouble = dawdle
            world.ledger.write("slow", made=True)
            world.ledger.write("quick", made=True)
            await world.pass_ms(2_000)
            assert world.metrics.counted("reconcile_slow", controller="maker") == 1

    run_virtual(story())
    assert "reconcile-slow controller=maker key=slow took_ms=500" in caplog.text


def test_a_worker_that_crashes_is_started_again_with_the_key_it_had(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with World(maker := Maker(), Maker("other", letter="o")) as world:
            controller = world.runner._controllers[0]
            settle, crashes = controller._settle, [1]

            def crash(*arguments: Any) -> None:
                if crashes[0]:
                    crashes[0] -= 1
                    raise RuntimeError("a fault of the runner itself")
                settle(*arguments)

            await world.pass_ms(10)
            monkeypatch.setattr(controller, "_settle", crash)
            world.ledger.write("a", made=True)
            world.ledger.write("b")
            await world.pass_ms(1_000)
            assert world.made() == ["a", "b"]
            assert names_of(maker).count("a") == 2
            assert world.metrics.counted("task_restarts", task="reconcile/maker") == 1
            assert world.metrics.counted("task_restarts", task="reconcile/other") == 0
            assert world.gave_up == []

    run_virtual(story())


def test_a_worker_that_keeps_crashing_is_given_up_so_that_the_process_can_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with World(Maker()) as world:

            def crash(*_: Any) -> None:
                raise RuntimeError("a fault of the runner itself")

            monkeypatch.setattr(world.runner._controllers[0], "_settle", crash)
            await world.pass_ms(10_000)
            assert world.gave_up == ["reconcile/maker"]

    run_virtual(story())


def test_one_refused_command_does_not_hold_back_what_else_was_sent_and_is_tried_again() -> None:
    async def story() -> None:
        async with World(Maker()) as world:
            refusals = [Refused(Code.DISRUPTION, "the budget is spent")]
            world.ledger.judge = judged(lambda name: refusals.pop() if name == "a" and refusals else None)
            world.ledger.write("a")
            world.ledger.write("b")
            await world.pass_ms(40)
            assert world.made() == ["b"]
            assert [one.error for one in world.runner.failing()] == ["Make: disruption: the budget is spent"]
            await world.pass_ms(200)
            assert world.made() == ["a", "b"]
            assert world.metrics.counted("reconcile_refused", controller="maker", code="disruption") == 1

    run_virtual(story())


def test_a_stale_proposal_is_made_again_when_the_view_has_caught_up_and_not_before() -> None:
    async def story() -> None:
        slow = ControllerOptions(queue=QueueOptions(backoff_first_ms=10_000))
        async with World(maker := Maker(), options=slow) as world:
            world.ledger.judge = judged(lambda _: refuse_stale(3) if world.ledger.revision < 3 else None)
            await world.pass_ms(10)
            world.ledger.write("a")
            await world.pass_ms(100)
            world.ledger.write("a")
            await world.pass_ms(100)
            assert len(maker.looks) == 1
            world.ledger.write("b", made=True)
            await world.pass_ms(100)
            assert world.made() == ["a", "b"]

    run_virtual(story())


def test_a_stale_proposal_whose_revision_never_comes_is_made_again_after_its_back_off() -> None:
    async def story() -> None:
        async with World(Maker()) as world:
            answers = [refuse_stale(1_000)]
            world.ledger.judge = judged(lambda _: answers.pop() if answers else None)
            world.ledger.write("a")
            await world.pass_ms(40)
            assert world.made() == []
            await world.pass_ms(200)
            assert world.made() == ["a"]

    run_virtual(story())


def test_a_stale_proposal_that_is_looked_at_too_soon_is_still_made_again_after_its_back_off() -> None:
    async def story() -> None:
        care = ControllerOptions(queue=QueueOptions(backoff_first_ms=10_000), resync_ms=10_000_000)
        async with World(maker := Maker(), options=care) as world:
            answers = [refuse_stale(1_000)]
            world.ledger.judge = judged(lambda _: answers.pop() if answers else None)
            # It sleeps until a time that comes before the end of the back-off.
            maker.again = lambda key, now: now + 100
            world.ledger.write("a", made=True)
            await world.pass_ms(50)
            maker.again = lambda key, now: None
            world.ledger.write("a")
            await world.pass_ms(1_000)
            assert len(maker.looks) == 2
            await world.pass_ms(10_000)
            assert world.made() == ["a"]

    run_virtual(story())


def test_again_at_is_kept_to() -> None:
    async def story() -> None:
        async with World(maker := Maker()) as world:
            ends: list[Instant] = [world.clock.wall() + 5_000]
            maker.again = lambda key, now: ends[0] if now < ends[0] else None
            world.ledger.write("a", made=True)
            await world.pass_ms(20_000)
            assert maker.looks[-1] == ("a", ends[0])

    run_virtual(story())


def test_a_reconciler_that_always_wants_to_look_at_once_is_held_to_the_soonest() -> None:
    async def story() -> None:
        async with World(maker := Maker(), options=ControllerOptions(soonest_ms=50)) as world:
            maker.again = lambda key, now: now
            world.ledger.write("a", made=True)
            await world.pass_ms(5_000)
            assert 90 <= len(maker.looks) <= 102

    run_virtual(story())


def test_a_time_that_has_passed_does_not_shorten_the_back_off_of_a_key_that_fails() -> None:
    async def story() -> None:
        async with World(maker := Maker()) as world:
            world.ledger.judge = judged(lambda _: Refused(Code.FENCE, "its fence has not passed"))
            began = world.clock.wall()
            maker.again = lambda key, now: began
            world.ledger.write("a")
            await world.pass_ms(60_000)
            assert len(maker.looks) < 15

    run_virtual(story())


def test_a_time_that_a_failing_key_waits_for_is_kept_to() -> None:
    async def story() -> None:
        async with World(maker := Maker()) as world:
            world.ledger.judge = judged(lambda _: Refused(Code.FENCE, "its fence has not passed"))
            passes = world.clock.wall() + 40_000
            maker.again = lambda key, now: passes
            world.ledger.write("a")
            await world.pass_ms(50_000)
            assert passes in [at for _, at in maker.looks]

    run_virtual(story())


def test_resync_finds_what_no_change_told_and_counts_it(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with World(maker := Maker(), options=ControllerOptions(resync_ms=10_000)) as world:
            for name in ("a", "b", "c"):
                world.ledger.write(name)
            await world.pass_ms(1_000)
            world.ledger.write("missed", unheard=True)
            await world.pass_ms(1_000)
            assert "missed" not in world.made()
            await world.pass_ms(20_000)
            assert "missed" in world.made()
            assert world.metrics.counted("reconcile_caught", controller="maker") == 1
            assert names_of(maker).count("a") >= 3

    run_virtual(story())
    assert "resync-caught controller=maker key=missed" in caplog.text


def test_a_resync_that_overtakes_the_news_of_a_change_has_caught_nothing() -> None:
    async def story() -> None:
        async with World(maker := Maker(), options=ControllerOptions(resync_ms=1_000)) as world:
            await world.pass_ms(1)
            due = world.runner._controllers[0]._queue._alarms[0][0]
            world.ledger.write("a", made=True)
            await world.pass_ms(due - world.clock.boot() - 1)
            looks = len(maker.looks)
            # The thing changes, unheard, and the news of it comes only after the resync has looked at it.
            world.ledger.things["a"], world.ledger.revision = False, world.ledger.revision + 1
            await world.pass_ms(2)
            assert len(maker.looks) > looks
            assert world.made() == ["a"]
            assert world.metrics.counted("reconcile_caught", controller="maker") == 0

    run_virtual(story())


def test_a_resync_that_overtakes_a_time_that_a_key_waits_for_has_caught_nothing() -> None:
    async def story() -> None:
        async with World(maker := Maker(), options=ControllerOptions(resync_ms=10_000)) as world:
            world.ledger.write("a", made=True)
            maker.again = lambda key, now: now + 15_000
            await world.pass_ms(1)
            world.ledger.things["a"] = False  # of this nobody is told: the key looks for it in its own time
            await world.pass_ms(13_000)
            assert world.made() == ["a"]
            assert world.metrics.counted("reconcile_caught", controller="maker") == 0

    run_virtual(story())


def test_a_listener_that_was_too_slow_begins_anew_and_misses_nothing() -> None:
    async def story() -> None:
        async with World(Maker()) as world:
            await world.pass_ms(10)
            world.ledger.leave_out()
            world.ledger.write("a")
            await world.pass_ms(500)
            assert world.made() == ["a"]
            assert world.metrics.counted("reconcile_listened_anew") == 1
            assert world.metrics.counted("reconcile_caught", controller="maker") == 0
            world.ledger.write("b")
            await world.pass_ms(10)
            assert world.made() == ["a", "b"]

    run_virtual(story())


def test_a_reconciler_that_cannot_tell_what_a_change_concerns_has_everything_looked_at() -> None:
    class Confused(Maker):
        def wake(self, state: Things, touched: WatchKey) -> list[ReconcileKey]:
            raise KeyError(touched[1])

    async def story() -> None:
        async with World(Confused("confused"), Maker("other", letter="o")) as world:
            await world.pass_ms(10)
            world.ledger.write("a")
            world.ledger.write("o")
            await world.pass_ms(20)
            assert world.made() == ["o"]
            await world.pass_ms(200)
            assert world.made() == ["a", "o"]
            assert world.metrics.counted("reconcile_errors", controller="confused", error="KeyError") > 0
            assert world.metrics.counted("reconcile_caught", controller="confused") == 0

    run_virtual(story())


def test_a_reconciler_that_never_can_tell_lists_everything_less_and_less() -> None:
    class Deaf(Maker):
        listed = 0

        def keys(self, state: Things) -> list[ReconcileKey]:
            self.listed += 1
            return []

        def wake(self, state: Things, touched: WatchKey) -> list[ReconcileKey]:
            raise KeyError(touched[1])

    async def story() -> None:
        async with World(deaf := Deaf()) as world:
            for _ in range(2_000):
                world.ledger.write("a", made=True)
                await world.pass_ms(50)
            assert deaf.listed < 15

    run_virtual(story())


def test_a_reconciler_that_cannot_list_its_keys_is_named_and_lists_them_later() -> None:
    class Forgetful(Maker):
        tries = 0

        def keys(self, state: Things) -> list[ReconcileKey]:
            self.tries += 1
            if self.tries < 3:
                raise ValueError("which keys?")
            return [*super().keys(state)]

    async def story() -> None:
        async with World(Forgetful()) as world:
            world.ledger.things["a"] = False
            await world.pass_ms(50)
            assert [repr(one.key) for one in world.runner.failing()] == ["all keys"]
            await world.pass_ms(1_000)
            assert world.made() == ["a"]
            assert world.runner.failing() == []
            assert world.metrics.counted("reconcile_caught", controller="maker") == 0

    run_virtual(story())


def test_several_workers_share_the_keys_and_none_is_with_two_of_them() -> None:
    async def story() -> None:
        async with World(maker := Maker(), options=ControllerOptions(workers=3)) as world:
            at_work: list[str] = []
            most = [0]

            async def judge(envelope: Envelope[Any]) -> None:
                assert envelope.command.name not in at_work
                at_work.append(envelope.command.name)
                most[0] = max(most[0], len(at_work))
                await world.pass_ms(100)
                at_work.remove(envelope.command.name)

            world.ledger.judge = judge
            for name in "abcdef":
                world.ledger.write(name)
            await world.pass_ms(50)
            for name in "abcdef":
                world.ledger.write(name)
            await world.pass_ms(2_000)
            assert (world.made(), most) == ([*"abcdef"], [3])
            assert world.looked("failed") == 0
            assert names_of(maker).count("a") >= 2

    run_virtual(story())


def test_a_long_line_of_keys_that_need_nothing_leaves_others_their_turns() -> None:
    async def story() -> None:
        looks_in_a_row, longest = [0], [0]

        def count(key: ReconcileKey) -> None:
            looks_in_a_row[0] += 1
            longest[0] = max(longest[0], looks_in_a_row[0])

        async def somebody_else() -> None:
            while True:
                looks_in_a_row[0] = 0
                await asyncio.sleep(0)

        async with World(maker := Maker()) as world:
            maker.trouble = count
            world.ledger.things = {f"t{number}": True for number in range(500)}
            other = asyncio.create_task(somebody_else())
            while len(maker.looks) < 500:
                await asyncio.sleep(0)
            other.cancel()
            await asyncio.wait((other,))
        assert longest == [1]

    run_virtual(story())


def test_each_controller_is_held_to_its_own_pace() -> None:
    async def story() -> None:
        busy, calm = Maker("busy", letter="b"), Maker("calm", letter="c")
        async with World(busy, calm, options=ControllerOptions(queue=QueueOptions(per_second=10, burst=10))) as world:
            for number in range(500):
                world.ledger.write(f"b{number}", made=True)
            world.ledger.write("c")
            await world.pass_ms(2_000)
            assert len(busy.looks) <= 10 + 20
            assert world.metrics.gauged("reconcile_depth", controller="busy") >= 470
            assert world.metrics.gauged("reconcile_lag_ms", controller="busy") >= 900
            assert world.made().count("c") == 1

    run_virtual(story())


def test_a_runner_that_was_stopped_sends_nothing_and_the_next_one_takes_up_everything() -> None:
    async def story() -> None:
        async with World(Maker()) as first:
            await first.pass_ms(10)
        ledger = first.ledger
        ledger.write("a")
        await first.pass_ms(100_000)
        assert ledger.sent == []
        async with World(Maker(), ledger=ledger) as second:
            await second.pass_ms(10)
            assert second.made() == ["a"]

    run_virtual(story())


def test_a_runner_that_is_stopped_while_an_answer_is_awaited_ends_at_once() -> None:
    async def story() -> None:
        async with World(Maker()) as world:

            async def hang(envelope: Envelope[Any]) -> None:
                await asyncio.get_running_loop().create_future()

            world.ledger.judge = hang
            world.ledger.write("a")
            await world.pass_ms(10)
            began = world.clock.boot()
        assert world.clock.boot() == began

    run_virtual(story())


def test_two_runs_with_one_seed_do_the_same_at_the_same_times() -> None:
    def run(seed: int) -> list[tuple[ReconcileKey, Instant]]:
        async def story() -> list[tuple[ReconcileKey, Instant]]:
            async with World(maker := Maker(), seed=seed, options=ControllerOptions(resync_ms=3_000)) as world:
                maker.trouble = broken("b", "d")
                for name in "abcd":
                    world.ledger.write(name)
                await world.pass_ms(30_000)
                return maker.looks

        return run_virtual(story())

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_two_reconcilers_of_one_name_are_a_mistake() -> None:
    async def story() -> None:
        with pytest.raises(AssertionError, match="one name"):
            World(Maker("a"), Maker("a"))

    run_virtual(story())
