"""The state's digest."""

from __future__ import annotations

import subprocess
import sys

import pytest

from holdfast.core.ledger.state.chunks import chunk_steps, digest_of_chunks, digest_steps, state_digest
from holdfast.core.ledger.state.table import MANY, SOME
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.region.commands import SlotPlacement
from tests.support.ledgers.region import RegionBench


def a_busy_region() -> RegionBench:
    bench = RegionBench()
    bench.a_scheduler()
    nodes = [bench.a_node(f"n{number}", zone="abc"[number % 3]) for number in range(6)]
    bench.a_grant()
    work = bench.a_workload(count=12)
    bench.place(work, *(SlotPlacement(ordinal, nodes[ordinal % 6]) for ordinal in range(10)))
    bench.walk(Phase.SERVING)
    return bench


def test_replay_gives_an_equal_state_and_digest() -> None:
    bench = a_busy_region()
    replayed = bench.replay()
    assert state_digest(replayed) == state_digest(bench.state)
    assert replayed.info == bench.state.info
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
        "from tests.core.ledger.state.test_chunks import a_busy_region\n"
        "from holdfast.core.ledger.state.chunks import state_digest\n"
        "bench = a_busy_region()\n"
        "print(bench.log[-1][1].hex(), state_digest(bench.state).hex())\n"
    )
    environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    bench = a_busy_region()
    assert done.stdout.split() == [bench.log[-1][1].hex(), state_digest(bench.state).hex()]


def test_the_hash_that_chooses_shards_is_part_of_the_format() -> None:
    """If this fails, this Python puts the same rows in other shards: its states read well, and have other digests."""
    assert hash((41 << 20 | 3, 7)) % MANY == 3320
    assert hash(41 << 20 | 3) % SOME == 461


def test_the_digest_is_that_of_the_names_of_the_chunks() -> None:
    state = a_busy_region().state
    names = [name for name in digest_steps(state) if name is not None]
    assert names == [chunk.name for chunk in chunk_steps(state) if chunk is not None]
    assert digest_of_chunks(names) == state_digest(state)
    assert digest_of_chunks(reversed(names)) != state_digest(state)
