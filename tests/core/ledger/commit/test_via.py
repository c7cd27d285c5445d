"""Which server acted for a sender: kept beside the command, bounded, and without a say in what is decided."""

from __future__ import annotations

from holdfast.core.ledger.answers import Code, Repeated
from holdfast.core.ledger.codec import encode, read_evidence
from holdfast.core.ledger.commit.authorization import NAME_MAX
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.model.records.decisions import AuditEvent
from holdfast.core.platform import commands as p
from holdfast.core.platform.definition import PLATFORM
from tests.support.ledgers.platform import ROOT, a_tenant, a_world


def test_the_server_that_acted_is_on_record_with_the_actor() -> None:
    bench = a_world()
    assert isinstance(bench.send(ROOT, p.Put(a_tenant("new")), via="platform/p2"), Committed)
    (done,) = [read_evidence(one.payload) for one in PLATFORM.batches.evidence(bench.log[-1][0])]
    assert isinstance(done, AuditEvent)
    assert (done.actor, done.via) == (ROOT, "platform/p2")


def test_a_repeat_by_another_way_gets_the_first_answer() -> None:
    bench = a_world()
    first = bench.send(ROOT, p.Put(a_tenant("new")), key="same", via="platform/p2")
    for via in ("", "platform/p3"):
        again = bench.send(ROOT, p.Put(a_tenant("new")), key="same", via=via)
        assert isinstance(first, Committed)
        assert isinstance(again, Repeated)
        assert again.revision == first.revision


def test_the_name_of_a_server_is_bounded_like_every_name() -> None:
    bench = a_world()
    bench.refuse(Code.MALFORMED, ROOT, p.Put(a_tenant("new")), via="p" * (NAME_MAX + 1))
    assert isinstance(bench.send(ROOT, p.Put(a_tenant("new")), via="p" * NAME_MAX), Committed)


def test_an_audit_of_before_reads_as_one_that_nobody_carried() -> None:
    old = encode(["audit", ROOT, 1, "put", b""])
    assert read_evidence(old) == AuditEvent(ROOT, 1, "put", b"")
