"""How a log begins: with an id, an operator who is a person, and settings that are safe."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.log import StartLog
from holdfast.core.ledger.commit.draft import ROW_BYTES, BatchDraft, Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.region.commands import OpenSlots
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from tests.support.ledgers.region import REPLICA, ROOT, T0, RegionBench

GOOD = StartLog("log", "region/eu", ROOT)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (replace(GOOD, log_id=""), "a log needs an id and an operator"),
        (replace(GOOD, operator="agent/n1"), "a log needs an id and an operator"),
        (replace(GOOD, settings=replace(DEFAULTS, session_lease=1)), "session"),
    ],
)
def test_a_log_is_not_started_without_id_and_operator_or_with_settings_that_are_not_safe(
    command: StartLog, words: str
) -> None:
    answer = BatchDraft(REGION, RegionState()).add(Envelope("ledger", command, T0), T0)
    assert isinstance(answer, Refused)
    assert answer.code is Code.CONTRADICTORY
    assert words in answer.message


def test_a_log_is_started_once() -> None:
    draft = BatchDraft(REGION, RegionState())
    assert isinstance(draft.add(Envelope("ledger", GOOD, T0), T0), Committed)
    again = draft.add(Envelope("ledger", GOOD, T0), T0)
    assert isinstance(again, Refused)
    assert again.code is Code.EXISTS


def test_a_draft_is_as_large_as_its_records_and_the_rows_that_they_write() -> None:
    bench = RegionBench()
    work = bench.a_workload(count=3, ordinals=0)
    draft, before = BatchDraft(REGION, bench.state), 0
    for number in (1, 2):
        opened = OpenSlots(work.uid, work.shares[0].template, tuple(range(number * 100, number * 100 + 50 * number)))
        assert isinstance(draft.add(bench.envelope(REPLICA, opened), bench.at), Committed)
        assert draft.size_bytes == before + len(draft._records[-1]) + ROW_BYTES * 50 * number
        before = draft.size_bytes
