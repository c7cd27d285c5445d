"""Reports may come late, twice, in any order, or not at all: the platform ends with what the region said last.

A region lives through a random history and reports after every step, as its link does. The platform is given the
reports as a bad network would give them. Only the last one about each workload, and the last summary, must arrive.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.platform.commands import Report
from holdfast.core.region import commands as c
from holdfast.core.region.queries.workload_report import workload_report
from holdfast.host.link.region import reports as region_reports
from tests.support.ledgers.platform import PlatformBench, a_workload, a_world
from tests.support.ledgers.region import REPLICA, ROOT, SCHEDULER, RegionBench, a_template, an_assignment, summary_of

WORKLOADS = 3
SLOTS = 3
PHASES = (Phase.STARTING, Phase.RUNNING, Phase.READY, Phase.SERVING)
DOING = ("open", "place", "walk", "stop", "vain", "cordon")
numbers = st.integers(0, SLOTS - 1)
steps = st.lists(st.tuples(st.sampled_from(DOING), numbers, numbers, st.booleans()), min_size=1, max_size=15)


class Story:
    """A region with an assignment of each workload, and every report that it made."""

    def __init__(self, workloads: list[int]) -> None:
        self.bench = bench = RegionBench(checked=False)
        bench.a_scheduler()
        bench.a_grant()
        self.nodes = [bench.a_node(f"n{number}") for number in range(2)]
        self.workloads = workloads
        self.template = a_template()
        self.digest = template_digest(self.template)
        bench.ship(c.ShippedTemplate(self.digest, self.template))
        for workload in workloads:
            bench.ship(c.ShippedAssignment(an_assignment(workload, workload, self.template, SLOTS)))
        self.reports: list[Report] = []
        self._told: dict[region_reports.Name, Any] = {}
        self.report(with_summary=True)

    def do(self, what: str, a: int, b: int) -> None:
        """Something that may happen in a region, if it can now."""
        workload, bench = self.workloads[a], self.bench
        slot = bench.state.slots.get((workload, b))
        node = self.nodes[b % len(self.nodes)]
        if what == "open" and slot is None:
            bench.accept(REPLICA, c.OpenSlots(workload, self.digest, (b,)))
        elif what == "place" and slot is not None and slot.phase is Phase.PENDING:
            group = c.PlacementGroup(workload, self.digest, (c.SlotPlacement(b, node),))
            bench.send(SCHEDULER, c.Propose((group,), bench.at + 1_000))
        elif what == "walk" and slot is not None and slot.phase is Phase.BOUND:
            bench.walk(PHASES[a], b, workload)
        elif what == "stop" and slot is not None and slot.phase in (Phase.BOUND, *PHASES):
            bench.accept(REPLICA, c.WithdrawSlots(workload, (b,)))
            bench.accept(REPLICA, c.Stop(((workload, b),), "scaled-down"))
        elif what == "vain" and workload in bench.state.requests:
            examined = bench.state.info.seq << 20
            bench.send(SCHEDULER, c.ReportPending(workload, self.digest, examined, (PendingReason("capacity", b),)))
        elif what == "cordon":
            bench.send(ROOT, c.AdministerNode(node, cordoned=a == 0, note="looking at it"))
        bench.at += 1_000

    def report(self, *, with_summary: bool) -> None:
        """What the link would say now."""
        state = self.bench.state
        position = pack_revision(state.info.seq, INDEX_MAX)
        seen = [
            region_reports.workload_report(state, workload_report(state, workload), self._told)
            for workload in self.workloads
        ]
        words = list(region_reports.reports("eu", position, state.info.at, [one for one in seen if one is not None]))
        summary = summary_of(state)
        if with_summary and self._told.get(region_reports.SUMMARY) != summary:
            words.append(
                region_reports.ReportCommand(Report("eu", position, (), summary), ((region_reports.SUMMARY, summary),))
            )
        for word in words:
            self._told.update(word.reported)
            self.reports.append(word.command)


@cache
def a_platform() -> tuple[PlatformBench, list[int]]:
    bench = a_world()
    workloads = [bench.put(a_workload(f"w{number}")) for number in range(WORKLOADS)]
    for workload in workloads:
        bench.assign(workload, "eu", SLOTS)
    bench.checked = False
    return bench, workloads


def heard(bench: PlatformBench) -> tuple[dict[int, Any], dict[str, Any]]:
    """What the platform knows, whenever it was told."""
    summaries = {name: (one.position, one.summary) for name, one in bench.state.summaries.items()}
    return dict(bench.state.workload_reports.items()), summaries


def deliver(bench: PlatformBench, reports: list[Report]) -> None:
    for report in reports:
        answer = bench.send("region/eu", report)
        assert isinstance(answer, Committed) or (isinstance(answer, Refused) and answer.code is Code.ALREADY), answer
        bench.later(500)


def needed(reports: list[Report]) -> list[int]:
    """Which reports say something that none after them does."""
    last: dict[object, int] = {}
    for number, report in enumerate(reports):
        for seen in report.seen:
            last[seen.workload] = number
        if report.summary is not None:
            last["summary"] = number
    return sorted(set(last.values()))


@settings(max_examples=40)
@given(steps, st.data())
def test_however_reports_are_delivered_the_platform_ends_with_what_was_said_last(
    program: list[tuple[str, int, int, bool]], data: st.DataObject
) -> None:
    begun, workloads = a_platform()
    platform, other, story = begun.fork(), begun.fork(), Story(workloads)
    for what, a, b, with_summary in program:
        story.do(what, a, b)
        story.report(with_summary=with_summary)
    reports = story.reports
    deliver(platform, reports)
    copies = data.draw(st.lists(st.integers(0, len(reports) - 1), max_size=2 * len(reports)), "copies and gaps")
    order = data.draw(st.permutations([*needed(reports), *copies]), "order")
    deliver(other, [reports[number] for number in order])
    assert heard(other) == heard(platform)
    assert heard(platform)[0].keys() == set(workloads)
