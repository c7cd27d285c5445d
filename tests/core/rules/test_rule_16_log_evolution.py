"""RULES 16: the log evolves in the open: golden logs, levels, and an old reader that stops."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.log import RaiseLevel, RecordDigest, StartTerm
from holdfast.core.ledger.codec import encode, encode_batch
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.draft import fold
from holdfast.core.ledger.levels import LEVEL, at_level, form
from holdfast.core.ledger.state.chunks import state_digest
from holdfast.core.ledger.state.invariants import check
from tests.support.generated.golden_logs import GOLDEN, golden_names, level_of, read_golden, recorded_now
from tests.support.generated.log_schema import held, written_at
from tests.support.ledgers.region import RegionBench


@pytest.mark.parametrize("name", golden_names())
def test_a_golden_log_folds_to_its_golden_digest(name: str) -> None:
    definition, batches, expected = read_golden(name)
    state = definition.empty()
    previous = b""
    for raw, digest in batches:
        fold(definition, state, definition.batches.read(raw, previous, digest))
        previous = digest
    assert state_digest(state).hex() == expected
    assert check(state, definition.invariants) == []


@pytest.mark.parametrize("ledger", ["region", "platform"])
def test_the_same_commands_still_give_the_bytes_of_the_newest_golden_log(ledger: str) -> None:
    """If this fails the bytes of an event or its decision changed: add a golden log, never change an old one."""
    newest = [name for name in golden_names() if name.startswith(ledger)][-1]
    _, batches, _ = read_golden(newest)
    recorded = recorded_now(ledger, level_of(newest))
    assert [digest.hex() for _, digest in recorded] == [digest.hex() for _, digest in batches]


@pytest.mark.parametrize("name", golden_names())
def test_a_golden_log_is_written_again_byte_for_byte_at_its_level(name: str) -> None:
    """What later levels have added to events is not in what is written for servers that do not know it."""
    definition, batches, _ = read_golden(name)
    previous = b""
    for raw, digest in batches:
        batch = definition.batches.read(raw, previous, digest)
        records = [encode(form(record, batch.header.level)) for record in batch.records]
        assert encode_batch(batch.header, records, definition.batches.evidence(raw)) == raw
        assert all(at_level(record, batch.header.level) == record for record in batch.records)
        previous = digest


@pytest.mark.parametrize("level", [1, 2])
def test_a_level_holds_what_it_always_did_and_nothing_that_was_added_since(level: int) -> None:
    """If this fails something is written for servers that cannot read it: name its level where it is declared."""
    assert written_at(level) == held(level)


def tag_of(event: Any) -> str:
    return str(event.__struct_config__.tag)


def test_golden_logs_cover_every_event() -> None:
    seen: dict[str, set[str]] = {}
    books: dict[str, LedgerDefinition[Any]] = {}
    for name in golden_names():
        definition, batches, _ = read_golden(name)
        books[definition.name] = definition
        previous = b""
        for raw, digest in batches:
            batch = definition.batches.read(raw, previous, digest)
            previous = digest
            tags = {tag_of(type(event)) for record in batch.records for event in record.events}
            seen.setdefault(definition.name, set()).update(tags)
    for name, definition in books.items():
        newest = max(level_of(one) for one in golden_names() if one.startswith(name))
        known = {tag_of(event) for event in definition.apply if newest >= getattr(event, "SINCE", 1)}
        # A log begins at its level; what is written below it and above it is told apart in `test_levels`.
        assert known - seen[name] <= {"level-raised"}, name


def test_levels_only_rise_and_never_above_what_this_writer_knows() -> None:
    bench = RegionBench()
    assert bench.refuse("ledger", RaiseLevel(LEVEL)).code is Code.ALREADY
    assert bench.refuse("ledger", RaiseLevel(LEVEL + 1)).code is Code.CONTRADICTORY
    assert bench.refuse("ledger", StartTerm(1, "server-2")).code is Code.STALE
    assert bench.refuse("ledger", StartTerm(2, "server-2", LEVEL + 1)).code is Code.CONTRADICTORY


def test_a_digest_is_recorded_only_of_a_batch_that_is_in_the_log() -> None:
    bench = RegionBench()
    digest = state_digest(bench.state)
    bench.accept("ledger", RecordDigest(bench.state.info.seq, digest))
    assert bench.refuse("ledger", RecordDigest(bench.state.info.seq + 5, digest)).code is Code.STALE


def test_golden_files_are_there() -> None:
    assert GOLDEN.is_dir()
    assert len(golden_names()) >= 2
