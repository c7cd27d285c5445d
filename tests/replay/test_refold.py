"""Code that folds a log differently, and runs that go another way, are found at the first event that says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.builtin.log import RecordDigest, StateDigested
from holdfast.core.ledger.builtin.overrides import OverrideOpened
from holdfast.core.ledger.codec import Header, LogRecord, chain, encode, encode_batch
from holdfast.core.ledger.commit import draft
from holdfast.core.ledger.commit.draft import BatchDraft, Committed
from holdfast.core.ledger.envelope import Envelope, Stamp
from holdfast.core.ledger.revision import format_revision, pack_revision
from holdfast.core.ledger.state.chunks import state_digest
from holdfast.core.model.values.structs import Row
from holdfast.core.region import commands as c
from holdfast.core.region import events as e
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.evolve import APPLY
from holdfast.core.region.state.tables import RegionState
from holdfast.host.storage import digests
from holdfast.replay import recording as r
from holdfast.replay.compare import compare
from holdfast.replay.divergence import Divergence, DivergenceKind, earliest
from holdfast.replay.effects import EFFECT_BYTES
from holdfast.replay.refold import refold
from holdfast.sim.runs.run import record_run
from holdfast.sim.scenario import parse
from tests.replay.test_recording import RUN, Log, a_trimmed_recording, recorded
from tests.support.event_loop import run
from tests.support.generated.golden_logs import region_story
from tests.support.generated.golden_platform import platform_story
from tests.support.hosts.ledger_world import an_override, start_log
from tests.support.ledgers.region import REPLICA, ROOT, T0, RegionBench, a_template

Place = tuple[int, str, str, str]


def of_region(log: Log) -> r.Recording:
    return r.Recording(RUN, (recorded(log),))


def places_of(log: Log, kind: type[Row]) -> list[Place]:
    """Where events of a kind are: revision, tag, command, actor."""
    found: list[Place] = []
    previous = b""
    for raw, digest in log:
        batch = REGION.batches.read(raw, previous, digest)
        position = pack_revision(batch.header.seq)
        for one in batch.records:
            for event in one.events:
                if type(event) is kind:
                    found.append((position, str(kind.__struct_config__.tag), one.command, one.actor))
                position += 1
        previous = digest
    return found


def place(found: Divergence | None) -> Place:
    assert found is not None
    return found.revision, found.event, found.command, found.actor


def a_batch_of(log: Log, *envelopes: Envelope[Any]) -> Log:
    """The log and one more batch of all these commands."""
    state, previous = RegionState(), b""
    for raw, digest in log:
        draft.fold(REGION, state, REGION.batches.read(raw, previous, digest))
        previous = digest
    under_way = BatchDraft(REGION, state)
    for envelope in envelopes:
        answer = under_way.add(envelope, max(T0, state.info.at))
        assert isinstance(answer, Committed), answer
    return [*log, under_way.seal()]


def a_log(*keys: str) -> Log:
    """A log of two batches, the second of overrides with these keys."""
    started = a_batch_of([], Envelope("ledger", start_log(), T0))
    return a_batch_of(started, *(Envelope(ROOT, an_override(T0, key), T0, key=key) for key in keys))


def without_effects(ledger: r.LedgerRecording) -> r.LedgerRecording:
    return replace(ledger, entries=tuple(replace(entry, effects=b"") for entry in ledger.entries), state=b"")


# The same code


def test_code_that_is_the_same_folds_every_event_as_it_was_recorded() -> None:
    region, platform = region_story(), platform_story()
    ledgers = recorded(region.log), recorded(platform.log, "platform", "platform"), run(a_trimmed_recording(region))
    assert refold(r.Recording(RUN, ledgers)) is None


def test_a_workload_of_many_replicas_is_recorded_with_its_effects_and_folded_again() -> None:
    """A derived row has the ordinals of a block as one integer, which is longer than 64 bits."""
    bench = RegionBench()
    bench.a_scheduler()
    node = bench.a_node(cpu=100_000, memory=1_000_000)
    bench.a_grant()
    many = bench.a_workload(a_template(cpu=10, memory=10), count=200)
    bench.place(many, *(c.SlotPlacement(ordinal, node) for ordinal in range(60, 80)))
    bench.accept(REPLICA, c.WithdrawSlots(many.uid, (100, 199)))
    recording = of_region(bench.log)
    (ledger,) = recording.ledgers
    assert ledger.state == state_digest(bench.state)
    assert all(len(entry.effects) >= EFFECT_BYTES for entry in ledger.entries)
    assert refold(recording) is None


def test_code_that_does_the_same_in_another_way_does_not_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = of_region(region_story().log)
    right = REGION.apply[e.SlotsMoved]

    def roundabout(state: RegionState, event: e.SlotsMoved, stamp: Stamp) -> None:
        for move in event.moves:
            slot = state.slots[move.slot]
            state.slots.drop(move.slot)
            state.slots.put(move.slot, slot)
        right(state, event, stamp)
        state.node_names.put("a node that never was", 1)
        state.node_names.drop("a node that never was")
        for uid, room in state.node_usage.items():
            state.node_usage.put(uid, replace(room))

    monkeypatch.setitem(APPLY, e.SlotsMoved, roundabout)
    assert refold(recording) is None


# Other code


def test_code_that_does_something_else_is_found_at_the_first_such_event(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = region_story()
    right = REGION.apply[e.SlotsMoved]

    def wrong(state: RegionState, event: e.SlotsMoved, stamp: Stamp) -> None:
        right(state, event, stamp)
        key = event.moves[0].slot
        state.slots.put(key, replace(state.slots[key], cause="because"))

    recording = of_region(bench.log)
    monkeypatch.setitem(APPLY, e.SlotsMoved, wrong)
    found = refold(recording)
    assert found is not None
    assert found.what is DivergenceKind.EFFECT_DIFFERS
    assert place(found) == places_of(bench.log, e.SlotsMoved)[0]
    assert any(line.startswith("now slots (") and "cause='because'" in line for line in found.detail)
    first = f"region/eu at {format_revision(found.revision)}: slots-moved of move by {found.actor}: effect differs"
    assert str(found).splitlines()[0] == first


def test_one_other_row_of_one_event_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = region_story()
    places = places_of(bench.log, e.SlotsMoved)
    right = REGION.apply[e.SlotsMoved]

    def wrong_once(state: RegionState, event: e.SlotsMoved, stamp: Stamp) -> None:
        right(state, event, stamp)
        if stamp.revision == places[3][0]:
            state.domain_members.put(("nobody", "asked", "for this"), 1)  # derived: the state's digest does not show it

    recording = of_region(bench.log)
    monkeypatch.setitem(APPLY, e.SlotsMoved, wrong_once)
    found = refold(recording)
    assert place(found) == places[3]
    assert found is not None
    assert "now members ('nobody', 'asked', 'for this') = 1" in found.detail


def test_an_event_in_the_middle_of_a_batch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    log = a_log("a", "b", "c")
    places = places_of(log, OverrideOpened)
    assert [format_revision(one[0]) for one in places] == ["2.0", "2.1", "2.2"]

    def forgetful(state: RegionState, event: OverrideOpened, stamp: Stamp) -> None:
        if event.override.reason != "b":
            state.overrides.put(event.override.uid, event.override)

    recording = of_region(log)
    monkeypatch.setitem(APPLY, OverrideOpened, forgetful)
    found = refold(recording)
    assert place(found) == places[1]
    assert found is not None
    assert not any("overrides" in line for line in found.detail)


def test_what_a_repeat_is_answered_is_part_of_a_commands_last_event(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = of_region(a_log("a", "b"))
    monkeypatch.setattr(draft, "remember_answer", lambda *_: None)
    found = refold(recording)
    assert found is not None
    assert (format_revision(found.revision), found.event) == ("2.0", "override-opened")


def test_a_row_of_another_type_is_another_row_even_where_both_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    def writes(row: Any) -> Any:
        def apply(state: RegionState, event: OverrideOpened, stamp: Stamp) -> None:
            state.leaving_templates.put("t", True if event.override.reason == "a" else row)

        return apply

    with monkeypatch.context() as before:
        before.setitem(APPLY, OverrideOpened, writes(True))
        recording = of_region(a_log("a", "b"))
        assert refold(recording) is None
    monkeypatch.setitem(APPLY, OverrideOpened, writes(1))
    found = refold(recording)
    assert found is not None
    assert (found.what, format_revision(found.revision)) == (DivergenceKind.EFFECT_DIFFERS, "2.1")


def test_code_that_fails_is_named_with_the_event_and_the_place_in_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = region_story()

    def fails(state: RegionState, event: e.SlotsBound, stamp: Stamp) -> None:
        raise AssertionError("a slot too many")

    recording = of_region(bench.log)
    monkeypatch.setitem(APPLY, e.SlotsBound, fails)
    found = refold(recording)
    assert found is not None
    assert found.what is DivergenceKind.CANNOT_BE_APPLIED
    assert place(found) == places_of(bench.log, e.SlotsBound)[0]
    assert found.detail[0] == "AssertionError: a slot too many"
    assert found.detail[1].startswith("in fails (test_refold.py:")


def test_an_event_that_nothing_applies_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = of_region(a_log("a"))
    monkeypatch.delitem(APPLY, OverrideOpened)
    found = refold(recording)
    assert found is not None
    assert (found.what, format_revision(found.revision)) == (DivergenceKind.CANNOT_BE_APPLIED, "2.0")


def test_what_could_not_be_folded_when_it_was_recorded_is_not_held_against_code_that_can() -> None:
    assert refold(r.Recording(RUN, (without_effects(recorded(a_log("a", "b"))),))) is None


# Other bytes


def test_an_event_that_this_version_cannot_read_is_named() -> None:
    log = a_log("a")
    header = Header("log-eu", 3, 0, 1, log[-1][1])
    known = encode(OverrideOpened(an_opened("b")))
    first = encode(LogRecord(T0, T0, ROOT, "open-override", 0, 0, 0, 0, b"", b"", ()))[:-1]
    records = [first + b"\x91" + known, first + b"\x92" + known + encode(("gate-opened", 7))]
    raw = encode_batch(header, records, [])
    ledger = recorded([*log, (raw, chain(log[-1][1], raw))])
    found = refold(r.Recording(RUN, (ledger,)))
    assert found is not None
    assert found.what is DivergenceKind.CANNOT_BE_READ
    assert (format_revision(found.revision), found.event, found.actor) == ("3.2", "gate-opened", ROOT)
    assert "gate-opened" in found.detail[0]


def an_opened(key: str) -> Any:
    """An override as it stands in the log."""
    batch = REGION.batches.read(a_log(key)[1][0], a_log(key)[0][1], a_log(key)[1][1])
    return batch.records[0].events[0].override


def test_a_batch_without_sense_is_named_as_a_whole() -> None:
    log = a_log("a")
    ledger = recorded([*log, (b"\xc1", chain(log[-1][1], b"\xc1"))])
    found = refold(r.Recording(RUN, (ledger,)))
    assert found is not None
    assert (found.what, format_revision(found.revision), found.event) == (DivergenceKind.CANNOT_BE_READ, "3.0", "")


def test_a_broken_chain_is_found_at_its_batch() -> None:
    log = region_story().log
    ledger = recorded([*log[:5], *log[6:]])
    found = refold(r.Recording(RUN, (ledger,)))
    assert found is not None
    assert (found.what, found.seq) == (DivergenceKind.CHAIN_BROKEN, 6)


def test_another_state_at_the_end_is_found() -> None:
    ledger = replace(recorded(a_log("a")), state=b"\1" * 32)
    found = refold(r.Recording(RUN, (ledger,)))
    assert found is not None
    assert (found.what, found.seq) == (DivergenceKind.STATE_DIFFERS, 2)
    assert found.detail[0] == f"it was {'01' * 32}"


def test_a_snapshot_that_cannot_be_read_is_named() -> None:
    ledger = run(a_trimmed_recording(region_story()))
    assert ledger.start is not None
    missing = replace(ledger, start=replace(ledger.start, chunks=ledger.start.chunks[:-1]))
    found = refold(r.Recording(RUN, (missing,)))
    assert found is not None
    assert (found.what, found.detail[0]) == (DivergenceKind.CANNOT_BE_READ, "its snapshot:")


@pytest.mark.parametrize("right", [True, False])
def test_a_digest_that_the_servers_put_into_the_log_is_compared(monkeypatch: pytest.MonkeyPatch, right: bool) -> None:
    monkeypatch.setattr(digests, "EVERY_BATCHES", 10)
    bench = RegionBench()
    while bench.state.info.seq < 10:
        bench.a_node(f"n{len(bench.log)}")
    while bench.state.info.seq % 10:
        bench.a_grant()
    seq, digest = bench.state.info.seq, state_digest(bench.state)
    bench.a_grant(version=2)
    bench.accept("ledger", RecordDigest(seq, digest if right else b"\2" * 32))
    found = refold(of_region(bench.log))
    if right:
        assert found is None
    else:
        assert found is not None
        assert found.what is DivergenceKind.LOGGED_DIGEST_DIFFERS
        assert place(found) == places_of(bench.log, StateDigested)[0]


# Two runs


def test_two_recordings_of_one_run_are_alike() -> None:
    assert compare(of_region(a_log("a", "b")), of_region(a_log("a", "b"))) is None


def test_the_first_event_in_which_two_runs_differ_is_named_with_both_sides() -> None:
    found = compare(of_region(a_log("a", "b", "c")), of_region(a_log("a", "x", "c")))
    assert found is not None
    assert (found.what, format_revision(found.revision), found.command) == (
        DivergenceKind.LOG_DIFFERS,
        "2.1",
        "open-override",
    )
    assert [line.partition(":")[0] for line in found.detail][-3:] == ["event", "recorded", "now"]
    assert "reason='b'" in found.detail[-2]
    assert "reason='x'" in found.detail[-1]


def test_a_command_that_only_one_run_has_is_named() -> None:
    found = compare(of_region(a_log("a", "b")), of_region(a_log("a")), ("here", "there"))
    assert found is not None
    assert (format_revision(found.revision), found.detail) == ("2.1", ("this command is present only in: here",))


def test_a_log_that_goes_on_in_one_run_only_is_named() -> None:
    log = a_log("a")
    longer = a_batch_of(log, Envelope(ROOT, an_override(T0, "b"), T0, key="b"))
    found = compare(of_region(log), of_region(longer))
    assert found is not None
    assert (format_revision(found.revision), found.event) == ("3.0", "override-opened")
    assert found.detail == ("the log continues only in: now",)


def test_evidence_that_differs_is_named() -> None:
    log = a_log()
    one, other = (
        a_batch_of(log, Envelope(ROOT, an_override(T0, "b"), T0, key="b", evidence=text)) for text in (b"i", b"you")
    )
    found = compare(of_region(one), of_region(other))
    assert found is not None
    assert found.seq == 3
    assert found.detail[0] == "only in the evidence of its records:"


def test_an_event_that_did_something_else_in_the_other_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    log = a_log("a", "b")
    before = of_region(log)

    def forgetful(state: RegionState, event: OverrideOpened, stamp: Stamp) -> None:
        if event.override.reason == "a":
            state.overrides.put(event.override.uid, event.override)

    with monkeypatch.context() as patched:
        patched.setitem(APPLY, OverrideOpened, forgetful)
        after = of_region(log)
        now = compare(before, after)
    later = compare(before, after)
    for found in (now, later):
        assert found is not None
        assert (found.what, format_revision(found.revision)) == (DivergenceKind.EFFECT_DIFFERS, "2.1")


def test_runs_of_other_seeds_are_not_compared() -> None:
    ledgers = (recorded(a_log("a")),)
    found = compare(r.Recording(RUN, ledgers), r.Recording(replace(RUN, seed=8), ledgers))
    assert found is not None
    assert found.what is DivergenceKind.MADE_OTHERWISE
    assert found.detail == ("recorded: seed 7 of quiet", "now: seed 8 of quiet")
    found = compare(r.Recording(RUN, ledgers), r.Recording(replace(RUN, text=RUN.text + "then a crash\n"), ledgers))
    assert found is not None
    assert found.detail == (
        "line 2 of the scenario quiet differs:", "recorded: its end", "now: then a crash",
    )  # fmt: skip


def test_a_batch_that_follows_another_past_on_one_side_is_named() -> None:
    log = region_story().log
    found = compare(of_region(log), of_region([*log[:5], *log[6:]]))
    assert found is not None
    assert (found.what, found.seq) == (DivergenceKind.LOG_DIFFERS, 6)
    assert "follows" in found.detail[1] or "digest" in found.detail[1]


def test_a_ledger_that_only_one_run_has_and_one_that_begins_elsewhere_are_named() -> None:
    bench = region_story()
    ledger, trimmed = recorded(bench.log), run(a_trimmed_recording(bench))
    found = compare(r.Recording(RUN, (ledger, trimmed)), r.Recording(RUN, (ledger,)))
    assert found is not None
    assert (found.ledger, found.detail) == ("region/trimmed", ("this ledger is present only in: recorded",))
    found = compare(r.Recording(RUN, (ledger,)), r.Recording(RUN, (replace(trimmed, name="region/eu"),)))
    assert found is not None
    assert "from the snapshot after batch 20" in found.detail[1]


def test_of_several_ledgers_the_one_that_differs_first_in_time_is_told() -> None:
    late, soon = (
        Divergence(ledger=name, what=DivergenceKind.LOG_DIFFERS, detail=(), at=at) for name, at in (("a", 9), ("b", 3))
    )
    never = Divergence(ledger="c", what=DivergenceKind.LOG_DIFFERS, detail=())
    assert earliest([None, never, late, soon]) is soon
    assert earliest([None, never]) is never
    assert earliest([None]) is None


def test_a_seed_gives_one_recording_and_another_seed_another() -> None:
    text = Path("scenarios/policy-rollback.yaml").read_text(encoding="utf-8")
    scenario = parse(text, "in a test")
    one, again, other = (record_run(scenario, text, seed)[1] for seed in (3, 3, 4))
    assert r.to_bytes(one) == r.to_bytes(again)
    assert refold(one) is None
    found = compare(replace(one, run=None), replace(other, run=None))
    assert found is not None
    assert found.what is DivergenceKind.LOG_DIFFERS


def test_rows_are_told_up_to_a_number_and_a_length(monkeypatch: pytest.MonkeyPatch) -> None:
    log = a_log("a")

    def floods(state: RegionState, event: OverrideOpened, stamp: Stamp) -> None:
        for number in range(50):
            state.leaving_templates.put(f"{number:02d}" * 1_000, True)

    recording = of_region(log)
    monkeypatch.setitem(APPLY, OverrideOpened, floods)
    found = refold(recording)
    assert found is not None
    assert len(found.detail) == 21
    assert found.detail[-1].startswith("and 3")
    assert max(map(len, found.detail)) < 500
