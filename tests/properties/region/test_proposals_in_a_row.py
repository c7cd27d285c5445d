"""Proposals judged in a row give exactly the answers, bytes and state of judging one by one."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.ledger.commit.draft import BatchDraft, Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.state.chunks import state_digest
from holdfast.core.ledger.state.invariants import check
from holdfast.core.model.objects.gangs import Gang
from holdfast.core.model.objects.workloads import Apart, Spread
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION, RULES
from tests.support.ledgers.region import REPLICA, SCHEDULER, RegionBench, a_template

ALONE = replace(REGION, rules={command: replace(rule, coalescer=None) for command, rule in RULES.items()})


def a_region() -> RegionBench:
    """Four small nodes, an account that runs out, protected room that others may not take, rules that count."""
    bench = RegionBench(checked=False)
    bench.a_scheduler()
    for number in range(4):
        bench.a_node(f"n{number}", cpu=4000, zone="ab"[number % 2])
    bench.a_grant("quota/acme", target=Resources(9000, 10**6))
    bench.a_grant("emergency/1", target=Resources(2000, 10**6))
    bench.a_grant("quota/other", target=Resources(9000, 10**6), protected=Resources(6000))
    accounts = ("quota/acme", "emergency/1")
    bench.a_workload(a_template(cpu=1000), 12, uid=101, workload=1, accounts=accounts)
    bench.a_workload(a_template(cpu=500, spread=(Spread(key="zone"),)), 8, uid=102, workload=2, accounts=accounts)
    bench.a_workload(a_template(cpu=500, apart=(Apart(group="g"),)), 8, uid=103, workload=3, tenant="other")
    bench.a_workload(a_template(cpu=700), 8, uid=104, workload=4, priority_class="best-effort")
    bench.a_workload(a_template(cpu=300), 8, uid=105, workload=5, accounts=accounts, gang=Gang(2))
    return bench


REGION_BEFORE = a_region()
NODES = [uid for _, uid in REGION_BEFORE.state.node_names.items()]

PLACEMENTS = st.lists(
    st.builds(c.SlotPlacement, st.integers(0, 12), st.sampled_from([*NODES, 5])), min_size=1, max_size=3
)
PROPOSALS = st.tuples(
    st.sampled_from([101, 101, 101, 102, 103, 104, 105]),
    PLACEMENTS,
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 0, 0, 0, 9]),
    st.sampled_from([0, 1 << 40]),
)
OTHERS = st.sampled_from(["withdraw", "repeat"])
PROGRAMS = st.lists(st.one_of(PROPOSALS, PROPOSALS, PROPOSALS, OTHERS), min_size=1, max_size=16)


def envelopes(program: list[Any]) -> list[Envelope[Any]]:
    bench = REGION_BEFORE
    found: list[Envelope[Any]] = []
    session = bench.sessions[SCHEDULER]
    for sequence, step in enumerate(program, start=1):
        if step == "withdraw":
            found.append(Envelope(REPLICA, c.WithdrawSlots(101, (sequence % 12,)), bench.at))
        elif step == "repeat":
            found.extend(found[-1:])
        else:
            uid, placements, gang, bind, policy, view = step
            template = bench.state.assignments[uid].shares[0].template
            group = c.PlacementGroup(uid, template, tuple(placements))
            command = c.Propose((group,), bench.at + 1000, gang, bind)
            found.append(Envelope(SCHEDULER, command, bench.at, session, sequence, view=view, policy=policy))
    return found


@settings(max_examples=200)
@given(PROGRAMS)
def test_a_row_of_proposals_is_decided_as_one_after_another_would_be(program: list[Any]) -> None:
    sent = envelopes(program)
    states = []
    outcomes = []
    for definition in (REGION, ALONE):
        state = REGION_BEFORE.state.fork()
        draft = BatchDraft(definition, state)
        answers = [draft.add(envelope, REGION_BEFORE.at) for envelope in sent]
        raw, digest = draft.seal()
        draft.commit()
        outcomes.append((answers, raw, digest))
        states.append(state)
    assert outcomes[0] == outcomes[1]
    assert state_digest(states[0]) == state_digest(states[1])
    assert [check(state, REGION.invariants) for state in states] == [[], []]
    assert all(states[0].table(spec.name).items() == states[1].table(spec.name).items() for spec in states[0].TABLES)


def test_a_row_ends_where_protected_room_begins() -> None:
    """Four nodes of 4 cpu, of which 6 are kept for another tenant: ten slots of 1 cpu fit."""
    draft = BatchDraft(REGION, REGION_BEFORE.state.fork())
    program = [(101, [c.SlotPlacement(ordinal, NODES[ordinal % 4])], False, True, 0, 0) for ordinal in range(12)]
    answers = [draft.add(envelope, REGION_BEFORE.at) for envelope in envelopes(program)]
    assert sum(isinstance(answer, Committed) for answer in answers) == 10


def test_of_two_requests_in_turn_each_leaves_what_the_other_has_taken() -> None:
    """As above: slots of 1 cpu and of half a cpu, one after the other, take ten together."""
    draft = BatchDraft(REGION, REGION_BEFORE.state.fork())
    program = [
        (uid, [c.SlotPlacement(ordinal, NODES[ordinal % 4])], False, True, 0, 0)
        for ordinal in range(8)
        for uid in (101, 102)
    ]
    answers = [draft.add(envelope, REGION_BEFORE.at) for envelope in envelopes(program)]
    taken = [
        1000 if step[0] == 101 else 500
        for step, one in zip(program, answers, strict=True)
        if isinstance(one, Committed)
    ]
    assert sum(taken) == 10_000
