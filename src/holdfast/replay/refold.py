"""Folds a recording again with today's code, and finds the first event with another effect.

    recorded   event --> 8 bytes      event --> 8 bytes      ...      digest of the state
    today      event --> the same     event --> others: reported here, with today's changes

A recording of a real ledger has the effects under the code that recorded it. The servers' own results are known from
the state digests in the log, which are compared too.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

from holdfast.core.ledger.builtin.log import StateDigested
from holdfast.core.ledger.codec import Batch, Corrupt, UpgradeNeeded, chain
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.draft import fold
from holdfast.core.ledger.revision import pack_revision
from holdfast.core.ledger.state.chunks import state_digest
from holdfast.core.ledger.state.ledger_state import LedgerInfo, LedgerState
from holdfast.core.ledger.state.snapshot import decode_manifest, restore
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region.definition import REGION
from holdfast.host.ports.store import StoredBatch
from holdfast.host.storage.digests import is_due
from holdfast.replay.divergence import (
    Divergence,
    DivergenceKind,
    at_batch,
    at_event,
    cut,
    earliest,
    events_of,
    unreadable,
)
from holdfast.replay.effects import EFFECT_BYTES, EffectTracker, FoldedBatch, RowChange
from holdfast.replay.recording import LedgerKind, LedgerRecording, RecordedBatch, Recording, SnapshotStart

LEDGER_DEFINITIONS: Mapping[LedgerKind, LedgerDefinition[Any]] = {"region": REGION, "platform": PLATFORM}

_ROWS_TOLD = 20

_DIGESTED = str(StateDigested.__struct_config__.tag).encode()


def refold(recording: Recording) -> Divergence | None:
    """Return the first event, in ledger time, whose effect differs from the recorded one; None: all are equal."""
    return earliest(map(refold_ledger, recording.ledgers))


def refold_ledger(ledger: LedgerRecording) -> Divergence | None:
    """Return the first event of one ledger with another effect."""
    definition = LEDGER_DEFINITIONS[ledger.definition]
    try:
        watched = EffectTracker(definition, initial_state(definition, ledger.start))
    except (Corrupt, UpgradeNeeded) as error:
        return Divergence(ledger=ledger.name, what=DivergenceKind.CANNOT_BE_READ, detail=("its snapshot:", str(error)))
    logged = _logged(definition, ledger.entries)
    taken: dict[int, bytes] = {}
    for entry in ledger.entries:
        found = _refold_entry(ledger.name, definition, watched, entry, taken)
        if found is not None:
            return found
        if watched.state.info.seq in logged and is_due(watched.state):
            taken[watched.state.info.seq] = state_digest(watched.state)
    facts, now = watched.state.info, state_digest(watched.state)
    if ledger.state in (b"", now):
        return None
    detail = (f"it was {ledger.state.hex()}", f"it is {now.hex()}")
    return Divergence(
        ledger=ledger.name,
        what=DivergenceKind.STATE_DIFFERS,
        detail=detail,
        revision=pack_revision(facts.seq),
        at=facts.at,
    )


def initial_state(definition: LedgerDefinition[Any], start: SnapshotStart | None) -> LedgerState:
    """Return the state on which a recorded log is folded. Raise `Corrupt` or `UpgradeNeeded`."""
    state: LedgerState = definition.empty()
    if start is not None:
        restore(state, decode_manifest(start.manifest), start.chunks)
    return state


def read_next(definition: LedgerDefinition[Any], facts: LedgerInfo, raw: bytes, digest: bytes) -> Batch[Any]:
    """Return the next batch. Raise `Corrupt` if this is another one, `UpgradeNeeded` if it cannot be read."""
    batch: Batch[Any] = definition.batches.read(raw, facts.digest, digest)
    if batch.header.seq != facts.seq + 1:
        raise Corrupt(f"batch {batch.header.seq} does not follow batch {facts.seq}")
    return batch


def as_of(definition: LedgerDefinition[Any], log: Iterable[StoredBatch], seq: int) -> Any:
    """Return the state after batch `seq` of a complete log."""
    state: Any = definition.empty()
    for stored in log:
        if state.info.seq == seq:
            break
        fold(definition, state, read_next(definition, state.info, stored.raw, stored.digest))
    return state


def _refold_entry(
    ledger: str,
    definition: LedgerDefinition[Any],
    watched: EffectTracker[Any],
    entry: RecordedBatch,
    taken: dict[int, bytes],
) -> Divergence | None:
    state = watched.state
    try:
        batch = read_next(definition, state.info, entry.raw, entry.digest)
    except Corrupt as error:
        return at_batch(ledger, state.info, DivergenceKind.CHAIN_BROKEN, str(error))
    except UpgradeNeeded as error:
        return unreadable(ledger, definition, state.info, entry.raw, error)
    return _first_other(ledger, batch, entry, watched.fold(batch)) or _other_digest(ledger, batch, taken)


def _first_other(ledger: str, batch: Batch[Any], entry: RecordedBatch, folded: FoldedBatch) -> Divergence | None:
    """Find the first event with another effect, or that cannot be applied, whichever is earlier.

    Events without a recorded effect are not compared.
    """
    recorded = entry.effects
    if not folded.digests().startswith(recorded):
        for index, effect in enumerate(folded.effects):
            if effect.digest != recorded[index * EFFECT_BYTES : (index + 1) * EFFECT_BYTES]:
                return at_event(ledger, batch, index, DivergenceKind.EFFECT_DIFFERS, _told(effect.changes))
    if folded.error is not None:
        return at_event(ledger, batch, len(folded.effects), DivergenceKind.CANNOT_BE_APPLIED, _why(folded.error))
    return None


def _logged(definition: LedgerDefinition[Any], entries: Iterable[RecordedBatch]) -> set[int]:
    """Return the batches with a state digest in the log. Only these are digested, since a large state takes long."""
    logged: set[int] = set()
    for entry in entries:
        if _DIGESTED in entry.raw:
            try:
                previous = definition.batches.header(entry.raw).previous
                batch = definition.batches.read(entry.raw, previous, chain(previous, entry.raw))
            except UpgradeNeeded:
                continue  # reported when the fold reaches it
            logged.update(event.seq for _, event in events_of(batch) if type(event) is StateDigested)
    return logged


def _other_digest(ledger: str, batch: Batch[Any], taken: dict[int, bytes]) -> Divergence | None:
    """Check the state digests of the servers in a batch against this fold."""
    for index, (_, event) in enumerate(events_of(batch)):
        if type(event) is StateDigested and event.digest != taken.get(event.seq, event.digest):
            told = f"after batch {event.seq} the servers had {event.digest.hex()}", f"it is {taken[event.seq].hex()}"
            return at_event(ledger, batch, index, DivergenceKind.LOGGED_DIGEST_DIFFERS, told)
    return None


def _told(changes: list[RowChange]) -> Iterator[str]:
    if not changes:
        yield "now it changes nothing"
    for table, key, row in changes[:_ROWS_TOLD]:
        place = table if key is None else f"{table} {key!r}"
        yield f"now {place} is deleted" if row is None else cut(f"now {place} = {row!r}")
    if len(changes) > _ROWS_TOLD:
        yield f"and {len(changes) - _ROWS_TOLD:,} more rows"


def _why(error: Exception) -> Iterator[str]:
    yield cut(f"{type(error).__name__}: {error}")
    for frame in traceback.extract_tb(error.__traceback__)[-1:]:
        yield f"in {frame.name} ({PurePath(frame.filename).name}:{frame.lineno})"
