"""Templates that a workload once named: the last ten are kept, and those that are assigned."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.envelope import Stamp
from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Share
from holdfast.core.model.values.limits import TEMPLATES_MAX
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.platform.events import TemplatesDropped
from holdfast.core.platform.state.evolve import templates_dropped
from holdfast.core.platform.state.indexes import count_use
from holdfast.core.platform.state.tables import PlatformState
from holdfast.host.link.platform.content import changed, everything, touched_by
from tests.support.ledgers.platform import (
    ACME,
    PlatformBench,
    a_class,
    a_principal,
    a_region,
    a_template,
    a_tenant,
    a_workload,
    a_world,
)


def named(bench: PlatformBench, name: str = "web") -> list[str]:
    return list(bench.state.templates_of[bench.workload(name).meta.uid])


def assign(bench: PlatformBench, digest: str) -> None:
    bench.assign(bench.workload().meta.uid, "eu", shares=(Share(digest, 3),))


def told_to_eu(bench: PlatformBench, batches: int) -> list[tuple[str, str]]:
    """What the log says since that many batches of objects that eu has a copy of."""
    found = []
    for number, (raw, digest) in enumerate(bench.log[batches:], batches):
        batch = PLATFORM.batches.read(raw, bench.log[number - 1][1], digest)
        found += [name for record in batch.records for one in record.events for name in touched_by(one, 0, "eu")]
    return found


def restarted(at: int) -> Template:
    return replace(a_template(), restarted=at)


def restart(bench: PlatformBench, at: int, name: str = "web") -> str:
    """Ask for a restart; the digest of the template that it makes."""
    bench.accept(ACME, c.PutWorkload(a_workload(name, template=restarted(at))))
    return template_digest(restarted(at))


def templates(bench: PlatformBench) -> set[str]:
    return {digest for digest, _ in bench.state.templates.items()}


def test_a_workload_that_is_restarted_a_hundred_times_keeps_its_last_ten_templates() -> None:
    bench = a_world()
    digests = [restart(bench, at) for at in range(100)]
    assert templates(bench) == set(digests[-TEMPLATES_MAX:])
    assert named(bench) == digests[-TEMPLATES_MAX:]


def test_a_template_that_is_assigned_is_kept_however_old_it_is() -> None:
    bench = a_world()
    first = restart(bench, 0)
    assign(bench, first)
    digests = [restart(bench, at) for at in range(1, 30)]
    assert templates(bench) == {first, *digests[-TEMPLATES_MAX:]}
    assign(bench, digests[-1])
    last = restart(bench, 30)
    assert templates(bench) == {*digests[1 - TEMPLATES_MAX :], last}


def test_a_template_that_another_workload_names_is_kept_for_that_one() -> None:
    bench = a_world()
    shared = restart(bench, 0)
    restart(bench, 0, name="mail")
    for at in range(1, 30):
        restart(bench, at)
    assert shared in templates(bench)
    assert shared not in named(bench)


def test_going_back_to_a_template_makes_it_the_last_that_was_named() -> None:
    bench = a_world()
    first = restart(bench, 0)
    for at in range(1, TEMPLATES_MAX):
        restart(bench, at)
    assert restart(bench, 0) == first
    for at in range(TEMPLATES_MAX, 2 * TEMPLATES_MAX - 1):
        restart(bench, at)
    assert first in templates(bench)
    restart(bench, 3 * TEMPLATES_MAX)
    assert first not in templates(bench)


def test_a_region_is_told_of_every_template_that_is_forgotten() -> None:
    bench = a_world()
    first = restart(bench, 0)
    assign(bench, first)
    assert first in {getattr(put, "digest", "") for put in everything(bench.state, "eu")}
    second = restart(bench, 1)
    assign(bench, second)
    before = len(bench.log)
    for at in range(2, 30):
        restart(bench, at)
    _, gone = changed(bench.state, "eu", told_to_eu(bench, before))
    assert first in {one.key for one in gone if one.kind == "template"}


def test_a_log_of_level_1_keeps_every_template_as_it_did() -> None:
    bench = PlatformBench(level=1)
    for thing in (a_principal("tenant/*", Permission.WRITE), a_class(), a_tenant("acme", "normal"), a_region()):
        bench.put(thing)
    digests = [restart(bench, at) for at in range(30)]
    assert named(bench) == sorted(digests)


@pytest.mark.parametrize(
    ("dropped", "left"), [(("b",), (("a", 2),)), (("a", "b"), None), (("c",), (("a", 2), ("b", 3)))]
)
def test_what_was_done_of_a_template_goes_with_it_and_of_others_it_stays(
    dropped: tuple[str, ...], left: tuple[tuple[str, int], ...] | None
) -> None:
    state = PlatformState()
    state.templates_of.put(7, ("a", "b", "c"))
    state.completed_before.put(7, (("a", 2), ("b", 3)))
    for digest in "abc":
        count_use(state, "acme", digest, 1)
    templates_dropped(state, TemplatesDropped(7, "acme", dropped), Stamp(0, 0, ""))
    assert state.completed_before.get(7) == left
    assert state.templates_of[7] == tuple(one for one in "abc" if one not in dropped)
    assert [digest for digest in "abc" if digest in state.template_uses] == list(state.templates_of[7])
