"""Levels: what a later one adds is neither written, digested nor seen below it, and lowering loses nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, ClassVar

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Accepted, Code, Refused
from holdfast.core.ledger.builtin.log import LogStarted, RaiseLevel, StartLog, StartTerm, TermStarted
from holdfast.core.ledger.codec import BatchReader, UpgradeNeeded, body_digest, encode
from holdfast.core.ledger.commit.draft import BatchDraft, Committed, fold
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.levels import AboveLevel, at_level, form, is_of_the_first, members, plainest, since
from holdfast.core.ledger.state.chunks import chunk_steps, state_digest
from holdfast.core.ledger.state.columns import PageCodec
from holdfast.core.ledger.state.snapshot import decode_manifest, encode_manifest
from holdfast.core.ledger.state.table import Table, TableSpec
from holdfast.core.model.objects.isolation import Isolation
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.structs import Document, Row
from holdfast.core.region.commands import SlotPlacement
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from tests.support.ledgers.region import ROOT, T0, RegionBench
from tests.support.ledgers.snapshots import a_snapshot, restored


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


since(Colour.BLUE, 2)


class Inner(Row, frozen=True):
    number: int
    machine: str = ""

    ADDED: ClassVar[Mapping[str, int]] = {"machine": 2}


def doubled(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(2 * number for number in numbers)


class Outer(Row, frozen=True, tag="outer"):
    inner: Inner
    several: tuple[Inner, ...] = ()
    numbers: tuple[int, ...] = ()
    colour: Colour = Colour.RED
    note: str = ""

    ADDED: ClassVar[Mapping[str, int]] = {"note": 2}
    LOWERED: ClassVar[Mapping[str, Callable[[Any], Any]]] = {"numbers": doubled}


class Written(Document, frozen=True):
    inner: Inner
    size: int = 300
    note: str = "none"

    ADDED: ClassVar[Mapping[str, int]] = {"note": 2}


class Late(Row, frozen=True, tag="late"):
    SINCE: ClassVar[int] = 2


OUTER = Outer(Inner(1, "a"), (Inner(2, "b"),), (1, 2), Colour.RED, "hello")


def test_what_evolve_may_see_below_a_level_has_the_defaults_of_what_was_added() -> None:
    assert at_level(OUTER, 1) == Outer(Inner(1), (Inner(2),), (1, 2))
    assert at_level(OUTER, 2) is OUTER
    assert at_level(Written(inner=Inner(1, "a"), note="x"), 1) == Written(inner=Inner(1))


def test_what_is_written_below_a_level_is_what_that_level_wrote() -> None:
    assert encode(form(OUTER, 1)) == encode(["outer", [1], [[2]], [2, 4], "red"])
    assert encode(form(OUTER, 2)) == encode(OUTER)
    assert encode(form(Written(inner=Inner(1, "a"), note="x"), 1)) == encode({"inner": [1]})
    assert encode(form(Written(inner=Inner(1, "a"), size=1), 1)) == encode({"inner": [1], "size": 1})


def test_what_did_not_change_is_written_as_it_is() -> None:
    settings = RegionBench().state.info.settings
    assert form(settings, 1) is settings
    assert at_level(settings, 1) is settings


def test_what_no_level_has_added_to_is_known_by_its_type() -> None:
    assert is_of_the_first(Resources)
    assert not any(is_of_the_first(one) for one in (Outer, Inner, Written, Late, Colour, tuple[int, Outer], Any))


def test_what_is_new_as_a_whole_cannot_be_lowered() -> None:
    with pytest.raises(AboveLevel, match="Late is of level 2"):
        at_level((OUTER, Late()), 1)
    with pytest.raises(AboveLevel, match="blue is of level 2"):
        at_level(replace(OUTER, colour=Colour.BLUE), 1)
    assert members(Colour, 1) == (Colour.RED,)
    assert members(Colour, 2) == tuple(Colour)


def test_a_word_of_a_later_level_is_not_lost_with_the_field_that_holds_it() -> None:
    assert at_level(Template(), 1) == Template()
    with pytest.raises(AboveLevel, match="strict is of level 2"):
        at_level((Template(isolation=Isolation.STRICT),), 1)


def test_a_document_is_named_as_before_where_what_was_added_says_nothing() -> None:
    plain = Template(command=("run",))
    assert plainest(plain) is plain
    assert encode(plain) == encode(form(at_level(plain, 1), 1))
    written = Written(inner=Inner(1), size=1)
    assert encode(plainest(written)) == encode(form(at_level(written, 1), 1))


def test_fields_that_were_added_come_last_and_have_a_default() -> None:
    class Between(Row, frozen=True):
        new: int = 0
        old: int = 0

        ADDED: ClassVar[Mapping[str, int]] = {"new": 2}

    class Bare(Row, frozen=True):
        new: int

        ADDED: ClassVar[Mapping[str, int]] = {"new": 2}

    with pytest.raises(AssertionError, match="not last"):
        form(Between(), 1)
    with pytest.raises(AssertionError, match="without a default"):
        form(Bare(1), 1)


def test_a_key_is_bound_to_the_same_body_before_and_after_its_command_got_a_field() -> None:
    class Before(Row, frozen=True, tag="outer"):
        inner: tuple[int]
        several: tuple[tuple[int], ...] = ()
        numbers: tuple[int, ...] = ()
        colour: str = "red"

    def body(command: Row) -> bytes:
        return body_digest(Envelope("person/ops", command, 0))

    assert body(Outer(Inner(1))) == body(Before((1,)))
    assert len({body(Outer(Inner(1), note=note)) for note in ("", "a", "b")}) == 3
    assert len({body(Outer(Inner(1), colour=colour)) for colour in Colour}) == 2


@pytest.mark.parametrize("level", [1, 2])
def test_a_page_holds_the_columns_of_its_level_and_is_read_at_any(level: int) -> None:
    pages = PageCodec(int, Inner)
    rows = {1: Inner(7, "a"), 2: Inner(8, "b")}
    page = pages.write(0, [1, 2], rows, level)
    assert len(msgspec.msgpack.decode(page)) == 2 + 1 + level
    _, found = pages.read(msgspec.msgpack.decode(page, type=pages.type), {})
    assert found == {key: at_level(row, level) for key, row in rows.items()}


class WithLate(RegionState):
    TABLES: ClassVar[tuple[TableSpec, ...]] = (*RegionState.TABLES, TableSpec("late", int, Inner, since=2))
    late: Table[int, Inner]


def test_a_table_that_a_level_added_is_not_written_below_it_and_must_be_empty() -> None:
    state = WithLate()
    assert state.info.level == 1
    assert state_digest(state) == state_digest(RegionState())
    state.late.put(1, Inner(1))
    with pytest.raises(AssertionError, match="late has rows in a log of level 1"):
        list(chunk_steps(state))


# Whole ledgers


def a_story(bench: RegionBench) -> RegionBench:
    bench.a_scheduler()
    node = bench.a_node()
    bench.a_grant()
    bench.place(bench.a_workload(count=2), SlotPlacement(0, node))
    bench.walk(Phase.SERVING)
    return bench


def test_a_log_begins_at_the_level_of_the_server_that_starts_it() -> None:
    for level in (1, 2):
        bench = RegionBench(level=level)
        assert bench.state.info.level == level
        batches = [REGION.batches.header(raw).level for raw, _ in bench.log]
        assert set(batches) == {level}
    first: BatchReader[LogStarted | TermStarted] = BatchReader(LogStarted | TermStarted, 1)
    raw, digest = RegionBench(level=1).log[0]
    assert [event.level for event in first.read(raw, b"", digest).records[0].events] == [1]


def test_a_record_is_written_as_the_level_of_its_log_has_it() -> None:
    for level in (1, 2):
        bench = a_story(RegionBench(level=level))
        differ, previous = 0, b""
        for raw, digest in bench.log:
            records = bench.book.batches.read(raw, previous, digest).records
            previous = digest
            for record in records:
                differ += encode(form(record, level)) != encode(record)
                assert encode(form(record, level)) in raw
        assert differ > 0


def test_a_level_is_raised_in_a_log_and_both_sides_of_it_are_replayed_and_restored() -> None:
    bench = a_story(RegionBench(level=1))
    before = state_digest(bench.state)
    bench.book = REGION
    bench.accept("ledger", RaiseLevel(2))
    assert bench.state.info.level == 2
    assert state_digest(bench.state) != before
    bench.a_node("n2")
    assert state_digest(bench.replay()) == state_digest(bench.state)
    assert state_digest(restored(bench.state, RegionState())) == state_digest(bench.state)


def test_a_server_one_level_behind_follows_until_the_level_is_raised() -> None:
    bench = a_story(RegionBench(level=1))
    old, state = REGION.of_level(1), RegionState()
    bench.book = REGION
    bench.a_node("n2")  # a newer leader writes what the log's level says
    for raw, digest in bench.log:
        fold(old, state, old.batches.read(raw, state.info.digest, digest))
    assert state_digest(state) == state_digest(bench.state)
    bench.accept("ledger", RaiseLevel(2))
    raw, digest = bench.log[-1]
    with pytest.raises(UpgradeNeeded, match="is of level 2; this version reads 1"):
        old.batches.read(raw, state.info.digest, digest)


def test_a_server_one_level_behind_neither_raises_a_level_nor_stands_above_its_own() -> None:
    bench = RegionBench(level=1)
    assert bench.refuse("ledger", RaiseLevel(2)).code is Code.CONTRADICTORY
    assert bench.refuse("ledger", StartTerm(2, "server-2", 2)).code is Code.CONTRADICTORY
    newer = RegionBench(level=2)
    newer.book = REGION.of_level(1)
    assert newer.refuse("ledger", StartTerm(2, "server-2", 1)).code is Code.CONTRADICTORY


def test_a_manifest_above_the_level_of_a_server_needs_an_upgrade() -> None:
    manifest, _ = a_snapshot(RegionBench(level=2).state)
    with pytest.raises(UpgradeNeeded, match="level 2"):
        decode_manifest(encode_manifest(manifest), 1)
    manifest, _ = a_snapshot(RegionBench(level=1).state)
    assert decode_manifest(encode_manifest(manifest), 1) == manifest


def test_an_event_that_a_level_added_is_refused_below_it_and_changes_nothing() -> None:
    state = RegionBench(level=1).state
    rule = REGION.rules[RaiseLevel]
    late = replace(rule, handler=lambda _state, _command, _case: Accepted((Late(),)))
    definition = replace(REGION, rules={**REGION.rules, RaiseLevel: late})
    draft = BatchDraft(definition, state)
    answer = draft.add(Envelope("ledger", RaiseLevel(2), T0), T0)
    assert isinstance(answer, Refused)
    assert (answer.code, answer.facts) == (Code.LEVEL, {"level": 1, "needs": 2})
    assert not len(draft)


def test_the_first_operator_has_the_rights_that_its_log_knows() -> None:
    draft = BatchDraft(REGION, RegionState())
    answer = draft.add(Envelope("ledger", StartLog("log", "region/eu", ROOT), T0), T0)
    assert isinstance(answer, Committed)
    assert draft.state.principals[ROOT].spec.rights == members(type(draft.state.principals[ROOT].spec.rights[0]), 2)
