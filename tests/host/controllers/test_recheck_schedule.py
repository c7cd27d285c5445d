"""A rota: each key in its own time, those of one time together, no more than the pace allows, and none lost."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from holdfast.host.controllers.recheck_schedule import TICKS, RecheckSchedule
from holdfast.sim.world.virtual_loop import VirtualClock, VirtualLoop, run_virtual

AGAIN_MS = 2_000


def played(story: Callable[[VirtualClock], Awaitable[None]]) -> None:
    async def begin() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        await story(VirtualClock(loop))

    run_virtual(begin())


def test_each_key_comes_after_half_of_the_time_at_least_and_all_of_it_at_most() -> None:
    async def story(clock: VirtualClock) -> None:
        rota: RecheckSchedule[int] = RecheckSchedule(clock, AGAIN_MS, 1_000)
        began = clock.boot()
        for key in range(200):
            rota.add(key)
        came: dict[int, int] = {}
        while len(came) < 200:
            came |= dict.fromkeys(await rota.take(500), clock.boot() - began)
        assert min(came.values()) >= AGAIN_MS // 2
        assert max(came.values()) <= AGAIN_MS
        assert 3 < len(set(came.values())) <= TICKS // 2 + 1, "not all at once, and not each by itself"

    played(story)


def test_a_key_that_is_dropped_does_not_come_and_one_added_twice_comes_once() -> None:
    async def story(clock: VirtualClock) -> None:
        rota: RecheckSchedule[str] = RecheckSchedule(clock, AGAIN_MS, 1_000)
        for key in ("stays", "goes", "stays"):
            rota.add(key)
        rota.drop("goes")
        await clock.sleep(AGAIN_MS)
        rota.add("stays")  # its time has come: it does not begin to wait anew
        assert await rota.take(10) == ["stays"]
        assert len(rota) == 0

    played(story)


def test_no_more_than_so_many_are_taken_at_a_time_or_in_a_second_and_the_others_follow() -> None:
    async def story(clock: VirtualClock) -> None:
        rota: RecheckSchedule[int] = RecheckSchedule(clock, AGAIN_MS, 10)
        for key in range(50):
            rota.add(key)
        await clock.sleep(AGAIN_MS)
        seconds: Counter[int] = Counter()
        taken: list[int] = []
        while len(taken) < 50:
            some = await rota.take(4)
            assert len(some) <= 4
            taken += some
            seconds[clock.boot() // 1_000] += len(some)
        assert sorted(taken) == list(range(50))
        assert max(seconds.values()) <= 20

    played(story)


def test_whoever_waits_for_an_empty_rota_is_woken_by_the_first_key() -> None:
    async def story(clock: VirtualClock) -> None:
        rota: RecheckSchedule[str] = RecheckSchedule(clock, AGAIN_MS, 1_000)
        taking = asyncio.create_task(rota.take(1))
        await clock.sleep(10_000)
        assert not taking.done()
        rota.add("first")
        assert await taking == ["first"]

    played(story)
