"""The table of a slot's edges, held against the ledger: each edge to its one owner, from its phase, and no others."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.state.invariants import check
from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose
from holdfast.core.model.records.lifecycle import EDGE_BY_KEY, EDGES, STOP_CAUSES, Phase, PhaseEdge
from holdfast.core.model.records.slots import Slot
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from tests.support.ledgers.region import REPLICA, ROOT, SCHEDULER, RegionBench, a_principal, a_template, an_assignment

AGENT = "agent/n1"
HEALTH, REPAIR, ENDPOINTS = "controller/node-health", "controller/repair", "controller/endpoints"
CONTROLLERS = tuple(sorted({edge.owner for edge in EDGES if "/" in edge.owner}))
EVERYBODY = (
    AGENT, "agent/n2", SCHEDULER, ROOT, "tenant/acme", "ledger", *CONTROLLERS,
    "controller/link", "controller/sessions", "controller/override", "controller/nobody",
)  # fmt: skip
#: Where a slot can rest. `released` is left in the commit that reaches it.
PHASES_AT_REST = tuple(phase for phase in Phase if phase is not Phase.RELEASED)
#: Every end of an edge with its cause, and the phases from which it can be reached.
SOURCES: dict[tuple[Phase, str], set[Phase]] = {}
for _edge in EDGES:
    SOURCES.setdefault((_edge.target, _edge.cause), set()).add(_edge.source)

TEMPLATE = a_template(cpu=1000)
WORK = an_assignment(template=TEMPLATE, count=1, disruption=1, batch=True, priority_class="best-effort")
URGENT = an_assignment(200, 2, TEMPLATE, 1, priority_class="critical")
VITAL = an_assignment(300, 3, TEMPLATE, 1, priority_class="critical", purpose=AssignmentPurpose.RECOVERY)


def edge_id(edge: PhaseEdge) -> str:
    return f"{edge.source}->{edge.target}:{edge.cause}"


def by_a_move(edge: PhaseEdge) -> bool:
    return edge.cause not in STOP_CAUSES


# Setting the scene


@cache
def _scene(phase: Phase) -> RegionBench:
    bench = RegionBench(checked=False)
    bench.a_scheduler()
    bench.a_grant()
    bench.ship(c.ShippedPrincipal(a_principal("tenant/acme", *Permission)))
    bench.a_node("n2")
    bench.a_node("n1")
    for assignment in (WORK, URGENT, VITAL):
        fields = {name: getattr(assignment, name) for name in ("disruption", "batch", "priority_class", "purpose")}
        bench.a_workload(TEMPLATE, 1, uid=assignment.uid, workload=assignment.workload, **fields)
    _bring_to(bench, phase)
    assert bench.slot().phase is phase
    assert check(bench.state, REGION.invariants) == []
    return bench


def _bring_to(bench: RegionBench, phase: Phase) -> None:
    if phase is Phase.PENDING:
        return
    bench.place(WORK, c.SlotPlacement(0, _n1(bench)), bind=phase is not Phase.RESERVED)
    if phase in (Phase.RESERVED, Phase.BOUND):
        return
    straight = phase in (Phase.STARTING, Phase.RUNNING, Phase.READY, Phase.SERVING)
    bench.walk(phase if straight else Phase.RUNNING)
    if phase is Phase.FAILED:
        bench.move(AGENT, Phase.FAILED, "exit")
    elif phase is Phase.SUCCEEDED:
        bench.move(AGENT, Phase.SUCCEEDED, "completed")
    elif phase is Phase.TERMINATING:
        bench.accept("controller/drain", c.Stop(((1, 0),), "drain"))
    elif phase is Phase.UNKNOWN:
        bench.accept(HEALTH, EndSession(bench.sessions[AGENT], "silent"))
        bench.move(HEALTH, Phase.UNKNOWN, "session-ended")


def _n1(bench: RegionBench) -> int:
    uid = bench.state.node_names.get("n1")
    assert uid is not None
    return uid


def a_slot_in(phase: Phase, for_: PhaseEdge | tuple[str, str]) -> RegionBench:
    """A bench whose slot 1/0 is in this phase, with all else as the owner and the cause of an edge need it."""
    owner, cause = (for_.owner, for_.cause) if isinstance(for_, PhaseEdge) else for_
    bench = _scene(phase).branch()
    settings, alive = bench.state.info.settings, bench.state.nodes[_n1(bench)].session
    if cause in ("session-ended", "fenced"):
        if alive:
            bench.accept(HEALTH, EndSession(bench.sessions[AGENT], "silent"))
        bench.at += settings.fence_time
    elif owner in ("agent", "scheduler") and not alive:
        bench.open_session(AGENT)
        bench.a_node("n1")
    if cause == "expired":
        bench.at += settings.reservation_life
    return bench


def command_for(bench: RegionBench, target: Phase, cause: str) -> Any:
    """The command that takes the slot to this phase for this cause."""
    key, node = (1, 0), _n1(bench)
    if cause == "placed":
        return bench.proposal(WORK, c.SlotPlacement(0, node), bind=False)
    if cause == "bound":
        return c.Bind((key,))
    if (target, cause) == (Phase.PENDING, "refused"):
        return c.Unreserve((key,))
    if cause == "expired":
        return c.Expire((key,))
    if (target, cause) == (Phase.RELEASED, "withdrawn"):
        return c.WithdrawSlots(WORK.uid, (0,))
    if cause in ("preempted", "reclaimed"):
        successor: Assignment = URGENT if cause == "preempted" else VITAL
        return bench.proposal(successor, c.SlotPlacement(0, node, waits_for=(key,)))
    if cause in STOP_CAUSES:
        return c.Stop((key,), cause)
    return c.Move((c.MoveSlot(key, bench.slot().epoch, target, cause),))


def principal_of(owner: str) -> str:
    return {"agent": AGENT, "scheduler": SCHEDULER}.get(owner, owner)


def slot_of(bench: RegionBench) -> Slot | None:
    return bench.state.slots.get((1, 0))


# The table


def test_every_edge_has_one_owner_and_a_sentence() -> None:
    kinds = {"agent", "scheduler", "ledger"}
    assert all(edge.owner in kinds or edge.owner.startswith("controller/") for edge in EDGES)
    assert all(edge.sentence.endswith(".") and len(edge.sentence) > 10 for edge in EDGES)
    assert len({(edge.source, edge.target, edge.cause) for edge in EDGES}) == len(EDGES)


@pytest.mark.parametrize("phase", PHASES_AT_REST)
def test_every_phase_but_released_can_be_left(phase: Phase) -> None:
    assert any(edge.source is phase for edge in EDGES)


def test_released_is_final() -> None:
    assert not any(edge.source is Phase.RELEASED for edge in EDGES)


def test_every_phase_can_be_reached() -> None:
    assert {edge.target for edge in EDGES} == set(Phase)


# Each edge


@pytest.mark.parametrize("edge", EDGES, ids=edge_id)
def test_an_edge_is_taken_by_its_owner(edge: PhaseEdge) -> None:
    bench = a_slot_in(edge.source, edge)
    actor = principal_of(edge.owner)
    answer = bench.send(actor, command_for(bench, edge.target, edge.cause))
    assert isinstance(answer, Committed), answer
    assert answer.answer == b""
    after = slot_of(bench)
    if edge.target is Phase.RELEASED:
        # It is released and, in the same commit, waits again or is gone.
        assert after is None or (after.phase, after.node, after.epoch, after.cause) == (Phase.PENDING, 0, 0, edge.cause)
    else:
        assert after is not None
        assert (after.phase, after.cause, after.by) == (edge.target, edge.cause, actor)
    assert check(bench.state, REGION.invariants) == []


@pytest.mark.parametrize("edge", EDGES, ids=edge_id)
def test_an_edge_is_refused_to_everybody_else(edge: PhaseEdge) -> None:
    bench = a_slot_in(edge.source, edge)
    before, command = slot_of(bench), command_for(bench, edge.target, edge.cause)
    for actor in EVERYBODY:
        if actor != principal_of(edge.owner):
            answer = bench.send(actor, command)
            assert isinstance(answer, Refused), actor
            assert answer.code in (Code.NO_RIGHT, Code.NOT_OWNER, Code.NO_SESSION), (actor, answer)
    assert slot_of(bench) == before


@pytest.mark.parametrize(
    ("phase", "target", "cause"),
    [
        pytest.param(phase, target, cause, id=f"{phase}-x->{target}:{cause}")
        for (target, cause), sources in SOURCES.items()
        for phase in PHASES_AT_REST
        if phase not in sources
    ],
)
def test_an_edge_is_not_taken_from_any_other_phase(phase: Phase, target: Phase, cause: str) -> None:
    owner = next(edge.owner for edge in EDGES if (edge.target, edge.cause) == (target, cause))
    bench = a_slot_in(phase, (owner, cause))
    before = slot_of(bench)
    answer = bench.send(principal_of(owner), command_for(bench, target, cause))
    after = slot_of(bench)
    assert before is not None
    assert after is not None
    assert (after.phase, after.cause, after.epoch, after.node) == (phase, before.cause, before.epoch, before.node)
    # Two commands do more than take an edge: what is not waiting is wanted no more, who is ending can be waited for.
    unwanted = (target, cause) == (Phase.RELEASED, "withdrawn")
    waited_for = cause in ("preempted", "reclaimed") and phase is Phase.TERMINATING
    assert isinstance(answer, Committed if unwanted or waited_for else Refused), answer


@pytest.mark.parametrize("mover", [AGENT, ENDPOINTS, HEALTH, REPAIR])
@pytest.mark.parametrize("phase", PHASES_AT_REST)
def test_what_is_not_in_the_table_is_refused(phase: Phase, mover: str) -> None:
    bench = a_slot_in(phase, (mover.partition("/")[0], ""))
    causes = sorted({edge.cause for edge in EDGES} | {"", "boredom"})
    epoch, before = bench.slot().epoch, slot_of(bench)
    odd = [(t, why) for t in Phase for why in causes if (phase, t, why) not in EDGE_BY_KEY]
    answer = bench.send(mover, c.Move(tuple(c.MoveSlot((1, 0), epoch, target, why) for target, why in odd)))
    assert isinstance(answer, Refused)
    assert {part[2] for part in answer.facts["refused"]} == {Code.WRONG_PHASE}
    assert len(answer.facts["refused"]) == len(odd) > 400
    assert slot_of(bench) == before


@pytest.mark.parametrize(
    "edge", [edge for edge in EDGES if edge.source is Phase.READY and by_a_move(edge)], ids=edge_id
)
def test_a_move_of_another_epoch_is_stale(edge: PhaseEdge) -> None:
    bench = a_slot_in(edge.source, edge)
    one = c.MoveSlot((1, 0), bench.slot().epoch - 1, edge.target, edge.cause)
    answer = bench.send(principal_of(edge.owner), c.Move((one,)))
    assert isinstance(answer, Refused)
    assert answer.code is Code.STALE


def test_withdrawing_what_runs_leaves_it_running_and_wanted_no_more() -> None:
    bench = a_slot_in(Phase.SERVING, ("controller/replica", "withdrawn"))
    bench.accept(REPLICA, c.WithdrawSlots(WORK.uid, (0,)))
    assert (bench.slot().phase, bench.slot().next_template) == (Phase.SERVING, "")
