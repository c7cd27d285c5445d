"""The simple platform: what regions say of themselves and of workloads, and what they offer back."""

from __future__ import annotations

from holdfast.core.ledger.answers import Code
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage
from holdfast.core.model.records.region_reports import Overflow
from holdfast.core.platform import commands as c
from tests.properties.platform.model.grants import found
from tests.properties.platform.model.objects import need_joined
from tests.properties.platform.model.platform import Case, World, need


def report(world: World, command: c.Report, case: Case) -> None:
    need_joined(world, command.region, case)
    names = [one.workload for one in command.seen]
    need(len(names) <= 1_000 and len(set(names)) == len(names) and command.position >= 0, Code.MALFORMED)
    for one in command.seen:
        numbers = [
            n for count in one.counts for n in (count.bound, count.ready, count.serving, count.done, count.failed)
        ]
        numbers += [reason.count for reason in one.waiting]
        need(all(0 <= n <= 2**40 for n in numbers) and len(one.counts) <= 16 and len(one.waiting) <= 16, Code.MALFORMED)
        need(all(len(reason.message) <= 512 for reason in one.waiting), Code.MALFORMED)
        need(len(one.failing) <= 16 and all(0 <= failing.count <= 2**40 for failing in one.failing), Code.MALFORMED)
        words = [word for failing in one.failing for word in (failing.code, failing.node, failing.detail)]
        need(all(len(word) <= 512 for word in words), Code.MALFORMED)
        need(all(len(count.why) <= 512 for count in one.counts), Code.MALFORMED)
    if command.summary is not None:
        need(len(command.summary.nodes) <= 256 and len(command.summary.troubles) <= 64, Code.MALFORMED)
        need(all(len(trouble.message) <= 512 for trouble in command.summary.troubles), Code.MALFORMED)
    session = case.session

    def is_news(workload: int) -> bool:
        (said_in, *place), _ = world.observed.get((workload, command.region), ((0, -1, 0), None))
        return said_in != session or place < [command.position, command.at]

    news = [
        one
        for one in command.seen
        if any(a.region == command.region for a in world.assigned(one.workload)) and is_news(one.workload)
    ]
    told_in, position = world.summaries[command.region][0] if command.region in world.summaries else (0, -1)
    newer = command.summary is not None and (told_in != session or position < command.position)
    need(news or newer, Code.ALREADY)
    for one in news:
        world.observed[one.workload, command.region] = ((session, command.position, command.at), one)
    if newer and command.summary is not None:
        world.summaries[command.region] = ((session, command.position), case.at, command.summary)


def offer_back(world: World, command: c.OfferBack, case: Case) -> None:
    assignment = found(world, command.assignment)
    need_joined(world, assignment.region, case)
    count = sum(share.count for share in assignment.shares)
    need(command.count > 0 and len(command.message) <= 512, Code.MALFORMED)
    serves = assignment.stage is AssignmentStage.ACTIVE and assignment.purpose is AssignmentPurpose.SERVING
    need(serves and not assignment.exclusive, Code.WRONG_PHASE)
    need(command.count <= count, Code.STALE)
    settings, region = world.settings, assignment.region
    since, moved = world.rebalances.get(region, (0, 0))
    if case.at >= since + settings.rebalance_window:
        since, moved = case.at, 0
    need(moved < settings.rebalance_max, Code.TOO_EARLY)
    moving = min(command.count, settings.rebalance_max - moved)
    if assignment.gang is not None:
        whole = moving - moving % assignment.gang.size
        need(whole or not moved, Code.TOO_EARLY)
        moving = whole or assignment.gang.size
    known = world.overflows.get((assignment.workload, region))
    need(known is None or known.until <= case.at or known.most > count - moving, Code.ALREADY)
    world.rebalances[region] = (since, moved + moving)
    world.overflows[assignment.workload, region] = Overflow(
        workload=assignment.workload, region=region, most=count - moving, moved=moving, window=since,
        until=case.at + settings.offer_life,
    )  # fmt: skip
