"""The recorded run that would have reserved twice, and how to record it anew:
`python -m tests.support.simulator.recordings`.

    scheduler   reserve, number 2 ──╮                     no answer for 3 s: number 2 again ──╮      ╭──▶ give back some
    region                          ╰──▶ in the log ──▶ answer lost                           ╰──▶ the first answer

A repeat leaves nothing in a log. That there was one is told by what its sender did next: see `told_by_repeat`. A seed
is taken if its log shows that, if the same run without guards does that very reservation twice, and if each guard alone
prevents it. Record anew when what events do to the state was changed on purpose, and the recording folds otherwise:
what schedulers do today it does not depend on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from holdfast.core.ledger.answers import Refused, Repeated
from holdfast.core.ledger.codec import Batch, LogRecord, read_evidence
from holdfast.core.ledger.commit.draft import BatchDraft, Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import pack_revision, seq_of
from holdfast.core.model.records.decisions import DecisionEvidence
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.region.commands import PlacementGroup, Propose
from holdfast.core.region.definition import REGION
from holdfast.core.region.events import SlotsBound, SlotsPlaced, SlotsReleased
from holdfast.core.region.state.tables import RegionState
from holdfast.host.ports.store import StoredBatch
from holdfast.host.protocol.session_client import REQUEST_MS
from holdfast.replay.recording import SUFFIX, LedgerRecording, Recording, RunPlan, write
from holdfast.replay.refold import LEDGER_DEFINITIONS
from holdfast.sim.checks.ledger_audit import LedgerAudit
from holdfast.sim.runs.run import record_run, run
from holdfast.sim.scenario import Scenario, parse, span
from holdfast.stores.memory import MemoryStore
from tests.support.simulator.repeat_guards import GUARDS, done_twice, guarded_by

ROOT = Path(__file__).parents[3]
NAME = "timeout-after-commit"
FILE = ROOT / "tests" / "recordings" / f"{NAME}{SUFFIX}"
SEEDS_MOST = 500

# What a log tells


class Told(Struct, frozen=True):
    """A reservation of which its sender learned by the answer to a repeat."""

    ledger: LedgerRecording
    revision: Revision
    #: As it was sent, but for how long it was valid, which no log tells: here, as long as a ledger allows.
    envelope: Envelope[Propose]
    slots: frozenset[SlotKey]
    #: The batch in which its sender, who knew now, gave some of it back.
    given_back: int

    @property
    def number(self) -> tuple[Revision, int]:
        """What tells it from all other commands."""
        return self.envelope.session, self.envelope.sequence


def batches_of(ledger: LedgerRecording) -> list[Batch[Any]]:
    """A region's log."""
    found: list[Batch[Any]] = []
    for entry in ledger.entries:
        found.append(REGION.batches.read(entry.raw, found[-1].digest if found else b"", entry.digest))
    return found


def told_by_repeat(recording: Recording) -> Iterator[Told]:
    """Reservations that were in the log before they were repeated, by the logs alone, and of which some was given back.

    Who is not answered within `REQUEST_MS` asks again, and who is told of its reservation goes on with it at once: what
    it does not want it gives back. So whoever sends that more than `REQUEST_MS` after the reservation was told by a
    repeat. And the first packet had done it: it was judged less than `REQUEST_MS` of ledger time, in one term, after
    what its sender had already seen.
    """
    for ledger in recording.ledgers:
        if ledger.definition == "region":
            batches = batches_of(ledger)
            for batch in batches:
                for index, record in enumerate(batch.records):
                    if record.command == "propose" and not record.answer:
                        yield from _told(ledger, batches, batch, index)


def _told(ledger: LedgerRecording, batches: list[Batch[Any]], batch: Batch[Any], index: int) -> Iterator[Told]:
    record, seq = batch.records[index], batch.header.seq
    placed = [event for event in record.events if isinstance(event, SlotsPlaced) and not event.bound]
    slots = frozenset((event.workload, one.ordinal) for event in placed for one in event.placements)
    later = ((one, step) for one in batches[seq:] for step in one.records if slots & _slots_of(step))
    after, step = next(later, (batch, record))
    if step.command != "unreserve" or step.session != record.session or step.sent - record.sent <= REQUEST_MS:
        return
    decision, valid_until = _decision(ledger, seq, index), record.at + DEFAULTS.proposal_life
    seen = batches[seq_of(decision.view) - 1]
    if seen.header.term == batch.header.term and record.at - seen.records[-1].at < REQUEST_MS and step.at < valid_until:
        groups = tuple(PlacementGroup(event.assignment, event.template, event.placements) for event in placed)
        place = pack_revision(seq, sum(len(one.events) for one in batch.records[:index]))
        envelope = Envelope(
            record.actor, Propose(groups, valid_until, bind=False), record.sent, record.session, record.sequence,
            view=decision.view, policy=decision.policy,
        )  # fmt: skip
        yield Told(ledger, place, envelope, slots, after.header.seq)


def _slots_of(record: LogRecord[Any]) -> set[SlotKey]:
    """The slots that a command placed, bound or released."""
    found: set[SlotKey] = set()
    for event in record.events:
        match event:
            case SlotsPlaced():
                found |= {(event.workload, one.ordinal) for one in event.placements}
            case SlotsBound(slots):
                found |= {one.slot for one in slots}
            case SlotsReleased(releases):
                found |= {one.slot for one in releases}
    return found


def _decision(ledger: LedgerRecording, seq: int, index: int) -> DecisionEvidence:
    """What a command was based on."""
    evidence = {one.record: one.payload for one in REGION.batches.evidence(ledger.entries[seq - 1].raw)}
    found = read_evidence(evidence[index])
    assert isinstance(found, DecisionEvidence)
    return found


# What a ledger says to the repeat


def audit_of(ledger: LedgerRecording, until: int | None = None) -> LedgerAudit[RegionState]:
    """What an observer makes of a log, up to and with a batch."""
    audit: LedgerAudit[RegionState] = LedgerAudit(LEDGER_DEFINITIONS[ledger.definition], MemoryStore())
    for seq, entry in enumerate(ledger.entries[:until], start=1):
        assert audit.landed(StoredBatch("", seq, entry.digest, entry.raw))
    audit.check_in_full()
    return audit


def repeat(told: Told, audit: LedgerAudit[RegionState]) -> Committed | Refused | Repeated:
    """The answer to the reservation if it comes again now. What is accepted is the next batch, and is judged, too."""
    draft = BatchDraft(REGION, audit.state)
    answer = draft.add(told.envelope, audit.state.info.at)
    if len(draft):
        raw, digest = draft.seal()
        audit.landed(StoredBatch("", audit.state.info.seq + 1, digest, raw))
    return answer


def _is_done_again(told: Told, *guards: str) -> bool:
    """Whether the repeat is accepted just before its sender goes on."""
    with guarded_by(*guards):
        try:
            return isinstance(repeat(told, audit_of(told.ledger, told.given_back - 1)), Committed)
        except AssertionError:
            return False


# Recording


def story_of(scenario: Scenario, text: str, seed: int) -> Recording | None:
    """The recording of a run with the wanted story: nobody acts and nothing else goes wrong, the weather is enough."""
    plan = RunPlan(span(scenario.length)[1], (), ())
    report, recording = record_run(scenario, text, seed, plan)
    told = next(told_by_repeat(recording), None)
    if told is None or report.findings or report.unsettled:
        return None
    if not _is_done_again(told) or any(_is_done_again(told, guard) for guard in GUARDS):
        return None
    with guarded_by():
        twice = done_twice(run(scenario, seed, plan))
    return recording if any(one.startswith(f"propose {told.number} ") for one in twice) else None


def main() -> None:
    """Write the recording of the first seed that has the story."""
    logging.getLogger("holdfast").setLevel(logging.CRITICAL)
    text = (ROOT / "scenarios" / f"{NAME}.yaml").read_text(encoding="utf-8")
    scenario = parse(text, NAME)
    for seed in range(1, SEEDS_MOST + 1):
        recording = story_of(scenario, text, seed)
        if recording is not None:
            FILE.parent.mkdir(exist_ok=True)
            write(recording, FILE)
            print(f"{FILE.name}: seed {seed}, {FILE.stat().st_size:,} bytes")
            return
    raise SystemExit(f"no seed of {NAME} up to {SEEDS_MOST} has the story")


if __name__ == "__main__":
    main()
