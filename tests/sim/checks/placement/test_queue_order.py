"""Who is passed over in a region's queue, by its log: whoever could be placed on the view, and nobody else."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.commit.draft import fold
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.reconciler import principal
from holdfast.core.model.values.resources import times
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.scheduler import Proposal
from holdfast.sim.checks.ledger_audit import Finding
from holdfast.sim.checks.placement.placements import PlacementCheck
from tests.support.ledgers.region import REPLICA, RegionBench, a_template
from tests.support.ledgers.scheduler_world import Follower, a_region

#: The scheduler beside a leader.
BESIDE = principal("scheduler")


def judged(bench: RegionBench, *said: Envelope[Any]) -> list[Finding]:
    """What the judge finds in the log of a bench; what schedulers have sent is read on its way."""
    state, found = RegionState(), list[Finding]()

    def past(seq: int) -> RegionState:
        then = RegionState()
        for raw, digest in bench.log[:seq]:
            fold(REGION, then, REGION.batches.read(raw, then.info.digest, digest))
        return then

    judge = PlacementCheck("eu", state, found.append, lambda: True, Counter(), lambda: 0, past, alone=False)
    for envelope in said:
        judge.queue.excused.said(envelope, answered=False)
        judge.queue.excused.said(envelope, answered=True)
    for raw, digest in bench.log:
        batch = REGION.batches.read(raw, state.info.digest, digest)
        fold(REGION, state, batch)
        judge.take(batch, lambda raw=raw: REGION.batches.evidence(raw))  # type: ignore[misc]
    found += [Finding("queue-order", told) for _, told in judge.queue.confirmed()]
    return found


def last_two(bench: RegionBench) -> tuple[bytes, bytes, bytes]:
    """The last batch, the digest of the one before, and its own."""
    (_, before), (raw, digest) = bench.log[-2:]
    return raw, before, digest


def sent(bench: RegionBench, follower: Follower, attempt: Proposal, **fields: Any) -> None:
    evidence = encode(replace(attempt.decision, **fields))
    bench.accept(follower.name, attempt.command, view=attempt.view, policy=attempt.policy, evidence=evidence)


def withdrawn_meanwhile() -> tuple[RegionBench, Follower, Proposal]:
    """A proposal that has yet to be sent. The grant pays for one slot: a critical one, which is withdrawn before the
    proposal lands that names it."""
    bench, follower = a_region(nodes=1, cpu=4000)
    bench.a_grant("quota/beta")
    bench.a_grant(version=2, target=a_template(cpu=500).need)
    bench.a_workload(a_template(cpu=500), count=1, priority_class="critical")
    bench.a_workload(a_template(cpu=500), count=1, uid=101, workload=2)
    bench.a_workload(a_template(cpu=100), count=1, uid=102, workload=3, tenant="beta", priority_class="best-effort")
    follower.catch_up()
    attempt = follower.look()
    assert attempt is not None
    critical, other = attempt.command.groups
    assert (critical.assignment, other.assignment) == (100, 102)
    bench.accept(REPLICA, c.WithdrawSlots(100, (0,)))
    return bench, follower, attempt


@pytest.mark.parametrize(("in_flight", "found"), [((1,), []), ((), ["queue-order"])])
def test_who_had_no_room_on_a_view_beside_what_was_on_its_way_is_not_passed_over(
    in_flight: tuple[int, ...], found: list[str]
) -> None:
    """The grant pays for one critical slot, which is on its way, and is raised before anything lands."""
    bench, follower = a_region(nodes=2, cpu=4000)
    bench.a_grant("quota/beta")
    bench.a_grant(version=2, target=a_template(cpu=500).need)
    bench.a_workload(a_template(cpu=500), count=2, priority_class="critical")
    follower.catch_up()
    first = follower.look()
    bench.a_workload(a_template(cpu=100), count=1, uid=101, workload=2, tenant="beta")
    follower.catch_up()
    second = follower.look()
    assert first is not None
    assert second is not None
    assert second.decision.in_flight == (1,)
    bench.a_grant(version=3)
    sent(bench, follower, first)
    sent(bench, follower, second, in_flight=in_flight)
    assert [one.promise for one in judged(bench)] == found


@pytest.mark.parametrize(("paid", "found"), [(1, []), (2, ["queue-order"])])
def test_who_had_no_room_on_a_view_beside_what_is_in_the_same_proposal_is_not_passed_over(
    paid: int, found: list[str]
) -> None:
    """The grant pays for so many of two critical slots and is raised before the proposal lands, which has one."""
    bench, follower = a_region(nodes=2, cpu=4000)
    bench.a_grant("quota/beta")
    bench.a_grant(version=2, target=times(a_template(cpu=500).need, paid))
    bench.a_workload(a_template(cpu=500), count=2, priority_class="critical")
    bench.a_workload(a_template(cpu=100), count=1, uid=101, workload=2, tenant="beta")
    follower.catch_up()
    attempt = follower.look()
    assert attempt is not None
    critical, other = attempt.command.groups
    assert len(critical.placements) == paid
    one = replace(critical, placements=critical.placements[:1])
    attempt = replace(attempt, command=replace(attempt.command, groups=(one, other)))
    bench.a_grant(version=3)
    sent(bench, follower, attempt)
    assert [one.promise for one in judged(bench)] == found


@pytest.mark.parametrize(("in_flight", "found"), [((1,), []), ((), ["queue-order"])])
def test_who_had_no_room_on_a_view_beside_what_is_less_urgent_and_was_on_its_way_is_not_passed_over(
    in_flight: tuple[int, ...], found: list[str]
) -> None:
    """That was proposed before who is more urgent came. A node is added before anything lands."""
    bench, follower = a_region(nodes=1, cpu=600)
    bench.a_workload(a_template(cpu=500), count=1)
    follower.catch_up()
    first = follower.look()
    bench.a_workload(a_template(cpu=500), count=1, uid=101, workload=2, priority_class="critical")
    bench.a_workload(a_template(cpu=100), count=1, uid=102, workload=3)
    follower.catch_up()
    second = follower.look()
    assert first is not None
    assert second is not None
    assert second.decision.in_flight == (1,)
    bench.a_node("n2", cpu=600)
    sent(bench, follower, first)
    sent(bench, follower, second, in_flight=in_flight)
    assert [one.promise for one in judged(bench)] == found


@pytest.mark.parametrize(("is_named", "found"), [(True, []), (False, ["queue-order"])])
def test_who_had_no_room_on_a_view_beside_what_was_refused_since_is_not_passed_over(
    is_named: bool, found: list[str]
) -> None:
    bench, follower, attempt = withdrawn_meanwhile()
    sent(bench, follower, attempt)
    record = REGION.batches.read(*last_two(bench)).records[0]
    command = attempt.command
    command = command if is_named else replace(command, groups=command.groups[1:])
    said = Envelope(follower.name, command, 0, session=record.session, sequence=record.sequence)
    assert [one.promise for one in judged(bench, said)] == found


@pytest.mark.parametrize(
    ("wrongly", "found"),
    [({}, []), ({"evidence": b"another"}, ["queue-order"]), ({"sent": 1}, ["queue-order"])],
)
def test_who_had_no_room_beside_what_a_scheduler_beside_the_leader_was_refused_since_is_not_passed_over(
    wrongly: dict[str, Any], found: list[str]
) -> None:
    """Found in `regional-loss` 54285. Its proposals have no number in the log: one that was made at another time, or
    for other reasons, is another one and excuses nobody."""
    bench, _, attempt = withdrawn_meanwhile()
    evidence = encode(attempt.decision)
    bench.accept(BESIDE, attempt.command, view=attempt.view, policy=attempt.policy, evidence=evidence)
    told = {"sent": bench.at, "evidence": evidence, **wrongly}
    said = Envelope(BESIDE, attempt.command, session=1, sequence=1, **told)
    assert [one.promise for one in judged(bench, said)] == found
