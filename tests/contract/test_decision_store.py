"""What everything that keeps decisions promises: found again by workload, slot, node, time and outcome."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.revision import format_revision, pack_revision
from holdfast.core.model.records.decisions import (
    Candidate,
    DecisionOutcome,
    DecisionPart,
    DecisionWithParts,
    SchedulingPass,
    StoredDecision,
    pack,
    unpack,
)
from holdfast.host.ports.index_store import (
    AssignmentRef,
    DecisionBatch,
    DecisionPage,
    DecisionQuery,
    DecisionStore,
    IndexPosition,
)
from holdfast.stores.indexes import decision_search
from holdfast.stores.indexes.decision_rows import DecisionDatabase
from tests.support.event_loop import in_a_loop

Opening = Callable[[], AbstractAsyncContextManager[DecisionStore]]
DAY = 86_400_000


@pytest.fixture(params=["memory", "file"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Opening:
    memory = DecisionDatabase()

    @asynccontextmanager
    async def opened() -> AsyncIterator[DecisionStore]:
        kept: DecisionStore = memory if request.param == "memory" else DecisionDatabase(tmp_path / "decisions.db")
        yield kept
        await kept.close()

    return opened


def uid(number: int) -> int:
    return pack_revision(1_000 + number)


def a_part(workload: int, *placed: tuple[int, int]) -> DecisionPart:
    """Ordinals of a workload on nodes, both by small numbers."""
    ordinals, nodes = [ordinal for ordinal, _ in placed], [uid(node) for _, node in placed]
    return DecisionPart(uid(100 + workload), uid(workload), 1, pack(ordinals), pack(nodes))


def a_decision(
    seq: int,
    *parts: DecisionPart,
    tenant: str = "shop",
    outcome: DecisionOutcome = DecisionOutcome.PLACED,
    index: int = 0,
) -> DecisionWithParts:
    number = pack_revision(seq, index)
    found = SchedulingPass((), "t", 1, "placed", "agent", candidates=(Candidate(uid(1), 9, (("packing", 9),)),))
    return DecisionWithParts(
        StoredDecision(number, number, seq * 1_000, "scheduler/a", tenant, outcome, found=found), parts
    )


def a_reading(*found: DecisionWithParts) -> DecisionBatch:
    """With names: workload 1 is w1, its assignment is 101; node 1 is n1."""
    reading = DecisionBatch(list(found))
    for one in found:
        for part in one.parts:
            number = (part.workload - uid(0)) >> 20
            tenant = one.decided.tenant
            reading.assignments[part.assignment] = AssignmentRef(
                part.assignment, part.workload, tenant, f"w{number}", "serving"
            )
            nodes = unpack(part.nodes)
            reading.nodes |= {node: f"n{(node - uid(0)) >> 20}" for node in nodes}
    return reading


async def add(kept: DecisionStore, *found: DecisionWithParts) -> None:
    seq = found[-1].decided.number >> 20
    await kept.add(a_reading(*found), IndexPosition("log", seq, b"d", 1))


def seqs(page: DecisionPage) -> list[int]:
    return [one.decided.number >> 20 for one in page.items]


@in_a_loop
async def test_nothing_was_read_where_nothing_was_kept(opening: Opening) -> None:
    async with opening() as kept:
        assert await kept.position() == IndexPosition()
        assert (await kept.find(DecisionQuery())).items == ()
        assert (await kept.find(DecisionQuery(workload="w1", node="n1", since=5, until=6))).items == ()


@in_a_loop
async def test_what_was_kept_is_there_when_it_is_opened_again_with_how_far_the_log_was_read(opening: Opening) -> None:
    async with opening() as kept:
        await add(kept, a_decision(5, a_part(1, (0, 1), (1, 2))))
        await kept.add(DecisionBatch(), IndexPosition("log", 9, b"e", 1))
    async with opening() as kept:
        assert await kept.position() == IndexPosition("log", 9, b"e", 1)
        (one,) = (await kept.find(DecisionQuery(workload="w1"))).items
        assert (one.placed, one.requests, one.parts[0].placed) == (2, 1, 2)
        assert one.placements == ((uid(101), 0, uid(1)), (uid(101), 1, uid(2)))
        assert await kept.settle() == 9


@in_a_loop
async def test_names_are_told_with_what_was_found(opening: Opening) -> None:
    async with opening() as kept:
        await add(kept, a_decision(5, a_part(1, (0, 1), (1, 2))))
        page = await kept.find(DecisionQuery())
        assert page.assignments[uid(101)] == AssignmentRef(uid(101), uid(1), "shop", "w1", "serving")
        assert page.nodes == {uid(1): "n1", uid(2): "n2"}


@in_a_loop
async def test_the_newest_come_first_and_a_page_goes_on_where_it_ended(opening: Opening) -> None:
    async with opening() as kept:
        await add(kept, *[a_decision(seq, a_part(1, (seq, 1))) for seq in range(1, 8)])
        first = await kept.find(DecisionQuery(limit=3))
        assert seqs(first) == [7, 6, 5]
        second = await kept.find(DecisionQuery(limit=3, before=first.going_on))
        assert seqs(second) == [4, 3, 2]
        last = await kept.find(DecisionQuery(limit=3, before=second.going_on))
        assert (seqs(last), last.going_on) == ([1], 0)
        assert (await kept.find(DecisionQuery(limit=7))).going_on == 0


@in_a_loop
async def test_a_workload_is_found_by_name_by_uid_and_within_its_tenant(opening: Opening) -> None:
    async with opening() as kept:
        await add(kept, a_decision(5, a_part(1, (0, 1))), a_decision(6, a_part(2, (0, 1)), tenant="bank"))
        assert seqs(await kept.find(DecisionQuery(workload="w1"))) == [5]
        assert seqs(await kept.find(DecisionQuery(workload=format_revision(uid(2))))) == [6]
        assert seqs(await kept.find(DecisionQuery(workload="w1", tenant="shop"))) == [5]
        assert seqs(await kept.find(DecisionQuery(workload="w1", tenant="bank"))) == []
        assert seqs(await kept.find(DecisionQuery(workload=format_revision(uid(1)), tenant="bank"))) == []
        assert seqs(await kept.find(DecisionQuery(tenant="bank"))) == [6]


@in_a_loop
async def test_two_workloads_of_one_name_are_found_together_the_newest_decision_first(opening: Opening) -> None:
    async with opening() as kept:
        reading = a_reading(*[a_decision(5 + at, a_part(1 + at % 2, (at, 1))) for at in range(4)])
        names = {
            key: AssignmentRef(one.uid, one.workload, "shop", "web", "serving")
            for key, one in reading.assignments.items()
        }
        reading.assignments = names
        await kept.add(reading, IndexPosition("log", 8))
        assert seqs(await kept.find(DecisionQuery(workload="web"))) == [8, 7, 6, 5]


@in_a_loop
async def test_a_slot_is_found_by_its_ordinal_and_only_it_is_told(opening: Opening) -> None:
    async with opening() as kept:
        await add(
            kept, a_decision(5, a_part(1, (0, 1), (7, 2))), a_decision(6, a_part(1, (3, 1))),
            a_decision(7, a_part(1, (7, 3))), a_decision(8, a_part(2, (7, 3))), a_decision(9, a_part(1)),
        )  # fmt: skip
        page = await kept.find(DecisionQuery(workload="w1", ordinal=7))
        assert seqs(page) == [7, 5]
        assert page.items[1].placements == ((uid(101), 7, uid(2)),)
        assert seqs(await kept.find(DecisionQuery(workload="w1", ordinal=5))) == []


@in_a_loop
async def test_a_node_is_found_by_name_and_only_what_went_there_is_told(opening: Opening) -> None:
    async with opening() as kept:
        both = a_decision(6, a_part(1, (1, 2)), a_part(2, (0, 1), (1, 2)))
        await add(kept, a_decision(5, a_part(1, (0, 1))), both, a_decision(7, a_part(3, (0, 1))))
        page = await kept.find(DecisionQuery(node="n2"))
        assert seqs(page) == [6]
        assert page.items[0].placements == ((uid(101), 1, uid(2)), (uid(102), 1, uid(2)))
        assert seqs(await kept.find(DecisionQuery(node=format_revision(uid(1))))) == [7, 6, 5]
        assert seqs(await kept.find(DecisionQuery(node="n1", workload="w2"))) == [6]
        assert seqs(await kept.find(DecisionQuery(node="n9"))) == []


@in_a_loop
async def test_a_node_whose_bytes_lie_across_two_others_is_not_mistaken_for_one(opening: Opening) -> None:
    async with opening() as kept:
        first, second = 0x0011223344556677, 0x00AABBCC0DEEFF11
        nodes = pack([first, second])
        across = int.from_bytes(nodes[4:12], "little")
        part = DecisionPart(uid(101), uid(1), 1, pack([0, 1]), nodes)
        await kept.add(DecisionBatch([a_decision(5, part)], {}, {across: "n9", first: "n8"}), IndexPosition("log", 5))
        assert seqs(await kept.find(DecisionQuery(node="n9"))) == []
        assert seqs(await kept.find(DecisionQuery(node="n8"))) == [5]


@pytest.mark.parametrize("place", [1, 2])
@in_a_loop
async def test_a_long_search_for_a_node_ends_early_and_goes_on_without_a_gap(
    opening: Opening, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    monkeypatch.setattr(decision_search, "STEP", 5)  # so that a decision lies across two pages
    monkeypatch.setattr(decision_search, "SEARCHED_MAX", 3)
    async with opening() as kept:
        wanted = [2, 3, 9, 10, 16]
        parts = {
            seq: [a_part(k, (0, 7 if seq in wanted and k == place else 1)) for k in (1, 2)] for seq in range(1, 20)
        }
        await add(kept, *[a_decision(seq, *parts[seq]) for seq in range(1, 20)])
        found: list[int] = []
        before, pages = 0, 0
        while True:
            page = await kept.find(DecisionQuery(node="n7", before=before, limit=2))
            found += seqs(page)
            before, pages = page.going_on, pages + 1
            if not before:
                break
        assert found == sorted(wanted, reverse=True)
        assert pages > 3


@in_a_loop
async def test_times_and_outcomes_narrow_it_down(opening: Opening) -> None:
    async with opening() as kept:
        outcomes = [
            DecisionOutcome.PLACED,
            DecisionOutcome.WAITING,
            DecisionOutcome.NEVER_FITS,
            DecisionOutcome.WAITING,
        ]
        await add(kept, *[a_decision(5 + at, a_part(1, (at, 1)), outcome=one) for at, one in enumerate(outcomes)])
        assert seqs(await kept.find(DecisionQuery(since=6_000))) == [8, 7, 6]
        assert seqs(await kept.find(DecisionQuery(until=6_000))) == [6, 5]
        assert seqs(await kept.find(DecisionQuery(since=5_500, until=7_500))) == [7, 6]
        assert seqs(await kept.find(DecisionQuery(outcome=DecisionOutcome.WAITING))) == [8, 6]
        assert seqs(await kept.find(DecisionQuery(workload="w1", outcome=DecisionOutcome.WAITING, until=7_000))) == [6]
        assert seqs(await kept.find(DecisionQuery(since=9_000))) == []
        assert seqs(await kept.find(DecisionQuery(until=4_000))) == []


@in_a_loop
async def test_of_a_large_decision_a_few_requests_and_placements_are_told_and_all_are_counted(opening: Opening) -> None:
    async with opening() as kept:
        await add(kept, a_decision(5, *[a_part(number, (0, 1), (1, 2)) for number in range(1, 51)]))
        (one,) = (await kept.find(DecisionQuery())).items
        assert (one.requests, one.placed, len(one.parts), len(one.placements)) == (50, 100, 20, 20)
        (one,) = (await kept.find(DecisionQuery(workload="w37", ordinal=1))).items
        assert one.placements == ((uid(137), 1, uid(2)),)


@in_a_loop
async def test_a_slot_in_the_middle_of_a_large_decision_is_found_by_its_own_name(opening: Opening) -> None:
    async with opening() as kept:
        parts = [a_part(workload, *[(ordinal, 1 + ordinal % 7) for ordinal in range(100)]) for workload in range(50)]
        await add(kept, a_decision(5, *parts))
        (one,) = (await kept.find(DecisionQuery(workload="w37", tenant="shop", ordinal=55))).items
        assert one.placements == ((uid(137), 55, uid(1 + 55 % 7)),)
        assert ([part.workload for part in one.parts], one.requests, one.placed) == ([uid(37)], 50, 5_000)
        assert (await kept.find(DecisionQuery(workload="w37", tenant="shop", ordinal=100))).items == ()


@in_a_loop
async def test_what_is_older_than_it_is_kept_goes_and_from_when_on_nothing_is_missing_is_told(opening: Opening) -> None:
    async with opening() as kept:
        await add(kept, *[a_decision(seq, a_part(seq, (0, seq))) for seq in range(1, 8)])
        await kept.tidy(4_000, 1 << 30)
        page = await kept.find(DecisionQuery())
        assert (seqs(page), page.position.since) == ([7, 6, 5, 4], 4_000)
        assert seqs(await kept.find(DecisionQuery(workload="w3"))) == []


@in_a_loop
async def test_names_go_a_day_after_what_they_name(opening: Opening) -> None:
    async with opening() as kept:
        await add(kept, a_decision(1, a_part(1, (0, 1))))
        late = a_decision(2, a_part(2, (0, 2)))
        late = DecisionWithParts(replace(late.decided, at=3 * DAY), late.parts)
        await kept.add(a_reading(late), IndexPosition("log", 2))
        await kept.tidy(2 * DAY, 1 << 30)
        assert seqs(await kept.find(DecisionQuery(workload="w1"))) == []
        assert (await kept.find(DecisionQuery())).nodes[uid(2)] == "n2"
        assert seqs(await kept.find(DecisionQuery(workload="w2"))) == [2]


@in_a_loop
async def test_the_oldest_go_when_all_takes_too_much_room(opening: Opening) -> None:
    async with opening() as kept:
        for seq in range(1, 200):
            await add(kept, a_decision(seq, a_part(seq, *[(at, 1) for at in range(1_000)])))
        before = await kept.tidy(0, 1 << 30)
        assert before > 2 << 20
        assert await kept.tidy(0, 1 << 20) <= 1 << 20
        page = await kept.find(DecisionQuery(limit=500))
        assert seqs(page) == list(range(199, 199 - len(page.items), -1))
        assert page.items
        assert page.position.since > 1
        assert await kept.tidy(0, 0) > 0  # empty tables take room, too
        assert (await kept.find(DecisionQuery())).items == ()


@in_a_loop
async def test_names_that_nothing_kept_has_go_with_the_oldest_decisions(opening: Opening) -> None:
    async with opening() as kept:
        found = [a_decision(1, a_part(number, (0, 1)), index=number) for number in range(3_000)]
        await kept.add(a_reading(*found), IndexPosition("log", 1))
        assert await kept.tidy(0, 1 << 30) > 500_000
        assert await kept.tidy(0, 300_000) <= 300_000
        assert (await kept.find(DecisionQuery())).items


@in_a_loop
async def test_beginning_anew_drops_everything(opening: Opening) -> None:
    async with opening() as kept:
        await add(kept, a_decision(5, a_part(1, (0, 1))))
        await kept.begin(IndexPosition("other", 3))
        assert await kept.position() == IndexPosition("other", 3)
        assert (await kept.find(DecisionQuery())).items == ()
        await kept.add(DecisionBatch(), IndexPosition("other", 4, b"", 7))
        assert (await kept.position()).since == 7


@in_a_loop
async def test_a_place_never_goes_back(opening: Opening) -> None:
    async with opening() as kept:
        await add(kept, a_decision(5, a_part(1, (0, 1))))
        await add(kept, a_decision(4, a_part(1, (0, 1))))
        assert (await kept.position()).seq == 5
        assert seqs(await kept.find(DecisionQuery())) == [5]


@in_a_loop
async def test_whose_it_was_is_known_from_what_was_kept_before(opening: Opening) -> None:
    async with opening() as kept:
        await add(kept, a_decision(5, a_part(1, (0, 1))))
        await kept.add(DecisionBatch([a_decision(6, a_part(1, (1, 1)), tenant="")]), IndexPosition("log", 6))
        assert seqs(await kept.find(DecisionQuery(tenant="shop"))) == [6, 5]
        assert (await kept.find(DecisionQuery(tenant="shop"))).items[0].decided.tenant == "shop"
