"""The loop on virtual time runs whatever asyncio puts in line, in its order."""

from __future__ import annotations

import asyncio
import threading

from holdfast.sim.world.virtual_loop import run_virtual


def test_what_another_thread_asks_for_runs_in_its_turn() -> None:
    async def story() -> list[str]:
        heard: list[str] = []
        loop = asyncio.get_running_loop()
        thread = threading.Thread(target=lambda: loop.call_soon_threadsafe(heard.append, "from elsewhere"))
        thread.start()
        thread.join()
        loop.call_soon(heard.append, "from here")
        await asyncio.sleep(0)
        return heard

    assert run_virtual(story()) == ["from elsewhere", "from here"]


def test_what_was_cancelled_is_passed_over_and_the_rest_runs_when_it_is_due() -> None:
    async def story() -> list[float]:
        ran: list[float] = []
        loop = asyncio.get_running_loop()
        soon, later = loop.call_soon(ran.append, 0.0), loop.call_later(1, ran.append, 1.0)
        loop.call_at(2, ran.append, 2.0)
        soon.cancel()
        later.cancel()
        assert (soon.cancelled(), later.when()) == (True, 1.0)
        await asyncio.sleep(3)
        return ran

    assert run_virtual(story()) == [2.0]
