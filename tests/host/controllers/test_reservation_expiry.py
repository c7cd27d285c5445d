"""Reservations and held room end by ledger time; what has none is not looked at."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import ReservationPurpose
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from holdfast.core.region.watch import HOLD, WORKLOAD
from holdfast.host.controllers import reservation_expiry
from holdfast.host.controllers.reservation_expiry import POLL_MS, ExpiryQueue
from holdfast.host.errors import NotLeading
from holdfast.host.runtime.telemetry import Metrics
from holdfast.sim.world.virtual_loop import run_virtual
from tests.host.controllers.test_workqueue import clock_here
from tests.support.ledgers.region import SCHEDULER, RegionBench

LIFE = 30_000


class Leading:
    """A region whose leader is only played."""

    def __init__(self) -> None:
        self.bench = RegionBench()
        self.bench.a_scheduler()
        self.bench.a_grant()
        self.node = self.bench.a_node(cpu=100_000, memory=1_000_000)
        self.is_away = False
        durable = SimpleNamespace(state=self.bench.state)
        self.metrics = Metrics()
        self.term = SimpleNamespace(
            clock=clock_here(), durable=durable, now=lambda: self.bench.at, metrics=self.metrics
        )
        self.line = ExpiryQueue(self)  # type: ignore[arg-type]

    async def submit_as(self, actor: str, command: Any) -> None:
        if self.is_away:
            raise NotLeading("away")
        self.bench.accept(actor, command)

    def reserve(self, count: int = 1, workload: int = 1, *, told: bool = True) -> None:
        """A workload whose slots are reserved, for as long as reservations live."""
        assignment = self.bench.a_workload(count=count, uid=workload, workload=workload)
        self.bench.place(assignment, *(c.SlotPlacement(n, self.node) for n in range(count)), bind=False)
        if told:
            self.line.on_change(((WORKLOAD, workload),))

    def hold(self) -> int:
        command = c.Hold(
            ReservationPurpose.DATED, self.node, "quota/acme", self.bench.at + LIFE, Resources(500), tenant="acme"
        )
        self.bench.accept(SCHEDULER, command)
        ((uid, _),) = self.bench.state.holds.items()
        self.line.on_change(((HOLD, uid),))
        return uid

    async def look(self, later: int = 0) -> list[str]:
        """The phases of all slots, after a look so much later."""
        self.bench.at += later
        await self.line.end_over()
        return [slot.phase.value for slot in self.bench.state.slots.values()]


def test_a_reservation_ends_when_its_time_has_come_and_not_before() -> None:
    async def story() -> None:
        leading = Leading()
        leading.reserve(2)
        assert await leading.look() == ["reserved"] * 2
        assert await leading.look(LIFE - 1) == ["reserved"] * 2
        assert await leading.look(1) == ["pending"] * 2
        assert leading.metrics.counted("expired_reservations") == 2

    run_virtual(story())


def test_a_hold_ends_when_its_time_has_come_also_one_that_was_given_more() -> None:
    async def story() -> None:
        leading = Leading()
        uid = leading.hold()
        leading.bench.accept(SCHEDULER, c.ExtendHold(uid, leading.bench.at + LIFE + 5_000))
        await leading.look(LIFE)
        assert uid in leading.bench.state.holds
        await leading.look(5_000)
        assert uid not in leading.bench.state.holds

    run_virtual(story())


def test_what_could_not_be_ended_is_ended_later() -> None:
    async def story() -> None:
        leading = Leading()
        leading.reserve()
        leading.is_away = True
        assert await leading.look(LIFE) == ["reserved"]
        leading.is_away = False
        assert await leading.look(POLL_MS) == ["pending"]

    run_virtual(story())


def test_more_than_one_command_may_name_end_in_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        leading = Leading()
        leading.reserve(7)
        monkeypatch.setattr(reservation_expiry, "PARTS_MAX", 3)
        assert await leading.look(LIFE) == ["pending"] * 7

    run_virtual(story())


def test_what_a_listing_finds_ends_too() -> None:
    async def story() -> None:
        leading = Leading()
        leading.reserve()
        uid = leading.hold()
        leading.line = ExpiryQueue(leading)  # type: ignore[arg-type]
        await leading.line.list_all()
        assert await leading.look(LIFE) == ["pending"]
        assert uid not in leading.bench.state.holds

    run_virtual(story())


def test_a_reservation_that_nobody_told_of_is_caught_by_a_listing_and_counted() -> None:
    async def story() -> None:
        leading = Leading()
        leading.reserve(told=False)
        await leading.line.suspect()
        leading.line.catch()
        assert leading.metrics.counted("expiry_caught") == 1
        assert await leading.look(LIFE) == ["pending"]

    run_virtual(story())


def test_a_reservation_that_is_heard_of_just_after_a_listing_was_not_missed() -> None:
    async def story() -> None:
        leading = Leading()
        leading.reserve(told=False)
        await leading.line.suspect()
        leading.line.on_change(((WORKLOAD, 1),))
        leading.line.catch()
        assert leading.metrics.counted("expiry_caught") == 0

    run_virtual(story())


def test_assignments_without_reservations_are_not_looked_at_and_those_with_only_when_one_can_be_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        leading = Leading()
        for workload in range(2, 40):
            leading.bench.a_workload(uid=workload, workload=workload)
            leading.line.on_change(((WORKLOAD, workload),))
        leading.reserve(3)
        state = leading.bench.state
        looked: list[object] = []
        monkeypatch.setattr(type(state.slots), "items", None)  # nothing is sorted
        get = state.slots.get
        monkeypatch.setattr(type(state.slots), "get", lambda table, key: _looked(looked, state, table, key))
        await leading.line.end_over()
        assert looked == [(1, 0), (1, 1), (1, 2)]
        for _ in range(10):
            leading.bench.at += POLL_MS
            await leading.line.end_over()
        assert len(looked) == 3
        assert get((1, 0)).phase is Phase.RESERVED  # type: ignore[union-attr]

    run_virtual(story())


def _looked(looked: list[object], state: Any, table: Any, key: object) -> Any:
    if table is state.slots:
        looked.append(key)
    return table._shards[hash(key) % table._count].get(key)
