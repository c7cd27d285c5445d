"""RULES 13: uids and epochs are log revisions; they only grow and are never used again."""

from __future__ import annotations

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.ledger.revision import format_revision, index_of, pack_revision, seq_of
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.region.commands import OpenSlots, RemoveNode, SlotPlacement, WithdrawSlots
from tests.support.ledgers.region import REPLICA, ROOT, RegionBench


def test_a_revision_reads_as_batch_and_index_and_orders_as_the_log_does() -> None:
    assert format_revision(pack_revision(41, 3)) == "41.3"
    assert (seq_of(pack_revision(41, 3)), index_of(pack_revision(41, 3))) == (41, 3)
    assert pack_revision(41, 3) < pack_revision(41, 4) < pack_revision(42, 0)


def test_a_node_removed_and_registered_again_has_another_uid_and_old_proposals_do_not_find_it() -> None:
    bench = RegionBench()
    bench.a_scheduler()
    old = bench.a_node()
    bench.a_grant()
    work = bench.a_workload(count=2)
    bench.accept("controller/node-health", EndSession(bench.sessions.pop("agent/n1"), "silent"))
    bench.accept(ROOT, RemoveNode(old))
    new = bench.a_node()
    assert new > old
    assert bench.refuse_place(work, SlotPlacement(0, old)).code is Code.NOT_FOUND
    bench.place(work, SlotPlacement(0, new))


def test_a_slot_removed_and_opened_again_is_bound_under_a_higher_epoch() -> None:
    bench = RegionBench()
    bench.a_scheduler()
    node = bench.a_node()
    bench.a_grant()
    work = bench.a_workload(count=2)
    bench.place(work, SlotPlacement(0, node))
    first = bench.slot().epoch
    bench.accept(REPLICA, WithdrawSlots(work.uid, (0,)))
    bench.move("agent/n1", Phase.RELEASED, "declined")
    assert (1, 0) not in bench.state.slots
    bench.accept(REPLICA, OpenSlots(work.uid, work.shares[0].template, (0,)))
    bench.place(work, SlotPlacement(0, node))
    assert bench.slot().epoch > first


def test_a_report_about_an_older_epoch_is_stale() -> None:
    from holdfast.core.region.commands import Move, MoveSlot

    bench = RegionBench()
    bench.a_scheduler()
    node = bench.a_node()
    bench.a_grant()
    work = bench.a_workload(count=2)
    bench.place(work, SlotPlacement(0, node))
    old = bench.slot().epoch
    bench.move("agent/n1", Phase.RELEASED, "declined")
    bench.place(work, SlotPlacement(0, node))
    late = Move((MoveSlot((1, 0), old, Phase.STARTING, "started"),))
    assert bench.refuse("agent/n1", late).code is Code.STALE
