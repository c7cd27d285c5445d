"""The state's digest and snapshots."""

from __future__ import annotations

import subprocess
import sys

import pytest

from holdfast.core.ledger.codec import Corrupt
from holdfast.core.ledger.digest import restore, snapshot, state_digest
from holdfast.core.ledger.invariants import check
from holdfast.core.model.lifecycle import Phase
from holdfast.core.region.book import REGION
from holdfast.core.region.commands import Placement
from holdfast.core.region.state import RegionState
from tests.support.region import RegionBench


def a_busy_region() -> RegionBench:
    bench = RegionBench()
    bench.a_scheduler()
    nodes = [bench.a_node(f"n{number}", zone="abc"[number % 3]) for number in range(6)]
    bench.a_grant()
    work = bench.a_workload(count=12)
    bench.place(work, *(Placement(ordinal, nodes[ordinal % 6]) for ordinal in range(10)))
    bench.walk(Phase.SERVING)
    return bench


def test_a_snapshot_restores_to_the_same_state() -> None:
    bench = a_busy_region()
    digest = state_digest(bench.state)
    restored = RegionState()
    restore(restored, snapshot(bench.state.fork()), digest)
    assert state_digest(restored) == digest
    assert check(restored, REGION.invariants) == []


def test_a_snapshot_with_a_changed_row_is_corrupt() -> None:
    bench = a_busy_region()
    digest = state_digest(bench.state)
    chunks = list(snapshot(bench.state))
    with pytest.raises(Corrupt, match="manifest says"):
        restore(RegionState(), chunks[:-1], digest)
    with pytest.raises(Corrupt):
        restore(RegionState(), [*chunks[:-1], chunks[-1][:-2]], digest)


def test_replay_gives_an_equal_state_and_digest() -> None:
    bench = a_busy_region()
    replayed = bench.replay()
    assert state_digest(replayed) == state_digest(bench.state)
    assert replayed.facts == bench.state.facts
    assert replayed.slots.items() == bench.state.slots.items()


def test_a_fork_keeps_its_digest_while_its_origin_goes_on() -> None:
    bench = a_busy_region()
    fork = bench.state.fork()
    before = state_digest(fork)
    bench.a_node("late")
    assert state_digest(fork) == before
    assert state_digest(bench.state) != before


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_log_and_digest_are_the_same_under_every_hash_seed(seed: str) -> None:
    program = (
        "from tests.core.ledger.test_digest import a_busy_region\n"
        "from holdfast.core.ledger.digest import state_digest\n"
        "bench = a_busy_region()\n"
        "print(bench.log[-1][1].hex(), state_digest(bench.state).hex())\n"
    )
    environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    bench = a_busy_region()
    assert done.stdout.split() == [bench.log[-1][1].hex(), state_digest(bench.state).hex()]
