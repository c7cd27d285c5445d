"""Whoever hears of nothing is nudged once in a round, and not all at once."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from holdfast.host.watch.subscription import PARTS, ROUND_MS, KeepaliveRounds, Subscription
from holdfast.sim.world.virtual_loop import VirtualClock, VirtualLoop, run_virtual


class Nudged:
    """A subscription as far as rounds know it: when it was nudged."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.at: list[int] = []

    def request_bookmark(self) -> None:
        self.at.append(self._clock.boot())


def _nudged(count: int, rounds_gone: int, leaves: int = 0) -> list[Nudged]:
    """So many that were added before the first round, after some; the first few leave after one."""

    async def main() -> list[Nudged]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        clock = VirtualClock(loop)
        rounds, all_of_them = KeepaliveRounds(), [Nudged(clock) for _ in range(count)]
        for one in all_of_them:
            rounds.add(cast(Subscription, cast(Any, one)))
        running = asyncio.create_task(rounds.run(clock))
        await clock.sleep(ROUND_MS + 1)
        for one in all_of_them[:leaves]:
            rounds.leave(cast(Subscription, cast(Any, one)))
        await clock.sleep(ROUND_MS * (rounds_gone - 1))
        running.cancel()
        assert len(rounds) == count - leaves
        return all_of_them

    return run_virtual(main())


def test_each_is_nudged_once_in_a_round() -> None:
    for one in _nudged(count=50, rounds_gone=3):
        assert len(one.at) == 3
        assert [after - before for before, after in zip(one.at, one.at[1:], strict=False)] == [ROUND_MS] * 2


def test_they_are_not_nudged_all_at_once() -> None:
    moments = [one.at[0] for one in _nudged(count=PARTS * 10, rounds_gone=1)]
    assert max(moments.count(moment) for moment in moments) == 10


def test_who_has_left_is_nudged_no_more() -> None:
    first, *others = _nudged(count=5, rounds_gone=3, leaves=1)
    assert len(first.at) == 1
    assert all(len(one.at) == 3 for one in others)


def test_where_nobody_is_nobody_goes_round_and_who_comes_late_is_nudged_within_a_round() -> None:
    async def main() -> tuple[int, Nudged]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        clock, rounds = VirtualClock(loop), KeepaliveRounds()
        one = Nudged(clock)
        running = asyncio.create_task(rounds.run(clock))
        await clock.sleep(1)
        due = len(loop._due)
        await clock.sleep(10 * ROUND_MS)
        rounds.add(cast(Subscription, cast(Any, one)))
        joined = clock.boot()
        await clock.sleep(2 * ROUND_MS)
        running.cancel()
        assert one.at[0] <= joined + ROUND_MS
        return due, one

    due, one = run_virtual(main())
    assert due == 0
    assert len(one.at) == 2
