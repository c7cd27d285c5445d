"""A draft is a transaction: what is taken back was never there, and what is kept counts as the ledger will count it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from holdfast.core.model.objects.workloads import Apart, Spread
from holdfast.core.model.records.lifecycle import PENDING, Phase
from holdfast.core.model.records.slots import ReservationPurpose
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.region import commands as c
from holdfast.core.scheduling.nodes.claims import Takeover
from holdfast.core.scheduling.proposal_builder import ProposalBuilder, Waiting
from holdfast.core.scheduling.scheduler import Proposal
from tests.support.ledgers.region import ROOT, RegionBench, a_template
from tests.support.ledgers.scheduler_world import Follower

CALM = a_template(cpu=500, memory=200)
TEMPLATES = (
    a_template(cpu=700, memory=100),
    a_template(cpu=100, memory=900, ports=2),
    a_template(cpu=100, memory=100, gpus=1, gpu_milli=600),
    a_template(cpu=300, memory=300, gpus=2),
    a_template(cpu=200, memory=100, extended=(("fpga", 1),)),
    a_template(cpu=200, memory=100, apart=(Apart("db", "node", 3),), spread=(Spread("zone", 9),)),
)
#: Other objects, what a draft does not touch, and what tells only that a row has changed.
NO_CONTENT = (
    "revision", "nodes", "usages", "attributes", "devices", "occupants", "hints", "victims", "useful", "shape_counts",
    "split_costs", "stamps", "_stamp",
)  # fmt: skip
#: An operation of a program: its name, and what it is about.
Operation = tuple[str, Any]


def a_region(chance: Random) -> RegionBench:
    """Nodes with work that may be preempted or reclaimed, and holds; and urgent workloads that wait."""
    bench = RegionBench(checked=False)
    for account in ("quota/acme", "quota/beta"):
        bench.a_grant(account, protected=Resources(chance.choice([0, 3_000])))
    nodes = [
        bench.a_node(
            f"n{number}", cpu=6_000, memory=6_000, zone=chance.choice("ab"), gpus=("t4",) * chance.choice([0, 2, 3]),
            extended=(("fpga", 2),) if number == 1 else (), shares_user=number != 2,
        )
        for number in range(4)
    ]  # fmt: skip
    for number, node in enumerate(nodes):
        hold(bench, node, Resources(chance.choice([100, 900, 1500]), 100), ())
        if bench.state.nodes[node].devices:
            milli = chance.choice([400, 600, 1000])
            hold(bench, node, Resources(100, 100, 0, milli), (number % 2,), milli)
    for number, template in enumerate((CALM, *TEMPLATES[1:4])):
        for kind in ("normal", "best-effort"):
            uid = 300 + 2 * number + (kind == "normal")
            known = bench.a_workload(template, uid=uid, workload=uid, count=4, priority_class=kind)
            _run(bench, known, nodes, chance)
    for number, template in enumerate(TEMPLATES):
        tenant = chance.choice(["acme", "beta"])
        bench.a_workload(
            template, uid=100 + number, workload=100 + number, count=6, priority_class="critical", tenant=tenant
        )
    return bench


def hold(bench: RegionBench, node: int, need: Resources, devices: tuple[int, ...], milli: int = 1000) -> None:
    ends = bench.at + 3_600_000
    held = c.Hold(ReservationPurpose.DATED, node, "quota/acme", ends, need, devices, milli, tenant="acme")
    bench.accept(ROOT, held)


def _run(bench: RegionBench, known: Any, nodes: list[int], chance: Random) -> None:
    """Place what fits of a workload, and let some of it serve."""
    follower = Follower(bench, "scheduler/other")
    follower.work()
    for ordinal in range(4):
        slot = bench.state.slots[known.workload, ordinal]
        if slot.phase is not PENDING and chance.random() < 0.5:
            bench.walk(chance.choice([Phase.RUNNING, Phase.SERVING]), ordinal, known.workload)


class Drafting:
    """A follower of a region, and a draft of its next proposal."""

    def __init__(self, bench: RegionBench, name: str) -> None:
        self.follower = Follower(bench, name)
        self.follower.catch_up()
        self.bench, self.state = bench, self.follower.state
        scheduler = self.follower.scheduler
        self.table, self.flight, self.queue = scheduler.table, scheduler.flight, scheduler.queue
        self.draft = ProposalBuilder(self.state, bench.at, self.table, self.flight)
        self.groups = sorted(self.queue.groups.values(), key=lambda group: [*group.entries])
        self.groups = [group for group in self.groups if group.priority_class == "critical"]
        for group in self.groups:
            for entry in group.entries.values():
                entry.look_up(self.state)

    def add(self, chosen: tuple[int, tuple[int, ...], tuple[Takeover, ...]]) -> int:
        number, rows, takeovers = chosen
        group = self.groups[number]
        slots: list[Waiting] = self.draft.slots([*group.entries.values()], 3, len(rows))
        return self.draft.add(group, slots, [*rows], (len(rows),), takeovers)

    def seen(self) -> dict[str, Any]:
        """All that a draft changes."""
        found: dict[str, Any] = {}
        for part in (self.table, self.table.devices, self.table.occupants):
            for name, value in vars(part).items():
                if name not in NO_CONTENT:
                    found[f"{type(part).__name__}.{name}"] = value.tolist() if hasattr(value, "tolist") else value
        found["NodeTenants.column"] = [self.table.occupants.at(row) for row in range(self.table.count)]
        for name in ("spent", "firm", "owed", "members", "victims", "holds", "stops", "later"):
            value = getattr(self.flight, name)
            found[f"flight.{name}"] = value.copy() if hasattr(value, "copy") else value
        draft = self.draft
        found["draft"] = (draft.left, [*draft.groups], [*draft.asks], [*draft.waited], len(draft.parts))
        found["queue"] = [
            (entry.key, {*entry.proposed}, entry.open, [*entry.look_up(self.state)], entry.has_shown)
            for group in self.groups
            for entry in group.entries.values()
        ]
        self.table.victims.count(self.table, self.state, self.flight.victims)
        found["victims"] = (self.table.victims._any.tolist(), self.table.victims._firm.tolist())
        return {name: _copied(value) for name, value in found.items()}


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    return [*value] if isinstance(value, list) else value


def a_program(chance: Random, drafting: Drafting, most: int = 25) -> list[Operation]:
    """Adds with and without takeovers, savepoints, and ends of savepoints, later ones first or all at once."""
    program: list[Operation] = []
    depth = 0
    for _ in range(chance.randint(1, most)):
        draw = chance.random()
        if draw < 0.2:
            depth += 1
            program.append(("savepoint", None))
        elif draw < 0.4 and depth:
            to = chance.randrange(depth)
            depth = to
            program.append((chance.choice(["keep", "take back"]), to))
        else:
            program.append(("add", _choice(chance, drafting)))
    return program


def _choice(chance: Random, drafting: Drafting) -> tuple[int, tuple[int, ...], tuple[Takeover, ...]]:
    number, state = chance.choice([0, 1, 2, 2, 3, 3, 4, 5]), drafting.state
    group, table = drafting.groups[number], drafting.table
    rows = [chance.randrange(table.count) for _ in range(chance.randint(1, 3))]
    if group.ask.template.gpus:
        rows = [row for row in rows if table.nodes[row].devices] or [0]
    if chance.random() < 0.3:
        return number, tuple(rows), ()
    found = []
    for row in rows:
        uid = table.nodes[row].uid
        there = [key for key, slot in state.slots.items() if slot.node == uid and slot.phase is not Phase.RESERVED]
        holds = [key for key, hold in state.holds.items() if hold.node == uid and group.tenant == "acme"]
        victims = chance.sample(there, min(len(there), chance.randint(0, 2)))
        found.append(Takeover(tuple(victims), chance.choice([0, *holds])))
    return number, tuple(rows), tuple(found)


def run(drafting: Drafting, program: list[Operation]) -> list[Operation]:
    """Run a program. Return the adds that were kept."""
    open_: list[tuple[Any, int]] = []
    kept: list[Operation] = []
    for name, what in program:
        if name == "add":
            drafting.add(what)
            kept.append((name, what))
        elif name == "savepoint":
            open_.append((drafting.draft.savepoint(), len(kept)))
        elif name == "keep":
            drafting.draft.keep(open_[what][0])
            del open_[what:]
        else:
            savepoint, size = open_[what]
            drafting.draft.take_back(savepoint)
            del open_[what:], kept[size:]
    return kept


@pytest.mark.parametrize("seed", range(60))
def test_what_is_taken_back_was_never_in_the_draft(seed: int) -> None:
    chance = Random(seed)
    bench = a_region(chance)
    one, other = Drafting(bench, "scheduler/a"), Drafting(bench, "scheduler/b")
    untouched = one.seen()
    assert untouched == other.seen()
    whole = one.draft.savepoint()
    program = a_program(chance, one)
    kept = run(one, program)
    run(other, kept)
    assert one.seen() == other.seen()
    one.draft.take_back(whole)
    assert one.seen() == untouched


@pytest.mark.parametrize("seed", range(150))
def test_a_kept_draft_takes_what_the_ledger_counts_and_leaves_nothing_when_it_ends(seed: int) -> None:
    chance = Random(1_000 + seed)
    bench = a_region(chance)
    one = Drafting(bench, "scheduler/a")
    before = one.seen()
    run(one, a_program(chance, one, most=2))
    scheduler, draft = one.follower.scheduler, one.draft
    command = c.Propose(tuple(draft.groups), bench.at + 1_000)
    if not draft.groups:
        return
    over = [placement for group in draft.groups for placement in group.placements]
    for named in ([key for each in over for key in each.waits_for], [each.hold for each in over if each.hold]):
        assert len({*named}) == len(named)
    one.flight.take(1, draft.parts, command.valid_until)
    deducted = one.seen()
    attempt: Any = Proposal(1, command, scheduler.table.revision, 0, None, tuple(draft.asks), (), tuple(draft.waited))  # type: ignore[arg-type]
    if chance.random() < 0.3:
        one.flight.refuse(1)
        freed = one.seen()
        for name in ("NodeTable.free_any", "NodeTable.free_firm", "DeviceColumns.free_any", "DeviceColumns.free_firm"):
            assert freed[name] == before[name]
        for name in (
            "DeviceColumns._mine",
            "DeviceColumns._ports",
            "NodeTable.slots_in_flight",
            "NodeTenants._proposed",
            "queue",
        ):
            assert freed[name] == before[name]
        assert all(not freed[name] or freed[name] == ZERO for name in freed if name.startswith("flight."))
        return
    answer = bench.send(one.follower.name, attempt.command, view=attempt.view)
    refused = getattr(answer, "facts", {}).get("refused") or getattr(answer, "answer", b"")
    one.follower.catch_up()
    scheduler.flight.land(1, getattr(answer, "revision", 0))
    one.follower.hear({})
    if not refused:
        shown = one.seen()
        for name in ("NodeTable.free_any", "NodeTable.free_firm", "DeviceColumns.free_any", "DeviceColumns.free_firm"):
            assert shown[name] == deducted[name], name
        assert shown["DeviceColumns.ports"] == deducted["DeviceColumns.ports"]
        assert not one.flight.parts
