"""A leader killed with SIGKILL under load, again and again, on SQLite.

What was acknowledged is recorded outside the process. After each life the store is opened and read: every acknowledged
command is in the log exactly once and at the revision it was told, no command is there twice, the chain is whole, and
the fold of the log keeps every invariant.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.core.ledger.commit.draft import fold
from holdfast.core.ledger.revision import pack_revision
from holdfast.core.ledger.state.invariants import check
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from holdfast.stores.sqlite.store import SqliteStore

CHECKOUT = Path(__file__).parents[2]


class Ward:
    """Kills lives and reads what they left."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.chance = random.Random(seed)
        self.state = RegionState()
        self.seen: dict[tuple[int, int], int] = {}
        self.acked = 0
        self.in_flight = 0

    def one_life(self, number: int, by: signal.Signals = signal.SIGKILL) -> dict[tuple[int, int], int]:
        """Let a server live for a moment and end it just after an append began; what it had acknowledged."""
        command = [sys.executable, "-m", "tests.support.processes.killable_server", str(self.folder), str(number)]
        with subprocess.Popen(
            command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        ) as child:
            assert child.stdout is not None
            said = self._listen(child.stdout.fileno(), kill=lambda: child.send_signal(by))
            child.wait(timeout=100)
            assert child.returncode in (-by, 130), (child.returncode, child.stderr and child.stderr.read())
        appends = [line for line in said if line[0] in ("begin", "end")]
        self.in_flight += appends[-1][0] == "begin"
        return {(int(w[1]), int(w[2])): int(w[3]) for w in said if w[0] == "ack"}

    def _listen(self, pipe: int, kill: Callable[[], None]) -> list[list[str]]:
        """Everything it said, the end of the pipe included; after some acknowledgements it is killed in an append."""
        after_acks, pause = self.chance.randrange(20, 400), self.chance.random() * 0.0006
        text, killed = b"", False
        while piece := os.read(pipe, 1 << 16):
            text += piece
            if not killed and text.count(b"\nack") >= after_acks and _is_writing(text):
                time.sleep(pause)
                kill()
                killed = True
        assert killed, f"it ended by itself: {text[-500:]!r}"
        return [line.split() for line in text.decode().splitlines(keepends=True) if line.endswith("\n")]

    async def check(self, acked: dict[tuple[int, int], int]) -> None:
        """Read on from where the last life was read to."""
        store = await SqliteStore.open(self.folder)
        try:
            head = await store.head()
            while self.state.info.seq < head.seq:
                for stored in await store.read(self.state.info.seq + 1):
                    batch = REGION.batches.read(stored.raw, self.state.info.digest, stored.digest)
                    position = pack_revision(batch.header.seq)
                    for record in batch.records:
                        if record.session:
                            command = (record.session, record.sequence)
                            assert command not in self.seen, f"{command} is in the log twice"
                            self.seen[command] = position
                        position += len(record.events)
                    fold(REGION, self.state, batch)
            assert self.state.info.digest == head.digest
        finally:
            await store.close()
        for command, told in acked.items():
            assert self.seen.get(command) == told, f"{command} was acknowledged at {told}"
        self.acked += len(acked)


def _is_writing(text: bytes) -> bool:
    return text.rfind(b"begin") > text.rfind(b"end")


def kill(folder: Path, times: int, seed: int) -> Ward:
    """So many lives, each checked."""
    ward = Ward(folder / "ledger", seed)
    for number in range(1, times + 1):
        acked = ward.one_life(number)
        assert acked
        asyncio.run(ward.check(acked))
    assert check(ward.state, REGION.invariants) == []
    return ward


def test_what_a_killed_leader_acknowledged_is_in_the_log_exactly_once(tmp_path: Path) -> None:
    ward = kill(tmp_path, times=4, seed=1)
    assert ward.acked >= 4 * 20


@pytest.mark.soak
def test_a_hundred_and_fifty_kills_lose_nothing_acknowledged_and_write_nothing_twice(tmp_path: Path) -> None:
    ward = kill(tmp_path, times=150, seed=2)
    print(f"\n150 kills, {ward.in_flight} in an append, {ward.acked} acknowledged, {ward.state.info.seq} batches")
    assert ward.in_flight >= 100


def test_a_leader_that_is_interrupted_answers_what_it_was_writing_and_ends_in_good_order(tmp_path: Path) -> None:
    ward = Ward(tmp_path / "ledger", seed=3)
    for number in (1, 2):
        acked = ward.one_life(number, signal.SIGINT)
        asyncio.run(ward.check(acked))
    assert ward.in_flight == 0, "an append that had begun was seen to its end"
