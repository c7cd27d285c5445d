"""What a batch says of people: what they did is told by the audit event beside their record, and by nothing else."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.builtin.audit import ACCEPTED, AuditEntry, entries_in, tenant_of
from holdfast.core.ledger.builtin.overrides import OpenOverride
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.codec import encode
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.records.decisions import DecisionEvidence
from holdfast.core.platform import commands as p
from holdfast.core.platform.definition import PLATFORM
from tests.support.ledgers.platform import (
    ROOT,
    PlatformBench,
    a_principal,
    a_quota,
    a_region,
    a_tenant,
    a_token,
    a_workload,
    a_world,
)


def last(bench: PlatformBench) -> list[AuditEntry]:
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


@pytest.mark.parametrize("payload", [encode(DecisionEvidence(0, 0, ())), b"", b"\xc1"])
def test_what_is_no_audit_event_says_nothing_of_what_was_done(payload: bytes) -> None:
    bench = a_world()
    bench.put(a_tenant("new"))
    (entry,) = last(bench)
    assert replace(entry, raw=payload).done() is None
    assert replace(entry, outcome="no-right").done() is None


@pytest.mark.parametrize(
    ("command", "tenant"),
    [
        (p.Put(a_tenant("acme")), "acme"),
        (p.Put(a_quota("acme")), "acme"),
        (p.Put(a_region("eu")), ""),
        (p.Put(a_principal("tenant/acme", tenant="other")), "acme"),
        (p.Put(a_principal("person/ops", tenant="other")), "other"),
        (p.Put(a_principal("person/ops")), ""),
        (p.Put(a_token("t1", "tenant/acme")), "acme"),
        (p.Put(a_token("t1", "person/ops")), ""),
        (p.PutWorkload(a_workload("web", "acme")), "acme"),
        (OpenOverride(OverrideAction.PAUSE_SCHEDULING, "eu", "acme", "why", 1), "acme"),
        (OpenOverride(OverrideAction.EMERGENCY_QUOTA, "eu", "", "why", 1, (("tenant", "acme"),)), "acme"),
        (OpenOverride(OverrideAction.AVOID_ZONE, "eu", "a", "why", 1), ""),
        (p.Delete("Tenant", "acme"), "acme"),
        (p.Delete("Quota", "acme"), "acme"),
        (p.Delete("Principal", "tenant/acme"), "acme"),
        (p.Delete("Principal", "person/ops"), ""),
        (p.Delete("Region", "eu"), ""),
        (p.DeleteWorkload("acme", "web"), "acme"),
        (p.ActivatePolicy(1, "eu", "acme"), "acme"),
        (p.RetireRegion("eu", "why"), ""),
    ],
)
def test_a_command_is_about_the_tenant_that_it_names_in_whatever_way(command: object, tenant: str) -> None:
    assert tenant_of(command) == tenant
