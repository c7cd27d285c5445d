"""What an agent does next: a table of what the ledger says and what runs, and the rules that hold in all of it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.agent.bindings import BoundSlot, is_leased, rejection_reason
from holdfast.core.agent.plan import AgentSteps, AgentView, plan
from holdfast.core.agent.processes import (
    PAUSE_MAX_MS,
    PAUSE_MS,
    ProbeState,
    ProcessRun,
    ProcessState,
    rejection_backoff_ms,
)
from holdfast.core.model.objects.workloads import DriverKind, RestartPolicy, Template
from holdfast.core.model.records.lifecycle import EDGE_BY_KEY, Phase
from holdfast.core.model.records.nodes import Device
from holdfast.core.model.values.resources import Resources
from holdfast.core.region.commands import RegisterNode
from holdfast.core.region.limits import DETAIL_MAX
from tests.support.ledgers.region import an_assignment

P = Phase
SLOT, EPOCH, SESSION, NOW = (7, 0), 90, 80, 1_000_000
KEY = SLOT, EPOCH
PLAIN = Template(command=("serve",))
RUNNING, STOPPING = ProcessRun(ProcessState.RUNNING, NOW - 5_000), ProcessRun(ProcessState.STOPPING, NOW - 500)
EXITED = ProcessRun(ProcessState.ENDED, NOW - 70_000, 3, "exit", "exit code 3")
DONE = ProcessRun(ProcessState.ENDED, NOW - 70_000, 0, "exit", "exit code 0")
OVER = ProcessRun(ProcessState.ENDED, NOW - 70_000, None, "over-limit", "used 140 MiB of 128 MiB")


def a_bound(phase: Phase, **more: Any) -> BoundSlot:
    told: dict[str, Any] = {"cause": "", "template": "t", "name": "web/eu/0", "tenant": "acme", "revision": 95}
    return BoundSlot(slot=SLOT, epoch=EPOCH, phase=phase, **{**told, "reported": 95, **more})


A_SIGHT = AgentView(
    bound=[], runs={}, pulses={}, templates={"t": PLAIN}, received={}, barred=frozenset(), started=frozenset(),
    refused={}, revision=100, session=SESSION, lease=NOW + 9_000, now=NOW, grace_ms=10_000,
)  # fmt: skip


def planned(
    bound: BoundSlot | None, run: ProcessRun | None = None, *, pulse: ProbeState | None = None, **more: Any
) -> AgentSteps:
    view: dict[str, Any] = {
        "bound": [bound] if bound is not None else [], "runs": {KEY: run} if run is not None else {},
        "pulses": {KEY: pulse} if pulse is not None else {},
    }  # fmt: skip
    return plan(replace(A_SIGHT, **{**view, **more}))


def shown(steps: AgentSteps) -> str:
    """What a plan says of the one slot, in a word or two."""
    found = ["stop" for _ in steps.stops] + ["forget" for _ in steps.forgets] + ["start" for _ in steps.starts]
    return " ".join([*found, *(f"{move.target} {move.cause}" for move in steps.moves)])


TABLE: list[tuple[Phase, ProcessRun | None, str]] = [
    (P.BOUND, None, "start"),
    (P.BOUND, RUNNING, "starting started"),
    (P.BOUND, EXITED, "starting started"),
    (P.STARTING, None, "failed exit"),
    (P.STARTING, RUNNING, "running running"),
    (P.STARTING, STOPPING, ""),
    (P.STARTING, EXITED, "failed exit"),
    (P.RUNNING, None, "failed exit"),
    (P.RUNNING, RUNNING, "ready probe-passed"),
    (P.RUNNING, OVER, "failed over-limit"),
    (P.RUNNING, DONE, "failed exit"),
    (P.READY, RUNNING, ""),
    (P.READY, EXITED, "failed exit"),
    (P.SERVING, RUNNING, ""),
    (P.SERVING, STOPPING, ""),
    (P.SERVING, OVER, "failed over-limit"),
    (P.FAILED, None, "start"),
    (P.FAILED, STOPPING, ""),
    (P.FAILED, EXITED, "forget start"),
    (P.SUCCEEDED, DONE, "released collected"),
    (P.SUCCEEDED, None, "released collected"),
    (P.UNKNOWN, None, "failed gone"),
    (P.UNKNOWN, RUNNING, "running found-again"),
    (P.UNKNOWN, STOPPING, ""),
    (P.UNKNOWN, EXITED, "failed gone"),
    (P.TERMINATING, None, "released stopped"),
    (P.TERMINATING, RUNNING, "stop"),
    (P.TERMINATING, STOPPING, ""),
    (P.TERMINATING, EXITED, "released stopped"),
]


@pytest.mark.parametrize(("phase", "run", "expected"), TABLE)
def test_what_follows_from_what_is_said_and_what_runs(phase: Phase, run: ProcessRun | None, expected: str) -> None:
    assert shown(planned(a_bound(phase), run)) == expected


def test_every_move_is_along_an_edge_that_agents_own() -> None:
    runs = (None, RUNNING, STOPPING, EXITED, DONE, OVER)
    pulses = (None, ProbeState(ready=False), ProbeState(started=False, ready=False), ProbeState(failed=True))
    for phase, run, pulse, batch in product(Phase, runs, pulses, (False, True)):
        for move in planned(a_bound(phase, batch=batch), run, pulse=pulse).moves:
            edge = EDGE_BY_KEY.get((phase, move.target, move.cause))
            assert edge is not None, (phase, move)
            assert edge.owner == "agent"
            assert move.epoch == EPOCH


# Refusing


def test_a_binding_that_the_node_does_not_take_is_refused_when_it_is_time() -> None:
    refused = planned(a_bound(P.BOUND), refused={KEY: ("no such driver", NOW)})
    assert (shown(refused), refused.moves[0].detail) == ("released declined", "no such driver")
    later = planned(a_bound(P.BOUND), refused={KEY: ("no such driver", NOW + 500)})
    assert (shown(later), later.look_at) == ("", NOW + 500)


PORTED = RegisterNode("n1", "p", "a", Resources(1, 1, 1), (Device("a100"),), (30_000, 30_009))


@pytest.mark.parametrize(
    ("bound", "template", "why"),
    [
        ({}, {}, ""),
        ({"ports": (30_000, 30_009), "devices": (0,)}, {}, ""),
        ({"ports": (30_000, 30_010)}, {}, "port 30010 is outside this node's range, 30000 to 30009"),
        ({"devices": (0, 1)}, {}, "this node has no device 1"),
        ({}, {"driver": DriverKind.SIMULATED}, "this node has no driver simulated"),
    ],
)
def test_a_node_takes_what_its_agent_registered(bound: dict[str, Any], template: dict[str, Any], why: str) -> None:
    assert rejection_reason(a_bound(P.BOUND, **bound), replace(PLAIN, **template), PORTED, (DriverKind.PROCESS,)) == why


def test_what_is_refused_again_and_again_waits_longer_each_time() -> None:
    assert [rejection_backoff_ms(times) for times in (0, 1, 2, 3, 40)] == [
        0,
        PAUSE_MS,
        2 * PAUSE_MS,
        4 * PAUSE_MS,
        PAUSE_MAX_MS,
    ]


# Beginning


def test_nothing_begins_without_a_lease() -> None:
    for phase in (P.BOUND, P.FAILED):
        assert shown(planned(a_bound(phase), lease=NOW)) == ""
        assert shown(planned(a_bound(phase), lease=NOW + 1)) == "start"


def test_nothing_begins_while_others_must_end_first_or_the_region_may_not() -> None:
    for phase in (P.BOUND, P.FAILED):
        assert shown(planned(a_bound(phase, waits=True))) == ""


def test_what_another_life_was_told_is_left_until_the_ledger_calls_it_unknown() -> None:
    for phase in (P.BOUND, P.STARTING, P.RUNNING, P.READY, P.SERVING, P.FAILED):
        for run in (None, RUNNING, EXITED):
            assert shown(planned(a_bound(phase, reported=SESSION), run)) == ""
    assert shown(planned(a_bound(P.UNKNOWN, reported=SESSION), RUNNING)) == "running found-again"
    assert shown(planned(a_bound(P.TERMINATING, reported=SESSION), RUNNING)) == "stop"
    assert shown(planned(a_bound(P.SUCCEEDED, reported=SESSION))) == "released collected", "it is done, whoever says so"


def test_a_word_that_is_older_than_the_agents_own_is_not_acted_on() -> None:
    for phase in Phase:
        assert shown(planned(a_bound(phase), received={SLOT: 101})) == ""
    assert shown(planned(a_bound(P.BOUND), received={SLOT: 100})) == "start"


# Ending


def test_what_nobody_binds_is_stopped_and_then_forgotten() -> None:
    assert shown(planned(None, RUNNING)) == "stop"
    assert shown(planned(None, STOPPING)) == ""
    assert shown(planned(None, EXITED)) == "forget"


def test_what_runs_under_another_binding_of_the_slot_is_nobodys() -> None:
    steps = planned(replace(a_bound(P.BOUND), epoch=EPOCH + 1), RUNNING)
    assert steps.stops == [(SLOT, EPOCH, 10_000)]
    assert [one.epoch for one in steps.starts] == [EPOCH + 1]


def test_what_the_ledger_does_not_let_it_keep_is_stopped_at_once() -> None:
    steps = planned(a_bound(P.UNKNOWN), RUNNING, barred=frozenset({KEY}))
    assert steps.stops == [(SLOT, EPOCH, 0)]
    assert not steps.moves


def test_a_template_says_how_long_it_may_take_to_stop() -> None:
    patient = replace(PLAIN, grace=30_000)
    assert planned(a_bound(P.TERMINATING), RUNNING, templates={"t": patient}).stops == [(SLOT, EPOCH, 30_000)]


# Batch work


def test_batch_work_that_ended_well_is_done_from_wherever_it_is_thought_to_be() -> None:
    found = [shown(planned(a_bound(phase, batch=True), DONE)) for phase in (P.STARTING, P.RUNNING, P.READY, P.UNKNOWN)]
    assert found == ["running running", "succeeded completed", "succeeded completed", "running found-again"]
    assert shown(planned(a_bound(P.RUNNING, batch=True), EXITED)) == "failed exit"


# Probes


def test_what_is_asked_is_running_ready_and_ended_as_it_answers() -> None:
    quiet, up = ProbeState(started=False, ready=False), ProbeState(ready=False)
    assert shown(planned(a_bound(P.STARTING), RUNNING, pulse=quiet)) == ""
    assert shown(planned(a_bound(P.STARTING), RUNNING, pulse=up)) == "running running"
    assert shown(planned(a_bound(P.RUNNING), RUNNING, pulse=up)) == ""
    for phase in (P.READY, P.SERVING):
        assert shown(planned(a_bound(phase), RUNNING, pulse=up)) == "running probe-lost"
    failed = ProbeState(failed=True, detail="liveness: refused")
    assert shown(planned(a_bound(P.READY), RUNNING, pulse=failed)) == "stop"
    (move,) = planned(a_bound(P.READY), replace(EXITED, cause="exit"), pulse=failed).moves
    assert (move.cause, move.detail) == ("probe-failed", "liveness: refused")


def test_of_several_that_wait_the_first_says_when_to_look_again() -> None:
    slots = [a_bound(P.BOUND), replace(a_bound(P.BOUND), slot=(SLOT[0], SLOT[1] + 1))]
    for dates in ((900, 400), (400, 900)):
        refused = {(one.slot, one.epoch): ("no such driver", at) for one, at in zip(slots, dates, strict=True)}
        given: dict[str, Any] = {"bound": slots, "refused": refused}
        assert plan(replace(A_SIGHT, **given, now=0)).look_at == 400


# Starting again


def test_each_restart_waits_longer_and_the_policy_ends_them() -> None:
    def due(restarts: int) -> int:
        return planned(a_bound(P.FAILED, restarts=restarts), replace(EXITED, since=NOW)).look_at - NOW

    patient = replace(PLAIN, restarts_max=100)
    waits = [
        planned(a_bound(P.FAILED, restarts=n), replace(EXITED, since=NOW), templates={"t": patient}).look_at - NOW
        for n in (0, 1, 2, 9, 50)
    ]
    assert waits == [PAUSE_MS, 2 * PAUSE_MS, 4 * PAUSE_MS, PAUSE_MAX_MS, PAUSE_MAX_MS]
    assert due(2) > 0
    assert shown(planned(a_bound(P.FAILED, restarts=3), EXITED)) == "released given-up"


def test_what_was_bound_to_another_machine_is_given_up_to_be_placed_under_a_higher_token() -> None:
    assert shown(planned(a_bound(P.FAILED, cause="gone", moved=True), None)) == "released given-up"
    assert shown(planned(a_bound(P.FAILED, cause="gone"), None)) != "released given-up"


def test_what_was_given_up_before_waits_longer_before_each_restart_and_before_it_is_given_up_again() -> None:
    ended = replace(EXITED, since=NOW)
    again = planned(a_bound(P.FAILED, restarts=1, attempts=1), ended)
    assert (shown(again), again.look_at - NOW) == ("", 8 * PAUSE_MS)
    last = planned(a_bound(P.FAILED, restarts=3, attempts=1), ended)
    assert (shown(last), last.look_at - NOW) == ("", 32 * PAUSE_MS)
    late = replace(EXITED, since=NOW - PAUSE_MAX_MS)
    assert shown(planned(a_bound(P.FAILED, restarts=3, attempts=9), late)) == "released given-up"


@pytest.mark.parametrize(
    ("restart", "run", "expected"),
    [
        (RestartPolicy.ALWAYS, DONE, "forget start"),
        (RestartPolicy.ON_FAILURE, DONE, "released given-up"),
        (RestartPolicy.ON_FAILURE, EXITED, "forget start"),
        (RestartPolicy.NEVER, EXITED, "released given-up"),
    ],
)
def test_the_policy_says_what_is_started_again(restart: RestartPolicy, run: ProcessRun, expected: str) -> None:
    template = replace(PLAIN, restart=restart)
    assert shown(planned(a_bound(P.FAILED), run, templates={"t": template})) == expected


def test_a_start_that_failed_again_is_told_and_counts() -> None:
    again = replace(EXITED, since=NOW, cause="cannot-start")
    assert shown(planned(a_bound(P.FAILED), again, started=frozenset({KEY}))) == "starting restarted"
    assert shown(planned(a_bound(P.STARTING), again)) == "failed cannot-start"


def test_what_was_fenced_is_left_to_repair() -> None:
    for run in (None, EXITED):
        assert shown(planned(a_bound(P.FAILED, cause="fenced"), run)) == ""


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        ("x" * 300, "x" * DETAIL_MAX),
        ("no such user\nhint: name another\n", "no such user; hint: name another"),
        ("a\tb\x00c\u2028d", "a?b?c; d"),
        ("", ""),
    ],
)
def test_whatever_was_said_is_told_in_one_line_that_the_ledger_takes(detail: str, expected: str) -> None:
    failed = ProcessRun(ProcessState.ENDED, 0, None, "cannot-start", detail)
    (move,) = planned(a_bound(P.STARTING), failed).moves
    assert move.detail == expected
    assert move.detail.isprintable()


@pytest.mark.parametrize(("exclusive", "stops_cut"), list(product((False, True), repeat=2)))
def test_what_is_exclusive_and_what_was_to_stop_when_cut_off_end_with_their_session(
    exclusive: bool, stops_cut: bool
) -> None:
    assert is_leased(an_assignment(exclusive=exclusive, stops_cut=stops_cut)) is (exclusive or stops_cut)
