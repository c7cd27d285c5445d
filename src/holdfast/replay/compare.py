"""Compares two recordings of one seed, a stored one and a new one, and finds where the runs first differ.

In the first batch with other bytes, it names the record, its field and its event. If the logs are equal and an event
had another effect, the code that applies it has changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.codec import Batch, Corrupt, LogRecord, UpgradeNeeded, chain
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.state.ledger_state import LedgerInfo
from holdfast.core.ledger.state.snapshot import decode_manifest
from holdfast.replay.divergence import Divergence, DivergenceKind, at_batch, at_event, cut, earliest
from holdfast.replay.effects import EFFECT_BYTES
from holdfast.replay.recording import LedgerRecording, RecordedBatch, RecordedRun, Recording
from holdfast.replay.refold import LEDGER_DEFINITIONS, read_next, refold_ledger

Sides = tuple[str, str]

#: Names of the two sides: the stored run and the new one.
RECORDED_AND_NOW: Sides = ("recorded", "now")


def compare(a: Recording, b: Recording, sides: Sides = RECORDED_AND_NOW) -> Divergence | None:
    """Return the first event, in ledger time, in which the two differ, with both sides; None: they are equal."""
    if _made(a.run) != _made(b.run):
        return Divergence(ledger="all ledgers", what=DivergenceKind.MADE_OTHERWISE, detail=_runs(a.run, b.run, sides))
    theirs = {ledger.name: ledger for ledger in b.ledgers}
    found = [_ledgers(mine, theirs.pop(mine.name, None), sides) for mine in a.ledgers]
    return earliest([*found, *(_missing(name, sides[1]) for name in theirs)])


def _made(run: RecordedRun | None) -> RecordedRun | None:
    """Return what a run was made from: the run without its digest."""
    return run and replace(run, digest="")


def _runs(a: RecordedRun | None, b: RecordedRun | None, sides: Sides) -> tuple[str, ...]:
    if a is None or b is None or (a.seed, a.scenario) != (b.seed, b.scenario):
        return _both(sides, _run(a), _run(b))
    if a.text == b.text:
        return "the plan differs:", *_both(sides, repr(a.plan), repr(b.plan))
    lines = enumerate(zip_longest(a.text.splitlines(), b.text.splitlines(), fillvalue="its end"), start=1)
    number, (mine, other) = next((line for line in lines if line[1][0] != line[1][1]), (0, ("", "")))
    return f"line {number} of the scenario {a.scenario} differs:", *_both(sides, mine, other)


def _run(run: RecordedRun | None) -> str:
    return "no run, but real ledgers" if run is None else f"seed {run.seed} of {run.scenario}"


def _missing(name: str, only: str) -> Divergence:
    return Divergence(ledger=name, what=DivergenceKind.LOG_DIFFERS, detail=(f"this ledger is present only in: {only}",))


def _ledgers(a: LedgerRecording, b: LedgerRecording | None, sides: Sides) -> Divergence | None:
    if b is None:
        return _missing(a.name, sides[0])
    if a.definition != b.definition or a.start != b.start:
        detail = _both(sides, _start(a), _start(b))
        return Divergence(ledger=a.name, what=DivergenceKind.LOG_DIFFERS, detail=detail)
    facts = LedgerInfo()
    if a.start is not None:
        manifest = decode_manifest(a.start.manifest)
        facts = LedgerInfo(seq=manifest.seq, digest=manifest.digest)
    for mine, other in zip_longest(a.entries, b.entries):
        if mine != other:
            if mine is not None and other is not None and mine.raw == other.raw:
                return _effects(a, b, facts, mine, other)
            return _batches(a, facts, (mine, other), sides)
        facts = replace(facts, seq=facts.seq + 1, digest=mine.digest)
    if a.state != b.state:
        return at_batch(a.name, replace(facts, seq=facts.seq - 1), DivergenceKind.STATE_DIFFERS,
                        *_both(sides, a.state.hex(), b.state.hex()))  # fmt: skip
    return None


def _start(ledger: LedgerRecording) -> str:
    if ledger.start is None:
        return f"a {ledger.definition} from its beginning"
    manifest = decode_manifest(ledger.start.manifest)
    return f"a {ledger.definition} from the snapshot after batch {manifest.seq} with state {manifest.state.hex()}"


def _effects(
    a: LedgerRecording, b: LedgerRecording, facts: LedgerInfo, mine: RecordedBatch, other: RecordedBatch
) -> Divergence:
    """Find the difference between equal batches with other effects: the refold of the side that differs from today's
    code."""
    if mine.digest != other.digest:
        return at_batch(a.name, facts, DivergenceKind.CHAIN_BROKEN, "the same bytes have two digests")
    found = refold_ledger(a) or refold_ledger(b)
    if found is not None and found.seq <= facts.seq + 1:
        return found
    index = next(
        number
        for number, pair in enumerate(zip_longest(_split(mine.effects), _split(other.effects)))
        if pair[0] != pair[1]
    )
    batch = read_next(LEDGER_DEFINITIONS[a.definition], facts, mine.raw, mine.digest)
    return at_event(a.name, batch, index, DivergenceKind.EFFECT_DIFFERS, ("the same event had another effect",))


def _split(effects: bytes) -> Iterator[bytes]:
    return (effects[first : first + EFFECT_BYTES] for first in range(0, len(effects), EFFECT_BYTES))


def _batches(
    ledger: LedgerRecording, facts: LedgerInfo, pair: tuple[RecordedBatch | None, RecordedBatch | None], sides: Sides
) -> Divergence:
    """Find where the first batches with other bytes differ."""
    definition = LEDGER_DEFINITIONS[ledger.definition]
    try:
        a, b = (None if entry is None else _read(definition, facts, entry) for entry in pair)
    except (Corrupt, UpgradeNeeded) as error:
        return at_batch(ledger.name, facts, DivergenceKind.LOG_DIFFERS, "and one side cannot be read:", str(error))
    if a is None or b is None:
        batch, side = (a, sides[0]) if a is not None else (b, sides[1])
        assert batch is not None
        return at_event(ledger.name, batch, 0, DivergenceKind.LOG_DIFFERS, (f"the log continues only in: {side}",))
    facts, index = replace(facts, at=a.records[0].at if a.records else 0), 0
    for mine, other in zip_longest(a.records, b.records):
        if mine is None or other is None:
            batch, side = (a, sides[0]) if mine is not None else (b, sides[1])
            return at_event(
                ledger.name, batch, index, DivergenceKind.LOG_DIFFERS, (f"this command is present only in: {side}",)
            )
        if mine != other:
            place, detail = _records(mine, other, sides)
            return at_event(ledger.name, a, index + place, DivergenceKind.LOG_DIFFERS, detail)
        index += len(mine.events)
    if a.header != b.header:
        return at_batch(ledger.name, facts, DivergenceKind.LOG_DIFFERS, *_both(sides, repr(a.header), repr(b.header)))
    mine_evidence, other_evidence = (definition.batches.evidence(entry.raw) for entry in pair if entry is not None)
    detail = _both(sides, repr(mine_evidence), repr(other_evidence))
    return at_batch(ledger.name, facts, DivergenceKind.LOG_DIFFERS, "only in the evidence of its records:", *detail)


def _read(definition: LedgerDefinition[Any], facts: LedgerInfo, entry: RecordedBatch) -> Batch[Any]:
    return read_next(definition, facts, entry.raw, chain(facts.digest, entry.raw))


def _records(a: LogRecord[Any], b: LogRecord[Any], sides: Sides) -> tuple[int, tuple[str, ...]]:
    """Return the index of the first event that differs, and all fields of the command that do."""
    detail: list[str] = []
    for field in a.__struct_fields__[:-1]:
        mine, other = getattr(a, field), getattr(b, field)
        if mine != other:
            detail += (f"{field}:", *_both(sides, repr(mine), repr(other)))
    for place, (mine, other) in enumerate(zip_longest(a.events, b.events)):
        if mine != other:
            detail += ("event:", *_both(sides, repr(mine), repr(other)))
            return place, tuple(detail)
    return 0, tuple(detail)


def _both(sides: Sides, a: str, b: str) -> tuple[str, str]:
    return cut(f"{sides[0]}: {a}"), cut(f"{sides[1]}: {b}")
