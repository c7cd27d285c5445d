"""When something is due: a snapshot by the log since the last one, and trouble by how long a store has not answered."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.host.leader.append import AppendTask, BatchRejected, BatchUnknown
from holdfast.host.leader.group_commit import GroupCommit
from holdfast.host.storage.snapshots import PRESSED_BYTES, SnapshotPolicy, Snapshotter


class Log:
    """A log of so many bytes and batches, which is all that is asked of what is durable."""

    def __init__(self, log_bytes: int, seq: int) -> None:
        self.log_bytes = log_bytes
        self.state = SimpleNamespace(info=SimpleNamespace(seq=seq))


def snapshots(log: Any, policy: SnapshotPolicy, *, size_bytes: int = 50) -> Snapshotter[Any]:
    """The newest is of batch 10, and 30 bytes of log came after it."""
    nothing: Any = None
    found: Snapshotter[Any] = Snapshotter(log, nothing, nothing, nothing, nothing, policy)
    found.begin_from(10, size_bytes, 30)
    return found


@pytest.mark.parametrize(
    ("size_bytes", "more", "is_due"), [(50, 69, False), (50, 70, True), (150, 119, False), (150, 120, True)]
)
def test_a_snapshot_is_due_when_as_much_log_came_as_is_wanted_or_as_the_last_one_had(
    size_bytes: int, more: int, is_due: bool
) -> None:
    log = Log(1_000, 10)
    found = snapshots(log, SnapshotPolicy(log_bytes=100, log_batches=1_000), size_bytes=size_bytes)
    log.log_bytes += more
    assert found.is_due() is is_due


@pytest.mark.parametrize(("seq", "is_due"), [(19, False), (20, True)])
def test_a_snapshot_is_due_after_so_many_batches(seq: int, is_due: bool) -> None:
    assert snapshots(Log(1_000, seq), SnapshotPolicy(log_batches=10)).is_due() is is_due


def test_where_room_is_short_a_snapshot_is_due_earlier() -> None:
    log = Log(1_000, 10)
    found = snapshots(log, SnapshotPolicy(log_bytes=10 * PRESSED_BYTES))
    log.log_bytes += PRESSED_BYTES
    assert not found.is_due()
    found.has_pressure = True
    assert found.is_due()


@pytest.mark.parametrize(
    ("trouble", "since", "is_stuck"), [("", 500, False), ("", 501, True), ("timed out", 0, True), (None, 501, False)]
)
def test_a_store_is_stuck_when_it_did_not_answer_for_longer_than_that_or_not_plainly(
    trouble: str | None, since: int, is_stuck: bool
) -> None:
    commits: Any = GroupCommit.__new__(GroupCommit)
    commits._term = SimpleNamespace(clock=SimpleNamespace(boot=lambda: 10_000 + since))
    commits._append = None if trouble is None else SimpleNamespace(last_error=trouble, began=10_000)
    assert commits.is_stuck(500) is is_stuck


@pytest.mark.parametrize(("now", "pressed", "trims"), [(99, True, 0), (100, True, 1), (101, True, 1), (101, False, 0)])
def test_a_store_whose_room_is_short_is_trimmed_from_the_time_on_that_was_set(
    now: int, pressed: bool, trims: int
) -> None:
    found: Any = snapshots(Log(1_000, 10), SnapshotPolicy())
    found._clock = SimpleNamespace(boot=lambda: now)
    found.has_pressure, found._trim_at = pressed, 100
    trimmed = []

    async def trim() -> bool:
        trimmed.append(now)
        return True

    found.trim = trim
    asyncio.run(found._make_room())
    assert len(trimmed) == trims
    assert found._trim_at == (0 if trims else 100), "once it is done it is not tried again"


@pytest.mark.parametrize(("seq", "is_read"), [(11, False), (12, False), (13, True)])
def test_what_lies_under_another_head_is_read_only_if_that_head_is_further(seq: int, is_read: bool) -> None:
    """Another batch in the place of ours is the end of ours, whatever else the store can or cannot tell."""
    append: Any = AppendTask.__new__(AppendTask)
    append._batch, append.began = SimpleNamespace(seq=12, digest=b"ours"), 0

    async def read(_seq: int, _count: int) -> Any:
        raise OSError("cannot be read")

    append._store = SimpleNamespace(read=read)
    settled = asyncio.run(append._judge_conflict(SimpleNamespace(seq=seq, digest=b"theirs")))
    assert isinstance(settled, BatchUnknown if is_read else BatchRejected)
