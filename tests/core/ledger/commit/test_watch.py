"""Events say by themselves what they touch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, get_args

import pytest

from holdfast.core.ledger.builtin.sessions import EndSession, OpenSession
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.platform.events import PlatformEvent
from holdfast.core.platform.watch import SHIPPED_TO_ALL
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.core.region.events import RegionEvent
from tests.support.generated.golden_logs import golden_names, read_golden
from tests.support.ledgers.region import REPLICA, SCHEDULER, RegionBench
from tests.support.ledgers.watch_keys import BOOKKEEPING, TOLD, untold

LEDGERS = [(REGION, RegionEvent), (PLATFORM, PlatformEvent)]


def last_keys(bench: RegionBench) -> set[Any]:
    """What the last batch of a bench touched."""
    raw, digest = bench.log[-1]
    batch = REGION.batches.read(raw, bench.log[-2][1], digest)
    return {key for record in batch.records for event in record.events for key in REGION.keys[type(event)](event, 1)}


@pytest.mark.parametrize(("definition", "events"), LEDGERS)
def test_every_event_has_its_keys(definition: LedgerDefinition[Any], events: Any) -> None:
    assert set(definition.keys) == set(get_args(events)) == set(definition.apply)


@pytest.mark.parametrize(("definition", "events"), LEDGERS)
def test_every_kind_has_a_sentence_and_occurs_in_a_golden_log(definition: LedgerDefinition[Any], events: Any) -> None:
    seen: Counter[str] = Counter()
    for name in golden_names():
        known, batches, _ = read_golden(name)
        previous = b""
        for raw, digest in batches if known is definition else ():
            batch = definition.batches.read(raw, previous, digest)
            previous = digest
            for record in batch.records:
                seen.update(kind for event in record.events for kind, _ in definition.keys[type(event)](event, 1))
    assert set(seen) == set(definition.kinds)
    assert all(sentence.endswith(".") for sentence in definition.kinds.values())


@pytest.mark.parametrize(("definition", "events"), LEDGERS)
def test_every_stored_table_is_told_of(definition: LedgerDefinition[Any], events: Any) -> None:
    stored = {spec.name for spec in definition.empty().TABLES if not spec.derived}
    assert set(TOLD[definition.name]) == stored - BOOKKEEPING


@pytest.mark.parametrize("name", golden_names())
def test_every_row_that_an_event_of_a_golden_log_changes_is_told_by_its_keys(name: str) -> None:
    definition, batches, _ = read_golden(name)
    state, previous = definition.empty(), b""
    for raw, digest in batches:
        assert list(untold(definition, state, definition.batches.read(raw, previous, digest))) == []
        previous = digest


def test_a_node_is_told_of_every_step_of_a_slot_on_it() -> None:
    bench = RegionBench()
    bench.a_scheduler()
    node = bench.a_node()
    bench.a_grant()
    work = bench.a_workload(count=1)
    steps: tuple[Callable[[], object], ...] = (
        lambda: bench.place(work, c.SlotPlacement(0, node), bind=False),
        lambda: bench.accept(SCHEDULER, c.Bind(((1, 0),))),
        lambda: bench.move("agent/n1", Phase.STARTING, "started"),
        lambda: bench.accept(REPLICA, c.WithdrawSlots(work.uid, (0,))),
        lambda: bench.accept(REPLICA, c.Stop(((1, 0),), "scaled-down")),
        lambda: bench.move("agent/n1", Phase.RELEASED, "stopped"),
    )
    for step in steps:
        step()
        assert last_keys(bench) == {("workload", 1), ("node", node)}


def test_a_slot_that_stands_nowhere_is_told_under_its_workload_alone() -> None:
    bench = RegionBench()
    work = bench.a_workload(count=1)
    assert last_keys(bench) == {("workload", 1)}
    bench.accept(REPLICA, c.WithdrawSlots(work.uid, (0,)))
    assert last_keys(bench) == {("workload", 1)}


@pytest.mark.parametrize("how", ["ended", "superseded"])
def test_a_node_is_told_of_the_end_of_its_agents_session(how: str) -> None:
    bench = RegionBench()
    node = bench.a_node()
    session = bench.sessions["agent/n1"]
    if how == "ended":
        bench.accept("controller/node-health", EndSession(session, "silent"))
    else:
        bench.accept("agent/n1", OpenSession())
    assert {("session", session), ("principal", "agent/n1"), ("node", node)} <= last_keys(bench)
    assert bench.state.nodes[node].session == 0
    assert bench.state.nodes[node].session_ended == bench.at


def test_what_every_region_gets_a_copy_of_is_a_kind_of_the_platform() -> None:
    assert set(SHIPPED_TO_ALL) <= set(PLATFORM.kinds)
