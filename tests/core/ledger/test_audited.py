"""What a batch says of people: what they did is told by the audit event beside their record, and by nothing else."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.audited import ACCEPTED, Entry, entries_in
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.house import OpenSession
from holdfast.core.model.evidence import Decision
from holdfast.core.platform.book import PLATFORM
from tests.support.platform import ROOT, PlatformBench, a_tenant, a_world


def last(bench: PlatformBench) -> list[Entry]:
    return entries_in(*bench.log[-1], PLATFORM.batches, PLATFORM.envelopes)


def test_what_a_person_did_is_told_with_whom_it_is_about_and_reads_as_it_was_sent() -> None:
    bench = a_world()
    bench.put(a_tenant("new"))
    (entry,) = last(bench)
    assert (entry.actor, entry.command, entry.outcome, entry.tenant) == (ROOT, "put", ACCEPTED, "new")
    done = entry.done()
    assert done is not None
    assert (done.command, done.at) == ("put", bench.at)


def test_what_machines_did_is_not_told() -> None:
    bench = a_world()
    bench.accept("region/eu", OpenSession())
    assert last(bench) == []


@pytest.mark.parametrize("payload", [encode(Decision(0, 0, ())), b"", b"\xc1"])
def test_what_is_no_audit_event_says_nothing_of_what_was_done(payload: bytes) -> None:
    bench = a_world()
    bench.put(a_tenant("new"))
    (entry,) = last(bench)
    assert replace(entry, raw=payload).done() is None
    assert replace(entry, outcome="no-right").done() is None
