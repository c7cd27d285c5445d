"""Derived tables, snapshots and replay: one state, however it was built."""

import pytest

from holdfast.core.ledger.codec import Corrupt
from holdfast.core.ledger.state.chunks import state_digest
from holdfast.core.ledger.state.snapshot import restore
from holdfast.core.model.records.grants import charge_key
from holdfast.core.platform.state.tables import PlatformState
from tests.support.ledgers.platform import a_full_platform, a_workload
from tests.support.ledgers.snapshots import a_snapshot, restored


def same_tables(left: PlatformState, right: PlatformState) -> None:
    for spec in PlatformState.TABLES:
        assert left.table(spec.name).items() == right.table(spec.name).items(), spec.name


def test_a_replay_of_the_log_gives_the_same_state() -> None:
    bench = a_full_platform()
    replayed = bench.replayed()
    same_tables(replayed, bench.state)
    assert replayed.info == bench.state.info
    assert state_digest(replayed) == state_digest(bench.state)


def test_a_restored_snapshot_is_the_same_state_with_its_derived_tables() -> None:
    bench = a_full_platform()
    same_tables(restored(bench.state, PlatformState()), bench.state)


def test_a_snapshot_with_a_changed_row_is_corrupt() -> None:
    bench = a_full_platform()
    manifest, chunks = a_snapshot(bench.state)
    changed = [chunk.replace(b"log-us2", b"log-us3") for chunk in chunks]
    assert changed != chunks
    with pytest.raises(Corrupt):
        restore(PlatformState(), manifest, changed)


def test_the_full_platform_has_a_row_in_every_table() -> None:
    """So that the tests above leave no table out."""
    state = a_full_platform().state
    assert [spec.name for spec in PlatformState.TABLES if not len(state.table(spec.name))] == []


def test_a_fork_does_not_see_what_happens_later() -> None:
    bench = a_full_platform()
    before = state_digest(bench.state)
    fork = bench.state.fork()
    bench.put(a_workload("later"))
    assert state_digest(fork) == before


def test_a_quota_is_charged_over_all_regions_and_a_recovery_budget_in_each() -> None:
    assert charge_key("quota/acme", "eu") == charge_key("quota/acme", "us")
    assert charge_key("recovery/reserve", "eu") != charge_key("recovery/reserve", "us")
