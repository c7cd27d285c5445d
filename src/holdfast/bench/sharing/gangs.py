"""Gangs against a stream of single slots, in memory: how many rounds a gang waits in a region that stays 90 % full.

    every round: some single slots end, as many are opened ──▶ one scheduler places ──▶ gangs that have run end
    every sixth round: two gangs of 64 members, each of which needs two thirds of the free capacity

Single slots and gangs have one class. The stream always opens what it ends, so without a hold nothing keeps capacity
for a gang: the bound that is measured holds for this load, and is no guarantee for a fuller region.
"""

from __future__ import annotations

from random import Random

from msgspec import Struct

from holdfast.bench.fixtures.region import NODE_SHAPE, BenchRegion
from holdfast.bench.report import BenchResult, at_most, require
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.commit.draft import BatchDraft, Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.partial import PARTS_MAX, decode_refused_parts
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.model.objects.gangs import Gang
from holdfast.core.model.objects.topology import Toleration
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose, AssignmentStage, Share
from holdfast.core.model.records.lifecycle import ON_NODE, Phase
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.scheduler import Scheduler
from holdfast.core.scheduling.view import SchedulerView

ROWS = ("sharing.gang_rounds",)
SIZE, FILL, TURNOVER = 64, 90, 2
#: Gangs that arrive together, rounds between two arrivals, and rounds for which a gang runs.
TOGETHER, EVERY, RUNS = 2, 6, 2
#: A gang that waits for more rounds than this is not placed in bounded rounds.
ROUNDS_MAX = 10
_SINGLE = 40_000_000
ACTOR = "controller/scheduler"


def measure_gangs(nodes: int, gangs: int) -> list[BenchResult]:
    """Measure the longest wait of a gang in rounds, by that of the first single slot."""
    waits = _Stream(nodes).play(gangs)
    require(len(waits) == gangs, f"{len(waits)} of {gangs} gangs were placed")
    return [at_most("sharing.gang_rounds", max(waits), "rounds until a gang is placed", 1, ROUNDS_MAX, waits)]


class _Waiting(Struct):
    """A gang: its assignment, when it was opened, and when it was placed; 0: not yet."""

    uid: int
    opened: int
    placed: int = 0


class _Stream:
    """A region with its scheduler, a workload of single slots, and gangs."""

    def __init__(self, nodes: int) -> None:
        self._region, self._chance, self._scheduler = BenchRegion(nodes), Random(5), Scheduler(BUILT_IN)
        whole = nodes * NODE_SHAPE.capacity.cpu
        free = whole * (100 - FILL) // 100
        self._member = self._template("member", free * 2 // 3 // SIZE)
        self._single = self._template("single", 4_000)
        self._next = self._round = 0
        self._sent: dict[str, int] = {}
        self._ship(_SINGLE, self._single, 100_000, None)
        self._open(whole * FILL // 100 // 4_000)
        self._work()

    def _template(self, name: str, cpu: int) -> str:
        """Ship a template and return its digest."""
        tolerate = (Toleration("dedicated", "batch"),)
        one = Template((name,), need=Resources(cpu, 16), tolerate=tolerate)
        self._region.ship(c.ShippedTemplate(template_digest(one), one))
        return template_digest(one)

    def _ship(self, uid: int, digest: str, count: int, gang: Gang | None) -> None:
        assignment = Assignment(
            uid, 1, uid, f"w{uid}", "acme", "bench", AssignmentPurpose.SERVING, AssignmentStage.ACTIVE, 1,
            (Share(digest, count),), ("quota/acme",), "normal", gang=gang,
        )  # fmt: skip
        self._region.ship(c.ShippedAssignment(assignment))

    def _open(self, count: int) -> None:
        for first in range(self._next, self._next + count, PARTS_MAX):
            ordinals = tuple(range(first, min(first + PARTS_MAX, self._next + count)))
            self._region.run(("controller/replica", c.OpenSlots(_SINGLE, self._single, ordinals)))
        self._next += count

    def play(self, gangs: int) -> list[int]:
        """Return by gang how many rounds it waited."""
        singles, open_gangs, over = self._next * TURNOVER // 100, list[_Waiting](), list[_Waiting]()
        while len(over) < gangs and self._round < EVERY * gangs + ROUNDS_MAX + RUNS:
            self._round += 1
            for number in range(TOGETHER if self._round % EVERY == 1 else 0):
                open_gangs.append(_Waiting(_SINGLE + TOGETHER * self._round + number, self._round))
                self._ship(open_gangs[-1].uid, self._member, SIZE, Gang(SIZE))
                opened = c.OpenSlots(open_gangs[-1].uid, self._member, tuple(range(SIZE)))
                self._region.run(("controller/replica", opened))
            running = [key for key, slot in self._region.state.slots.items() if key[0] == _SINGLE and slot.node]
            self._end(self._chance.sample(running, min(singles, len(running))))
            self._open(singles)
            self._work()
            for one in open_gangs:
                slots = self._region.state.slots.find((one.uid, ordinal) for ordinal in range(SIZE))
                placed = sum(slot.phase in ON_NODE for slot in slots)
                require(placed in (0, SIZE), f"{placed} members of a gang of {SIZE} are placed")
                if placed and not one.placed:
                    one.placed = self._round
            for one in [one for one in open_gangs if one.placed and self._round >= one.placed + RUNS]:
                self._end([(one.uid, ordinal) for ordinal in range(SIZE)])
                open_gangs.remove(one)
                over.append(one)
        return [one.placed - one.opened + 1 for one in over[:gangs]]

    def _end(self, keys: list[tuple[int, int]]) -> None:
        """End these slots for good: they are withdrawn, and their agents decline them."""
        region, by_node = self._region, dict[int, list[c.MoveSlot]]()
        for key in keys:
            slot = region.state.slots[key]
            move = c.MoveSlot(key, slot.epoch, Phase.RELEASED, "declined")
            by_node.setdefault(slot.node, []).append(move)
        for uid in dict.fromkeys(uid for uid, _ in keys):
            mine = [ordinal for other, ordinal in keys if other == uid]
            for first in range(0, len(mine), PARTS_MAX):
                withdraw = c.WithdrawSlots(uid, tuple(mine[first : first + PARTS_MAX]))
                region.run(("controller/replica", withdraw))
        for node, moves in by_node.items():
            actor = f"agent/{region.state.nodes[node].name}"
            self._send(actor, c.Move(tuple(moves)), region.state.session_of.get(actor) or 0)

    def _work(self) -> None:
        """Let the scheduler place what it can."""
        region, scheduler = self._region, self._scheduler
        for _ in range(1_000):
            scheduler.load(region.state)
            attempt, _ = scheduler.run_cycle(SchedulerView(region.state, region.at))
            if attempt is None and not scheduler.has_more:
                return
            if attempt is not None:
                answer = self._send(ACTOR, attempt.command, 0, attempt.view)
                require(not decode_refused_parts(answer.answer), "placements on a current view were refused")
                scheduler.on_accepted(attempt, pack_revision(region.state.info.seq, INDEX_MAX), [])
        require(False, "the scheduler does not come to rest")

    def _send(self, actor: str, command: object, session: int, view: int = 0) -> Committed:
        region = self._region
        draft = BatchDraft(REGION, region.state)
        if session:
            self._sent[actor] = self._sent.get(actor, 1) + 1  # the first one registered the node
        number = self._sent.get(actor, 0)
        answer = draft.add(Envelope(actor, command, region.at, session, number, view=view), region.at)
        require(isinstance(answer, Committed), answer)
        draft.seal()
        draft.commit()
        assert isinstance(answer, Committed)
        return answer
