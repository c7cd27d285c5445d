"""What a batch of the log says of decisions."""

from __future__ import annotations

from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision, seq_of
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.decisions import (
    AuditEvent,
    DecisionEvidence,
    DecisionOutcome,
    DecisionWithParts,
    SchedulingPass,
    unpack,
)
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.core.region.queries.decisions import decisions_in, has_decisions
from tests.support.ledgers.region import SCHEDULER, RegionBench, a_template

TEMPLATE = a_template(cpu=100, memory=100)


class Bench(RegionBench):
    """A region with a scheduler, two nodes and workloads of two tenants."""

    def __init__(self) -> None:
        super().__init__()
        self.a_scheduler()
        self.nodes = [self.a_node("n1"), self.a_node("n2")]
        for tenant in ("acme", "bank"):
            self.a_grant(f"quota/{tenant}")
        self.web = self.a_workload(TEMPLATE, 4, uid=100, workload=1)
        self.mail = self.a_workload(TEMPLATE, 4, uid=101, workload=2)
        self.vault = self.a_workload(TEMPLATE, 4, uid=102, workload=3, tenant="bank")

    def group(self, one: Assignment, *placed: tuple[int, int]) -> c.PlacementGroup:
        return c.PlacementGroup(one.uid, one.shares[0].template, tuple(c.SlotPlacement(*pair) for pair in placed))

    def propose(self, *groups: c.PlacementGroup, evidence: bytes = b"") -> Committed:
        self.view = pack_revision(self.state.info.seq, INDEX_MAX)
        return self.accept(SCHEDULER, c.Propose(groups, self.at + 1_000), evidence=evidence, view=self.view)

    def decided(self) -> list[DecisionWithParts]:
        """The decisions of the last batch."""
        raw, digest = self.log[-1]
        batch = REGION.batches.read(raw, self.log[-2][1], digest)
        return decisions_in(batch, REGION.batches.evidence(raw), self.state.assignments.get)


def a_pass(*assignments: Assignment, outcome: str = "placed") -> SchedulingPass:
    requests = tuple((one.uid, one.generation) for one in assignments)
    return SchedulingPass(requests, assignments[0].shares[0].template, 5, outcome, "agent", examined=2)


def said(*passes: SchedulingPass) -> bytes:
    return encode(DecisionEvidence(7, 0, passes, (4,), (("packing", "1"),)))


def test_a_pass_is_a_decision_with_what_went_where_by_request() -> None:
    bench = Bench()
    n1, n2 = bench.nodes
    landed = bench.propose(
        bench.group(bench.web, (0, n1), (1, n2)), bench.group(bench.mail, (3, n2)),
        evidence=said(a_pass(bench.web, bench.mail)),
    )  # fmt: skip
    (found,) = bench.decided()
    assert (found.decided.tenant, found.decided.outcome, found.decided.at) == ("acme", DecisionOutcome.PLACED, bench.at)
    assert (found.decided.revision, seq_of(found.decided.number)) == (landed.revision, seq_of(landed.revision))
    assert (found.decided.view, found.decided.in_flight, found.decided.actor) == (7, 1, SCHEDULER)
    assert found.decided.found is not None
    assert found.decided.found.requests == ()
    web, mail = found.parts
    assert (web.workload, web.generation, unpack(web.ordinals), unpack(web.nodes)) == (1, 1, (0, 1), (n1, n2))
    assert (mail.workload, unpack(mail.ordinals), unpack(mail.nodes)) == (2, (3,), (n2,))


def test_what_the_ledger_refused_is_told_with_its_pass_and_the_others_are_whole() -> None:
    bench = Bench()
    n1 = bench.nodes[0]
    bench.propose(
        bench.group(bench.web, (0, n1), (1, 999), (2, 998)), bench.group(bench.mail, (0, 997)),
        bench.group(bench.vault, (0, n1)),
        evidence=said(a_pass(bench.web), a_pass(bench.mail), a_pass(bench.vault)),
    )  # fmt: skip
    web, mail, vault = bench.decided()
    assert (web.decided.outcome, mail.decided.outcome, vault.decided.outcome) == (
        DecisionOutcome.IN_PART, DecisionOutcome.REFUSED, DecisionOutcome.PLACED,
    )  # fmt: skip
    assert web.decided.refused == (("not-found", "node 999", 2),)
    assert mail.decided.refused == (("not-found", "node 997", 1),)
    assert (vault.decided.refused, mail.parts[0].workload) == ((), 2)


def test_a_pass_that_left_some_over_placed_in_part() -> None:
    bench = Bench()
    bench.propose(
        bench.group(bench.web, (0, bench.nodes[0])), evidence=said(a_pass(bench.web, outcome="placed in part"))
    )
    (found,) = bench.decided()
    assert found.decided.outcome is DecisionOutcome.IN_PART


def test_a_pass_over_two_tenants_is_a_decision_for_each_with_a_number_of_its_own() -> None:
    bench = Bench()
    n1 = bench.nodes[0]
    both = said(a_pass(bench.web, bench.vault))
    bench.propose(bench.group(bench.web, (0, n1)), bench.group(bench.vault, (0, n1)), evidence=both)
    web, vault = bench.decided()
    assert (web.decided.tenant, vault.decided.tenant) == ("acme", "bank")
    assert (len(web.parts), len(vault.parts)) == (1, 1)
    assert vault.decided.number == web.decided.number + 1


def test_what_was_placed_without_evidence_or_with_other_bytes_is_a_decision_all_the_same() -> None:
    bench = Bench()
    n1 = bench.nodes[0]
    for ordinal, evidence in enumerate((b"", b"\xff", encode(AuditEvent("person/x", 1, "propose", b"")))):
        bench.propose(bench.group(bench.web, (ordinal, n1)), evidence=evidence)
        (found,) = bench.decided()
        assert (found.decided.found, found.decided.view, found.decided.outcome) == (
            None,
            bench.view,
            DecisionOutcome.PLACED,
        )
        assert unpack(found.parts[0].ordinals) == (ordinal,)


def test_what_evidence_says_of_requests_twice_or_in_vain_is_told_once() -> None:
    bench = Bench()
    doubled = said(a_pass(bench.web), a_pass(bench.web, bench.mail))
    bench.propose(bench.group(bench.web, (0, bench.nodes[0])), evidence=doubled)
    first, second = bench.decided()
    assert [part.workload for part in (*first.parts, *second.parts)] == [1, 2]
    assert second.decided.outcome is DecisionOutcome.REFUSED


def report(bench: Bench, code: str, *others: Assignment) -> list[DecisionWithParts]:
    reasons = (PendingReason(code, 4, "nearest fit is n1"),)
    examined = pack_revision(bench.state.info.seq)
    command = c.ReportPending(bench.web.uid, bench.web.shares[0].template, examined, reasons)
    bench.accept(SCHEDULER, command, evidence=said(a_pass(bench.web, *others, outcome="waiting")))
    return bench.decided()


def test_a_report_is_a_decision_about_its_own_request_whatever_its_evidence_names() -> None:
    bench = Bench()
    (found,) = report(bench, "capacity", bench.mail, bench.vault)
    assert (found.decided.outcome, found.decided.reasons[0].message) == (DecisionOutcome.WAITING, "nearest fit is n1")
    assert [(part.assignment, part.ordinals) for part in found.parts] == [(bench.web.uid, b"")]


def test_that_it_will_never_fit_is_told_apart_from_waiting() -> None:
    (found,) = report(Bench(), "never-fits")
    assert found.decided.outcome is DecisionOutcome.NEVER_FITS


def test_whose_it_was_may_be_unknown_and_is_then_nobodys() -> None:
    bench = Bench()
    bench.propose(bench.group(bench.web, (0, bench.nodes[0])), evidence=said(a_pass(bench.web)))
    raw, digest = bench.log[-1]
    batch = REGION.batches.read(raw, bench.log[-2][1], digest)
    (found,) = decisions_in(batch, REGION.batches.evidence(raw), lambda uid: None)
    assert (found.decided.tenant, found.parts[0].workload) == ("", 1)


def test_other_batches_have_no_decisions() -> None:
    bench = Bench()
    raw, digest = bench.log[-1]
    batch = REGION.batches.read(raw, bench.log[-2][1], digest)
    assert not has_decisions(batch)
    assert decisions_in(batch, (), bench.state.assignments.get) == []
