"""The scheduler, in a process of its own: its view is a follower of the region's log, its voice a session.

What cuts or slows its way to the store makes the view old. Of some kinds of slots it reserves room first and binds
later, and now and then thinks better of it.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.draft import Landed
from holdfast.core.model.shapes import Revision, SlotKey
from holdfast.core.region.book import REGION
from holdfast.core.region.state import RegionState
from holdfast.core.scheduling.ask import Ask
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.look import Sight
from holdfast.core.scheduling.scheduler import WATCHES
from holdfast.host.errors import Unavailable
from holdfast.host.journal import Journal
from holdfast.host.ledger import Identity, Ledger
from holdfast.host.scheduling import Scheduling
from holdfast.host.scheduling_region import Answer
from holdfast.host.watch import Touches
from holdfast.sim.actors.remote import Heard, Remote, Speaker
from holdfast.sim.world import Process, Program

PATIENCE_MS = 4_000
RENEW_MS = 2_000
#: Of so many kinds of slots one is reserved first, and of so many slots of it one is not bound after all.
TWO_STEPS_OF = 4
UNBOUND_OF = 8


_parts = msgspec.msgpack.Decoder(list[tuple[int, int, str, str, int]])


class _Far:
    """A region as its scheduler sees it from another machine."""

    def __init__(self, process: Process, view: Ledger[RegionState], speaker: Speaker) -> None:
        self._process = process
        self._view = view
        self._speaker = speaker

    def sight(self) -> Sight | None:
        state = self._view.durable.state
        return Sight(state, self._speaker.ledger_time()) if self._speaker.is_renewed and state.facts.log_id else None

    def changes(self) -> Touches:
        return self._view.hub.touched(WATCHES)

    async def say(self, command: Any, view: Revision, policy: Revision, evidence: bytes) -> Answer:
        if not self._speaker.session:
            raise Unavailable("it has no session")
        reply = await self._speaker.send(command, PATIENCE_MS, view=view, policy=policy, evidence=evidence)
        if reply is not None and reply.code == Code.TOO_MANY_IN_FLIGHT:
            self._speaker.session = 0  # its numbers are used up by refusals: another life begins
        if reply is None or not self._speaker.session:
            raise Unavailable("nobody judged it in this session")
        if reply.said == "refused":
            parts = _parts.decode(reply.answer) if reply.answer else []
            return Refused(Code(reply.code), reply.code, {"catch_up_to": reply.revision, "refused": parts})
        return Landed(reply.revision, reply.answer)


class TwoSteps:
    """Some kinds of slots are reserved first; of those, some are not bound at their first try."""

    name, version = "two-steps", "1"

    def __init__(self) -> None:
        self._doubted: set[SlotKey] = set()

    def waits(self, ask: Ask) -> bool:
        """By what is asked for."""
        return int(ask.digest[:4], 16) % TWO_STEPS_OF == 0

    def refuses(self, ask: Ask, slot: SlotKey, node: Revision) -> str:
        """By the slot and its node."""
        if slot in self._doubted or (slot[1] + node) % UNBOUND_OF:
            return ""
        self._doubted.add(slot)
        return "it thought better of it"


def scheduler(store: str, servers: list[str], heard: Heard, refused: dict[str, int]) -> Program:
    """The program of a scheduler. What is refused of a proposal that is accepted otherwise is counted by its code."""

    async def run(process: Process) -> None:
        view = Ledger(REGION, process.store(store), process.clock, Identity(process.name, may_lead=False))
        name = process.name.partition(".")[0]
        speaker = Speaker(process, Remote(process, servers, heard), f"scheduler/{name}")
        two_steps = TwoSteps()
        plugins = replace(BUILT_IN, binds=(two_steps,), reserves=(two_steps,))
        scheduling = Scheduling(
            _Far(process, view, speaker), plugins, process.clock, view.meters, Journal("scheduler", name=name)
        )
        scheduling.scheduler.refused = refused
        await asyncio.gather(view.run(), _live(process, speaker), scheduling.run())

    return run


async def _live(process: Process, speaker: Speaker) -> None:
    """Open a session, and keep it: it lives by heartbeats, whatever else is said in it."""
    while True:
        if speaker.session:
            await speaker.renew()
        else:
            await speaker.open()
        await process.clock.sleep(RENEW_MS if speaker.session else RENEW_MS // 4)
