"""RULES 12 on the platform: a repeat gets the first answer, and what may be one is never executed twice."""

import pytest

from holdfast.core.ledger.answers import Code, Repeated
from holdfast.core.ledger.codec import body_digest
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.envelope import ABSENT, Envelope
from holdfast.core.platform import commands as c
from tests.support.ledgers.platform import ACME, ROOT, T0, a_quota, a_workload, a_world, an_exclusive, cpu


def test_timed_out_after_commit_is_harmless() -> None:
    bench = a_world()
    envelope = bench.envelope(ACME, c.PutWorkload(a_workload()))
    first = bench.give(envelope)
    bench.later(1_000)
    again = bench.give(envelope)
    assert isinstance(first, Committed)
    assert again == Repeated(first.revision, first.answer)
    assert len(bench.state.workloads) == 1


def test_a_repeated_put_does_not_undo_what_came_after_it() -> None:
    bench = a_world()
    envelope = bench.envelope(ROOT, c.Put(a_quota("acme", cpu(5_000))))
    bench.give(envelope)
    bench.put(a_quota("acme", cpu(7_000)))
    assert isinstance(bench.give(envelope), Repeated)
    assert bench.state.quotas["acme"].spec.hard == cpu(7_000)


def test_a_repeated_delete_does_not_hit_the_successor() -> None:
    bench = a_world()
    bench.put(a_workload())
    envelope = bench.envelope(ACME, c.DeleteWorkload("acme", "web"))
    bench.give(envelope)
    new = bench.put(a_workload())
    assert isinstance(bench.give(envelope), Repeated)
    assert bench.workload("web").meta.uid == new


def test_a_retry_after_the_window_is_never_executed() -> None:
    bench = a_world()
    bench.put(a_workload())
    envelope = bench.envelope(ACME, c.DeleteWorkload("acme", "web"))
    bench.give(envelope)
    bench.put(a_workload())
    bench.later(bench.state.info.settings.retry_window + 1)
    bench.refuse(Code.TOO_OLD_TO_RETRY, ACME, envelope.command, key=envelope.key, sent=envelope.sent)


def test_a_key_is_bound_to_what_it_was_used_for() -> None:
    bench = a_world()
    bench.accept(ACME, c.PutWorkload(a_workload()), key="once")
    bench.refuse(Code.KEY_REUSED, ACME, c.PutWorkload(a_workload(replicas=9)), key="once")


def test_a_region_repeats_a_release_without_releasing_what_was_given_since() -> None:
    bench = a_world()
    db = bench.put(an_exclusive())
    bench.hold(db, "eu", 0)
    envelope = bench.envelope("region/eu", c.ReleaseRights(db, (0,), bench.ask_back(db, "eu", 0)))
    bench.give(envelope)
    bench.hold(db, "eu", 0)
    assert isinstance(bench.give(envelope), Repeated)
    assert bench.state.rights[(db, 0)].region == "eu"


@pytest.mark.parametrize("expect", [ABSENT, 1 << 20])
def test_a_conditional_write_is_the_same_whether_its_command_or_its_envelope_says_what_is_expected(expect: int) -> None:
    """Servers once put it into the command: what they kept a key for is repeated to servers that do not."""
    quota = a_quota("acme", cpu(5_000))
    before = Envelope(ROOT, c.Put(quota, expect), T0)
    assert body_digest(before) == body_digest(Envelope(ROOT, c.Put(quota), T0, expect=expect))
    assert body_digest(before) != body_digest(Envelope(ROOT, c.Put(quota), T0))
    bench = a_world()
    there = bench.state.quotas["acme"].meta.revision
    first = bench.accept(ROOT, c.Put(quota, there), key="k")
    again = bench.send(ROOT, c.Put(quota), key="k", expect=there)
    assert isinstance(again, Repeated)
    assert again.revision == first
